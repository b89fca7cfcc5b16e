//! Order of pending entries of one priority in a leaf. Those that have waited for `fair_share_after` come first, by
//! the shares of their users; newer ones follow in order of submission.
//!
//! By shares alone, every new job of a user with a lower share would come before a gang for which GPUs are being
//! collected, and delay it again and again (docs/adr/0067).

use muster_model::Time;

use crate::Policy;

/// Age of a pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryAge {
    /// Order by age, the oldest lowest; unique among pending entries.
    pub seq: u64,
    /// Instant at which the job was submitted. An entry with a higher `seq` was not submitted before.
    pub submitted: Time,
}

/// Order of an entry among those of its priority, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryOrder {
    /// Time in milliseconds until its user's share counts.
    counts_in_ms: u64,
    share: u64,
    seq: u64,
}

impl Policy {
    /// Returns the order of an entry whose user has this share.
    pub(crate) fn entry_order(&self, now: Time, share: u64, age: EntryAge) -> EntryOrder {
        let after_ms = self.tree().fair_share_after.map_or(u64::MAX, |after| after.0);
        let counts_in_ms = after_ms.saturating_sub(now.since(age.submitted).0);
        EntryOrder { counts_in_ms, share, seq: age.seq }
    }

    /// Returns the first instant after `now` from which the share of a user counts for one more entry, in a leaf
    /// where that may change the order.
    #[must_use]
    pub fn next_share_start(&self, now: Time) -> Option<Time> {
        let after = self.tree().fair_share_after?;
        let levels = self.queues.leaves.iter().flat_map(|leaf| leaf.levels.values());
        let several = levels.filter(|level| level.users.len() > 1);
        let next = several.flat_map(|level| level.users.values()).filter_map(|entries| {
            let counted = entries.partition_point(|(age, _)| age.submitted + after <= now);
            entries.get(counted).map(|(age, _)| age.submitted + after)
        });
        next.min()
    }
}

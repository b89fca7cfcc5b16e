//! Cached limit verdicts: refusals by limits and quota in this pass, so that thousands of entries
//! behind one limit are not judged one by one.
//!
//! **A refusal stays valid until the pass ends, or something is evicted** (which clears the cache).
//! Otherwise a pass only adds holds: a start counts itself in
//! ([`Policy::try_hold`](muster_policy::Policy::try_hold)), and all are undone together at its end.
//! Limits, nominal quota, borrow and lend limits are fixed meanwhile. With holds growing,
//!
//! * the use of a queue only grows, and so does what a user holds: a limit that was reached stays
//!   reached;
//! * the charges to a budget only grow, since a pass plans at one instant, in one budget period;
//!   and a longer run is refused where a shorter one is; so it is with borrowed time, whose ceiling
//!   for runs that are too long is the nominal quota;
//! * `taken` of every queue only grows, since what each child charges to it, `max(taken, kept)`,
//!   does;
//! * a start that adds `x` to a queue adds `max(taken + x, kept) - max(taken, kept)` to what its
//!   parent sees, and this does not fall as `taken` grows: what a queue keeps for itself and does
//!   not use yet is used up first. So at every level the same start adds no less than before to no
//!   less than before, and a ceiling that it broke it breaks again.
//!
//! The verdict depends on the leaf, the user and [`LimitClass`], and below a budget or a limit on
//! borrowed time on the element's duration, so these are the key; all rounds of a pass share the
//! cache. The property is tested in `policy`; debug builds repeat every verdict answered from the
//! cache. It must not be kept across passes: between them holds also shrink.

use muster_model::{Reason, Span, Time};
use muster_policy::{LeafId, UserId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::classes::LimitClass;

/// Key of a refusal. The duration is [`UNLIMITED`] where no limit depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::plan) struct LimitKey {
    pub(in crate::plan) leaf: LeafId,
    pub(in crate::plan) user: UserId,
    pub(in crate::plan) limit_class: LimitClass,
    pub(in crate::plan) duration: Span,
}

/// Refusals of the present pass; see the module's description.
#[derive(Clone, Debug, Default)]
pub(in crate::plan) struct LimitRefusals {
    pub(in crate::plan) refused: FxHashSet<LimitKey>,
    /// Earliest refill of a budget that refused something in this pass.
    next_refill: Option<Time>,
    /// Number of refused entries by user and leaf in this round.
    pub(in crate::plan) refusals_by_user: FxHashMap<(LeafId, UserId), u32>,
    /// Disables the cache, for comparison in tests.
    #[cfg(test)]
    pub(in crate::plan) is_disabled: bool,
}

impl LimitRefusals {
    /// Records a refusal, and the refill that may lift it.
    pub(in crate::plan) fn insert(&mut self, key: LimitKey, reason: &Reason) {
        // A request for more than a whole budget is not helped by a refill.
        if let Reason::Budget { refills_at, asked_gpu_secs, budget_gpu_secs, .. } = reason
            && asked_gpu_secs <= budget_gpu_secs
        {
            self.next_refill =
                Some(self.next_refill.map_or(*refills_at, |earlier| earlier.min(*refills_at)));
        }
        #[cfg(test)]
        if self.is_disabled {
            return;
        }
        self.refused.insert(key);
    }

    /// Returns the earliest refill of a budget that refused something in this pass.
    pub(in crate::plan) fn next_refill(&self) -> Option<Time> {
        self.next_refill
    }

    /// Returns the number of cached refusals.
    #[cfg(test)]
    pub(in crate::plan) fn len(&self) -> usize {
        self.refused.len()
    }

    /// Clears all refusals after an eviction, which lowers the counters.
    pub(in crate::plan) fn clear(&mut self) {
        self.refused.clear();
        self.refusals_by_user.clear();
    }

    /// Resets the number of refused entries for a new round; keeps the refusals.
    pub(in crate::plan) fn begin_round(&mut self) {
        self.refusals_by_user.clear();
    }
}

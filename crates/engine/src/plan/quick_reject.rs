//! Quick rejection: most entries of a long queue cannot start, and are rejected without placing.

use muster_model::Span;
use muster_policy::{EntrySlot, LeafId, UserId};
use smallvec::SmallVec;

use super::consider::consider;
use super::eligibility::{has_possible_victims, may_preempt};
use super::infeasible::{is_class_full, is_infeasible};
use super::limited::is_limited;
use super::{EntryKind, EntryVerdict, PlanningPass};
use crate::state::entries::EntryRank;

/// Kinds of entries rejected without placing since the last entry that was considered in full.
#[derive(Clone, Debug, Default)]
pub(super) struct RejectedKinds {
    /// Shortest rejected duration per kind: an entry that lasts as long or longer is rejected, too.
    shortest: SmallVec<[(EntryKind, Span); RejectedKinds::MAX_KINDS]>,
    /// Leaf and user of the last rejected entry.
    last_user: Option<(LeafId, UserId)>,
    /// Number of consecutive rejected entries of that leaf and user.
    pub(super) consecutive: u32,
}

impl RejectedKinds {
    /// Most kinds remembered; entries of other kinds are checked one by one.
    const MAX_KINDS: usize = 8;

    pub(super) fn contains(&self, kind: EntryKind, duration: Span) -> bool {
        self.shortest.iter().any(|(known, shortest)| *known == kind && *shortest <= duration)
    }

    pub(super) fn add(&mut self, kind: EntryKind, duration: Span) {
        if let Some((_, shortest)) = self.shortest.iter_mut().find(|(known, _)| *known == kind) {
            *shortest = duration;
        } else if self.shortest.len() < Self::MAX_KINDS {
            self.shortest.push((kind, duration));
        }
    }

    pub(super) fn count(&mut self, leaf: LeafId, user: UserId) {
        self.consecutive =
            if self.last_user == Some((leaf, user)) { self.consecutive + 1 } else { 1 };
        self.last_user = Some((leaf, user));
    }

    pub(super) fn clear(&mut self) {
        self.shortest.clear();
        (self.last_user, self.consecutive) = (None, 0);
    }
}

/// Decides about one entry, by quick rejection if that is possible.
#[inline(always)]
pub(super) fn verdict(
    pass: &mut PlanningPass<'_>,
    slot: EntrySlot,
    rank: EntryRank,
    is_strict: bool,
    rejected: &mut RejectedKinds,
) -> EntryVerdict {
    if let Some(verdict) = quick_reject(pass, slot, rank, is_strict, rejected) {
        return verdict;
    }
    rejected.clear();
    consider(pass, slot)
}

/// Rejects an entry that cannot start in this pass, without placing it; `None` if it must be
/// considered. Most entries of a long queue end here: to [`consider`] each of them costs a replay of
/// the KTH trace 2 %.
#[inline(always)]
pub(super) fn quick_reject(
    pass: &mut PlanningPass<'_>,
    slot: EntrySlot,
    rank: EntryRank,
    is_strict: bool,
    rejected: &mut RejectedKinds,
) -> Option<EntryVerdict> {
    let EntryRank { leaf, user, class, duration, priority, .. } = rank;
    let kind = (leaf, class, priority);
    if rejected.contains(kind, duration) && pass.may_quick_reject() {
        rejected.count(leaf, user);
        Some(EntryVerdict::Blocked)
    } else if !pass.may_reserve(&pass.lane(leaf, class))
        && !may_preempt(pass, slot, rank)
        && (is_infeasible(pass, class, duration) || !is_strict && is_class_full(pass, class))
    {
        // An entry of the same kind that has waited longer may preempt.
        if !pass.eligibility.depends_on_wait(kind) {
            rejected.add(kind, duration);
        }
        rejected.count(leaf, user);
        Some(EntryVerdict::Blocked)
    } else if is_limited(pass, leaf, user, class, duration)
        && !has_possible_victims(pass, leaf, priority)
    {
        Some(EntryVerdict::Limited)
    } else {
        None
    }
}

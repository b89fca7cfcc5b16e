//! Possible victims of a preemption: attempts, or parts of elastic ones, in the order in which they
//! are evicted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_model::{AttemptId, ElementId, EvictionCause, Span, Time};
use muster_policy::{LeafId, ModelId, Policy, UserId};
use smallvec::SmallVec;

use crate::pool::HoldKey;

/// Part of an attempt that may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VictimPart {
    /// The whole attempt, not elastic.
    Whole,
    /// The minimum tasks of an elastic gang; evicted only with all others.
    Base,
    /// Step of tasks beyond the minimum; from 0, by rank.
    Step(u32),
}

/// Attempt, or part of one, that may be evicted.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    pub(super) id: AttemptId,
    pub(super) cause: EvictionCause,
    pub(super) part: VictimPart,
    pub(super) key: HoldKey,
    pub(super) leaf: LeafId,
    pub(super) user: UserId,
    pub(super) gpus: SmallVec<[(ModelId, u64); 1]>,
    /// Value of not evicting it, among victims with the same cause: thousandths of GPUs, or the
    /// cost of a move.
    pub(super) cost: u64,
    /// Longest time from now until it has ended.
    pub(super) delay: Span,
    /// True if it starts in this pass.
    pub(super) started_this_pass: bool,
}

/// Order of victims: shrinking first, then borrowed before owned, lower priority, least lost, the
/// youngest; of a gang that shrinks, the last step first.
pub(super) type VictimRank = (EvictionCause, i32, u64, Reverse<(Time, ElementId)>, Reverse<u32>);

/// Victim in that order, and its queue.
pub(super) type RankedVictim = Reverse<(VictimRank, LeafId)>;

/// Possible victims, the first in order first. A heap, since of thousands mostly a few are needed.
pub(super) type VictimQueue = BinaryHeap<RankedVictim>;

impl Victim {
    /// Returns the thousandths of GPUs over all models.
    pub(super) fn milli(&self) -> u64 {
        self.gpus.iter().map(|(_, milli)| milli).sum()
    }

    /// Removes the victim from the policy's counters (`is_evicted`), or adds it back, on scratch. A
    /// gang that only shrinks keeps counting as a running element.
    pub(super) fn count_evicted(&self, policy: &mut Policy, is_evicted: bool) {
        let leaf = self.leaf;
        let user = self.user;
        match (is_evicted, self.part) {
            (true, VictimPart::Step(_)) => {
                policy.try_hold(leaf, user, &[]);
                policy.undo_hold(leaf, user, &self.gpus);
            }
            (false, VictimPart::Step(_)) => {
                policy.try_hold(leaf, user, &self.gpus);
                policy.undo_hold(leaf, user, &[]);
            }
            (true, _) => policy.undo_hold(leaf, user, &self.gpus),
            (false, _) => policy.try_hold(leaf, user, &self.gpus),
        }
    }
}

//! Scratch buffers of a pass, whose memory the next pass reuses: an idle cluster has thousands of
//! passes a second, each of which needs the same small tables. They are cleared before each use;
//! results that stay valid between passes are in `cache.rs`.

use std::hash::Hash;

use muster_model::{AdvanceReservationName, ElementId, JobId};
use muster_policy::{EntrySlot, LeafId, Pass};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::PolicyChange;
use crate::place::classes::ClassId;
use crate::place::reserve::forecast::ReleaseForecast;

/// Buffers reused from pass to pass; see the module's description.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Order of entries in the round.
    pub(super) pass: Pass,
    /// Number of blocked entries of each leaf in the round.
    pub(super) blocked: Vec<u32>,
    /// Elements started in this pass, by entry and job.
    pub(super) started: ElementCounts,
    /// Elements that got a reservation in this round, by entry and job.
    pub(super) waiting: ElementCounts,
    /// Elements that got a reservation in this round, or would have if what they need were ever
    /// released.
    pub(super) heads: Vec<ElementId>,
    /// Reservations of this round, per lane.
    pub(super) lane_reservations: FxHashMap<ReservationLane, LaneReservations>,
    /// Future releases, as far as this pass needed them.
    pub(crate) forecast: ReleaseForecast,
    /// Changes of the policy's counters in this pass, to be undone at its end.
    pub(super) policy_changes: Vec<PolicyChange>,
}

/// A clone is empty.
impl Clone for Scratch {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Scratch {
    /// Clears everything for a new pass.
    pub(super) fn clear(&mut self) {
        self.started.clear();
        self.policy_changes.clear();
        self.forecast.clear();
        self.clear_round();
    }

    /// Clears what belongs to one round.
    pub(super) fn clear_round(&mut self) {
        self.waiting.clear();
        self.heads.clear();
        clear_table(&mut self.lane_reservations);
        self.forecast.steps = 0;
    }
}

/// Largest capacity of a table that is kept: clearing costs as much as the capacity.
const MAX_KEPT_CAPACITY: usize = 4096;

/// Clears a table, and keeps its memory unless that is large.
fn clear_table<K: Eq + Hash, V>(table: &mut FxHashMap<K, V>) {
    if table.capacity() > MAX_KEPT_CAPACITY {
        *table = FxHashMap::default();
    } else {
        table.clear();
    }
}

/// Numbers of elements that a pass has handled, by entry and job.
#[derive(Clone, Debug, Default)]
pub(super) struct ElementCounts {
    pub(super) by_slot: FxHashMap<EntrySlot, u32>,
    by_job: FxHashMap<JobId, u32>,
}

impl ElementCounts {
    /// Counts one element. `capped` is its job if the job limits its running elements.
    pub(super) fn count(&mut self, slot: EntrySlot, capped: Option<JobId>) {
        *self.by_slot.entry(slot).or_default() += 1;
        capped.into_iter().for_each(|job| *self.by_job.entry(job).or_default() += 1);
    }

    pub(super) fn of_slot(&self, slot: EntrySlot) -> u32 {
        self.by_slot.get(&slot).copied().unwrap_or(0)
    }

    pub(super) fn of_job(&self, job: JobId) -> u32 {
        self.by_job.get(&job).copied().unwrap_or(0)
    }

    fn clear(&mut self) {
        clear_table(&mut self.by_slot);
        clear_table(&mut self.by_job);
    }
}

/// Entries that compete for reservations: those of one leaf, separately per advance reservation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReservationLane {
    pub(super) leaf: LeafId,
    pub(super) reservation: Option<AdvanceReservationName>,
}

impl ReservationLane {
    /// Returns the lane of entries that name no advance reservation.
    pub(super) fn of(leaf: LeafId) -> Self {
        Self { leaf, reservation: None }
    }
}

/// Reservations of a lane in a round.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneReservations {
    /// Number of entries with a reservation.
    pub(super) booked: u32,
    /// Classes for which no future start was found: what they need is not released by itself.
    pub(super) unreservable: SmallVec<[ClassId; LaneReservations::MAX_UNRESERVABLE]>,
    /// Number of entries visited.
    pub(super) visited: u32,
    /// True once a queue head was found: the first entry without a planned start whose gang could
    /// be placed.
    pub(super) has_head: bool,
}

impl LaneReservations {
    /// Most failed sweeps: each costs as much as there are running elements.
    const MAX_UNRESERVABLE: usize = 8;
    /// Most entries visited for a reservation, so that a long queue that cannot start is left
    /// early.
    const MAX_VISITED: u32 = 64;

    pub(super) fn may_reserve_more(&self, depth: u32) -> bool {
        self.booked < depth
            && self.unreservable.len() < Self::MAX_UNRESERVABLE
            && self.visited < Self::MAX_VISITED.max(depth)
    }
}

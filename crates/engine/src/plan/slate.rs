//! What a pass writes down while it goes on, in memory that the next one uses again: a cluster
//! where little waits has thousands of passes a second, each of which needs the same small tables.
//! It must not be read before it is wiped: no pass knows by it what another has found out. That is
//! `lore.rs`.

use std::hash::Hash;

use muster_model::{ElementId, JobId, WindowName};
use muster_policy::{LeafId, Pass, Slot};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Planned;
use super::forecast::Forecast;
use crate::state::shape::ClassId;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Slate {
    /// The order of the round.
    pub(super) pass: Pass,
    /// How many blocked entries of each leaf the round has met.
    pub(super) blocked: Vec<u32>,
    /// Elements started in this pass.
    pub(super) started: Taken,
    /// Elements reserved in this round.
    pub(super) waiting: Taken,
    /// Who was given a reservation in this round, or would have been if what it needs ever came
    /// back.
    pub(super) heads: Vec<ElementId>,
    /// Reservations of this round, per lane.
    pub(super) later: FxHashMap<Lane, Later>,
    /// What is held, ahead in time, as far as this pass has asked.
    pub(crate) forecast: Forecast,
    /// What the policy was told in this pass.
    pub(super) planned: Vec<Planned>,
}

/// A copy is a clean one.
impl Clone for Slate {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Slate {
    /// For a new pass.
    pub(super) fn wipe(&mut self) {
        self.started.wipe();
        self.planned.clear();
        self.forecast.wipe();
        self.wipe_round();
    }

    /// For a new round.
    pub(super) fn wipe_round(&mut self) {
        self.waiting.wipe();
        self.heads.clear();
        wipe(&mut self.later);
        self.forecast.looks = 0;
    }
}

/// To empty a table costs as much as it has room: one of more rows is not worth keeping.
const MOST_ROWS: usize = 4096;

/// Empties a table, and keeps its memory unless that is much.
fn wipe<K: Eq + Hash, V>(table: &mut FxHashMap<K, V>) {
    if table.capacity() > MOST_ROWS {
        *table = FxHashMap::default();
    } else {
        table.clear();
    }
}

/// Elements that a pass has dealt with.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    pub(super) by_slot: FxHashMap<Slot, u32>,
    by_job: FxHashMap<JobId, u32>,
}

impl Taken {
    /// `capped` is its job, where no more than so many of that may run.
    pub(super) fn count(&mut self, slot: Slot, capped: Option<JobId>) {
        *self.by_slot.entry(slot).or_default() += 1;
        capped.into_iter().for_each(|job| *self.by_job.entry(job).or_default() += 1);
    }

    pub(super) fn of_slot(&self, slot: Slot) -> u32 {
        self.by_slot.get(&slot).copied().unwrap_or(0)
    }

    pub(super) fn of_job(&self, job: JobId) -> u32 {
        self.by_job.get(&job).copied().unwrap_or(0)
    }

    fn wipe(&mut self) {
        wipe(&mut self.by_slot);
        wipe(&mut self.by_job);
    }
}

/// Entries that get in each other's way: those of a leaf, apart from those of it that run in one
/// window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    pub(super) leaf: LeafId,
    pub(super) window: Option<WindowName>,
}

impl Lane {
    /// Of the entries that name no window.
    pub(super) fn of(leaf: LeafId) -> Self {
        Self { leaf, window: None }
    }
}

/// What a lane's blocked entries were promised in a round.
#[derive(Clone, Debug, Default)]
pub(super) struct Later {
    /// Entries with a reservation.
    pub(super) booked: u32,
    /// Classes for which no date was found: what they need does not come back by itself.
    pub(super) undatable: SmallVec<[ClassId; Later::UNDATABLE]>,
    /// Entries looked at.
    pub(super) looks: u32,
    /// The first entry without a date whose gang could become whole was found.
    pub(super) has_head: bool,
}

impl Later {
    /// A sweep costs as much as there are running elements: no more of them than this are made in
    /// vain.
    const UNDATABLE: usize = 8;
    /// Nor are more entries than this visited for the sake of a reservation, so that a long queue
    /// without hope is left.
    const LOOKS: u32 = 64;

    pub(super) fn goes_on(&self, depth: u32) -> bool {
        self.booked < depth
            && self.undatable.len() < Self::UNDATABLE
            && self.looks < Self::LOOKS.max(depth)
    }
}

//! Cached searches for reservations. Each found the earliest future start of an entry; it is reused as
//! long as all reservations before it are the same as in the last pass.

use muster_model::{ElementId, Span, Time};

use super::{CacheEpoch, PlanCache};
use crate::place::reserve::FutureStart;
use crate::pool::Pool;

/// Result of one search for a reservation.
#[derive(Clone, Debug)]
struct CachedReservation {
    element: ElementId,
    duration: Option<Span>,
    /// True if neither limits nor avoided nodes had a part in the result.
    is_unconstrained: bool,
    start: Option<FutureStart>,
    /// Number of lookahead steps that it took.
    steps: usize,
}

/// Searches for reservations, of the last pass and of the present round.
#[derive(Debug, Default)]
pub(super) struct FoundReservations {
    /// Searches of the last pass, in order, if still valid; `epoch` is the round that made them.
    known: Vec<CachedReservation>,
    epoch: CacheEpoch,
    /// Pool version at that time: a start changes the reservations after it.
    version: u64,
    /// Number of them that this round has reused, in order; `new` are its own searches.
    reused: usize,
    new: Vec<CachedReservation>,
    /// Pool version at the first reservation of this round.
    first_version: Option<u64>,
}

impl FoundReservations {
    /// Drops those of the pass before.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.epoch = CacheEpoch::default();
    }

    pub(super) fn begin_round(&mut self) {
        self.reused = 0;
        self.new.clear();
        self.first_version = None;
    }

    /// Keeps those of the last round, made in `epoch`, for the next pass. `held` is the pool
    /// version at the end of the pass: if it differs from that at the first reservation, elements
    /// have started in between, and none is kept.
    pub(super) fn end_pass(&mut self, epoch: CacheEpoch, held: u64) {
        self.known.truncate(self.reused);
        self.known.append(&mut self.new);
        self.epoch = epoch;
        if self.first_version != Some(held) {
            self.clear();
        }
    }

    pub(super) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Returns true if all reserved starts are in the future.
    pub(super) fn are_after(&self, now: Time) -> bool {
        self.known.iter().all(|one| one.start.as_ref().is_none_or(|(start, ..)| *start > now))
    }

    /// Returns true if all reservations of this round are those that were made in `epoch`.
    pub(super) fn are_those_of(&self, epoch: CacheEpoch, pool: &Pool) -> bool {
        epoch == self.epoch && self.are_unchanged(pool) && self.reused == self.known.len()
    }

    /// Returns true while all reservations of this round are those of the pass before, and all
    /// holdings have the same ends.
    fn are_unchanged(&self, pool: &Pool) -> bool {
        self.new.is_empty() && self.version == pool.version()
    }
}

impl PlanCache {
    /// Returns the reservation that an element got in the last pass, if all those before it are
    /// unchanged, and the lookahead steps it took.
    pub(in crate::plan) fn reuse_reservation(
        &mut self,
        pool: &Pool,
        key: (ElementId, Option<Span>, bool),
    ) -> Option<(Option<FutureStart>, usize)> {
        let found = &mut self.reservations;
        let is_same = found.are_unchanged(pool);
        let known = found.known.get(found.reused).filter(|_| is_same)?;
        if !known.is_unconstrained || (known.element, known.duration, true) != key {
            return None;
        }
        found.reused += 1;
        found.first_version.get_or_insert(pool.version());
        Some((known.start.clone(), known.steps))
    }

    /// Returns how many reservations of the pass before were reused in the last round.
    #[cfg(test)]
    pub(in crate::plan) fn reused(&self) -> usize {
        self.reservations.reused
    }

    /// Records a new reservation, or that none was found.
    pub(in crate::plan) fn insert_reservation(
        &mut self,
        pool: &Pool,
        (element, duration, is_unconstrained): (ElementId, Option<Span>, bool),
        start: Option<FutureStart>,
        steps: usize,
    ) {
        let found = &mut self.reservations;
        found.first_version.get_or_insert(pool.version());
        found.new.push(CachedReservation { element, duration, is_unconstrained, start, steps });
    }
}

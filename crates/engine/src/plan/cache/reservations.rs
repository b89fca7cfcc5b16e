//! Cached searches for reservations. Each found the earliest future start of an entry, and depends on the
//! holdings and on the reservations before it. It is reused in the next round or pass if both are the
//! same: the searches of a round are compared, one after the other, with those of the round before.

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
    /// Pool version at that time: a start changes the reservations after it.
    version: u64,
}

impl CachedReservation {
    /// Returns true if both reserve the same for the same element.
    fn reserves_as(&self, other: &Self) -> bool {
        (self.element, &self.start) == (other.element, &other.start)
    }
}

/// Searches for reservations, of the round before and of the present round.
#[derive(Debug, Default)]
pub(super) struct FoundReservations {
    /// Searches of the round before, in order, if still valid.
    known: Vec<CachedReservation>,
    /// Round that made them, if it was the last of the pass before.
    epoch: CacheEpoch,
    /// Searches of this round, in order.
    new: Vec<CachedReservation>,
    /// True if those of this round differ from those known.
    differs: bool,
    /// True if those of this round depend on more than holdings and earlier searches.
    is_dropped: bool,
    #[cfg(test)]
    reused: usize,
}

impl FoundReservations {
    /// Begins the first round of a pass, which may reuse the searches of the pass before.
    pub(super) fn begin_pass(&mut self, is_unchanged: bool) {
        if !is_unchanged {
            self.forget();
        }
        self.begin();
    }

    /// Begins another round of a pass, which may reuse the searches of the one before.
    pub(super) fn begin_round(&mut self) {
        self.keep_new();
        self.begin();
    }

    fn begin(&mut self) {
        self.new.clear();
        (self.differs, self.is_dropped) = (false, false);
        #[cfg(test)]
        {
            self.reused = 0;
        }
    }

    /// Keeps the searches of this round in place of those of the round before.
    fn keep_new(&mut self) {
        self.forget();
        if !self.is_dropped {
            std::mem::swap(&mut self.known, &mut self.new);
        }
    }

    /// Forgets those of the round before.
    fn forget(&mut self) {
        self.known.clear();
        self.epoch = CacheEpoch::default();
    }

    /// Drops all: what this round has searched so far is no example for the next one either.
    pub(super) fn clear(&mut self) {
        self.forget();
        self.is_dropped |= !self.new.is_empty();
    }

    /// Keeps those of the last round, made in `epoch`, for the next pass. `held` is the pool
    /// version at the end of the pass: if it differs from that at a search, elements have started
    /// since, and none is kept.
    pub(super) fn end_pass(&mut self, epoch: CacheEpoch, held: u64) {
        self.keep_new();
        self.epoch = epoch;
        if self.known.iter().any(|one| one.version != held) {
            self.forget();
        }
    }

    /// Sets the number of the holdings that all known searches depend on.
    pub(super) fn set_version(&mut self, version: u64) {
        self.known.iter_mut().for_each(|one| one.version = version);
    }

    /// Returns true if all reserved starts are in the future.
    pub(super) fn are_after(&self, now: Time) -> bool {
        self.known.iter().all(|one| one.start.as_ref().is_none_or(|(start, ..)| *start > now))
    }

    /// Returns true if all reservations of this round are those that were made in `epoch`, the last
    /// of the pass before, and all holdings have the same ends.
    pub(super) fn are_those_of(&self, epoch: CacheEpoch, pool: &Pool) -> bool {
        epoch == self.epoch
            && !self.differs
            && self.new.len() == self.known.len()
            && self.known.last().is_some_and(|last| last.version == pool.version())
    }

    /// Returns the next search of the round before, if all before it gave the same.
    fn next_known(&self) -> Option<&CachedReservation> {
        self.known.get(self.new.len()).filter(|_| !self.differs)
    }
}

impl PlanCache {
    /// Returns the reservation that an element got in the round before, if all those before it are
    /// the same, and the lookahead steps it took.
    pub(in crate::plan) fn reuse_reservation(
        &mut self,
        pool: &Pool,
        key: (ElementId, Option<Span>, bool),
    ) -> Option<(Option<FutureStart>, usize)> {
        let found = &mut self.reservations;
        let known = found.next_known()?;
        if !known.is_unconstrained
            || (known.element, known.duration, true) != key
            || known.version != pool.version()
        {
            return None;
        }
        let known = known.clone();
        let result = (known.start.clone(), known.steps);
        found.new.push(known);
        #[cfg(test)]
        {
            found.reused += 1;
        }
        Some(result)
    }

    /// Returns how many reservations of the round before were reused in the last round.
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
        let version = pool.version();
        let new = CachedReservation { element, duration, is_unconstrained, start, steps, version };
        let found = &mut self.reservations;
        // Beyond the end of what is known nothing can differ.
        found.differs |= found.next_known().is_some_and(|known| !known.reserves_as(&new));
        found.new.push(new);
    }
}

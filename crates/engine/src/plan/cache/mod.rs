//! Plan cache: refusals and reservations that need not be found again, in a pass and from pass to
//! pass. It never changes a decision: a pass without it comes to the same plan, and debug builds
//! and tests compare.
//!
//! **One rule: a result holds until what it rests on is released.** There are three things that it
//! may rest on, and one method for the release of each:
//!
//! | result | rests on | released by |
//! |---|---|---|
//! | a class does not fit ([`classes`]) | holdings | [`PlanCache::release_holdings`] |
//! | a class does not fit because of reservations | reservations of the round | a new round |
//! | the earliest future start ([`reservations`]) | holdings, reservations before it | either |
//! | limits or quota refuse ([`limits`]) | the policy's counters | [`PlanCache::release_counters`] |
//!
//! **Within a round nothing is released**, so what did not fit does not fit later, nor for longer.
//!
//! **From pass to pass** no holding is released if the first pass decided nothing, or only starts that
//! were committed, and nothing was released since: then the holdings and their ends are as the
//! first pass left them, and only time has passed. What did not fit even without reservations does
//! not fit. As long as all ends and reserved starts are in the future, the first entries in order
//! get the same reservations; and an entry that was blocked by these reservations would overlap
//! them even more. This holds only for gangs of one group without a topology: others are searched
//! for, and a search may give up. With advance reservations, upcoming drains or pending
//! allocations, whose effect changes with time, a pass starts without results; and with budgets,
//! since each pass must find which entries they refuse, and until when. If a round started an
//! element after it made a reservation (possible after one that was not found), no reservation is
//! kept. Counters go down between passes, so refusals by limits are never kept.

pub(crate) mod classes;
pub(super) mod limits;
pub(super) mod reservations;

use std::sync::Arc;

use muster_model::{Plan, Span, TaskPlacement, Time};
use smallvec::SmallVec;

use crate::pool::Pool;
use classes::ClassResults;
use limits::LimitRefusals;
use reservations::FoundReservations;

/// Shortest duration: no reservation can begin within it.
pub(super) const SHORTEST_SPAN: Span = Span(1);

/// Epoch in which a result was found; the default is before all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CacheEpoch(u64);

/// Conditions under which cached classes are valid: the pool's epoch, whether nodes are scored, and
/// how often classes were dropped.
pub(super) type CacheBasis = (u64, bool, u64);

/// Present epochs. A result keeps the epoch in which it was found, and is valid until a new one
/// begins.
#[derive(Clone, Copy, Debug, Default)]
struct CacheEpochs {
    /// Last epoch that was issued.
    last: CacheEpoch,
    /// Begins when holdings are released, in a pass or between passes.
    holdings: CacheEpoch,
    /// Begins with each pass, and when holdings are released in it.
    pass: CacheEpoch,
    /// Begins with each round.
    round: CacheEpoch,
}

impl CacheEpochs {
    fn next(&mut self) -> CacheEpoch {
        self.last.0 += 1;
        self.last
    }
}

/// Results kept between rounds and passes; see the module's description.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    basis: Option<CacheBasis>,
    epochs: CacheEpochs,
    classes: ClassResults,
    reservations: FoundReservations,
    pub(super) limits: LimitRefusals,
    /// Value of [`Pool::returned`] at the end of the last pass, if all its decisions were
    /// committed.
    unchanged_returned: Option<u64>,
    /// Decisions of the last pass, if they are only starts.
    uncommitted: Option<UncommittedStarts>,
}

/// Decisions of a pass that only starts elements.
#[derive(Debug)]
struct UncommittedStarts {
    now: Time,
    /// Pool version without these starts; `returned` is [`Pool::returned`] at that time.
    version: u64,
    returned: u64,
    placements: SmallVec<[Arc<[TaskPlacement]>; 2]>,
}

/// A clone is an empty cache.
impl Clone for PlanCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

// ---- validity ----

impl PlanCache {
    /// Begins a pass. Unless `keep_results`, results of the pass before are dropped.
    pub(super) fn begin_pass(
        &mut self,
        pool: &Pool,
        now: Time,
        basis: CacheBasis,
        keep_results: bool,
    ) {
        self.uncommitted = None;
        self.limits = LimitRefusals::default();
        if self.basis != Some(basis) {
            (self.basis, self.unchanged_returned) = (Some(basis), None);
            self.classes.clear();
        }
        let is_unchanged = self.unchanged_returned.take() == Some(pool.returned())
            && has_no_timed_changes(pool)
            && keep_results;
        self.epochs.pass = self.epochs.next();
        if !is_unchanged {
            self.epochs.holdings = self.epochs.next();
        }
        // Reservations also require that no end has passed.
        let are_ahead = pool.ends().are_after(now) && self.reservations.are_after(now);
        self.reservations.begin_pass(is_unchanged && are_ahead);
        self.epochs.round = self.epochs.next();
        self.limits.begin_round();
    }

    /// Begins a round: a class that was blocked only by reservations may fit.
    pub(super) fn begin_round(&mut self) {
        self.epochs.round = self.epochs.next();
        self.reservations.begin_round();
        self.limits.begin_round();
    }

    /// Drops what rests on holdings: some are released in this pass.
    pub(super) fn release_holdings(&mut self) {
        (self.epochs.holdings, self.epochs.pass) = (self.epochs.next(), self.epochs.next());
        self.epochs.round = self.epochs.next();
        self.reservations.clear();
    }

    /// Drops what rests on the reservations of the pass before: those of this round differ.
    pub(super) fn release_reservations(&mut self) {
        self.reservations.clear();
    }

    /// Drops what rests on the policy's counters: something is evicted, which lowers them.
    pub(super) fn release_counters(&mut self) {
        self.limits.clear();
    }

    /// Ends a pass that only starts elements, or decides nothing: its results may be valid in the
    /// next. `held` is the pool version at its end.
    pub(super) fn end_pass(&mut self, pool: &mut Pool, now: Time, plan: &Plan, held: u64) {
        self.reservations.end_pass(self.epochs.round, held);
        if plan.decisions.is_empty() {
            return self.mark_unchanged(pool, now);
        }
        let placements = plan.starts().map(|(_, placement, _)| Arc::clone(placement)).collect();
        let version = pool.version();
        let returned = pool.returned();
        self.uncommitted = Some(UncommittedStarts { now, version, returned, placements });
    }

    /// Returns the time at which a plan was made that is about to be committed, if it is the one of
    /// the last pass and nothing else has happened since.
    pub(super) fn take_planned_at(&mut self, pool: &Pool, plan: &Plan) -> Option<Time> {
        let now = (pool.version(), pool.returned());
        let uncommitted = self
            .uncommitted
            .take()
            .filter(|uncommitted| (uncommitted.version, uncommitted.returned) == now)?;
        let placements = plan.starts().map(|(_, placement, _)| placement);
        let is_same = uncommitted.placements.len() == plan.decisions.len()
            && uncommitted
                .placements
                .iter()
                .zip(placements)
                .all(|(one, other)| Arc::ptr_eq(one, other));
        is_same.then_some(uncommitted.now)
    }

    /// Records that all holdings are as the last pass, at `now`, left them.
    pub(super) fn mark_unchanged(&mut self, pool: &mut Pool, now: Time) {
        self.unchanged_returned = has_no_timed_changes(pool).then(|| pool.returned());
        pool.set_planned_at(Some(now));
        self.reservations.set_version(pool.version());
    }
}

/// Returns true if time changes what may be placed only through the ends of holdings.
fn has_no_timed_changes(pool: &Pool) -> bool {
    !pool.has_advance_reservations() && !pool.has_upcoming_drains()
}

//! Plan cache: results of placement that stay valid between rounds and passes: the model choices of
//! a class, whether it failed to fit, and the reservations that were found. It never changes a
//! decision: a pass without it comes to the same plan.
//!
//! **Within a round nothing is released**, so what did not fit does not fit later, nor for longer.
//!
//! **Across passes** the same holds if the first pass decided nothing, or only starts that were
//! committed, and nothing was released since: then the holdings and their ends are as the first
//! pass left them, and only time has passed. What did not fit even without reservations does not
//! fit. As long as all ends and reserved starts are in the future, the first entries in order get
//! the same reservations; and an entry that was blocked by these reservations would overlap them
//! even more. This holds only for gangs of one group without a topology: others are searched for,
//! and a search may give up. With advance reservations, upcoming drains or pending allocations,
//! whose effect changes with time, a pass starts without the cache; and with budgets, since each
//! pass must find which entries they refuse, and until when. If a round started an element after it
//! made a reservation (possible after one that was not found), no reservation is kept.

use std::sync::Arc;

use muster_model::{ElementId, Plan, Span, TaskPlacement, Time};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::infeasible::SHORTEST_SPAN;
use crate::place::classes::ClassId;
use crate::place::request::ModelChoice;
use crate::place::reserve::FutureStart;
use crate::pool::Pool;
use crate::pool::shape::{Eligible, Shape};

/// Classes that limits and quota cannot distinguish: the same models, the same numbers of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LimitClass(u32);

/// Cached results for a class.
#[derive(Clone, Debug)]
pub(crate) struct ClassCache {
    pub(crate) choices: Arc<[ModelChoice]>,
    pub(crate) eligible: Eligible,
    pub(super) limit_class: LimitClass,
    /// True for one group without a topology: a failure to fit is certain.
    is_exact: bool,
    /// Epoch in which it did not fit even without reservations.
    infeasible_at: CacheEpoch,
    /// Epoch in which it did not fit because of reservations, and the shortest such duration.
    blocked_by_reservations: (CacheEpoch, Span),
}

/// Epoch in which a result was found; the default is before all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CacheEpoch(u64);

/// Conditions under which cached classes are valid: the pool's epoch, whether nodes are scored, and
/// how often classes were dropped.
pub(super) type CacheBasis = (u64, bool, u64);

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

/// Results kept between rounds and passes; see the module's description.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    basis: Option<CacheBasis>,
    classes: FxHashMap<ClassId, ClassCache>,
    limit_classes: FxHashMap<(Arc<[ModelChoice]>, u64), LimitClass>,
    /// Last epoch that was issued.
    last_epoch: CacheEpoch,
    /// Epoch since which nothing was released; `pass_epoch` is the present pass, `round_epoch` its
    /// round.
    stable_epoch: CacheEpoch,
    pass_epoch: CacheEpoch,
    round_epoch: CacheEpoch,
    /// Value of [`Pool::returned`] at the end of the last pass, if all its decisions were
    /// committed.
    unchanged_returned: Option<u64>,
    /// Decisions of the last pass, if they are only starts.
    uncommitted: Option<UncommittedStarts>,
    /// Searches for reservations of the last pass, in order, if still valid; `reservations_epoch`
    /// is the round that made them.
    reservations: Vec<CachedReservation>,
    reservations_epoch: CacheEpoch,
    /// Pool version at that time: a start changes the reservations after it.
    reservations_version: u64,
    /// Number of them that this round has reused, in order; `new_reservations` are those that it
    /// made itself.
    reused: usize,
    new_reservations: Vec<CachedReservation>,
    /// Pool version at the first reservation of this round.
    first_version: Option<u64>,
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
        if self.basis != Some(basis) {
            (self.basis, self.unchanged_returned) = (Some(basis), None);
            self.classes.clear();
            self.limit_classes.clear();
        }
        let is_unchanged = self.unchanged_returned.take() == Some(pool.returned())
            && has_no_timed_changes(pool)
            && keep_results;
        self.pass_epoch = self.next_epoch();
        if !is_unchanged {
            self.stable_epoch = self.next_epoch();
        }
        // Reservations also require that no end has passed.
        let is_future =
            |one: &CachedReservation| one.start.as_ref().is_none_or(|(start, ..)| *start > now);
        if !is_unchanged || !pool.ends().are_after(now) || !self.reservations.iter().all(is_future)
        {
            self.clear_reservations();
        }
        self.begin_round();
    }

    /// Begins a round: a class that was blocked only by reservations may fit.
    pub(super) fn begin_round(&mut self) {
        self.round_epoch = self.next_epoch();
        self.reused = 0;
        self.new_reservations.clear();
        self.first_version = None;
    }

    /// Clears infeasibility after a release in this pass.
    pub(super) fn clear_infeasible(&mut self) {
        (self.stable_epoch, self.pass_epoch) = (self.next_epoch(), self.next_epoch());
        self.round_epoch = self.next_epoch();
        self.clear_reservations();
    }

    /// Clears the reservations of the pass before.
    pub(super) fn clear_reservations(&mut self) {
        self.reservations.clear();
        self.reservations_epoch = CacheEpoch::default();
    }

    /// Ends a pass that only starts elements, or decides nothing: its results may be valid in the
    /// next. `held` is the pool version at its end.
    pub(super) fn end_pass(&mut self, pool: &mut Pool, now: Time, plan: &Plan, held: u64) {
        self.reservations.truncate(self.reused);
        self.reservations.append(&mut self.new_reservations);
        self.reservations_epoch = self.round_epoch;
        if self.first_version != Some(held) {
            self.clear_reservations();
        }
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
    pub(crate) fn take_planned_at(&mut self, pool: &Pool, plan: &Plan) -> Option<Time> {
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
    pub(crate) fn mark_unchanged(&mut self, pool: &mut Pool, now: Time) {
        self.unchanged_returned = has_no_timed_changes(pool).then(|| pool.returned());
        pool.set_planned_at(Some(now));
        self.reservations_version = pool.version();
    }

    fn next_epoch(&mut self) -> CacheEpoch {
        self.last_epoch.0 += 1;
        self.last_epoch
    }

    // ---- classes ----

    /// Returns the cached results of a class.
    pub(super) fn get(&self, class: ClassId) -> Option<&ClassCache> {
        self.classes.get(&class)
    }

    /// Returns the cached results of a class; `learn` computes its choices and eligible nodes.
    pub(super) fn class_or_insert(
        &mut self,
        class: ClassId,
        learn: impl FnOnce() -> (Arc<[ModelChoice]>, Eligible, Arc<Shape>),
    ) -> &mut ClassCache {
        let limit_classes = &mut self.limit_classes;
        self.classes.entry(class).or_insert_with(|| {
            let (choices, eligible, shape) = learn();
            let next = LimitClass(limit_classes.len() as u32);
            let limit_class =
                *limit_classes.entry((Arc::clone(&choices), shape.milli())).or_insert(next);
            let is_exact = shape.groups.len() == 1 && shape.topology.is_none();
            let infeasible_at = CacheEpoch::default();
            let blocked_by_reservations = (CacheEpoch::default(), Span(0));
            ClassCache {
                choices,
                eligible,
                limit_class,
                is_exact,
                infeasible_at,
                blocked_by_reservations,
            }
        })
    }

    /// Records that a class did not fit even without reservations.
    pub(super) fn mark_infeasible(&mut self, class: ClassId) {
        let stable_epoch = self.stable_epoch;
        let pass_epoch = self.pass_epoch;
        let Some(cached) = self.classes.get_mut(&class) else { return };
        if cached.infeasible_at != stable_epoch {
            cached.infeasible_at = if cached.is_exact { stable_epoch } else { pass_epoch };
        }
    }

    /// Records that a class did not fit for this duration because of reservations.
    pub(super) fn mark_blocked_by_reservations(
        &mut self,
        pool: &Pool,
        class: ClassId,
        duration: Span,
    ) {
        let round_epoch = self.round_epoch;
        let Some(cached) = self.classes.get(&class) else { return };
        let shortest = self
            .blocked_by_reservations(pool, cached)
            .map_or(duration, |known| known.min(duration));
        let Some(cached) = self.classes.get_mut(&class) else { return };
        cached.blocked_by_reservations = (round_epoch, shortest);
    }

    /// Returns true if a class is known not to fit for that duration.
    pub(super) fn is_infeasible(&self, pool: &Pool, class: ClassId, duration: Span) -> bool {
        let Some(cached) = self.classes.get(&class) else { return false };
        let is_full =
            cached.infeasible_at == self.stable_epoch || cached.infeasible_at == self.pass_epoch;
        is_full && duration >= SHORTEST_SPAN
            || self
                .blocked_by_reservations(pool, cached)
                .is_some_and(|shortest| shortest <= duration)
    }

    /// Returns the shortest duration for which reservations are known to block a class. A result of
    /// the last pass counts once all its reservations have been reused.
    fn blocked_by_reservations(&self, pool: &Pool, cached: &ClassCache) -> Option<Span> {
        let (epoch, shortest) = cached.blocked_by_reservations;
        let is_known = epoch == self.round_epoch
            || cached.is_exact
                && epoch == self.reservations_epoch
                && self.reservations_unchanged(pool)
                && self.reused == self.reservations.len();
        (is_known && epoch != CacheEpoch::default()).then_some(shortest)
    }

    // ---- reservations ----

    /// Returns true while all reservations of this round are those of the pass before, and all
    /// holdings have the same ends.
    fn reservations_unchanged(&self, pool: &Pool) -> bool {
        self.new_reservations.is_empty() && self.reservations_version == pool.version()
    }

    /// Returns the reservation that an element got in the last pass, if all those before it are
    /// unchanged, and the lookahead steps it took.
    pub(super) fn reuse_reservation(
        &mut self,
        pool: &Pool,
        key: (ElementId, Option<Span>, bool),
    ) -> Option<(Option<FutureStart>, usize)> {
        let is_same = self.reservations_unchanged(pool);
        let known = self.reservations.get(self.reused).filter(|_| is_same)?;
        if !known.is_unconstrained || (known.element, known.duration, true) != key {
            return None;
        }
        self.reused += 1;
        self.first_version.get_or_insert(pool.version());
        Some((known.start.clone(), known.steps))
    }

    /// Returns how many reservations of the pass before were reused in the last round.
    #[cfg(test)]
    pub(super) fn reused(&self) -> usize {
        self.reused
    }

    /// Records a new reservation, or that none was found.
    pub(super) fn insert_reservation(
        &mut self,
        pool: &Pool,
        (element, duration, is_unconstrained): (ElementId, Option<Span>, bool),
        found: Option<FutureStart>,
        steps: usize,
    ) {
        self.first_version.get_or_insert(pool.version());
        self.new_reservations.push(CachedReservation {
            element,
            duration,
            is_unconstrained,
            start: found,
            steps,
        });
    }
}

/// Returns true if time changes what may be placed only through the ends of holdings.
fn has_no_timed_changes(pool: &Pool) -> bool {
    !pool.has_advance_reservations() && !pool.has_upcoming_drains()
}

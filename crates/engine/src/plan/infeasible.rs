//! Cached infeasibility: records classes that did not fit in `cache/classes.rs`, so that no class is tried
//! twice, and answers whether a class, user or leaf can still start anything. It must not be used
//! for limits and quota: see `limited.rs`.

use std::sync::Arc;

use muster_model::queue::PlacementPolicy;
use muster_model::{ElementId, JobId, Span};
use muster_policy::{LeafId, UserId};
use smallvec::SmallVec;

use super::PlanningPass;
use super::cache::SHORTEST_SPAN;
use super::cache::classes::ClassCache;
use super::consider::{Candidate, NodePreferences};
use super::scratch::ReservationLane;
use crate::place::classes::ClassId;
use crate::place::gang;
use crate::place::request::{AdmittedChoice, ModelCaps};
use crate::state::State;
use crate::state::entries::UNLIMITED;

/// Blocked entries of a leaf after which its other classes are checked: about as many as the check
/// costs.
const CHECK_AFTER: u32 = 16;

impl PlanningPass<'_> {
    pub(crate) fn class_cache(&mut self, class: ClassId) -> &mut ClassCache {
        let State { classes, pool, policy, .. } = &mut *self.state;
        self.cache.class_or_insert(class, || {
            let uses_scoring = policy.tree().placement != PlacementPolicy::Pack;
            let choices = classes.model_choices(class, pool, uses_scoring);
            (choices, classes.eligible(class, pool), Arc::clone(classes.shape(class)))
        })
    }

    /// Records that a candidate did not fit, for all elements of its class.
    pub(super) fn note_infeasible(
        &mut self,
        candidate: &Candidate,
        cached: &ClassCache,
        admitted: &[AdmittedChoice<'_>],
        duration: Span,
    ) {
        let is_blocked = self.is_blocked_by_reservations(
            candidate.node_preferences(),
            candidate.class,
            cached,
            admitted,
        );
        if holds_for_class(candidate, cached, admitted) {
            self.mark_infeasible(candidate.class, duration, is_blocked);
        }
    }

    /// Returns true if the indexes alone show that a candidate fits nowhere, as for most failures.
    /// Records it.
    pub(super) fn is_full(
        &mut self,
        candidate: &Candidate,
        cached: &ClassCache,
        admitted: &[AdmittedChoice<'_>],
    ) -> bool {
        let choices = admitted.iter().map(|one| one.choice);
        let is_full = gang::is_full(&mut self.state.pool, &candidate.shape, choices);
        if is_full && holds_for_class(candidate, cached, admitted) {
            self.cache.mark_infeasible(candidate.class);
        }
        is_full
    }

    /// As [`PlanningPass::is_full`] for a class that is in the cache. False where there are budgets:
    /// every refused element must be checked against them, to know the next refill.
    pub(super) fn is_class_full(&mut self, class: ClassId) -> bool {
        let State { pool, classes, policy, .. } = &mut *self.state;
        if policy.has_budgets() {
            return false;
        }
        let Some(cached) = self.cache.get(class) else { return false };
        let is_full = gang::is_full(pool, classes.shape(class), cached.choices.iter());
        if is_full {
            self.cache.mark_infeasible(class);
        }
        is_full
    }

    /// Tries to place a class regardless of user: an element of it fits only if the class does.
    fn probe(&mut self, class: ClassId, duration: Span) -> bool {
        let cached = self.class_cache(class).clone();
        let shape = Arc::clone(self.state.classes.shape(class));
        if gang::is_full(&mut self.state.pool, &shape, cached.choices.iter()) {
            self.cache.mark_infeasible(class);
            return false;
        }
        let preferences =
            NodePreferences { element: ElementId::single(JobId(0)), avoid: &[], last_nodes: &[] };
        let admitted: SmallVec<[AdmittedChoice<'_>; 1]> = cached
            .choices
            .iter()
            .map(|choice| AdmittedChoice { choice, caps: ModelCaps::new() })
            .collect();
        let span = (duration < UNLIMITED).then_some(duration);
        let fits = self.has_placement(preferences, &shape, &admitted, &cached.eligible, span);
        if !fits {
            let is_blocked =
                self.is_blocked_by_reservations(preferences, class, &cached, &admitted);
            self.mark_infeasible(class, duration, is_blocked);
        }
        fits
    }

    /// Returns true if a class that does not fit would fit for the shortest duration, before any
    /// reservation begins.
    fn is_blocked_by_reservations(
        &mut self,
        preferences: NodePreferences<'_>,
        class: ClassId,
        cached: &ClassCache,
        admitted: &[AdmittedChoice<'_>],
    ) -> bool {
        let pool = &self.state.pool;
        if pool.bookings().is_empty()
            && !pool.has_upcoming_drains()
            && !pool.has_advance_reservations()
        {
            return false;
        }
        let shape = Arc::clone(self.state.classes.shape(class));
        self.has_placement(preferences, &shape, admitted, &cached.eligible, Some(SHORTEST_SPAN))
    }

    fn mark_infeasible(&mut self, class: ClassId, duration: Span, is_blocked: bool) {
        if is_blocked {
            self.cache.mark_blocked_by_reservations(&self.state.pool, class, duration)
        } else {
            self.cache.mark_infeasible(class)
        }
    }

    /// Returns true if no entry of a leaf can start or get a reservation any more in this round.
    /// Called for every blocked entry; checks only each time their number has doubled.
    #[inline]
    pub(super) fn is_leaf_infeasible(
        &mut self,
        blocked: &mut Vec<u32>,
        leaf: LeafId,
        priority: i32,
    ) -> bool {
        let at = leaf.0 as usize;
        if blocked.len() <= at {
            blocked.resize(at + 1, 0);
        }
        let count = &mut blocked[at];
        *count += 1;
        *count >= CHECK_AFTER
            && count.is_power_of_two()
            && self.check_leaf_infeasible(leaf, priority)
    }

    fn check_leaf_infeasible(&mut self, leaf: LeafId, priority: i32) -> bool {
        if self.may_reserve(&ReservationLane::of(leaf))
            || self.has_possible_victims(leaf, priority)
            || self.asked_about == Some(leaf)
        {
            return false;
        }
        // The shortest entry of each class decides: a longer one is never easier to place.
        let mut classes: SmallVec<[(ClassId, Span); 8]> = SmallVec::new();
        for (class, duration) in self.state.entries.shortest_in_leaf(leaf) {
            if !self.is_infeasible(class, duration) || self.may_reserve(&self.lane(leaf, class)) {
                classes.push((class, duration));
            }
        }
        // All are tried: the results are cached for the rest of the round.
        let may_start = |(class, duration): &&(ClassId, Span)| {
            self.may_reserve(&self.lane(leaf, *class)) || self.probe(*class, *duration)
        };
        classes.iter().filter(may_start).count() == 0
    }

    /// Returns true if no entry of a user in a leaf is known to be able to start or get a
    /// reservation in this round. `consecutive` is the number of consecutive rejected entries of
    /// the user; checks only each time it has doubled.
    #[inline]
    pub(super) fn is_user_infeasible(
        &mut self,
        leaf_user: (LeafId, UserId),
        priority: i32,
        consecutive: u32,
    ) -> bool {
        self.may_quick_reject()
            && consecutive >= CHECK_AFTER
            && consecutive.is_power_of_two()
            && self.check_user_infeasible(leaf_user, priority)
    }

    fn check_user_infeasible(&mut self, (leaf, user): (LeafId, UserId), priority: i32) -> bool {
        if self.asked_about == Some(leaf) {
            return false;
        }
        // During a round more may become reclaimable for a leaf, when its own jobs are evicted; all
        // other possible victims are known at its beginning.
        let policy = &self.state.policy;
        if policy.tree().preemption.reclaim && policy.may_ever_reclaim(leaf)
            || self.has_possible_victims(leaf, priority)
        {
            return false;
        }
        self.state.entries.shortest_of_user(leaf, user).all(|(class, duration)| {
            self.is_infeasible(class, duration) && !self.may_reserve(&self.lane(leaf, class))
        })
    }

    /// Returns true if a class is known not to fit for that duration.
    pub(super) fn is_infeasible(&self, class: ClassId, duration: Span) -> bool {
        self.cache.is_infeasible(&self.state.pool, class, duration)
    }
}

/// Returns true if the result for a candidate holds for its class: no limits and avoided nodes had
/// a part in it.
fn holds_for_class(
    candidate: &Candidate,
    cached: &ClassCache,
    admitted: &[AdmittedChoice<'_>],
) -> bool {
    let is_unconstrained =
        admitted.len() == cached.choices.len() && admitted.iter().all(|one| one.caps.is_empty());
    candidate.avoid.is_empty() && is_unconstrained
}

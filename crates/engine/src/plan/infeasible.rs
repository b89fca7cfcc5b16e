//! Cached infeasibility: records classes that did not fit (`cache/classes.rs`), so that none is tried
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
use super::candidate::{Candidate, NodePreferences};
use super::eligibility::has_possible_victims;
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
}

/// Records that a candidate did not fit, for all elements of its class.
pub(super) fn note_infeasible(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    cached: &ClassCache,
    admitted: &[AdmittedChoice<'_>],
    duration: Span,
) {
    let is_blocked = is_blocked_by_reservations(
        pass,
        candidate.node_preferences(),
        candidate.class,
        cached,
        admitted,
    );
    if holds_for_class(candidate, cached, admitted) {
        mark_infeasible(pass, candidate.class, duration, is_blocked);
    }
}

/// Returns true if the indexes alone show that a candidate fits nowhere, as for most failures.
/// Records it.
pub(super) fn is_full(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    cached: &ClassCache,
    admitted: &[AdmittedChoice<'_>],
) -> bool {
    let choices = admitted.iter().map(|one| one.choice);
    let is_full = gang::is_full(&mut pass.state.pool, &candidate.shape, choices);
    if is_full && holds_for_class(candidate, cached, admitted) {
        pass.cache.mark_infeasible(candidate.class);
    }
    is_full
}

/// As [`is_full`] for a class that is in the cache. False where there are budgets:
/// every refused element must be checked against them, to know the next refill.
pub(super) fn is_class_full(pass: &mut PlanningPass<'_>, class: ClassId) -> bool {
    let State { pool, classes, policy, .. } = &mut *pass.state;
    if policy.queues().has_budgets() {
        return false;
    }
    let Some(cached) = pass.cache.get(class) else { return false };
    let is_full = gang::is_full(pool, classes.shape(class), cached.choices.iter());
    if is_full {
        pass.cache.mark_infeasible(class);
    }
    is_full
}

/// Tries to place a class regardless of user: an element of it fits only if the class does.
fn probe(pass: &mut PlanningPass<'_>, class: ClassId, duration: Span) -> bool {
    let cached = pass.class_cache(class).clone();
    let shape = Arc::clone(pass.state.classes.shape(class));
    if gang::is_full(&mut pass.state.pool, &shape, cached.choices.iter()) {
        pass.cache.mark_infeasible(class);
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
    let fits = pass.has_placement(preferences, &shape, &admitted, &cached.eligible, span);
    if !fits {
        let is_blocked = is_blocked_by_reservations(pass, preferences, class, &cached, &admitted);
        mark_infeasible(pass, class, duration, is_blocked);
    }
    fits
}

/// Returns true if a class that does not fit would fit for the shortest duration, before any
/// reservation begins.
fn is_blocked_by_reservations(
    pass: &mut PlanningPass<'_>,
    preferences: NodePreferences<'_>,
    class: ClassId,
    cached: &ClassCache,
    admitted: &[AdmittedChoice<'_>],
) -> bool {
    let pool = &pass.state.pool;
    if pool.bookings().is_empty() && !pool.has_upcoming_drains() && !pool.has_advance_reservations()
    {
        return false;
    }
    let shape = Arc::clone(pass.state.classes.shape(class));
    pass.has_placement(preferences, &shape, admitted, &cached.eligible, Some(SHORTEST_SPAN))
}

fn mark_infeasible(pass: &mut PlanningPass<'_>, class: ClassId, duration: Span, is_blocked: bool) {
    if is_blocked {
        pass.cache.mark_blocked_by_reservations(&pass.state.pool, class, duration)
    } else {
        pass.cache.mark_infeasible(class)
    }
}

/// Returns true if no entry of a leaf can start or get a reservation any more in this round.
/// Called for every blocked entry; checks only each time their number has doubled.
#[inline]
pub(super) fn is_leaf_infeasible(
    pass: &mut PlanningPass<'_>,
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
    *count >= CHECK_AFTER && count.is_power_of_two() && check_leaf_infeasible(pass, leaf, priority)
}

fn check_leaf_infeasible(pass: &mut PlanningPass<'_>, leaf: LeafId, priority: i32) -> bool {
    if pass.may_reserve(&ReservationLane::of(leaf))
        || has_possible_victims(pass, leaf, priority)
        || pass.asked_about == Some(leaf)
    {
        return false;
    }
    // The shortest entry of each class decides: a longer one is never easier to place.
    let mut classes: SmallVec<[(ClassId, Span); 8]> = SmallVec::new();
    for (class, duration) in pass.state.entries.shortest_in_leaf(leaf) {
        if !is_infeasible(pass, class, duration) || pass.may_reserve(&pass.lane(leaf, class)) {
            classes.push((class, duration));
        }
    }
    // All are tried: the results are cached for the rest of the round.
    let may_start = |(class, duration): &&(ClassId, Span)| {
        pass.may_reserve(&pass.lane(leaf, *class)) || probe(pass, *class, *duration)
    };
    classes.iter().filter(may_start).count() == 0
}

/// Returns true if no entry of a user in a leaf is known to be able to start or get a
/// reservation in this round. `consecutive` is the number of consecutive rejected entries of
/// the user; checks only each time it has doubled.
#[inline]
pub(super) fn is_user_infeasible(
    pass: &mut PlanningPass<'_>,
    leaf_user: (LeafId, UserId),
    priority: i32,
    consecutive: u32,
) -> bool {
    pass.may_quick_reject()
        && consecutive >= CHECK_AFTER
        && consecutive.is_power_of_two()
        && check_user_infeasible(pass, leaf_user, priority)
}

fn check_user_infeasible(
    pass: &mut PlanningPass<'_>,
    (leaf, user): (LeafId, UserId),
    priority: i32,
) -> bool {
    if pass.asked_about == Some(leaf) {
        return false;
    }
    // During a round more may become reclaimable for a leaf, when its own jobs are evicted; all
    // other possible victims are known at its beginning.
    let policy = &pass.state.policy;
    if policy.tree().preemption.reclaim && policy.queues().may_ever_reclaim(leaf)
        || has_possible_victims(pass, leaf, priority)
    {
        return false;
    }
    pass.state.entries.shortest_of_user(leaf, user).all(|(class, duration)| {
        is_infeasible(pass, class, duration) && !pass.may_reserve(&pass.lane(leaf, class))
    })
}

/// Returns true if a class is known not to fit for that duration.
pub(super) fn is_infeasible(pass: &PlanningPass<'_>, class: ClassId, duration: Span) -> bool {
    pass.cache.is_infeasible(&pass.state.pool, class, duration)
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

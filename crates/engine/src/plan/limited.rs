//! Refusals by limits and quota that are known already: whether a class, or every entry of a user,
//! need not be considered. The cached verdicts, and why they stay valid, are in `cache/limits.rs`.

use std::sync::Arc;

use muster_model::{Reason, Span};
use muster_policy::{LeafId, UserId};

use super::PlanningPass;
use super::admission::{self, Requester};
use super::cache::classes::LimitClass;
use super::cache::limits::LimitKey;
use super::eligibility::has_possible_victims;
use crate::place::classes::ClassId;
use crate::place::request::ModelChoice;
use crate::state::entries::UNLIMITED;

/// Refused entries of a user after which all of the user's classes in the leaf are judged.
const CHECK_AFTER: u32 = 16;

/// Returns true if a verdict in a leaf may depend on the time limit.
pub(super) fn matters_how_long(pass: &PlanningPass<'_>, leaf: LeafId) -> bool {
    let queues = pass.state.policy.queues();
    queues.is_budgeted(leaf) || queues.limits_duration(leaf)
}

/// Returns the key for a verdict.
pub(super) fn limit_key(
    pass: &PlanningPass<'_>,
    leaf: LeafId,
    user: UserId,
    duration: Option<Span>,
    limit_class: LimitClass,
) -> LimitKey {
    let duration = duration.filter(|_| matters_how_long(pass, leaf)).unwrap_or(UNLIMITED);
    LimitKey { leaf, user, limit_class, duration }
}

/// Returns true if a class of a user is known to be refused in a leaf, for this duration.
pub(super) fn is_limited(
    pass: &PlanningPass<'_>,
    leaf: LeafId,
    user: UserId,
    class: ClassId,
    duration: Span,
) -> bool {
    if pass.cache.limits.refused.is_empty() {
        return false;
    }
    let Some(cached) = pass.cache.get(class) else { return false };
    let duration = (duration < UNLIMITED).then_some(duration);
    let is_limited = pass.cache.limits.refused.contains(&limit_key(
        pass,
        leaf,
        user,
        duration,
        cached.limit_class,
    ));
    debug_assert!(
        !is_limited || check_limits(pass, leaf, user, class, duration, &cached.choices).is_err(),
        "a refusal stays valid for the whole pass"
    );
    is_limited
}

/// Returns true if limits refuse every entry of a user in a leaf. Called for every refused
/// entry; checks only each time their number has doubled.
pub(super) fn is_user_limited(
    pass: &mut PlanningPass<'_>,
    leaf: LeafId,
    user: UserId,
    priority: i32,
) -> bool {
    #[cfg(test)]
    if pass.cache.limits.is_disabled {
        return false;
    }
    let count = pass.cache.limits.refusals_by_user.entry((leaf, user)).or_default();
    *count += 1;
    if *count < CHECK_AFTER || !count.is_power_of_two() || pass.asked_about == Some(leaf) {
        return false;
    }
    // If victims are possible, limits alone do not refuse.
    if has_possible_victims(pass, leaf, priority) {
        return false;
    }
    // The order does not matter; a verdict changes nothing but the cache.
    let classes: Vec<(ClassId, Span)> = pass.state.entries.shortest_of_user(leaf, user).collect();
    classes.into_iter().all(|(class, _)| {
        // A refusal of the shortest holds for all; the shortest of the leaf is no longer than
        // the user's.
        let shortest = pass.state.entries.shortest(leaf, class);
        if is_limited(pass, leaf, user, class, shortest) {
            return true;
        }
        let cached = pass.class_cache(class);
        let choices = Arc::clone(&cached.choices);
        let limit_class = cached.limit_class;
        let duration = (shortest < UNLIMITED).then_some(shortest);
        let Err(reason) = check_limits(pass, leaf, user, class, duration, &choices) else {
            return false;
        };
        let key = limit_key(pass, leaf, user, duration, limit_class);
        pass.cache.limits.insert(key, &reason);
        true
    })
}

/// Checks limits, budgets and quota for a class. Returns the first refusal.
fn check_limits(
    pass: &PlanningPass<'_>,
    leaf: LeafId,
    user: UserId,
    class: ClassId,
    duration: Option<Span>,
    choices: &[ModelChoice],
) -> Result<(), Reason> {
    let charge = pass.budget_charge(duration);
    let shape = pass.state.classes.shape(class);
    let requester = Requester { leaf, user, own_quota_only: false };
    admission::admitted_choices(&pass.state.policy, requester, shape, charge, choices).map(|_| ())
}

//! May a gang change its size? One that shrinks goes on with some of its own places, beyond its minimum nothing is its own;
//! one that grows goes for nobody but itself, and loses nothing that it could have saved.

use muster_model::{AttemptId, Decision, ElementId, EvictionCause, Plan, TaskPlacement, Tier, Time};

use super::counted::{self, Counted};
use crate::state::State;
use crate::state::attempt::attempt_id;

/// True when a plan makes an attempt go so that its element goes on with another size: then a promise to what is active is
/// right.
pub(super) fn is_resized(state: &State, plan: &Plan, id: ElementId) -> bool {
    let current = state.element(id).map(|element| attempt_id(id.job, id.index, element.attempt));
    let evictions = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Claim { evict, .. } => Some(evict),
        Decision::Start { .. } | Decision::Unclaim { .. } => None,
    });
    let is_size = |cause| matches!(cause, EvictionCause::Shrunk | EvictionCause::Grown);
    evictions.flatten().any(|eviction| Some(eviction.id) == current && is_size(eviction.cause))
}

/// What a plan promises to the element of an attempt.
fn promised(plan: &Plan, id: AttemptId) -> Option<&[TaskPlacement]> {
    plan.decisions.iter().find_map(|decision| match decision {
        Decision::Claim { element, placement, .. } if *element == id.element => Some(&placement[..]),
        _ => None,
    })
}

/// The places that a gang leaves when it shrinks; all of them when it goes whole.
pub(super) fn left<'a>(
    plan: &Plan,
    victim: &Counted<'a>,
    id: AttemptId,
    cause: EvictionCause,
) -> Vec<&'a TaskPlacement> {
    let keeps = match cause {
        EvictionCause::Shrunk => promised(plan, id).unwrap_or_default(),
        _ => &[],
    };
    without(victim.placement, keeps).unwrap_or_else(|| victim.placement.iter().collect())
}

/// What is left of places without some of them; `None` when those are not among them. Tasks with shares of one device look
/// alike, so each is taken once.
fn without<'a>(all: &'a [TaskPlacement], some: &[TaskPlacement]) -> Option<Vec<&'a TaskPlacement>> {
    let mut left: Vec<&TaskPlacement> = all.iter().collect();
    for task in some {
        let at = left.iter().position(|other| *other == task)?;
        left.remove(at);
    }
    Some(left)
}

/// Why an attempt may not be made to go on with less, for a claimant that stands so in its queue.
pub(super) fn wrong_shrink(state: &State, plan: &Plan, id: AttemptId, claimant: i32) -> Option<&'static str> {
    let terms = state.policy.tree().preemption;
    if !(terms.priority || terms.reclaim) || Tier::of_order(claimant) != Tier::Usual {
        return Some("nobody in his turn needs it smaller");
    }
    let (Some(victim), Some(keeps)) = (counted::running(state, id), promised(plan, id)) else {
        return Some("it is promised nothing");
    };
    let left = without(victim.placement, keeps);
    left.is_none_or(|left| left.is_empty()).then_some("it does not go on with less of its places")
}

/// Why an attempt may not go for its own element.
pub(super) fn wrong_growth(
    state: &State,
    now: Time,
    plan: &Plan,
    id: AttemptId,
    claimant: ElementId,
) -> Option<&'static str> {
    let (Some(victim), Some(gets)) = (counted::running(state, id), promised(plan, id)) else {
        return Some("it is promised nothing");
    };
    let spec = &victim.job.record.spec;
    let started = state.element(id.element).and_then(|element| element.run.as_ref()?.started);
    let ripe = started.zip(spec.grow_after).map_or(Time::NEVER, |(started, after)| started + after);
    match () {
        () if claimant != id.element => Some("only it can grow"),
        () if gets.len() <= victim.placement.len() => Some("it would not grow"),
        () if spec.checkpoint.is_none() => Some("it cannot save its progress"),
        () if ripe > now => Some("it has not run for long enough"),
        () => None,
    }
}

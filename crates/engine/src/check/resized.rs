//! May somebody go and go on by the same plan? A gang that shrinks goes on with some of its own
//! places, beyond its minimum nothing is its own; one that grows goes for nobody but itself, and
//! loses nothing that it could have saved; who is moved goes on as large as it was, and what all
//! moves cost is within their budget.

use muster_model::{
    AttemptId, Decision, ElementId, EvictionCause, Plan, Span, TaskPlacement, Tier, Time,
};

use rustc_hash::FxHashSet;

use super::Violation;
use super::counted::{self, Counted};
use crate::state::State;
use crate::state::attempt::attempt_id;
use crate::state::job::{Element, RunStage};

/// Attempts that a plan makes go so that their elements go on with another size, or elsewhere: then
/// a promise to what is active is right.
pub(super) struct GoingOn(FxHashSet<AttemptId>);

impl GoingOn {
    pub(super) fn of(plan: &Plan) -> Self {
        let evictions = plan.decisions.iter().filter_map(|decision| match decision {
            Decision::Claim { evict, .. } => Some(evict),
            Decision::Start { .. } | Decision::Unclaim { .. } => None,
        });
        let goes_on = |cause| {
            matches!(cause, EvictionCause::Shrunk | EvictionCause::Grown | EvictionCause::Moved)
        };
        let going_on = evictions.flatten().filter(|eviction| goes_on(eviction.cause));
        Self(going_on.map(|eviction| eviction.id).collect())
    }

    /// Is the current attempt of an element among them?
    pub(super) fn has(&self, state: &State, id: ElementId) -> bool {
        let is_current = |attempt| self.0.contains(&attempt_id(id.job, id.index, attempt));
        !self.0.is_empty() && state.element(id).is_some_and(|element| is_current(element.attempt))
    }
}

/// What a plan promises to the element of an attempt.
pub(super) fn promised(plan: &Plan, id: AttemptId) -> Option<&[TaskPlacement]> {
    plan.decisions.iter().find_map(|decision| match decision {
        Decision::Claim { element, placement, .. } if *element == id.element => {
            Some(&placement[..])
        }
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

/// What is left of places without some of them; `None` when those are not among them. Tasks with
/// shares of one device look alike, so each is taken once.
fn without<'a>(all: &'a [TaskPlacement], some: &[TaskPlacement]) -> Option<Vec<&'a TaskPlacement>> {
    let mut left: Vec<&TaskPlacement> = all.iter().collect();
    for task in some {
        let at = left.iter().position(|other| *other == task)?;
        left.remove(at);
    }
    Some(left)
}

/// Why an attempt may not be made to go on with less, for a claimant that stands so in its queue.
pub(super) fn wrong_shrink(
    state: &State,
    plan: &Plan,
    id: AttemptId,
    claimant: i32,
) -> Option<&'static str> {
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

/// Why an attempt may not go on elsewhere, for a claimant that stands so in its queue.
pub(super) fn wrong_move(
    state: &State,
    plan: &Plan,
    id: AttemptId,
    claimant: i32,
) -> Option<&'static str> {
    if state.policy.tree().defragment.is_none() || Tier::of_order(claimant) != Tier::Usual {
        return Some("nobody is moved for it");
    }
    let (Some(victim), Some(gets)) = (counted::running(state, id), promised(plan, id)) else {
        return Some("it is promised nothing");
    };
    let runs = state.element(id.element).and_then(|element| element.run.as_ref());
    match () {
        () if gets.len() != victim.placement.len() => Some("it would go on with another size"),
        () if victim.job.record.spec.checkpoint.is_none() => Some("it cannot save its progress"),
        () if runs.is_none_or(|run| run.stage != RunStage::Running) => Some("it does not run yet"),
        () => None,
    }
}

/// Is what the moves of a plan cost still to be spent? A move costs what is lost of it, and what it
/// holds until it has gone.
pub(super) fn check_moves(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    let evictions = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Claim { evict, .. } => Some(evict),
        Decision::Start { .. } | Decision::Unclaim { .. } => None,
    });
    let mut left = state.moves_left(now);
    for eviction in evictions.flatten().filter(|eviction| eviction.cause == EvictionCause::Moved) {
        let Some(victim) = counted::running(state, eviction.id) else { continue };
        let spec = &victim.job.record.spec;
        let unsaved = state.element(victim.element).and_then(Element::unsaved_since);
        let lead = spec.checkpoint.map_or(Span(0), |terms| terms.lead);
        let lost = unsaved.map_or(Span(0), |since| now.since(since)) + lead + spec.grace;
        let cost = victim.milli().saturating_mul(lost.0);
        if cost > left {
            found
                .push(Violation::NotEvictable(eviction.id, "nothing is left to be spent on moves"));
        }
        left = left.saturating_sub(cost);
    }
}

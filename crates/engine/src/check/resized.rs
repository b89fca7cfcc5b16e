//! Checks elements that a plan evicts and restarts: a gang that shrinks keeps some of its own
//! places and gives up only tasks beyond its minimum; one that grows is evicted only for itself and
//! loses no unsaved work; one that is moved keeps its size, and the cost of all moves is within the
//! budget.

use muster_model::{
    AttemptId, Decision, ElementId, EvictionCause, Plan, Span, TaskPlacement, Tier, Time,
};
use rustc_hash::FxHashSet;

use super::Violation;
use super::counted::{self, CountedAllocation};
use crate::state::State;
use crate::state::attempt::attempt_id;
use crate::state::job::{Element, RunStage};

/// Attempts that a plan evicts in order to resize or move their elements: these active elements may
/// have a pending allocation.
pub(super) struct Relocations(FxHashSet<AttemptId>);

impl Relocations {
    pub(super) fn of(plan: &Plan) -> Self {
        let evictions = plan.decisions.iter().filter_map(|decision| match decision {
            Decision::Nominate { evict, .. } => Some(evict),
            Decision::Start { .. } | Decision::Revoke { .. } => None,
        });
        let is_relocated = |cause| {
            matches!(cause, EvictionCause::Shrunk | EvictionCause::Grown | EvictionCause::Moved)
        };
        let relocated = evictions.flatten().filter(|eviction| is_relocated(eviction.cause));
        Self(relocated.map(|eviction| eviction.id).collect())
    }

    /// True when the current attempt of an element is among them.
    pub(super) fn has(&self, state: &State, id: ElementId) -> bool {
        let is_current = |attempt| self.0.contains(&attempt_id(id.job, id.index, attempt));
        !self.0.is_empty()
            && state.jobs.element(id).is_some_and(|element| is_current(element.attempt))
    }
}

/// Returns the places that a plan nominates for the element of an attempt.
pub(super) fn nominated(plan: &Plan, id: AttemptId) -> Option<&[TaskPlacement]> {
    plan.decisions.iter().find_map(|decision| match decision {
        Decision::Nominate { element, placement, .. } if *element == id.element => {
            Some(&placement[..])
        }
        _ => None,
    })
}

/// Returns the places that a victim gives up: some when it shrinks, else all.
pub(super) fn places_given_up<'a>(
    plan: &Plan,
    victim: &CountedAllocation<'a>,
    id: AttemptId,
    cause: EvictionCause,
) -> Vec<&'a TaskPlacement> {
    let kept = match cause {
        EvictionCause::Shrunk => nominated(plan, id).unwrap_or_default(),
        _ => &[],
    };
    without(victim.placement, kept).unwrap_or_else(|| victim.placement.iter().collect())
}

/// Returns `all` places without `some`; `None` if those are not among them. Tasks with shares of
/// one device are equal, so each is removed once.
fn without<'a>(all: &'a [TaskPlacement], some: &[TaskPlacement]) -> Option<Vec<&'a TaskPlacement>> {
    let mut left: Vec<&TaskPlacement> = all.iter().collect();
    for task in some {
        let at = left.iter().position(|other| *other == task)?;
        left.remove(at);
    }
    Some(left)
}

/// Returns why an attempt may not be shrunk for a candidate of this priority.
pub(super) fn wrong_shrink(
    state: &State,
    plan: &Plan,
    id: AttemptId,
    candidate: i32,
) -> Option<&'static str> {
    let terms = state.policy.tree().preemption;
    if !(terms.priority || terms.reclaim) || Tier::of_order(candidate) != Tier::Normal {
        return Some("no candidate may shrink it");
    }
    let (Some(victim), Some(kept)) = (counted::running(state, id), nominated(plan, id)) else {
        return Some("it has no new places");
    };
    let left = without(victim.placement, kept);
    left.is_none_or(|left| left.is_empty()).then_some("it does not keep a part of its places")
}

/// Returns why an attempt may not be evicted in order to grow.
pub(super) fn wrong_growth(
    state: &State,
    now: Time,
    plan: &Plan,
    id: AttemptId,
    candidate: ElementId,
) -> Option<&'static str> {
    let (Some(victim), Some(gets)) = (counted::running(state, id), nominated(plan, id)) else {
        return Some("it has no new places");
    };
    let spec = &victim.job.record.spec;
    let started = state.jobs.element(id.element).and_then(|element| element.run.as_ref()?.started);
    let ripe = started.zip(spec.grow_after).map_or(Time::NEVER, |(started, after)| started + after);
    match () {
        () if candidate != id.element => Some("the places are for another element"),
        () if gets.len() <= victim.placement.len() => Some("it would not grow"),
        () if spec.checkpoint.is_none() => Some("it does not support checkpoints"),
        () if ripe > now => Some("it has not run for long enough"),
        () => None,
    }
}

/// Returns why an attempt may not be moved for a candidate of this priority.
pub(super) fn wrong_move(
    state: &State,
    plan: &Plan,
    id: AttemptId,
    candidate: i32,
) -> Option<&'static str> {
    if state.policy.tree().defragment.is_none() || Tier::of_order(candidate) != Tier::Normal {
        return Some("no job may be moved for the candidate");
    }
    let (Some(victim), Some(gets)) = (counted::running(state, id), nominated(plan, id)) else {
        return Some("it has no new places");
    };
    let runs = state.jobs.element(id.element).and_then(|element| element.run.as_ref());
    match () {
        () if gets.len() != victim.placement.len() => Some("it would restart with another size"),
        () if victim.job.record.spec.checkpoint.is_none() => {
            Some("it does not support checkpoints")
        }
        () if runs.is_none_or(|run| run.stage != RunStage::Running) => {
            Some("it is not running yet")
        }
        () => None,
    }
}

/// Checks that the moves of a plan are within the budget. A move costs its unsaved work, and what
/// it holds until it has ended.
pub(super) fn check_moves(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    let evictions = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Nominate { evict, .. } => Some(evict),
        Decision::Start { .. } | Decision::Revoke { .. } => None,
    });
    let terms = state.policy.tree().defragment;
    let mut left = terms.map_or(0, |terms| state.move_budget.left(terms, now));
    for eviction in evictions.flatten().filter(|eviction| eviction.cause == EvictionCause::Moved) {
        let Some(victim) = counted::running(state, eviction.id) else { continue };
        let spec = &victim.job.record.spec;
        let unsaved = state.jobs.element(victim.element).and_then(Element::unsaved_since);
        let lead = spec.checkpoint.map_or(Span(0), |terms| terms.lead);
        let lost = unsaved.map_or(Span(0), |since| now.since(since)) + lead + spec.grace;
        let cost = victim.milli().saturating_mul(lost.0);
        if cost > left {
            found.push(Violation::NotEvictable(eviction.id, "the budget for moves is used up"));
        }
        left = left.saturating_sub(cost);
    }
}

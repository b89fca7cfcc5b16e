//! Preemption for an element: which jobs are evicted for it, and why each other holder of usable
//! resources is not. Reads the state after the last pass, which has preempted where it could.

use muster_model::view::{
    Eta, EvictionView, Explanation, Holder, NotPreemptedReason, NotPreemptedView,
};
use muster_model::{AttemptId, Decision, ElementId, Eviction, EvictionCause, Reason, Time};
use muster_policy::{LeafId, ModelId};

use super::holders;
use crate::place::request::model_choices;
use crate::plan::eligibility::preemption_cause;
use crate::plan::{Candidate, Planner};
use crate::pool::ends::HoldingEnd;
use crate::state::State;
use crate::state::job::{Element, PendingAllocation, Run, RunStage};
use crate::state::preemptable::PreemptableAttempt;

/// Maximum number of jobs that are named.
pub(super) const MAX_NAMED: usize = 10;

/// Returns the jobs that are being evicted for an element's pending allocation.
pub(super) fn evictions(state: &State, now: Time, id: ElementId) -> Vec<EvictionView> {
    let element = state.jobs.get(&id.job).and_then(|job| {
        let ordinal = job.record.ordinal_of(id.index)?;
        job.record.elements.get(&ordinal)
    });
    let Some(allocation) = element.and_then(|element| element.pending_allocation.as_deref()) else {
        return Vec::new();
    };
    of_allocation(state, now, allocation)
}

/// Returns the jobs that would be evicted for an element that no pass has seen; `None` if none
/// would.
pub(super) fn would_evict(
    state: &mut State,
    planner: &mut Planner,
    now: Time,
    id: ElementId,
) -> Option<Vec<EvictionView>> {
    let plan = planner.plan(state, now);
    let evict = plan.decisions.iter().find_map(|decision| match decision {
        Decision::Nominate { element, evict, .. } if *element == id => Some(evict),
        _ => None,
    })?;
    let view = |eviction: &Eviction| {
        let ((leaf, _), runner) = state.preemptable.get(&state.jobs, eviction.id.element)?;
        let spec = &state.jobs.get(&eviction.id.element.job)?.record.spec;
        Some(EvictionView {
            element: eviction.id.element,
            name: spec.name.to_string(),
            queue: state.policy.queues().leaf_name(leaf).clone(),
            cause: eviction.cause,
            saves_until: (runner.delay > spec.grace)
                .then(|| now + runner.delay)
                .map(|by| Time(by.0 - spec.grace.0)),
            by: now + runner.delay,
            undelivered: false,
        })
    };
    Some(evict.iter().filter_map(view).collect())
}

/// Returns the explanation of an element for which these jobs would be evicted.
pub(super) fn with_evictions(
    explained: Explanation,
    now: Time,
    mut evictions: Vec<EvictionView>,
) -> Explanation {
    let by = evictions.iter().map(|one| one.by).max().unwrap_or(now);
    let evicting = evictions.len() as u32;
    evictions.truncate(MAX_NAMED);
    Explanation {
        reasons: vec![Reason::Preempting { evicting, by }],
        eta: Some(Eta { start: by, reserved: true, predicted: false }),
        evictions,
        not_preempted: Vec::new(),
        moves: None,
        holders: Vec::new(),
        out_of_service: Vec::new(),
        set_aside: Vec::new(),
        sooner: Vec::new(),
        ..explained
    }
}

fn of_allocation(state: &State, now: Time, allocation: &PendingAllocation) -> Vec<EvictionView> {
    let view = |(id, element): (AttemptId, &Element)| {
        let run = element.run.as_ref()?;
        let eviction = run.eviction?;
        let job = state.jobs.get(&id.element.job)?;
        Some(EvictionView {
            element: id.element,
            name: job.record.spec.name.to_string(),
            queue: state.policy.queues().leaf_name(job.record.leaf).clone(),
            cause: eviction.cause,
            saves_until: saves_until(run),
            by: HoldingEnd::from(run.end).at(now),
            undelivered: run.undelivered() > 0,
        })
    };
    state.jobs.evictions_for(allocation).filter_map(view).take(MAX_NAMED).collect()
}

/// Returns the deadline until which an attempt that is being evicted may save progress; `None` once
/// it is being stopped.
pub(super) fn saves_until(run: &Run) -> Option<Time> {
    let is_stopping = matches!(run.stage, RunStage::Stopping(_));
    run.eviction.filter(|_| !is_stopping).map(|eviction| eviction.due)
}

/// Returns why holders of usable resources are not preempted; empty if the element is not waiting
/// for capacity.
pub(super) fn not_preempted(
    state: &State,
    now: Time,
    candidate: &Candidate,
    reasons: &[Reason],
) -> Vec<NotPreemptedView> {
    let wants_capacity = |reason: &Reason| {
        matches!(reason, Reason::Capacity(_) | Reason::Topology(_) | Reason::Quota { .. })
    };
    if !reasons.iter().any(wants_capacity) {
        return Vec::new();
    }
    let picks = model_choices(&state.pool, &candidate.shape, false);
    let asked = picks.iter().filter_map(|pick| pick.exact.as_deref()).flatten();
    let asked: Vec<(ModelId, u64)> = asked.copied().collect();
    let view = |holder: Holder| {
        let (place, runner) = state.preemptable.get(&state.jobs, holder.element)?;
        let (why, until) = why(state, now, candidate, &asked, place, runner)?;
        Some(NotPreemptedView { element: holder.element, name: holder.name, why, until })
    };
    holders::of(state, now, &candidate.shape).into_iter().filter_map(view).collect()
}

/// Returns why one holder is not preempted, and until when, if that ends at a known time.
fn why(
    state: &State,
    now: Time,
    candidate: &Candidate,
    asked: &[(ModelId, u64)],
    (leaf, priority): (LeafId, i32),
    runner: &PreemptableAttempt,
) -> Option<(NotPreemptedReason, Option<Time>)> {
    match preemption_cause(&state.policy, candidate, asked, (leaf, priority)) {
        Ok(_) if !candidate.shape.preempts => Some((NotPreemptedReason::NeverPreempts, None)),
        Ok(cause) => {
            let until =
                runner.protect.max(state.policy.queues().protection(leaf)).until(runner.held_from);
            if until > now {
                return Some((
                    NotPreemptedReason::Protected,
                    (until < Time::NEVER).then_some(until),
                ));
            }
            let needed = (candidate.shape.milli(), candidate.waits_since);
            let exempt_until = (cause == EvictionCause::Reclaimed)
                .then(|| runner.exempt_until(now, state.policy.tree().reclaim_after, needed));
            Some(match exempt_until.flatten() {
                Some(until) => (NotPreemptedReason::WouldLoseWork, Some(until)),
                None => (NotPreemptedReason::NotSufficient, None),
            })
        }
        // Without a GPU, quotas do not matter.
        Err(NotPreemptedReason::WithinQuota | NotPreemptedReason::WouldExceedQuota)
            if asked.is_empty() =>
        {
            None
        }
        Err(why) => Some((why, None)),
    }
}

//! Who makes room for an element: who leaves for it, and of who holds what it could use, why each
//! stays. Read from the state as the last pass left it, which made room where it could.

use muster_model::view::{Eta, Explanation, Holder, LeavingView, Stays, StaysView};
use muster_model::{AttemptId, Decision, ElementId, Eviction, Reason, Time};
use muster_policy::{LeafId, ModelId};

use super::holders;
use crate::plan::ask::picks;
use crate::plan::rights::right;
use crate::plan::{self, Candidate};
use crate::state::State;
use crate::state::claim::Claim;
use crate::state::ends::End;
use crate::state::job::{Element, Run, RunStage};
use crate::state::runners::Runner;

/// At most this many are named.
pub(super) const MOST: usize = 10;

/// Who was told to go for what an element was promised, and is not gone.
pub(super) fn leaving(state: &State, now: Time, id: ElementId) -> Vec<LeavingView> {
    let element = state.jobs.get(&id.job).and_then(|job| {
        let ordinal = job.record.ordinal_of(id.index)?;
        job.record.elements.get(&ordinal)
    });
    let Some(claim) = element.and_then(|element| element.claim.as_deref()) else {
        return Vec::new();
    };
    of_claim(state, now, claim)
}

/// Who would have to go for an element that no pass has seen; `None` when nobody would.
pub(super) fn would_make(state: &mut State, now: Time, id: ElementId) -> Option<Vec<LeavingView>> {
    let plan = plan::plan(state, now);
    let evict = plan.decisions.iter().find_map(|decision| match decision {
        Decision::Claim { element, evict, .. } if *element == id => Some(evict),
        _ => None,
    })?;
    let view = |eviction: &Eviction| {
        let ((leaf, _), runner) = state.runner(eviction.id.element)?;
        let spec = &state.jobs.get(&eviction.id.element.job)?.record.spec;
        Some(LeavingView {
            element: eviction.id.element,
            name: spec.name.to_string(),
            queue: state.policy.leaf_name(leaf).clone(),
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

/// What is said of an element for which these would have to go.
pub(super) fn promised(
    explained: Explanation,
    now: Time,
    mut leaving: Vec<LeavingView>,
) -> Explanation {
    let by = leaving.iter().map(|one| one.by).max().unwrap_or(now);
    let evicting = leaving.len() as u32;
    leaving.truncate(MOST);
    Explanation {
        reasons: vec![Reason::MakingRoom { evicting, by }],
        eta: Some(Eta { start: by, reserved: true }),
        leaving,
        stays: Vec::new(),
        moves: None,
        holders: Vec::new(),
        out_of_service: Vec::new(),
        set_aside: Vec::new(),
        sooner: Vec::new(),
        ..explained
    }
}

fn of_claim(state: &State, now: Time, claim: &Claim) -> Vec<LeavingView> {
    let view = |(id, element): (AttemptId, &Element)| {
        let run = element.run.as_ref()?;
        let leaving = run.leaving?;
        let job = state.jobs.get(&id.element.job)?;
        Some(LeavingView {
            element: id.element,
            name: job.record.spec.name.to_string(),
            queue: state.policy.leaf_name(job.record.leaf).clone(),
            cause: leaving.cause,
            saves_until: saves_until(run),
            by: End::from(run.end).at(now),
            undelivered: run.undelivered() > 0,
        })
    };
    state.leaving_for(claim).filter_map(view).take(MOST).collect()
}

/// Until when an attempt that was told to go saves its progress at the latest; `None` when it is
/// being stopped.
pub(super) fn saves_until(run: &Run) -> Option<Time> {
    let is_stopping = matches!(run.stage, RunStage::Stopping(_));
    run.leaving.filter(|_| !is_stopping).map(|leaving| leaving.due)
}

/// Why those stay who hold what it could use; empty when it is not for want of room that it waits.
pub(super) fn stays(
    state: &State,
    now: Time,
    candidate: &Candidate,
    reasons: &[Reason],
) -> Vec<StaysView> {
    let wants_room = |reason: &Reason| {
        matches!(reason, Reason::Capacity(_) | Reason::Topology(_) | Reason::Quota { .. })
    };
    if !reasons.iter().any(wants_room) {
        return Vec::new();
    }
    let picks = picks(&state.pool, &candidate.shape, false);
    let asked = picks.iter().filter_map(|pick| pick.exact.as_deref()).flatten();
    let asked: Vec<(ModelId, u64)> = asked.copied().collect();
    let view = |holder: Holder| {
        let (place, runner) = state.runner(holder.element)?;
        let (why, until) = why(state, now, candidate, &asked, place, runner)?;
        Some(StaysView { element: holder.element, name: holder.name, why, until })
    };
    holders::of(state, now, &candidate.shape).into_iter().filter_map(view).collect()
}

/// Why one of them does not have to go, and until when, where that ends at a known time.
fn why(
    state: &State,
    now: Time,
    candidate: &Candidate,
    asked: &[(ModelId, u64)],
    (leaf, priority): (LeafId, i32),
    runner: &Runner,
) -> Option<(Stays, Option<Time>)> {
    match right(&state.policy, candidate, asked, (leaf, priority)) {
        Ok(_) => {
            let until = runner.protect.max(state.policy.protection(leaf)).until(runner.held_from);
            Some(match until > now {
                true => (Stays::Protected, (until < Time::NEVER).then_some(until)),
                false => (Stays::InVain, None),
            })
        }
        // Without a GPU nothing can be said of quotas.
        Err(Stays::WithinQuota | Stays::NotItsOwn) if asked.is_empty() => None,
        Err(why) => Some((why, None)),
    }
}

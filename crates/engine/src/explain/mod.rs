//! Explain: why an element is pending, its latest start, and which changes would start it now.
//! Produces data; `report` turns it into text. Everything is tried on scratch with the planner
//! itself, at the element's place in the order, so that no explanation states what the engine would
//! not do.

mod head_reservation;
mod holders;
mod out_of_service;
mod placed;
mod preemption;
pub(crate) mod reasons;
mod sooner;
mod trial;
mod upcoming;

use std::sync::Arc;

use muster_model::view::{Eta, Explanation, JobState};
use muster_model::{ElementId, Event, JobId, JobSpec, Reason, Time};
use muster_policy::EntryAge;

use crate::plan::advance_reservation::conflicting_elements;
use crate::plan::{Outlook, Planner};
use crate::refusal::EventRefusal;
use crate::state::entries::{EntryOwner, EntryStanding, seq};
use crate::state::view::element_view;
use crate::state::{State, rank_of};
use crate::validate::{validate_one_more, validate_spec};
use reasons::{GapCache, PendingReasons};
use trial::PlanTrial;

/// Explains one element of a job.
pub(crate) fn explain(
    state: &mut State,
    outlook: &Outlook,
    now: Time,
    id: ElementId,
) -> Option<Explanation> {
    state.wake(now);
    let view = element_view(state, now, id)?;
    let job = state.jobs.get(&id.job)?;
    let ordinal = job.record.ordinal_of(id.index)?;
    let mut explanation = blank(id, &job.record.spec, view.state);
    explanation.queue = state.policy.queues().leaf_name(job.record.leaf).clone();
    explanation.placement = placed::of(state, outlook, id);
    explanation.preempted = placed::preempted(state, now, id);
    if !matches!(view.state, JobState::Held | JobState::Pending) {
        return Some(explanation);
    }
    // 1. Its own terms, and its place in the order.
    let owner = EntryOwner {
        job: id.job,
        ordinal: job.record.elements.contains_key(&ordinal).then_some(ordinal),
    };
    let priority = rank_of(job, owner.ordinal).priority;
    let age = EntryAge { seq: seq(owner, 0), submitted: job.record.submitted };
    explanation.position =
        Some(state.policy.position(now, job.record.leaf, job.user, priority, age));
    explanation.reasons = PendingReasons { state, outlook }.own_reasons(now, job, ordinal);
    if let Some(Reason::Preempting { by, .. }) = explanation.reasons.last() {
        explanation.eta = Some(Eta { start: *by, reserved: true, predicted: false });
        explanation.evictions = preemption::evictions(state, now, id);
        return Some(explanation);
    }
    if let [Reason::AdvanceReservationNotActive { begins, .. }] = explanation.reasons[..] {
        explanation.eta = eta_in_reservation(state, now, begins, owner, id);
    }
    let in_reservation = |reason: &Reason| {
        matches!(
            reason,
            Reason::AdvanceReservationNotActive { .. } | Reason::AdvanceReservationOver { .. }
        )
    };
    if explanation.reasons.iter().any(in_reservation) {
        explanation.position = None;
        return Some(explanation);
    }
    if !matches!(state.entries.standing(owner), EntryStanding::Queued(_)) {
        // It is not in the order: other reasons are read from the state.
        let outer = PendingReasons { state, outlook }.outer_reason(
            now,
            id.job,
            job,
            ordinal,
            &mut GapCache::default(),
        );
        explanation.reasons.extend(outer);
        return Some(explanation);
    }
    // 2. At its place in the order.
    explain_in_order(state, outlook, now, owner, &mut explanation);
    Some(explanation)
}

/// Explains an element at its place in the order: the reason why it is pending, its latest start,
/// and changes that would help.
fn explain_in_order(
    state: &mut State,
    outlook: &Outlook,
    now: Time,
    owner: EntryOwner,
    explanation: &mut Explanation,
) {
    let id = explanation.element;
    let mut planner = Planner::default();
    // 1. As it is.
    let mut trial = PlanTrial::at(state, &mut planner, now, (owner, id));
    let finding = trial.finding();
    explanation.eta = trial.eta(&finding);
    explanation.sooner = sooner::within_queue(&mut trial, &finding);
    explanation.holders = trial.holders(&finding);
    explanation.out_of_service = trial.out_of_service(&finding);
    explanation.used_outside = trial.used_outside(&finding);
    explanation.set_aside = trial.set_aside(&finding);
    explanation.moves = trial.moves(&finding, explanation.eta);
    explanation.patience = if explanation.eta.is_none() {
        head_reservation::of(trial.state(), outlook, now, id)
    } else {
        None
    };
    explanation.reasons.extend(finding.quota.iter().chain(&finding.reason).cloned());
    let candidate = trial.end();
    if let Some(candidate) = &candidate {
        explanation.not_preempted =
            preemption::not_preempted(state, now, candidate, &explanation.reasons);
    }
    if finding.reason.is_none() {
        return;
    }
    // 2. As a new submission, behind all others of its priority. If the present request has no
    //    place even in an empty queue, other queues are not tried.
    if candidate.is_none_or(|candidate| trial::has_place(state, now, &candidate)) {
        explanation.sooner.extend(sooner::other_queues(state, id));
    }
    let mut resubmission =
        if explanation.sooner.is_empty() { None } else { sooner::Resubmission::of(state, now, id) };
    explanation
        .sooner
        .retain(|change| resubmission.as_mut().is_some_and(|tried| tried.starts(change)));
}

/// Explains a job that is not submitted, on a copy of the state: the state must not change, not
/// even by interned names.
pub(crate) fn explain_submission(state: &mut State, now: Time, spec: &JobSpec) -> Explanation {
    let last = state.jobs.last().map_or(0, |id| id.0).max(state.dependencies.recent.last().0);
    let id = ElementId {
        job: JobId(last + 1),
        index: spec.array.as_ref().map_or(0, |array| array.head.first),
    };
    let mut explanation = blank(id, spec, JobState::Pending);
    match validate_spec(state, spec).and_then(|()| validate_one_more(state, spec, &[])) {
        Err(EventRefusal::NeverStarts(reason) | EventRefusal::TooManyPending(reason)) => {
            explanation.reasons.push(reason);
            explanation
        }
        Err(_) => explanation,
        Ok(()) => {
            let mut copy = state.clone();
            let mut planner = Planner::default();
            copy.apply(now, &Event::Submitted { job: id.job, spec: Arc::new(spec.clone()) });
            let evictions = preemption::would_evict(&mut copy, &mut planner, now, id);
            let explained = explain(&mut copy, planner.outlook(), now, id).unwrap_or(explanation);
            match evictions {
                Some(evictions) => preemption::with_evictions(explained, now, evictions),
                None => explained,
            }
        }
    }
}

/// Returns the latest start of an element whose reservation begins later, on a copy of the state at
/// that time: holdings whose limit is over have ended, and jobs that the reservation stops are
/// gone.
fn eta_in_reservation(
    state: &State,
    now: Time,
    begins: Time,
    owner: EntryOwner,
    id: ElementId,
) -> Option<Eta> {
    let mut copy = state.clone();
    let reservation =
        state.jobs.get(&id.job)?.record.spec.constraint.advance_reservation.as_ref()?;
    let stops =
        state.advance_reservations.get(reservation).filter(|placed| placed.reservation.stop);
    let stopped =
        stops.map(|placed| conflicting_elements(state, placed, begins, now)).unwrap_or_default();
    let ended = copy.pool.ended_by(now, begins, &stopped);
    copy.wake(begins);
    for key in ended {
        let element = copy.pool.holding(key).element;
        if let Some(ordinal) = copy.jobs.ordinal_of(element) {
            copy.preemptable.remove(&copy.jobs, element.job, ordinal);
        }
        copy.pool.release(key);
    }
    let mut planner = Planner::default();
    let mut trial = PlanTrial::at(&mut copy, &mut planner, begins, (owner, id));
    let finding = trial.finding();
    let eta = trial.eta(&finding);
    trial.end();
    eta.map(|eta| Eta { reserved: false, ..eta })
}

fn blank(id: ElementId, spec: &JobSpec, state: JobState) -> Explanation {
    Explanation::blank(id, spec.name.to_string(), state, spec.queue.clone())
}

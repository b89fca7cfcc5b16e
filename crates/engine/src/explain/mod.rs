//! Explain: why an element waits, when it starts at the latest, and what would start it now. Data
//! first; text is made in `report`. Everything is tried on scratch with the planner itself, at the
//! element's own place in the order, so that no explanation promises what the engine would not do.

mod ahead;
mod beside;
pub(crate) mod domains;
pub(crate) mod gap;
mod holders;
mod kept;
mod placed;
pub(crate) mod reasons;
mod room;
mod service;
mod sooner;
mod trial;

use std::sync::Arc;

use muster_model::view::{Eta, Explanation, State as Word};
use muster_model::{ElementId, Event, JobId, JobSpec, Reason, Time};

use crate::plan::window::strangers;
use crate::refusal::Refusal;
use crate::state::entries::{Owner, Standing, seq};
use crate::state::{State, rank_of};
use trial::Trial;

/// Explains one element.
pub(crate) fn explain(state: &mut State, now: Time, id: ElementId) -> Option<Explanation> {
    state.wake(now);
    let view = state.element_view(now, id)?;
    let job = state.jobs.get(&id.job)?;
    let ordinal = job.record.ordinal_of(id.index)?;
    let mut explanation = blank(id, &job.record.spec, view.state);
    explanation.queue = state.policy.leaf_name(job.record.leaf).clone();
    explanation.placement = placed::of(state, id);
    explanation.preempted = placed::preempted(state, now, id);
    if !matches!(view.state, Word::Held | Word::Pending) {
        return Some(explanation);
    }
    // 1. Its own terms, and its place in the order.
    let owner = Owner {
        job: id.job,
        ordinal: job.record.elements.contains_key(&ordinal).then_some(ordinal),
    };
    let priority = rank_of(job, owner.ordinal).priority;
    let position = state.policy.position(now, job.record.leaf, job.user, priority, seq(owner, 0));
    explanation.position = Some(position);
    explanation.reasons = state.own_reasons(now, job, ordinal);
    if let Some(Reason::MakingRoom { by, .. }) = explanation.reasons.last() {
        explanation.eta = Some(Eta { start: *by, reserved: true });
        explanation.leaving = room::leaving(state, now, id);
        return Some(explanation);
    }
    if let [Reason::WindowNotOpen { begins, .. }] = explanation.reasons[..] {
        explanation.eta = eta_inside(state, now, begins, owner, id);
    }
    let in_window = |reason: &Reason| {
        matches!(reason, Reason::WindowNotOpen { .. } | Reason::WindowOver { .. })
    };
    if explanation.reasons.iter().any(in_window) {
        explanation.position = None;
        return Some(explanation);
    }
    if !matches!(state.entries.standing(owner), Standing::Queued(_)) {
        // Not in the order: what would stand against it besides is read from the state.
        let outer = state.outer_reason(now, id.job, job, ordinal, &mut reasons::Gaps::default());
        explanation.reasons.extend(outer);
        return Some(explanation);
    }
    // 2. At its place in the order: what stands against it, when that ends, what would help.
    let mut trial = Trial::at(state, now, owner, id);
    let finding = trial.finding();
    explanation.eta = trial.eta(&finding);
    explanation.sooner = sooner::within_queue(&mut trial, &finding);
    explanation.holders = trial.holders(&finding);
    explanation.out_of_service = trial.out_of_service(&finding);
    explanation.set_aside = trial.set_aside(&finding);
    explanation.moves = trial.moves(&finding, explanation.eta);
    explanation.patience =
        if explanation.eta.is_none() { kept::of(trial.state(), now, id) } else { None };
    explanation.reasons.extend(finding.quota.iter().chain(&finding.reason).cloned());
    let candidate = trial.end();
    if let Some(candidate) = &candidate {
        explanation.stays = room::stays(state, now, candidate, &explanation.reasons);
    }
    // 3. As a new submission, which is behind all others of its priority. Where there is no place
    //    for it as it is, whatever its queue, no other queue is tried.
    if finding.reason.is_some() {
        if candidate.is_none_or(|candidate| trial::has_place(state, now, &candidate)) {
            explanation.sooner.extend(sooner::other_queues(state, id));
        }
        let mut anew =
            if explanation.sooner.is_empty() { None } else { sooner::Anew::of(state, now, id) };
        explanation.sooner.retain(|change| anew.as_mut().is_some_and(|anew| anew.starts(change)));
    }
    Some(explanation)
}

/// Explains a job that is not submitted, on a copy of the state: nothing of it may stay, not even
/// its names.
pub(crate) fn explain_submission(state: &mut State, now: Time, spec: &JobSpec) -> Explanation {
    let last = state.jobs.last().map_or(0, |id| id.0).max(state.recent.last().0);
    let id = ElementId {
        job: JobId(last + 1),
        index: spec.array.as_ref().map_or(0, |array| array.head.first),
    };
    let mut explanation = blank(id, spec, Word::Pending);
    match state.judge_spec(spec).and_then(|()| state.judge_one_more(spec, &[])) {
        Err(Refusal::Never(reason) | Refusal::TooMany(reason)) => {
            explanation.reasons.push(reason);
            explanation
        }
        Err(_) => explanation,
        Ok(()) => {
            let mut copy = state.clone();
            copy.apply(now, &Event::Submitted { job: id.job, spec: Arc::new(spec.clone()) });
            let made = room::would_make(&mut copy, now, id);
            let explained = explain(&mut copy, now, id).unwrap_or(explanation);
            match made {
                Some(leaving) => room::promised(explained, now, leaving),
                None => explained,
            }
        }
    }
}

/// When an element starts at the latest whose window begins later. On a copy that has come so far:
/// what ends by then has ended, and what the window stops is gone.
fn eta_inside(state: &State, now: Time, begins: Time, owner: Owner, id: ElementId) -> Option<Eta> {
    let mut copy = state.clone();
    let window = state.jobs.get(&id.job)?.record.spec.constraint.window.as_ref()?;
    let stops = state.windows.get(window).filter(|placed| placed.window.stop);
    let stopped = stops.map(|placed| strangers(state, placed, begins, now)).unwrap_or_default();
    for key in copy.pool.ended_by(now, begins, &stopped) {
        copy.pool.release(key);
    }
    copy.wake(begins);
    let mut trial = Trial::at(&mut copy, begins, owner, id);
    let finding = trial.finding();
    let eta = trial.eta(&finding);
    trial.end();
    eta.map(|eta| Eta { reserved: false, ..eta })
}

fn blank(id: ElementId, spec: &JobSpec, state: Word) -> Explanation {
    Explanation::blank(id, spec.name.to_string(), state, spec.queue.clone())
}

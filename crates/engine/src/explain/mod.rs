//! Explain: why an element waits, when it starts at the latest, and what would start it now. Data first; text is made
//! in `report`. Everything is tried on scratch with the planner itself, so that no explanation promises what the
//! engine would not do.

pub(crate) mod gap;
pub(crate) mod reasons;

use muster_model::view::{Eta, Explanation, State as Word};
use muster_model::{ElementId, JobId, JobSpec, Reason, Time};

use crate::refusal::Refusal;
use crate::state::State;
use crate::state::entries::{Owner, seq};

/// Explains one element.
pub(crate) fn explain(state: &mut State, now: Time, id: ElementId) -> Option<Explanation> {
    let view = state.element_view(now, id)?;
    let job = state.jobs.get(&id.job)?;
    let ordinal = job.record.ordinal_of(id.index)?;
    let mut explanation = Explanation {
        element: id,
        name: job.record.spec.name.to_string(),
        state: view.state,
        reasons: Vec::new(),
        position: None,
        queue: state.policy.leaf_name(job.record.leaf).clone(),
        holders: Vec::new(),
        eta: None,
        sooner: Vec::new(),
    };
    if !matches!(view.state, Word::Held | Word::Pending) {
        return Some(explanation);
    }
    explanation.reasons = state.own_reasons(now, id.job, job, ordinal);
    explanation.reasons.extend(state.outer_reason(id.job, job, ordinal, &mut reasons::Gaps::default()));
    let owner = Owner { job: id.job, ordinal: job.record.elements.contains_key(&ordinal).then_some(ordinal) };
    let priority = job.record.spec.priority;
    explanation.position =
        Some(state.policy.position(now, job.record.leaf, job.user, priority, seq(owner, 0)));
    let reserved = state.reservations.iter().find(|one| one.element == id);
    explanation.eta = reserved.map(|one| Eta { start: one.start, reserved: true });
    Some(explanation)
}

/// Explains a job that is not submitted.
pub(crate) fn explain_submission(state: &mut State, now: Time, spec: &JobSpec) -> Explanation {
    let refused: Option<Reason> = match state.judge_spec(spec) {
        Err(Refusal::Never(reason)) => Some(reason),
        Err(_) | Ok(()) => None,
    };
    let _ = now;
    Explanation {
        element: ElementId::single(JobId(0)),
        name: spec.name.to_string(),
        state: Word::Pending,
        reasons: refused.into_iter().collect(),
        position: None,
        queue: spec.queue.clone(),
        holders: Vec::new(),
        eta: None,
        sooner: Vec::new(),
    }
}

//! Who counts in quota, limits and budgets: what holds its resources and was not told to go, and
//! what was promised places. Read from the records of jobs, not from the policy's counters.

use std::sync::Arc;

use muster_model::{AttemptId, Decision, ElementId, GpuModel, NodeId, Plan, TaskPlacement, Time};
use muster_policy::ModelId;
use rustc_hash::FxHashSet;

use crate::state::State;
use crate::state::attempt::attempt_id;
use crate::state::job::{Job, Phase};
use crate::state::pool::{HoldKey, Holding};

/// Something that counts.
pub(super) struct Counted<'a> {
    pub(super) element: ElementId,
    pub(super) job: &'a Job,
    pub(super) placement: &'a Arc<[TaskPlacement]>,
    /// Thousandths of GPUs by model, as counted when it came.
    pub(super) gpus: &'a [(ModelId, u64)],
    pub(super) from: Time,
}

impl Counted<'_> {
    /// Thousandths of GPUs over all models.
    pub(super) fn milli(&self) -> u64 {
        self.placement
            .iter()
            .map(|task| u64::from(task.devices.len()) * u64::from(task.share.0))
            .sum()
    }
}

/// Everything that counts before a plan.
pub(super) fn before(state: &State) -> impl Iterator<Item = Counted<'_>> {
    state.pool.holdings().filter_map(|holding| held(state, holding)).chain(all_promised(state))
}

/// Of that, what has something on these nodes, and maybe more.
pub(super) fn on<'a>(
    state: &'a State,
    nodes: &FxHashSet<NodeId>,
) -> impl Iterator<Item = Counted<'a>> {
    let holds = nodes.iter().flat_map(|node| &state.pool.node(*node).holds);
    let keys: FxHashSet<HoldKey> = holds.map(|hold| hold.key).collect();
    let holdings = keys.into_iter().filter_map(|key| held(state, state.pool.holding(key)));
    holdings.chain(all_promised(state))
}

/// What was told to go and has not gone.
pub(super) fn leaving(state: &State) -> impl Iterator<Item = Counted<'_>> {
    state.pool.holdings().filter_map(|holding| of_holding(state, holding, true))
}

fn held<'a>(state: &'a State, holding: &Holding) -> Option<Counted<'a>> {
    of_holding(state, holding, false)
}

/// What holds something, if it was told to go, or was not.
fn of_holding<'a>(state: &'a State, holding: &Holding, goes: bool) -> Option<Counted<'a>> {
    let element = holding.element;
    let job = state.jobs.get(&element.job)?;
    let run = state.element(element)?.run.as_ref()?;
    let is_it = run.leaving.is_some() == goes;
    is_it.then_some(Counted {
        element,
        job,
        placement: &run.placement,
        gpus: &run.gpus,
        from: run.held_from,
    })
}

pub(super) fn all_promised(state: &State) -> impl Iterator<Item = Counted<'_>> {
    state.claims.of.iter().filter_map(|(id, ordinal)| {
        let job = state.jobs.get(id)?;
        let claim = job.record.elements.get(ordinal)?.claim.as_ref()?;
        let element = ElementId { job: *id, index: job.record.index_of(*ordinal) };
        Some(Counted {
            element,
            job,
            placement: &claim.placement,
            gpus: &claim.gpus,
            from: claim.since,
        })
    })
}

/// Of that, what a plan makes go or gives up.
pub(super) fn going<'a>(state: &'a State, plan: &Plan) -> Vec<Counted<'a>> {
    let mut going = Vec::new();
    for decision in &plan.decisions {
        match decision {
            Decision::Start { .. } => {}
            Decision::Claim { evict, .. } => {
                going.extend(evict.iter().filter_map(|eviction| running(state, eviction.id)));
            }
            Decision::Unclaim { element } => going.extend(promised(state, *element)),
        }
    }
    going
}

/// What counts after a plan, without what it starts or promises.
pub(super) fn staying<'a>(state: &'a State, plan: &Plan) -> impl Iterator<Item = Counted<'a>> {
    let gone: FxHashSet<ElementId> = going(state, plan).iter().map(|one| one.element).collect();
    before(state).filter(move |one| !gone.contains(&one.element))
}

/// An attempt that holds its resources and was not told to go.
pub(super) fn running(state: &State, id: AttemptId) -> Option<Counted<'_>> {
    let job = state.jobs.get(&id.element.job)?;
    let element = state.element(id.element)?;
    let run = element
        .run
        .as_ref()
        .filter(|run| element.phase == Phase::Active && run.leaving.is_none())?;
    let is_current = attempt_id(id.element.job, id.element.index, element.attempt) == id;
    is_current.then_some(Counted {
        element: id.element,
        job,
        placement: &run.placement,
        gpus: &run.gpus,
        from: run.held_from,
    })
}

/// What an element was promised.
pub(super) fn promised(state: &State, id: ElementId) -> Option<Counted<'_>> {
    let job = state.jobs.get(&id.job)?;
    let claim = state.element(id)?.claim.as_ref()?;
    Some(Counted {
        element: id,
        job,
        placement: &claim.placement,
        gpus: &claim.gpus,
        from: claim.since,
    })
}

/// Of that, what a plan does not give up: what it starts otherwise is a start like any other.
pub(super) fn kept<'a>(state: &'a State, plan: &Plan, id: ElementId) -> Option<Counted<'a>> {
    let is_given_up = |decision: &Decision| *decision == Decision::Unclaim { element: id };
    promised(state, id).filter(|_| !plan.decisions.iter().any(is_given_up))
}

/// Model of a task's devices.
pub(super) fn model_of<'s>(state: &'s State, task: &TaskPlacement) -> Option<&'s GpuModel> {
    let device = task.devices.iter().next()?;
    state.pool.get(task.node)?.spec.devices.get(device).map(|device| &device.model)
}

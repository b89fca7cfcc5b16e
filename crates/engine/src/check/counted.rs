//! Allocations that count in quota, limits and budgets: holdings that are not being evicted, and
//! pending allocations. Read from the records of jobs, not from the policy's counters.

use std::sync::Arc;

use muster_model::{AttemptId, Decision, ElementId, GpuModel, NodeId, Plan, TaskPlacement, Time};
use muster_policy::ModelId;
use rustc_hash::FxHashSet;

use crate::pool::{HoldKey, Holding};
use crate::state::State;
use crate::state::attempt::attempt_id;
use crate::state::job::{Job, Phase};

/// Allocation that counts in quota, limits and budgets.
pub(super) struct CountedAllocation<'a> {
    pub(super) element: ElementId,
    pub(super) job: &'a Job,
    pub(super) placement: &'a Arc<[TaskPlacement]>,
    /// Thousandths of GPUs by model, as counted at its start.
    pub(super) gpus: &'a [(ModelId, u64)],
    pub(super) from: Time,
}

impl CountedAllocation<'_> {
    /// Returns the thousandths of GPUs, of all models.
    pub(super) fn milli(&self) -> u64 {
        self.placement
            .iter()
            .map(|task| u64::from(task.devices.len()) * u64::from(task.share.0))
            .sum()
    }
}

/// Returns all allocations that count before a plan.
pub(super) fn before(state: &State) -> impl Iterator<Item = CountedAllocation<'_>> {
    state.pool.holdings().filter_map(|holding| held(state, holding)).chain(all_pending(state))
}

/// Returns the allocations that count on these nodes, and possibly some on other nodes.
pub(super) fn on<'a>(
    state: &'a State,
    nodes: &FxHashSet<NodeId>,
) -> impl Iterator<Item = CountedAllocation<'a>> {
    let holds = nodes.iter().flat_map(|node| &state.pool.node(*node).holds);
    let keys: FxHashSet<HoldKey> = holds.map(|hold| hold.key).collect();
    let holdings = keys.into_iter().filter_map(|key| held(state, state.pool.holding(key)));
    holdings.chain(all_pending(state))
}

/// Returns the holdings that are being evicted.
pub(super) fn being_evicted(state: &State) -> impl Iterator<Item = CountedAllocation<'_>> {
    state.pool.holdings().filter_map(|holding| of_holding(state, holding, true))
}

fn held<'a>(state: &'a State, holding: &Holding) -> Option<CountedAllocation<'a>> {
    of_holding(state, holding, false)
}

/// Returns the allocation of a holding; `None` unless it is being evicted (`is_evicted`) or not.
fn of_holding<'a>(
    state: &'a State,
    holding: &Holding,
    is_evicted: bool,
) -> Option<CountedAllocation<'a>> {
    let element = holding.element;
    let job = state.jobs.get(&element.job)?;
    let run = state.jobs.element(element)?.run.as_ref()?;
    let is_it = run.eviction.is_some() == is_evicted;
    is_it.then_some(CountedAllocation {
        element,
        job,
        placement: &run.placement,
        gpus: &run.gpus,
        from: run.held_from,
    })
}

pub(super) fn all_pending(state: &State) -> impl Iterator<Item = CountedAllocation<'_>> {
    state.pending_allocations.elements.iter().filter_map(|(id, ordinal)| {
        let job = state.jobs.get(id)?;
        let allocation = job.record.elements.get(ordinal)?.pending_allocation.as_ref()?;
        let element = ElementId { job: *id, index: job.record.index_of(*ordinal) };
        Some(CountedAllocation {
            element,
            job,
            placement: &allocation.placement,
            gpus: &allocation.gpus,
            from: allocation.since,
        })
    })
}

/// Returns the allocations that a plan evicts or gives up.
pub(super) fn removed<'a>(state: &'a State, plan: &Plan) -> Vec<CountedAllocation<'a>> {
    let mut removed = Vec::new();
    for decision in &plan.decisions {
        match decision {
            Decision::Start { .. } => {}
            Decision::Nominate { evict, .. } => {
                removed.extend(evict.iter().filter_map(|eviction| running(state, eviction.id)));
            }
            Decision::Revoke { element } => removed.extend(pending(state, *element)),
        }
    }
    removed
}

/// Returns the allocations that count after a plan, without those that it starts or nominates.
pub(super) fn remaining<'a>(
    state: &'a State,
    plan: &Plan,
) -> impl Iterator<Item = CountedAllocation<'a>> {
    let gone: FxHashSet<ElementId> = removed(state, plan).iter().map(|one| one.element).collect();
    before(state).filter(move |one| !gone.contains(&one.element))
}

/// Returns the holding of an attempt that is not being evicted.
pub(super) fn running(state: &State, id: AttemptId) -> Option<CountedAllocation<'_>> {
    let job = state.jobs.get(&id.element.job)?;
    let element = state.jobs.element(id.element)?;
    let run = element
        .run
        .as_ref()
        .filter(|run| element.phase == Phase::Active && run.eviction.is_none())?;
    let is_current = attempt_id(id.element.job, id.element.index, element.attempt) == id;
    is_current.then_some(CountedAllocation {
        element: id.element,
        job,
        placement: &run.placement,
        gpus: &run.gpus,
        from: run.held_from,
    })
}

/// Returns the pending allocation of an element.
pub(super) fn pending(state: &State, id: ElementId) -> Option<CountedAllocation<'_>> {
    let job = state.jobs.get(&id.job)?;
    let allocation = state.jobs.element(id)?.pending_allocation.as_ref()?;
    Some(CountedAllocation {
        element: id,
        job,
        placement: &allocation.placement,
        gpus: &allocation.gpus,
        from: allocation.since,
    })
}

/// Returns the pending allocation of an element unless the plan gives it up; without one, its start
/// is an ordinary start.
pub(super) fn pending_unless_revoked<'a>(
    state: &'a State,
    plan: &Plan,
    id: ElementId,
) -> Option<CountedAllocation<'a>> {
    let is_given_up = |decision: &Decision| *decision == Decision::Revoke { element: id };
    pending(state, id).filter(|_| !plan.decisions.iter().any(is_given_up))
}

/// Returns the GPU model of a task's devices.
pub(super) fn model_of<'s>(state: &'s State, task: &TaskPlacement) -> Option<&'s GpuModel> {
    let device = task.devices.iter().next()?;
    state.pool.get(task.node)?.spec.devices.get(device).map(|device| &device.model)
}

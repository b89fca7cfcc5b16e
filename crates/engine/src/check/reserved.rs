//! Checks reservations: on every node with a reservation, whenever one begins there, the holdings
//! that remain, the starts of the plan and the reservations must fit together.

use muster_model::{Decision, ElementId, NodeId, Plan, Span, TaskPlacement, Time};
use smallvec::SmallVec;

use super::Violation;
use super::counted::{self, CountedAllocation};
use super::gang::needs_of;
use super::ledger::NodeSum;
use super::resized::Relocations;
use crate::pool::{HoldKey, Holding};
use crate::state::State;
use crate::state::job::{Job, RunStage};

/// Occupation of a node by one task over a period.
struct Occupation<'a> {
    element: ElementId,
    start: Time,
    end: Time,
    job: &'a Job,
    task: &'a TaskPlacement,
    is_reservation: bool,
}

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    if plan.reservations.is_empty() {
        return;
    }
    let mut occupations = occupations(state, now, plan);
    occupations.sort_by_key(|occupation| occupation.task.node);
    for occupations in occupations.chunk_by(|one, next| one.task.node == next.task.node) {
        check_node(state, occupations, found);
    }
}

/// Checks one node, at every instant at which a reservation begins there.
fn check_node(state: &State, occupations: &[Occupation<'_>], found: &mut Vec<Violation>) {
    let node = occupations[0].task.node;
    let reserved = occupations.iter().filter(|occupation| occupation.is_reservation);
    let mut starts: SmallVec<[Time; 4]> = reserved.map(|occupation| occupation.start).collect();
    starts.sort_unstable();
    starts.dedup();
    let broken = starts.into_iter().find(|at| {
        let mut sum = NodeSum::default();
        let mut reserved = NodeSum::default();
        for occupation in
            occupations.iter().filter(|occupation| occupation.start <= *at && *at < occupation.end)
        {
            if let Some(needs) = needs_of(occupation.job, occupation.task) {
                sum.add(occupation.task, needs);
                if occupation.is_reservation {
                    reserved.add(occupation.task, needs);
                }
            }
        }
        !sum.excess(&reserved, node, &state.pool, false).is_empty()
    });
    let holder = |at| {
        occupations.iter().find(|occupation| occupation.is_reservation && occupation.start == at)
    };
    if let Some(occupation) = broken.and_then(holder) {
        found.push(Violation::Reservation { element: occupation.element, node });
    }
}

/// Returns everything that occupies nodes with a reservation, now or later.
fn occupations<'a>(state: &'a State, now: Time, plan: &'a Plan) -> Vec<Occupation<'a>> {
    // 1. Reservations: they determine the nodes to look at.
    let mut occupations = Vec::with_capacity(16);
    for one in &plan.reservations {
        let Some(job) = state.jobs.get(&one.element.job) else { continue };
        let element = one.element;
        let start = one.start;
        let end = one.end;
        let of_task = |task| Occupation { element, start, end, job, task, is_reservation: true };
        occupations.extend(one.placement.iter().map(of_task));
    }
    let mut nodes: SmallVec<[NodeId; 8]> =
        occupations.iter().map(|occupation| occupation.task.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut push = |job: &'a Job, element, (start, end), placement: &'a [TaskPlacement]| {
        for task in placement.iter().filter(|task| nodes.binary_search(&task.node).is_ok()) {
            occupations.push(Occupation { element, start, end, job, task, is_reservation: false });
        }
    };
    // 2. Holdings that last until a reservation begins. An element that is being relocated holds
    //    nothing beside its new places.
    let first = plan.reservations.iter().map(|one| one.start).min().unwrap_or(Time::NEVER);
    let mut keys: SmallVec<[HoldKey; 16]> = SmallVec::new();
    for hold in nodes.iter().flat_map(|node| &state.pool.node(*node).holds) {
        if state.pool.holding(hold.key).end.at(now) > first {
            keys.push(hold.key);
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let relocations = Relocations::of(plan);
    let is_kept = |holding: &&Holding| !relocations.has(state, holding.element);
    for holding in keys.into_iter().map(|key| state.pool.holding(key)).filter(is_kept) {
        let Some(job) = state.jobs.get(&holding.element.job) else { continue };
        push(job, holding.element, (now, end_of(state, now, plan, holding)), &holding.placement);
    }
    // 3. Pending allocations: they may start at any moment.
    let pending = state.pending_allocations.elements.iter().filter_map(|(id, ordinal)| {
        let record = &state.jobs.get(id)?.record;
        counted::pending(state, ElementId { job: *id, index: record.index_of(*ordinal) })
    });
    let remains = |one: &CountedAllocation<'_>| {
        !plan.starts().any(|(id, ..)| id.element == one.element)
            && !plan.decisions.contains(&Decision::Revoke { element: one.element })
    };
    for one in pending.filter(remains) {
        let planned = state.planned_duration(now, &one.job.record);
        let end = planned.map_or(Time::NEVER, |span| now + span);
        push(one.job, one.element, (now, end), one.placement);
    }
    // 4. Starts and new pending allocations of the plan.
    let starts = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Start { id, placement, .. } => Some((id.element, placement)),
        Decision::Nominate { element, placement, .. } => Some((*element, placement)),
        Decision::Revoke { .. } => None,
    });
    for (element, placement) in starts {
        let Some(job) = state.jobs.get(&element.job) else { continue };
        let planned = state.planned_duration(now, &job.record);
        let end = planned.map_or(Time::NEVER, |span| now + span);
        push(job, element, (now, end), placement);
    }
    occupations
}

/// Returns the latest end of a holding; an attempt that the plan evicts gets the time to save its
/// progress, and its grace.
fn end_of(state: &State, now: Time, plan: &Plan, holding: &Holding) -> Time {
    let end = holding.end.at(now);
    let evictions = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Nominate { evict, .. } => Some(evict),
        Decision::Start { .. } | Decision::Revoke { .. } => None,
    });
    let is_evicted = evictions.flatten().any(|eviction| eviction.id.element == holding.element);
    if !is_evicted {
        return end;
    }
    let Some(job) = state.jobs.get(&holding.element.job) else { return end };
    let spec = &job.record.spec;
    let run = state.jobs.element(holding.element).and_then(|element| element.run.as_ref());
    let saves = run.is_some_and(|run| run.stage == RunStage::Running);
    let lead = spec.checkpoint.filter(|_| saves).map_or(Span(0), |terms| terms.lead);
    end.min((now + lead + spec.grace).max(now + Span(1)))
}

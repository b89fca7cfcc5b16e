//! Are reservations kept? On every node with a reservation, and at every instant at which one
//! begins there, what is held by then, what the plan starts and what is reserved must fit together.

use muster_model::{Decision, ElementId, NodeId, Plan, Span, TaskPlacement, Time};
use smallvec::SmallVec;

use super::Violation;
use super::counted::{self, Counted};
use super::ledger::Sum;
use super::plan::needs_of;
use super::resized::GoingOn;
use crate::state::State;
use crate::state::job::{Job, RunStage};
use crate::state::pool::{HoldKey, Holding};

/// Something on a node over a stretch of time.
struct Stay<'a> {
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
    let mut stays = stays(state, now, plan);
    stays.sort_by_key(|stay| stay.task.node);
    for stays in stays.chunk_by(|one, next| one.task.node == next.task.node) {
        check_node(state, stays, found);
    }
}

/// On one node, at every instant at which a reservation begins there.
fn check_node(state: &State, stays: &[Stay<'_>], found: &mut Vec<Violation>) {
    let node = stays[0].task.node;
    let reserved = stays.iter().filter(|stay| stay.is_reservation);
    let mut starts: SmallVec<[Time; 4]> = reserved.map(|stay| stay.start).collect();
    starts.sort_unstable();
    starts.dedup();
    let broken = starts.into_iter().find(|at| {
        let (mut sum, mut reserved) = (Sum::default(), Sum::default());
        for stay in stays.iter().filter(|stay| stay.start <= *at && *at < stay.end) {
            if let Some(needs) = needs_of(stay.job, stay.task) {
                sum.add(stay.task, needs);
                if stay.is_reservation {
                    reserved.add(stay.task, needs);
                }
            }
        }
        !sum.excess(&reserved, node, &state.pool, false).is_empty()
    });
    let whose = |at| stays.iter().find(|stay| stay.is_reservation && stay.start == at);
    if let Some(stay) = broken.and_then(whose) {
        found.push(Violation::Reservation { element: stay.element, node });
    }
}

/// Everything that is or will be on the nodes that have a reservation.
fn stays<'a>(state: &'a State, now: Time, plan: &'a Plan) -> Vec<Stay<'a>> {
    // 1. What is reserved: this says which nodes matter.
    let mut stays = Vec::with_capacity(16);
    for one in &plan.reservations {
        let Some(job) = state.jobs.get(&one.element.job) else { continue };
        let (element, start, end) = (one.element, one.start, one.end);
        let of_task = |task| Stay { element, start, end, job, task, is_reservation: true };
        stays.extend(one.placement.iter().map(of_task));
    }
    let mut nodes: SmallVec<[NodeId; 8]> = stays.iter().map(|stay| stay.task.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut push = |job: &'a Job, element, (start, end), placement: &'a [TaskPlacement]| {
        for task in placement.iter().filter(|task| nodes.binary_search(&task.node).is_ok()) {
            stays.push(Stay { element, start, end, job, task, is_reservation: false });
        }
    };
    // 2. What is held there until anything reserved begins; who goes on with another size holds
    //    nothing beside that.
    let first = plan.reservations.iter().map(|one| one.start).min().unwrap_or(Time::NEVER);
    let mut keys: SmallVec<[HoldKey; 16]> = SmallVec::new();
    for hold in nodes.iter().flat_map(|node| &state.pool.node(*node).holds) {
        if state.pool.holding(hold.key).end.at(now) > first {
            keys.push(hold.key);
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let going_on = GoingOn::of(plan);
    let stay = |holding: &&Holding| !going_on.has(state, holding.element);
    for holding in keys.into_iter().map(|key| state.pool.holding(key)).filter(stay) {
        let Some(job) = state.jobs.get(&holding.element.job) else { continue };
        push(job, holding.element, (now, end_of(state, now, plan, holding)), &holding.placement);
    }
    // 3. What was promised there: it may begin at any moment.
    let promised = state.claims.of.iter().filter_map(|(id, ordinal)| {
        let record = &state.jobs.get(id)?.record;
        counted::promised(state, ElementId { job: *id, index: record.index_of(*ordinal) })
    });
    let is_open = |one: &Counted<'_>| {
        !plan.starts().any(|(id, ..)| id.element == one.element)
            && !plan.decisions.contains(&Decision::Unclaim { element: one.element })
    };
    for one in promised.filter(is_open) {
        let end = one.job.record.duration().map_or(Time::NEVER, |span| now + span);
        push(one.job, one.element, (now, end), one.placement);
    }
    // 4. What the plan starts or promises there.
    let comes = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Start { id, placement, .. } => Some((id.element, placement)),
        Decision::Claim { element, placement, .. } => Some((*element, placement)),
        Decision::Unclaim { .. } => None,
    });
    for (element, placement) in comes {
        let Some(job) = state.jobs.get(&element.job) else { continue };
        let spec = &job.record.spec;
        let end = spec.time_limit.map_or(Time::NEVER, |limit| now + limit + spec.grace);
        push(job, element, (now, end), placement);
    }
    stays
}

/// When a holding ends at the latest: who is told to go has the time to save his progress, and his
/// grace.
fn end_of(state: &State, now: Time, plan: &Plan, holding: &Holding) -> Time {
    let end = holding.end.at(now);
    let evictions = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Claim { evict, .. } => Some(evict),
        Decision::Start { .. } | Decision::Unclaim { .. } => None,
    });
    let goes = evictions.flatten().any(|eviction| eviction.id.element == holding.element);
    if !goes {
        return end;
    }
    let Some(job) = state.jobs.get(&holding.element.job) else { return end };
    let spec = &job.record.spec;
    let run = state.element(holding.element).and_then(|element| element.run.as_ref());
    let saves = run.is_some_and(|run| run.stage == RunStage::Running);
    let lead = spec.checkpoint.filter(|_| saves).map_or(Span(0), |terms| terms.lead);
    end.min((now + lead + spec.grace).max(now + Span(1)))
}

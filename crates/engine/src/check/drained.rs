//! Does nothing start that is not gone when a drain begins? Judged from what was asked for, instant by instant; what the
//! planner made of it is not looked at.

use muster_model::{Decision, Drain, ElementId, Plan, TaskPlacement, Time};

use super::Violation;
use crate::state::State;

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    for Decision::Start { id, placement, .. } in &plan.decisions {
        let Some(job) = state.jobs.get(&id.element.job) else { continue };
        let spec = &job.record.spec;
        let end = spec.time_limit.map_or(Time::NEVER, |limit| now + limit + spec.grace);
        check_stay(state, id.element, (now, end), placement, found);
    }
    for one in &plan.reservations {
        check_stay(state, one.element, (one.start, one.end), &one.placement, found);
    }
}

/// Something is to be on its nodes from an instant to another.
fn check_stay(
    state: &State,
    element: ElementId,
    (start, end): (Time, Time),
    placement: &[TaskPlacement],
    found: &mut Vec<Violation>,
) {
    for (rank, task) in placement.iter().enumerate() {
        let Some(node) = state.pool.get(task.node) else { continue };
        if let Some(what) = node.drains.node.as_ref().and_then(|drain| verdict(drain, start, end)) {
            found.push(Violation::WrongNode { element, node: task.node, what });
        }
        let mut devices = task.devices.iter().filter_map(|device| node.drains.of_device(&node.spec, device));
        if let Some(what) = devices.find_map(|drain| verdict(drain, start, end)) {
            found.push(Violation::WrongTask { element, rank: rank as u32, what });
        }
    }
}

/// What is wrong with a stay where there is a drain.
fn verdict(drain: &Drain, start: Time, end: Time) -> Option<&'static str> {
    match () {
        () if drain.from <= start => Some("it is drained"),
        () if drain.from < end => Some("it is drained before the end"),
        () => None,
    }
}

//! Checks that nothing is planned beyond the begin of a drain: from the drains as requested, not
//! from what the planner derived.

use muster_model::{Drain, ElementId, Plan, TaskPlacement, Time};

use super::Violation;
use crate::state::State;

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    for (id, placement, _) in plan.starts() {
        let Some(job) = state.jobs.get(&id.element.job) else { continue };
        let spec = &job.record.spec;
        let end = spec.time_limit.map_or(Time::NEVER, |limit| now + limit + spec.grace);
        check_occupation(state, id.element, (now, end), placement, found);
    }
    for one in &plan.reservations {
        check_occupation(state, one.element, (one.start, one.end), &one.placement, found);
    }
}

/// Checks an occupation of nodes for a period.
fn check_occupation(
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
        let mut devices =
            task.devices.iter().filter_map(|device| node.drains.of_device(&node.spec, device));
        if let Some(what) = devices.find_map(|drain| verdict(drain, start, end)) {
            found.push(Violation::WrongTask { element, rank: rank as u32, what });
        }
    }
}

/// Returns what is wrong with an occupation of a drained node or device.
fn verdict(drain: &Drain, start: Time, end: Time) -> Option<&'static str> {
    match () {
        () if drain.from <= start => Some("it is drained"),
        () if drain.from < end => Some("it is drained before the end"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_model::{DeviceSet, Event, JobId, QueueTree, Span};

    use super::*;
    use crate::fixture::{node, spec};

    const NOW: Time = Time(1000);

    /// Returns the violations of a plan that was valid until something was drained.
    fn after(devices: Option<DeviceSet>, from: Time) -> Vec<Violation> {
        let mut state = State::new(QueueTree::single()).unwrap();
        state.apply(NOW, &Event::NodeJoined(Box::new(node("n1", 8, "h100"))));
        let mut job = spec(2);
        (job.time_limit, job.grace) = (Some(Span(500)), Span(100));
        state.apply(NOW, &Event::Submitted { job: JobId(1), spec: Arc::new(job) });
        let plan = crate::plan::Planner::default().plan(&mut state, NOW);
        assert_eq!(plan.decisions.len(), 1);
        let drain = Drain { from, by: None, reason: "fan".into(), stop: false };
        state.apply(NOW, &Event::DrainSet { node: "n1".into(), devices, drain: Some(drain) });
        let mut found = Vec::new();
        check(&state, NOW, &plan, &mut found);
        found
    }

    #[test]
    fn a_plan_on_drained_resources_is_found() {
        let whats = |found: Vec<Violation>| -> Vec<&str> {
            let what = |one: &Violation| match one {
                Violation::WrongNode { what, .. } | Violation::WrongTask { what, .. } => *what,
                other => panic!("{other}"),
            };
            found.iter().map(what).collect()
        };
        let first = Some(DeviceSet::one(0));
        assert_eq!(whats(after(None, NOW)), ["it is drained"; 2]);
        assert_eq!(whats(after(first, NOW)), ["it is drained"]);
        assert_eq!(whats(after(None, NOW + Span(599))), ["it is drained before the end"; 2]);
        assert_eq!(whats(after(first, NOW + Span(599))), ["it is drained before the end"]);
        assert!(after(None, NOW + Span(600)).is_empty(), "it is gone by then, grace included");
        assert!(after(Some(DeviceSet::one(7)), NOW).is_empty(), "another device");
    }

    #[test]
    fn a_reservation_that_runs_into_a_drain_is_found() {
        let mut state = State::new(QueueTree::single()).unwrap();
        state.apply(NOW, &Event::NodeJoined(Box::new(node("n1", 1, "h100"))));
        for number in [1, 2] {
            let mut job = spec(1);
            (job.time_limit, job.grace) = (Some(Span(500)), Span(0));
            state.apply(NOW, &Event::Submitted { job: JobId(number), spec: Arc::new(job) });
        }
        let plan = crate::plan::Planner::default().plan(&mut state, NOW);
        assert_eq!(plan.reservations.len(), 1);
        let drain =
            Some(Drain { from: NOW + Span(999), by: None, reason: "fan".into(), stop: false });
        state.apply(NOW, &Event::DrainSet { node: "n1".into(), devices: None, drain });
        let mut found = Vec::new();
        check(&state, NOW, &plan, &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}

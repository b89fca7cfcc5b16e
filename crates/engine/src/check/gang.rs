//! Checks of one gang: may its element start, do its tasks have the wanted shape, and are their
//! devices right?

use muster_model::job::Resources;
use muster_model::{ElementId, NodeId, Protection, TaskGroup, TaskPlacement, Tier, Time};
use rustc_hash::FxHashMap;

use super::violation::Violation;
use crate::state::State;
use crate::state::job::{Job, Phase};

/// Checks that an element may start; `goes_on` is true if it is only relocated or resized.
pub(super) fn check_startable(
    job: &Job,
    now: Time,
    element: ElementId,
    is_relocated: bool,
    found: &mut Vec<Violation>,
) {
    let record = &job.record;
    let Some(ordinal) = record.ordinal_of(element.index) else {
        found.push(Violation::Unknown(element));
        return;
    };
    let known = record.elements.get(&ordinal);
    let refused = match known.map(|known| &known.phase) {
        Some(Phase::Active) if is_relocated => None,
        Some(Phase::Active) => Some("it is active"),
        Some(Phase::Ended { .. }) => Some("it has ended"),
        Some(Phase::Waiting { held: true, .. }) => Some("it is on hold"),
        Some(Phase::Waiting { not_before, .. }) if *not_before > now => {
            Some("its back-off is not over")
        }
        None if record.rest.as_ref().is_some_and(|rest| ordinal >= rest.from) => {
            Some("it has ended")
        }
        None if record.held => Some("it is on hold"),
        _ if record.spec.begin.is_some_and(|begin| begin > now) => Some("its begin time is later"),
        _ if !record.waits_for.is_empty() => Some("its dependencies are not satisfied"),
        _ => None,
    };
    found.extend(refused.map(|why| Violation::NotStartable(element, why)));
}

pub(super) fn check_gang(
    job: &Job,
    element: ElementId,
    placement: &[TaskPlacement],
    found: &mut Vec<Violation>,
) {
    if let Some(rank) = placement.windows(2).position(|pair| pair[0].group > pair[1].group) {
        found.push(Violation::WrongTask {
            element,
            rank: rank as u32 + 1,
            what: "groups are out of order",
        });
    }
    for (index, group) in job.record.spec.groups.iter().enumerate() {
        let tasks = placement.iter().filter(|task| usize::from(task.group) == index);
        let count = tasks.clone().count() as u32;
        let min = group.min_tasks;
        let max = group.max_tasks;
        if count < min || count > max {
            found.push(Violation::PartialGang {
                element,
                group: index as u16,
                tasks: count,
                min,
                max,
            });
        }
        let Some(block) = group.tasks_per_node else { continue };
        let mut per_node: FxHashMap<NodeId, u32> = FxHashMap::default();
        tasks.for_each(|task| *per_node.entry(task.node).or_default() += 1);
        if let Some(node) =
            per_node.iter().filter(|(_, count)| **count != block).map(|(node, _)| *node).min()
        {
            found.push(Violation::WrongNode {
                element,
                node,
                what: "it has the wrong number of tasks",
            });
        }
    }
}

pub(super) fn check_tasks(
    state: &State,
    job: &Job,
    element: ElementId,
    placement: &[TaskPlacement],
    found: &mut Vec<Violation>,
) {
    let spec = &job.record.spec;
    for (rank, task) in placement.iter().enumerate() {
        let rank = rank as u32;
        let Some(group) = spec.groups.get(usize::from(task.group)) else {
            found.push(Violation::WrongTask { element, rank, what: "no such group" });
            continue;
        };
        let Some(node) = state.pool.get(task.node) else {
            found.push(Violation::WrongNode { element, node: task.node, what: "no such node" });
            continue;
        };
        let labels = &spec.constraint.labels;
        let refused = match () {
            () if !node.up => Some("it is lost"),
            () if spec.constraint.exclude.contains(&node.spec.name) => Some("the job excludes it"),
            () if labels.iter().any(|(key, value)| node.spec.labels.get(key) != Some(value)) => {
                Some("its labels do not match")
            }
            () => None,
        };
        found.extend(refused.map(|what| Violation::WrongNode { element, node: task.node, what }));
        if let Some(what) = wrong_devices(state, group, task) {
            found.push(Violation::WrongTask { element, rank, what });
        }
    }
}

/// Returns what is wrong with a task's devices.
fn wrong_devices(state: &State, group: &TaskGroup, task: &TaskPlacement) -> Option<&'static str> {
    let request = &group.task.gpu;
    let (count, share) = match (request.devices, request.share.0) {
        (0, 0) => (0, 0),
        (0, share) => (1, share),
        (devices, _) => (devices, 1000),
    };
    if task.devices.len() != count {
        return Some("it has the wrong number of devices");
    }
    if task.share.0 != share {
        return Some("it has the wrong share");
    }
    let node = state.pool.node(task.node);
    let mut models =
        task.devices.iter().map(|device| node.spec.devices.get(device).map(|device| &device.model));
    let first = models.next()?;
    let Some(model) = first else { return Some("the node has no such device") };
    if !request.models.is_empty() && !request.models.contains(model) {
        return Some("it does not accept the model");
    }
    models.any(|other| other != Some(model)).then_some("its devices are not of one model")
}

/// Returns the request of one task.
pub(super) fn needs_of<'j>(job: &'j Job, task: &TaskPlacement) -> Option<&'j Resources> {
    job.record.spec.groups.get(usize::from(task.group)).map(|group| &group.task)
}

/// Returns the priority of an element in its queue, and the protection that its job asks for.
pub(super) fn priority_and_protection(job: &Job, element: ElementId) -> (i32, Protection) {
    let spec = &job.record.spec;
    let own = spec.service().map(|service| element.index < service.replicas.guaranteed);
    let protect = match own {
        Some(true) => Protection::Always,
        Some(false) => Protection::None,
        None => spec.protect,
    };
    let tier = if own == Some(false) { Tier::Opportunistic } else { spec.tier };
    (tier.order(spec.priority), protect)
}

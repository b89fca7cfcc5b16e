//! The smallest changes that would start an element now. Each is tried with the planner before it is named.

use std::sync::Arc;

use muster_model::view::Change;
use muster_model::{
    ElementId, GpuModel, JobSpec, QueueName, QueueSpec, Reason, Span, Time, Topology, TopologyRule,
};

use super::trial::{Finding, Trial};
use crate::plan;
use crate::state::State;

/// Other queues that are tried: each costs a pass.
const MOST_QUEUES: usize = 8;

/// Changes that keep its place in the order.
pub(super) fn within_queue(trial: &mut Trial<'_>, finding: &Finding) -> Vec<Change> {
    if finding.reason.is_none() {
        return Vec::new();
    }
    let changes = [
        preferred(trial),
        fewer_tasks(trial),
        fewer_gpus(trial),
        shorter(trial, finding),
        other_model(trial),
    ];
    changes.into_iter().flatten().collect()
}

/// Would it start with its terms changed so?
fn starts_with(trial: &mut Trial<'_>, edit: impl FnOnce(&mut JobSpec)) -> bool {
    let mut spec = (*trial.spec).clone();
    edit(&mut spec);
    let duration = spec.time_limit.map(|limit| limit + spec.grace);
    trial.starts(&spec, duration)
}

/// The largest count below `present` for which `starts` holds; it holds for fewer if it does for more.
fn largest(present: u32, mut starts: impl FnMut(u32) -> bool) -> Option<u32> {
    let (mut good, mut bad) = (0, present);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match starts(middle) {
            true => good = middle,
            false => bad = middle,
        }
    }
    (good > 0).then_some(good)
}

/// Few domains where it requires one.
fn preferred(trial: &mut Trial<'_>) -> Option<Change> {
    let wish = trial.spec.constraint.topology.clone()?;
    let TopologyRule::Required(level) = &wish.rule else { return None };
    let softer = Topology { rule: TopologyRule::Preferred(Arc::clone(level)), segment: wish.segment.clone() };
    starts_with(trial, |spec| spec.constraint.topology = Some(softer))
        .then(|| Change::PreferTopology { level: level.to_string() })
}

fn fewer_tasks(trial: &mut Trial<'_>) -> Option<Change> {
    let [group] = &trial.spec.groups[..] else { return None };
    let segment = trial.spec.constraint.topology.as_ref().and_then(|wish| wish.segment.as_ref());
    // A segment is a multiple of what is on a node.
    let block = segment.map_or(group.tasks_per_node.unwrap_or(1), |segment| segment.tasks).max(1);
    let blocks = largest(group.min_tasks / block, |blocks| {
        starts_with(trial, |spec| {
            spec.groups[0].min_tasks = blocks * block;
            spec.groups[0].max_tasks = blocks * block;
        })
    })?;
    Some(Change::Tasks { tasks: blocks * block })
}

fn fewer_gpus(trial: &mut Trial<'_>) -> Option<Change> {
    let [group] = &trial.spec.groups[..] else { return None };
    let gpus = largest(group.task.gpu.devices, |gpus| {
        starts_with(trial, |spec| spec.groups[0].task.gpu.devices = gpus)
    })?;
    Some(Change::GpusPerTask { gpus })
}

fn shorter(trial: &mut Trial<'_>, finding: &Finding) -> Option<Change> {
    let limit = match finding.reason {
        Some(
            Reason::Reserved { fits_if_shorter_than: Some(limit), .. }
            | Reason::DrainAhead { fits_if_shorter_than: Some(limit), .. },
        ) => limit,
        Some(Reason::Budget { .. }) => {
            let longest = trial.longest_promise()?;
            let secs = longest.0.checked_sub(trial.spec.grace.0)? / 1000;
            Span::from_secs(if secs > 60 { secs - secs % 60 } else { secs })
        }
        Some(Reason::BorrowedTime { limit, .. }) => Span(limit.0.saturating_sub(trial.spec.grace.0)),
        _ => return None,
    };
    if limit.0 == 0 {
        return None;
    }
    starts_with(trial, |spec| spec.time_limit = Some(limit)).then_some(Change::TimeLimit { limit })
}

/// Another model for all of its GPUs, one that it does not accept as it is.
fn other_model(trial: &mut Trial<'_>) -> Option<Change> {
    let models = trial.state().policy.models();
    let names: Vec<_> = trial.state().pool.models().map(|model| models.name(model).clone()).collect();
    let accepted = |name: &GpuModel| {
        trial.spec.groups.iter().any(|group| {
            let gpu = &group.task.gpu;
            !gpu.is_none() && (gpu.models.is_empty() || gpu.models.contains(name))
        })
    };
    if trial.spec.groups.iter().all(|group| group.task.gpu.is_none()) {
        return None;
    }
    let others: Vec<_> = names.into_iter().filter(|name| !accepted(name)).collect();
    others
        .into_iter()
        .find(|name| {
            starts_with(trial, |spec| {
                for group in spec.groups.iter_mut().filter(|group| !group.task.gpu.is_none()) {
                    group.task.gpu.models = vec![name.clone()];
                }
            })
        })
        .map(|model| Change::Model { model })
}

/// Other leaf queues in which the next pass would start it.
pub(super) fn other_queues(state: &mut State, now: Time, id: ElementId) -> Vec<Change> {
    let Some(job) = state.jobs.get(&id.job) else { return Vec::new() };
    let (own, spec) = (job.record.leaf, job.record.spec.clone());
    let mut leaves = Vec::new();
    collect_leaves(&state.policy.tree().queues, "", &mut leaves);
    let mut changes = Vec::new();
    for queue in leaves.into_iter().take(MOST_QUEUES + 1) {
        let Some(leaf) = state.policy.leaf(&queue).filter(|leaf| *leaf != own) else { continue };
        let moved = JobSpec { queue: queue.clone(), ..(*spec).clone() };
        let has_room = state.policy.judge_one_more(leaf, &moved.user).is_ok();
        if !has_room || state.policy.judge_submission(leaf, &moved).is_err() {
            continue;
        }
        move_job(state, now, id, leaf);
        let plan = plan::preview(state, now);
        move_job(state, now, id, own);
        let starts = plan.starts().any(|(started, ..)| started.element == id);
        if starts {
            changes.push(Change::Queue { queue });
        }
    }
    changes
}

fn move_job(state: &mut State, now: Time, id: ElementId, leaf: muster_policy::LeafId) {
    if let Some(job) = state.jobs.get_mut(&id.job) {
        job.record.leaf = leaf;
    }
    state.sync_job(now, id.job);
}

fn collect_leaves(queues: &[QueueSpec], above: &str, leaves: &mut Vec<QueueName>) {
    for queue in queues {
        let path = format!("{above}{}", queue.name);
        match queue.queues.is_empty() {
            true => leaves.push(path.into()),
            false => collect_leaves(&queue.queues, &format!("{path}/"), leaves),
        }
    }
}

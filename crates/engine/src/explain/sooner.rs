//! The smallest changes that would start an element now. Each is tried with the planner before it
//! is named: in its own place, and as what people will do, which is to submit it anew.

use std::sync::Arc;

use muster_model::view::Change;
use muster_model::{
    ElementId, Event, GpuMilli, GpuModel, JobId, JobSpec, QueueName, QueueSpec, Reason, Span,
    Target, TaskGroup, Time, Topology, TopologyRule,
};

use super::trial::{Finding, Trial};
use crate::plan;
use crate::state::State;

/// Other queues that are tried: each costs a pass.
const MOST_QUEUES: usize = 8;

/// Changes of its terms that would start it in its place in the order.
pub(super) fn within_queue(trial: &mut Trial<'_>, finding: &Finding) -> Vec<Change> {
    if finding.reason.is_none() {
        return Vec::new();
    }
    let changes = [
        preferred(trial),
        any_node(trial),
        fewer_tasks(trial),
        fewer_gpus(trial),
        smaller_share(trial),
        shorter(trial, finding),
        other_model(trial),
    ];
    changes.into_iter().flatten().collect()
}

/// The change, if it would start with it.
fn tried(trial: &mut Trial<'_>, change: Change) -> Option<Change> {
    let spec = changed(&trial.spec, &change);
    let duration = spec.time_limit.map(|limit| limit + spec.grace);
    trial.starts(&spec, duration).then_some(change)
}

/// The largest count below `present` for which `starts` holds; it holds for fewer if it does for
/// more.
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
    let TopologyRule::Required(level) = &trial.spec.constraint.topology.as_ref()?.rule else {
        return None;
    };
    let level = level.to_string();
    tried(trial, Change::PreferTopology { level })
}

fn any_node(trial: &mut Trial<'_>) -> Option<Change> {
    let is_bound = !trial.spec.constraint.labels.is_empty();
    is_bound.then_some(Change::AnyNode).and_then(|change| tried(trial, change))
}

fn fewer_tasks(trial: &mut Trial<'_>) -> Option<Change> {
    let [group] = &trial.spec.groups[..] else { return None };
    let segment = trial.spec.constraint.topology.as_ref().and_then(|wish| wish.segment.as_ref());
    // A segment is a multiple of what is on a node.
    let on_node = group.tasks_per_node.map(|tasks| tasks.max(1));
    let block = segment.map_or(on_node.unwrap_or(1), |segment| segment.tasks).max(1);
    let change = |blocks: u32| match on_node {
        Some(on_node) => Change::Nodes { nodes: blocks * block / on_node },
        None => Change::Tasks { tasks: blocks * block },
    };
    let blocks = largest(group.min_tasks / block, |blocks| tried(trial, change(blocks)).is_some())?;
    Some(change(blocks))
}

fn fewer_gpus(trial: &mut Trial<'_>) -> Option<Change> {
    let [group] = &trial.spec.groups[..] else { return None };
    let on_node = on_node(group);
    let change = |gpus| Change::GpusPerTask { gpus, per_node: on_node.map(|tasks| tasks * gpus) };
    let gpus = largest(group.task.gpu.devices, |gpus| tried(trial, change(gpus)).is_some())?;
    Some(change(gpus))
}

/// Tasks on a node, where a job says with `gpus` what all of them hold: with `nodes`, or of its
/// only task.
fn on_node(group: &TaskGroup) -> Option<u32> {
    group.tasks_per_node.or((group.max_tasks == 1).then_some(1))
}

fn smaller_share(trial: &mut Trial<'_>) -> Option<Change> {
    let [group] = &trial.spec.groups[..] else { return None };
    let per_node = on_node(group) == Some(1);
    let change = |share| Change::Share { share: GpuMilli(share), per_node };
    let share = largest(group.task.gpu.share.0, |share| tried(trial, change(share)).is_some())?;
    Some(change(share))
}

fn shorter(trial: &mut Trial<'_>, finding: &Finding) -> Option<Change> {
    let limit = match finding.reason {
        Some(
            Reason::Reserved { fits_if_shorter_than: Some(limit), .. }
            | Reason::DrainAhead { fits_if_shorter_than: Some(limit), .. }
            | Reason::WindowAhead { fits_if_shorter_than: Some(limit), .. }
            | Reason::WindowEnds { fits_if_shorter_than: Some(limit), .. },
        ) => limit,
        Some(Reason::Budget { .. }) => {
            let longest = trial.longest_promise()?;
            let secs = longest.0.checked_sub(trial.spec.grace.0)? / 1000;
            Span::from_secs(if secs > 60 { secs - secs % 60 } else { secs })
        }
        Some(Reason::BorrowedTime { limit, .. }) => {
            Span(limit.0.saturating_sub(trial.spec.grace.0))
        }
        _ => return None,
    };
    if limit.0 == 0 {
        return None;
    }
    tried(trial, Change::TimeLimit { limit })
}

/// Another model for all of its GPUs, one that it does not accept as it is.
fn other_model(trial: &mut Trial<'_>) -> Option<Change> {
    let models = trial.state().policy.models();
    let names: Vec<_> =
        trial.state().pool.models().map(|model| models.name(model).clone()).collect();
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
    others.into_iter().find_map(|model| tried(trial, Change::Model { model }))
}

/// Other leaf queues that might take it.
pub(super) fn other_queues(state: &State, id: ElementId) -> Vec<Change> {
    let Some(job) = state.jobs.get(&id.job) else { return Vec::new() };
    let mut leaves = Vec::new();
    collect_leaves(&state.policy.tree().queues, "", &mut leaves);
    let own = state.policy.leaf_name(job.record.leaf);
    let others = leaves.into_iter().filter(|queue| queue != own);
    others.take(MOST_QUEUES).map(|queue| Change::Queue { queue }).collect()
}

/// An element that is cancelled, and submitted anew with one change after the other. On one copy
/// for all of them: nothing of it may stay.
pub(super) struct Anew {
    copy: State,
    now: Time,
    spec: Arc<JobSpec>,
    last: JobId,
}

impl Anew {
    pub(super) fn of(state: &State, now: Time, id: ElementId) -> Option<Self> {
        let spec = Arc::clone(&state.jobs.get(&id.job)?.record.spec);
        let last = state.jobs.last().map_or(0, |id| id.0).max(state.recent.last().0);
        let mut copy = state.clone();
        let target = Target { job: id.job, index: spec.array.as_ref().map(|_| id.index) };
        copy.apply(now, &Event::Cancel { target, by: spec.user.clone() });
        Some(Self { copy, now, spec, last: JobId(last) })
    }

    /// Would it start at once with this change? Then it stands behind whoever waits. Of an array, a
    /// single element is submitted.
    pub(super) fn starts(&mut self, change: &Change) -> bool {
        let job = JobId(self.last.0 + 1);
        let spec = JobSpec { array: None, ..changed(&self.spec, change) };
        let by = spec.user.clone();
        let submitted = Event::Submitted { job, spec: Arc::new(spec) };
        if self.copy.judge(&submitted).is_err() {
            return false;
        }
        self.last = job;
        self.copy.apply(self.now, &submitted);
        let starts =
            plan::plan(&mut self.copy, self.now).starts().any(|(id, ..)| id.element.job == job);
        self.copy.apply(self.now, &Event::Cancel { target: Target { job, index: None }, by });
        starts
    }
}

/// The terms with a change.
fn changed(spec: &JobSpec, change: &Change) -> JobSpec {
    let mut spec = spec.clone();
    let resize = |group: &mut TaskGroup, tasks| (group.min_tasks, group.max_tasks) = (tasks, tasks);
    match change {
        Change::Tasks { tasks } => resize(&mut spec.groups[0], *tasks),
        Change::Nodes { nodes } => {
            let tasks = nodes * spec.groups[0].tasks_per_node.unwrap_or(1);
            resize(&mut spec.groups[0], tasks);
        }
        Change::GpusPerTask { gpus, .. } => spec.groups[0].task.gpu.devices = *gpus,
        Change::Share { share, .. } => spec.groups[0].task.gpu.share = *share,
        Change::TimeLimit { limit } => spec.time_limit = Some(*limit),
        Change::Model { model } => {
            for group in spec.groups.iter_mut().filter(|group| !group.task.gpu.is_none()) {
                group.task.gpu.models = vec![model.clone()];
            }
        }
        Change::Queue { queue } => spec.queue = queue.clone(),
        Change::PreferTopology { level } => {
            let segment = spec.constraint.topology.take().and_then(|wish| wish.segment);
            let rule = TopologyRule::Preferred(level.as_str().into());
            spec.constraint.topology = Some(Topology { rule, segment });
        }
        Change::AnyNode => spec.constraint.labels.clear(),
    }
    spec
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

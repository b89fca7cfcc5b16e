//! Smallest changes that would start an element now. Each is tried with the planner before it is
//! suggested: at the element's own place, and as a new submission, which is what users will do.

use std::sync::Arc;

use muster_model::view::JobChange;
use muster_model::{
    CommandTarget, ElementId, Event, GpuMilli, GpuModel, JobId, JobSpec, QueueName, QueueSpec,
    Reason, Span, TaskGroup, Time, Topology, TopologyRule,
};

use super::trial::{Finding, PlanTrial};
use crate::plan::Planner;
use crate::state::State;
use crate::validate::validate_event;

/// Maximum number of other queues that are tried: each costs a pass.
const MAX_QUEUES: usize = 8;

/// Returns the changes of the job that would start the element now without moving it in the order.
pub(super) fn within_queue(trial: &mut PlanTrial<'_>, finding: &Finding) -> Vec<JobChange> {
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

/// Returns the change if the element would start with it.
fn tried(trial: &mut PlanTrial<'_>, change: JobChange) -> Option<JobChange> {
    let spec = changed(&trial.spec, &change);
    let duration = spec.time_limit.map(|limit| limit + spec.grace);
    trial.starts(&spec, duration).then_some(change)
}

/// Returns the largest count below `present` for which `starts` holds; assumes that it holds for
/// fewer whenever it holds for more.
fn largest(present: u32, mut starts: impl FnMut(u32) -> bool) -> Option<u32> {
    let mut good = 0;
    let mut bad = present;
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if starts(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    (good > 0).then_some(good)
}

/// Prefers a domain instead of requiring one.
fn preferred(trial: &mut PlanTrial<'_>) -> Option<JobChange> {
    let TopologyRule::Required(level) = &trial.spec.constraint.topology.as_ref()?.rule else {
        return None;
    };
    let level = level.to_string();
    tried(trial, JobChange::PreferTopology { level })
}

fn any_node(trial: &mut PlanTrial<'_>) -> Option<JobChange> {
    let is_bound = !trial.spec.constraint.labels.is_empty();
    is_bound.then_some(JobChange::AnyNode).and_then(|change| tried(trial, change))
}

fn fewer_tasks(trial: &mut PlanTrial<'_>) -> Option<JobChange> {
    let [group] = &trial.spec.groups[..] else { return None };
    let segment = trial.spec.constraint.topology.as_ref().and_then(|wish| wish.segment.as_ref());
    // The number of tasks of a segment is a multiple of the number per node.
    let on_node = group.tasks_per_node.map(|tasks| tasks.max(1));
    let block = segment.map_or(on_node.unwrap_or(1), |segment| segment.tasks).max(1);
    let change = |blocks: u32| match on_node {
        Some(on_node) => JobChange::Nodes { nodes: blocks * block / on_node },
        None => JobChange::Tasks { tasks: blocks * block },
    };
    let blocks = largest(group.min_tasks / block, |blocks| tried(trial, change(blocks)).is_some())?;
    Some(change(blocks))
}

fn fewer_gpus(trial: &mut PlanTrial<'_>) -> Option<JobChange> {
    let [group] = &trial.spec.groups[..] else { return None };
    let on_node = on_node(group);
    let change =
        |gpus| JobChange::GpusPerTask { gpus, per_node: on_node.map(|tasks| tasks * gpus) };
    let gpus = largest(group.task.gpu.devices, |gpus| tried(trial, change(gpus)).is_some())?;
    Some(change(gpus))
}

/// Returns the tasks per node if the job specifies `gpus` for all tasks on a node: with `nodes`, or
/// with a single task.
fn on_node(group: &TaskGroup) -> Option<u32> {
    group.tasks_per_node.or((group.max_tasks == 1).then_some(1))
}

fn smaller_share(trial: &mut PlanTrial<'_>) -> Option<JobChange> {
    let [group] = &trial.spec.groups[..] else { return None };
    let per_node = on_node(group) == Some(1);
    let change = |share| JobChange::Share { share: GpuMilli(share), per_node };
    let share = largest(group.task.gpu.share.0, |share| tried(trial, change(share)).is_some())?;
    Some(change(share))
}

fn shorter(trial: &mut PlanTrial<'_>, finding: &Finding) -> Option<JobChange> {
    let limit = match finding.reason {
        Some(
            Reason::Reserved { fits_if_shorter_than: Some(limit), .. }
            | Reason::UpcomingDrain { fits_if_shorter_than: Some(limit), .. }
            | Reason::UpcomingAdvanceReservation { fits_if_shorter_than: Some(limit), .. }
            | Reason::AdvanceReservationEnds { fits_if_shorter_than: Some(limit), .. },
        ) => limit,
        Some(Reason::Budget { .. }) => {
            let longest = trial.longest_affordable()?;
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
    tried(trial, JobChange::TimeLimit { limit })
}

/// Tries another model for all of its GPUs, one that it does not accept now.
fn other_model(trial: &mut PlanTrial<'_>) -> Option<JobChange> {
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
    others.into_iter().find_map(|model| tried(trial, JobChange::Model { model }))
}

/// Returns other leaf queues that might accept it.
pub(super) fn other_queues(state: &State, id: ElementId) -> Vec<JobChange> {
    let Some(job) = state.jobs.get(&id.job) else { return Vec::new() };
    let mut leaves = Vec::new();
    collect_leaves(&state.policy.tree().queues, "", &mut leaves);
    let own = state.policy.queues().leaf_name(job.record.leaf);
    let others = leaves.into_iter().filter(|queue| queue != own);
    others.take(MAX_QUEUES).map(|queue| JobChange::Queue { queue }).collect()
}

/// An element that is cancelled and submitted again with one change after another, on one copy of
/// the state.
pub(super) struct Resubmission {
    copy: State,
    planner: Planner,
    now: Time,
    spec: Arc<JobSpec>,
    last: JobId,
}

impl Resubmission {
    pub(super) fn of(state: &State, now: Time, id: ElementId) -> Option<Self> {
        let spec = Arc::clone(&state.jobs.get(&id.job)?.record.spec);
        let last = state.jobs.last().map_or(0, |id| id.0).max(state.dependencies.recent.last().0);
        let mut copy = state.clone();
        let target = CommandTarget { job: id.job, index: spec.array.as_ref().map(|_| id.index) };
        copy.apply(now, &Event::Cancel { target, by: spec.user.clone() });
        Some(Self { copy, planner: Planner::default(), now, spec, last: JobId(last) })
    }

    /// True when it would start at once with this change, behind all waiting jobs. Of an array, a
    /// single element is submitted.
    pub(super) fn starts(&mut self, change: &JobChange) -> bool {
        let job = JobId(self.last.0 + 1);
        let spec = JobSpec { array: None, ..changed(&self.spec, change) };
        let by = spec.user.clone();
        let submitted = Event::Submitted { job, spec: Arc::new(spec) };
        if validate_event(&self.copy, &submitted).is_err() {
            return false;
        }
        self.last = job;
        self.copy.apply(self.now, &submitted);
        let starts = self
            .planner
            .plan(&mut self.copy, self.now)
            .starts()
            .any(|(id, ..)| id.element.job == job);
        self.copy
            .apply(self.now, &Event::Cancel { target: CommandTarget { job, index: None }, by });
        starts
    }
}

/// Returns the spec with a change applied.
fn changed(spec: &JobSpec, change: &JobChange) -> JobSpec {
    let mut spec = spec.clone();
    let resize = |group: &mut TaskGroup, tasks| (group.min_tasks, group.max_tasks) = (tasks, tasks);
    match change {
        JobChange::Tasks { tasks } => resize(&mut spec.groups[0], *tasks),
        JobChange::Nodes { nodes } => {
            let tasks = nodes * spec.groups[0].tasks_per_node.unwrap_or(1);
            resize(&mut spec.groups[0], tasks);
        }
        JobChange::GpusPerTask { gpus, .. } => spec.groups[0].task.gpu.devices = *gpus,
        JobChange::Share { share, .. } => spec.groups[0].task.gpu.share = *share,
        JobChange::TimeLimit { limit } => spec.time_limit = Some(*limit),
        JobChange::Model { model } => {
            for group in spec.groups.iter_mut().filter(|group| !group.task.gpu.is_none()) {
                group.task.gpu.models = vec![model.clone()];
            }
        }
        JobChange::Queue { queue } => spec.queue = queue.clone(),
        JobChange::PreferTopology { level } => {
            let segment = spec.constraint.topology.take().and_then(|wish| wish.segment);
            let rule = TopologyRule::Preferred(level.as_str().into());
            spec.constraint.topology = Some(Topology { rule, segment });
        }
        JobChange::AnyNode => spec.constraint.labels.clear(),
    }
    spec
}

fn collect_leaves(queues: &[QueueSpec], above: &str, leaves: &mut Vec<QueueName>) {
    for queue in queues {
        let path = format!("{above}{}", queue.name);
        if queue.queues.is_empty() {
            leaves.push(path.into());
        } else {
            collect_leaves(&queue.queues, &format!("{path}/"), leaves);
        }
    }
}

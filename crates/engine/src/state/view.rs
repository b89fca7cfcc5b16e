//! Views of jobs, nodes and queues, made from the state alone. Reads only; `report` turns them into
//! text.

use std::collections::BTreeMap;

use muster_model::view::{
    ArrayView, CheckpointAskedView, CheckpointView, DeviceView, ElasticView, ElementView, JobState,
    JobView, NodeView, QueueView, RoleView, TaskView, device_indices,
};
use muster_model::{
    Bytes, CpuMilli, Drain, ElementId, ForeignProcess, GpuMilli, JobId, JobSpec, NodeId, Outcome,
    QueueName, Rank, TaskGroup, TaskPlacement, Time, UserName, WorkloadKind,
};
use muster_policy::LeafId;

use crate::fact::EngineCounts;
use crate::pool::node::Node;
use crate::state::entries::{EntryOwner, EntryStanding};
use crate::state::job::{Element, Job, JobRecord, Phase, Run, RunEnd, RunStage};
use crate::state::{State, advance_reservation};

/// Fields of a job by which lists are filtered; costs nothing to make, unlike a view.
#[derive(Clone, Copy, Debug)]
pub struct JobKey<'a> {
    /// Number of the job.
    pub job: JobId,
    /// Name of the job.
    pub name: &'a str,
    /// User of the job.
    pub user: &'a UserName,
    /// Leaf queue of the job.
    pub queue: &'a QueueName,
    /// State, as in views.
    pub state: JobState,
}

/// Returns the filter fields of every job, by number, without making views.
pub(crate) fn job_keys(state: &State) -> impl Iterator<Item = JobKey<'_>> {
    state.jobs.iter().map(|(id, job)| {
        let record = &job.record;
        JobKey {
            job: *id,
            name: &record.spec.name,
            user: &record.spec.user,
            queue: state.policy.queues().leaf_name(record.leaf),
            state: job_state(record),
        }
    })
}

/// Returns the view of a job, without why it waits and when it starts.
pub(crate) fn job_view(state: &State, now: Time, id: JobId, job: &Job) -> JobView {
    let record = &job.record;
    let spec = &record.spec;
    let is_over = record.is_over();
    let (tasks, gpus) = size(record);
    JobView {
        job: id,
        name: spec.name.to_string(),
        user: spec.user.clone(),
        uid: spec.uid,
        queue: state.policy.queues().leaf_name(record.leaf).clone(),
        priority: spec.priority,
        state: job_state(record),
        tasks,
        gpus,
        roles: spec.groups.iter().map(role_view).collect(),
        elastic: elastic(spec),
        time_limit: spec.time_limit,
        expected_runtime: spec.expected_runtime,
        submitted: record.submitted,
        started: record.started,
        ended: is_over.then(|| last_end(record)).flatten(),
        array: spec.array.as_ref().map(|array| ArrayView {
            total: record.total,
            waiting: record.total - record.active - record.succeeded - record.failed,
            active: record.active,
            succeeded: record.succeeded,
            failed: record.failed,
            max_running: array.max_running,
        }),
        service: record.service_view(),
        is_notebook: matches!(spec.kind, WorkloadKind::Notebook(_)),
        idle: spec.idle(),
        elements: element_views(state, now, id, record),
        waiting_for: None,
        eta: None,
        eta_predicted: false,
        native: None,
    }
}

fn element_views(state: &State, now: Time, id: JobId, record: &JobRecord) -> Vec<ElementView> {
    if let Some(service) = record.spec.service() {
        let shown = |ordinal: &u32, element: &Element| {
            *ordinal < service.replicas.max || element.phase == Phase::Active
        };
        let replicas = record.elements.iter().filter(|(ordinal, element)| shown(ordinal, element));
        let view = |(ordinal, _): (&u32, _)| {
            element_view(state, now, ElementId { job: id, index: *ordinal })
        };
        return replicas.filter_map(view).collect();
    }
    if record.spec.array.is_none() {
        return element_view(state, now, ElementId { job: id, index: 0 }).into_iter().collect();
    }
    let active = record.elements.iter().filter(|(_, element)| element.phase == Phase::Active);
    active
        .filter_map(|(ordinal, _)| {
            element_view(state, now, ElementId { job: id, index: record.index_of(*ordinal) })
        })
        .collect()
}

pub(crate) fn element_view(state: &State, now: Time, id: ElementId) -> Option<ElementView> {
    let record = &state.jobs.get(&id.job)?.record;
    let ordinal = record.ordinal_of(id.index)?;
    let Some(element) = record.elements.get(&ordinal) else {
        return Some(unrecorded_view(id, record, ordinal));
    };
    let run = element.run.as_ref();
    let (outcome, ended) = match &element.phase {
        Phase::Ended { outcome, at } => (Some(outcome.clone()), Some(*at)),
        Phase::Waiting { .. } | Phase::Active => (None, None),
    };
    let live = run.filter(|_| element.phase == Phase::Active);
    Some(ElementView {
        element: id,
        state: element_state(element),
        attempt: element.attempt,
        backfilled: run.is_some_and(|run| run.backfilled),
        started: run.and_then(|run| run.started),
        ends_by: live.and_then(|run| ends_by(run, now)),
        expected_end: live.and_then(|run| run.expected_end(now)),
        ended,
        outcome,
        last_end: element.last_end.as_deref().cloned(),
        checkpoint: element.saved.as_deref().map(|saved| CheckpointView {
            at: saved.at,
            label: saved.label.to_string(),
            attempt: saved.attempt,
        }),
        checkpoint_asked: run.and_then(|run| checkpoint_request(record, run)),
        restarts_with_tasks: live
            .and(element.pending_allocation.as_deref())
            .map(|claim| claim.placement.len() as u32),
        tasks: run.map(|run| task_views(state, record, run)).unwrap_or_default(),
    })
}

fn task_views(state: &State, record: &JobRecord, run: &Run) -> Vec<TaskView> {
    let view = |(rank, (place, task)): (usize, (&TaskPlacement, &crate::state::job::TaskState))| {
        TaskView {
            rank: Rank(rank as u32),
            group: record.spec.groups[usize::from(place.group)].name.to_string(),
            node: state.pool.node(place.node).spec.name.clone(),
            devices: device_indices(place.devices),
            share: place.share,
            stage: task.stage,
            ready: task.ready,
            exit: task.exit.clone(),
        }
    };
    run.placement.iter().zip(&run.tasks).enumerate().map(view).collect()
}

/// Returns all nodes, by name.
pub(crate) fn node_views(state: &State) -> Vec<NodeView> {
    let mut holders: BTreeMap<(NodeId, usize), Vec<ElementId>> = BTreeMap::new();
    for holding in state.pool.holdings() {
        for task in holding.placement.iter() {
            for device in task.devices.iter() {
                holders.entry((task.node, device)).or_default().push(holding.element);
            }
        }
    }
    let seen = state.pool.in_force_until();
    let mut views: Vec<NodeView> = state
        .pool
        .nodes()
        .iter()
        .enumerate()
        .map(|(id, node)| {
            node_view(node, seen, |device| holders.remove(&(NodeId(id as u32), device)))
        })
        .collect();
    views.sort_by(|left, right| left.name.cmp(&right.name));
    views
}

/// Returns all queues. Pending elements that the policy does not count (on hold, dependent,
/// before their begin time, beyond the tickets of their array) are added.
pub(crate) fn queue_views(state: &State, now: Time) -> Vec<QueueView> {
    let mut unseen: BTreeMap<LeafId, u32> = BTreeMap::new();
    for (id, job) in state.jobs.iter() {
        let record = &job.record;
        let seen = |ordinal| match state.entries.standing(EntryOwner { job: *id, ordinal }) {
            EntryStanding::Queued(tickets) => tickets,
            EntryStanding::Out | EntryStanding::Sleeping(_) => 0,
        };
        let recorded: u32 = record
            .elements
            .iter()
            .filter(|(_, element)| matches!(element.phase, Phase::Waiting { .. }))
            .map(|(ordinal, _)| seen(Some(*ordinal)))
            .sum();
        let waiting = record.total - record.active - record.succeeded - record.failed;
        *unseen.entry(record.leaf).or_default() += waiting - recorded - seen(None);
    }
    unseen.retain(|_, count| *count > 0);
    state.policy.queue_views_with_extra(now, &unseen)
}

pub(crate) fn counts(state: &State) -> EngineCounts {
    let mut counts = EngineCounts {
        nodes: state.pool.nodes().len() as u64,
        jobs: state.jobs.len() as u64,
        ..EngineCounts::default()
    };
    for job in state.jobs.values() {
        let record = &job.record;
        counts.active += u64::from(record.active);
        counts.pending += u64::from(record.waiting());
    }
    counts
}

impl JobRecord {
    /// Returns the first pending element, by ordinal.
    pub(crate) fn first_waiting(&self) -> Option<u32> {
        let recorded = self
            .elements
            .iter()
            .find(|(_, element)| matches!(element.phase, Phase::Waiting { .. }));
        let recorded = recorded.map(|(ordinal, _)| *ordinal);
        let unrecorded = (self.next < self.total).then_some(self.next);
        recorded.into_iter().chain(unrecorded).min()
    }
}

/// Returns tasks and GPUs of one element: what a running elastic gang holds, else the minimum.
fn size(record: &JobRecord) -> (u32, GpuMilli) {
    let spec = &record.spec;
    let is_one = spec.elastic().is_some() && spec.element_count() == 1 && spec.service().is_none();
    let element =
        record.elements.get(&0).filter(|element| is_one && element.phase == Phase::Active);
    match element.and_then(|element| element.run.as_ref()) {
        Some(run) => (run.placement.len() as u32, gpu_milli(run.milli())),
        None => (spec.min_tasks(), gpu_milli(spec.min_gpus())),
    }
}

fn role_view(group: &TaskGroup) -> RoleView {
    let task = &group.task;
    RoleView {
        name: group.name.to_string(),
        tasks: group.min_tasks,
        gpus: task.gpu.milli(),
        models: task.gpu.models.clone(),
        cpus: task.cpus,
        memory: task.memory,
    }
}

fn elastic(spec: &JobSpec) -> Option<ElasticView> {
    let elastic = spec.elastic()?;
    let more = elastic.max - elastic.min;
    let each = spec.groups[usize::from(elastic.group)].task.gpu.milli().0;
    Some(ElasticView {
        fewest_tasks: spec.min_tasks(),
        most_tasks: spec.min_tasks() + more,
        fewest_gpus: gpu_milli(spec.min_gpus()),
        most_gpus: gpu_milli(spec.min_gpus() + u64::from(more) * u64::from(each)),
    })
}

/// Returns the state of the element that is furthest from its end.
fn job_state(record: &JobRecord) -> JobState {
    if record.active > 0 {
        let states = record
            .elements
            .values()
            .filter(|element| element.phase == Phase::Active)
            .map(|element| element_state(element));
        // Running outranks starting, which outranks stopping.
        let rank = |state: &JobState| match state {
            JobState::Running => 0,
            JobState::Starting => 1,
            _ => 2,
        };
        return states.min_by_key(rank).unwrap_or(JobState::Starting);
    }
    match record.first_waiting() {
        Some(ordinal) => match record.elements.get(&ordinal) {
            Some(element) => element_state(element),
            None if record.held => JobState::Held,
            None => JobState::Pending,
        },
        None if record.failed == 0 => JobState::Done,
        None => {
            let ended = record.elements.values().map(|element| element_state(element));
            let rest = record.rest.as_ref().map(|rest| outcome_state(&rest.outcome));
            if ended.chain(rest).any(|state| state == JobState::Failed) {
                JobState::Failed
            } else {
                JobState::Cancelled
            }
        }
    }
}

fn element_state(element: &Element) -> JobState {
    match &element.phase {
        Phase::Waiting { held: true, .. } => JobState::Held,
        Phase::Waiting { held: false, .. } => JobState::Pending,
        Phase::Ended { outcome, .. } => outcome_state(outcome),
        Phase::Active => match element.run.as_ref().map(|run| run.stage) {
            Some(RunStage::Running) => JobState::Running,
            Some(RunStage::Stopping(_)) => JobState::Stopping,
            _ => JobState::Starting,
        },
    }
}

fn outcome_state(outcome: &Outcome) -> JobState {
    match outcome {
        outcome if outcome.is_success() => JobState::Done,
        Outcome::Cancelled { .. } | Outcome::IdleGpus { .. } => JobState::Cancelled,
        _ => JobState::Failed,
    }
}

/// Returns the checkpoint request that is not acknowledged yet.
fn checkpoint_request(record: &JobRecord, run: &Run) -> Option<CheckpointAskedView> {
    let at = run.asked.unanswered?;
    let checkpoint = record.spec.checkpoint?;
    let undelivered = run.undelivered();
    Some(CheckpointAskedView {
        at,
        until: at + checkpoint.lead,
        signal: checkpoint.signal,
        undelivered,
    })
}

fn ends_by(run: &Run, now: Time) -> Option<Time> {
    match run.end {
        RunEnd::At(time) => Some(time),
        RunEnd::After(span) => Some(now + span),
        RunEnd::Never => None,
    }
}

fn last_end(record: &JobRecord) -> Option<Time> {
    let recorded = record.elements.values().filter_map(|element| match &element.phase {
        Phase::Ended { at, .. } => Some(*at),
        Phase::Waiting { .. } | Phase::Active => None,
    });
    recorded.chain(record.rest.as_ref().map(|rest| rest.at)).max()
}

/// Returns the view of an element without a record: it is pending, or ended together with the rest.
fn unrecorded_view(id: ElementId, record: &JobRecord, ordinal: u32) -> ElementView {
    let rest = record.rest.as_ref().filter(|rest| ordinal >= rest.from);
    let state = match rest {
        Some(rest) => outcome_state(&rest.outcome),
        None if record.held => JobState::Held,
        None => JobState::Pending,
    };
    ElementView {
        element: id,
        state,
        attempt: 0,
        backfilled: false,
        started: None,
        ends_by: None,
        expected_end: None,
        ended: rest.map(|rest| rest.at),
        outcome: rest.map(|rest| rest.outcome.clone()),
        last_end: None,
        checkpoint: None,
        checkpoint_asked: None,
        restarts_with_tasks: None,
        tasks: Vec::new(),
    }
}

fn node_view(
    node: &Node,
    seen: Time,
    mut holders: impl FnMut(usize) -> Option<Vec<ElementId>>,
) -> NodeView {
    let devices = node.spec.devices.iter().enumerate();
    NodeView {
        name: node.spec.name.clone(),
        up: node.up,
        drained: node
            .drains
            .node
            .as_ref()
            .filter(|_| node.availability.is_drained)
            .map(drain_reason),
        drain: node.drains.node.clone(),
        cpus: node.spec.cpus,
        cpus_used: CpuMilli(u32::try_from(node.used.cpus).unwrap_or(u32::MAX)),
        memory: node.spec.memory,
        memory_used: Bytes(node.used.memory),
        devices: devices
            .map(|(index, device)| {
                let mut elements = holders(index).unwrap_or_default();
                elements.sort_unstable();
                elements.dedup();
                DeviceView {
                    index: index as u16,
                    model: device.model.clone(),
                    memory: device.memory,
                    is_virtual: device.is_virtual,
                    used: GpuMilli(u32::from(node.held_of(index))),
                    foreign: node.foreign.devices.contains(index),
                    foreign_processes: foreign_processes(node, &[index as u16]),
                    drained: node.foreign.drained.or(node.availability.drained).contains(index),
                    drain: node.drains.of_device(&node.spec, index).cloned(),
                    elements,
                }
            })
            .collect(),
        advance_reservations: node
            .reservations
            .iter()
            .filter_map(|claim| advance_reservation::view::of_node(claim, seen))
            .collect(),
    }
}

/// Returns the processes outside Muster on these devices of a node.
pub(crate) fn foreign_processes(node: &Node, devices: &[u16]) -> Vec<ForeignProcess> {
    let all = node.foreign.processes.iter();
    all.filter(|process| devices.contains(&process.device)).cloned().collect()
}

/// Converts thousandths of GPUs for display; saturates at four million GPUs.
fn gpu_milli(milli: u64) -> GpuMilli {
    GpuMilli(u32::try_from(milli).unwrap_or(u32::MAX))
}

/// Returns why a node takes no new work: the reason, or else the administrator that drained it.
fn drain_reason(drain: &Drain) -> String {
    match (&*drain.reason, &drain.by) {
        ("", Some(by)) => format!("drained by {by}"),
        (reason, _) => reason.to_owned(),
    }
}

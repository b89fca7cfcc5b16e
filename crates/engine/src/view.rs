//! What people are shown, made from the state. Reads only; what text it becomes is up to `report`.

use std::collections::BTreeMap;

use muster_model::view::{
    ArrayView, CheckpointAskedView, CheckpointView, DeviceView, ElasticView, ElementView, JobView,
    NodeView, QueueView, RoleView, State as Word, TaskView, device_indices,
};
use muster_model::{
    Bytes, CpuMilli, Drain, ElementId, GpuMilli, JobId, JobSpec, Kind, NodeId, Outcome, QueueName,
    Rank, Reason, TaskGroup, TaskPlacement, Time, UserName,
};
use muster_policy::LeafId;

use crate::explain::reasons::Gaps;
use crate::fact::Counts;
use crate::state::State;
use crate::state::entries::{Owner, Standing};
use crate::state::job::{Element, Job, JobRecord, Phase, Run, RunEnd, RunStage};
use crate::state::node::Node;
use crate::state::window;

/// Describes a job in memory as far as lists are filtered by it; costs nothing to make, unlike a
/// view.
#[derive(Clone, Copy, Debug)]
pub struct JobKey<'a> {
    /// Number.
    pub job: JobId,
    /// Name.
    pub name: &'a str,
    /// Owner.
    pub user: &'a UserName,
    /// Leaf queue.
    pub queue: &'a QueueName,
    /// State, as views say it.
    pub state: Word,
}

impl State {
    /// All jobs in memory, by number.
    pub(crate) fn job_views(&self, now: Time) -> Vec<JobView> {
        self.views_of(now, self.jobs.iter())
    }

    /// Returns the jobs of these numbers that are in memory, in the order of the numbers.
    pub(crate) fn some_job_views(&self, now: Time, jobs: &[JobId]) -> Vec<JobView> {
        self.views_of(now, jobs.iter().filter_map(|id| Some((id, self.jobs.get(id)?))))
    }

    /// Returns what is known of every job without making its view, by number.
    pub(crate) fn job_keys(&self) -> impl Iterator<Item = JobKey<'_>> {
        self.jobs.iter().map(|(id, job)| {
            let record = &job.record;
            JobKey {
                job: *id,
                name: &record.spec.name,
                user: &record.spec.user,
                queue: self.policy.leaf_name(record.leaf),
                state: job_word(record),
            }
        })
    }

    fn views_of<'a>(
        &self,
        now: Time,
        jobs: impl Iterator<Item = (&'a JobId, &'a Job)>,
    ) -> Vec<JobView> {
        let mut gaps = Gaps::default();
        // Reserved starts by element.
        let etas: BTreeMap<ElementId, Time> =
            self.reservations.iter().map(|one| (one.element, one.start)).collect();
        let eta = |element| etas.get(&element).copied();
        jobs.map(|(id, job)| self.view_of(now, *id, job, &mut gaps, eta)).collect()
    }

    pub(crate) fn job_view(&self, now: Time, id: JobId) -> Option<JobView> {
        let job = self.jobs.get(&id)?;
        let reserved = |element| self.reservations.iter().find(|one| one.element == element);
        let eta = |element| reserved(element).map(|one| one.start);
        Some(self.view_of(now, id, job, &mut Gaps::default(), eta))
    }

    fn view_of(
        &self,
        now: Time,
        id: JobId,
        job: &Job,
        gaps: &mut Gaps,
        eta: impl Fn(ElementId) -> Option<Time>,
    ) -> JobView {
        let record = &job.record;
        let spec = &record.spec;
        let waiting = record.first_waiting();
        let waiting_for =
            waiting.and_then(|ordinal| self.first_reason(now, id, job, ordinal, gaps));
        let first = waiting.map(|ordinal| ElementId { job: id, index: record.index_of(ordinal) });
        let is_over = record.is_over();
        let (tasks, gpus) = size(record);
        JobView {
            job: id,
            name: spec.name.to_string(),
            user: spec.user.clone(),
            uid: spec.uid,
            queue: self.policy.leaf_name(record.leaf).clone(),
            priority: spec.priority,
            state: job_word(record),
            tasks,
            gpus,
            roles: spec.groups.iter().map(role_view).collect(),
            elastic: elastic(spec),
            time_limit: spec.time_limit,
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
            is_notebook: matches!(spec.kind, Kind::Notebook(_)),
            idle: spec.idle(),
            elements: self.element_views(now, id, record),
            waiting_for,
            eta: first.and_then(eta),
            native: None,
        }
    }

    fn element_views(&self, now: Time, id: JobId, record: &JobRecord) -> Vec<ElementView> {
        if let Some(service) = record.spec.service() {
            let shown = |ordinal: &u32, element: &Element| {
                *ordinal < service.replicas.ceiling || element.phase == Phase::Active
            };
            let replicas =
                record.elements.iter().filter(|(ordinal, element)| shown(ordinal, element));
            let view = |(ordinal, _): (&u32, _)| {
                self.element_view(now, ElementId { job: id, index: *ordinal })
            };
            return replicas.filter_map(view).collect();
        }
        if record.spec.array.is_none() {
            return self.element_view(now, ElementId { job: id, index: 0 }).into_iter().collect();
        }
        let active = record.elements.iter().filter(|(_, element)| element.phase == Phase::Active);
        active
            .filter_map(|(ordinal, _)| {
                self.element_view(now, ElementId { job: id, index: record.index_of(*ordinal) })
            })
            .collect()
    }

    pub(crate) fn element_view(&self, now: Time, id: ElementId) -> Option<ElementView> {
        let record = &self.jobs.get(&id.job)?.record;
        let ordinal = record.ordinal_of(id.index)?;
        let Some(element) = record.elements.get(&ordinal) else {
            return Some(fresh_view(id, record, ordinal));
        };
        let run = element.run.as_ref();
        let (outcome, ended) = match &element.phase {
            Phase::Ended { outcome, at } => (Some(outcome.clone()), Some(*at)),
            Phase::Waiting { .. } | Phase::Active => (None, None),
        };
        let live = run.filter(|_| element.phase == Phase::Active);
        Some(ElementView {
            element: id,
            state: element_word(element),
            attempt: element.attempt,
            backfilled: run.is_some_and(|run| run.backfilled),
            started: run.and_then(|run| run.started),
            ends_by: live.and_then(|run| ends_by(run, now)),
            ended,
            outcome,
            last_end: element.last_end.as_deref().cloned(),
            checkpoint: element.saved.as_deref().map(|saved| CheckpointView {
                at: saved.at,
                label: saved.label.to_string(),
                attempt: saved.attempt,
            }),
            checkpoint_asked: run.and_then(|run| asked(record, run)),
            goes_on_with: live
                .and(element.claim.as_deref())
                .map(|claim| claim.placement.len() as u32),
            tasks: run.map(|run| self.task_views(record, run)).unwrap_or_default(),
        })
    }

    fn task_views(&self, record: &JobRecord, run: &Run) -> Vec<TaskView> {
        let view =
            |(rank, (place, task)): (usize, (&TaskPlacement, &crate::state::job::TaskState))| {
                TaskView {
                    rank: Rank(rank as u32),
                    group: record.spec.groups[usize::from(place.group)].name.to_string(),
                    node: self.pool.node(place.node).spec.name.clone(),
                    devices: device_indices(place.devices),
                    share: place.share,
                    stage: task.stage,
                    ready: task.ready,
                    exit: task.exit.clone(),
                }
            };
        run.placement.iter().zip(&run.tasks).enumerate().map(view).collect()
    }

    /// All nodes, by name.
    pub(crate) fn node_views(&self) -> Vec<NodeView> {
        let mut holders: BTreeMap<(NodeId, usize), Vec<ElementId>> = BTreeMap::new();
        for holding in self.pool.holdings() {
            for task in holding.placement.iter() {
                for device in task.devices.iter() {
                    holders.entry((task.node, device)).or_default().push(holding.element);
                }
            }
        }
        let seen = self.pool.seen();
        let mut views: Vec<NodeView> = self
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

    /// All queues; elements that the policy does not see as waiting (held, dependent, asleep,
    /// beyond the tickets of their array) are added.
    pub(crate) fn queue_views(&self, now: Time) -> Vec<QueueView> {
        let mut unseen: BTreeMap<LeafId, u32> = BTreeMap::new();
        for (id, job) in self.jobs.iter() {
            let record = &job.record;
            let seen = |ordinal| match self.entries.standing(Owner { job: *id, ordinal }) {
                Standing::Queued(tickets) => tickets,
                Standing::Out | Standing::Sleeping(_) => 0,
            };
            let individual: u32 = record
                .elements
                .iter()
                .filter(|(_, element)| matches!(element.phase, Phase::Waiting { .. }))
                .map(|(ordinal, _)| seen(Some(*ordinal)))
                .sum();
            let waiting = record.total - record.active - record.succeeded - record.failed;
            *unseen.entry(record.leaf).or_default() += waiting - individual - seen(None);
        }
        unseen.retain(|_, count| *count > 0);
        self.policy.queue_views_with(now, &unseen)
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts {
            nodes: self.pool.nodes().len() as u64,
            jobs: self.jobs.len() as u64,
            ..Counts::default()
        };
        for job in self.jobs.values() {
            let record = &job.record;
            counts.active += u64::from(record.active);
            counts.pending += u64::from(record.waiting());
        }
        counts
    }

    /// The first thing that keeps an element from starting.
    fn first_reason(
        &self,
        now: Time,
        id: JobId,
        job: &Job,
        ordinal: u32,
        gaps: &mut Gaps,
    ) -> Option<Reason> {
        let own = self.own_reasons(now, job, ordinal);
        own.into_iter().next().or_else(|| self.outer_reason(now, id, job, ordinal, gaps))
    }
}

impl JobRecord {
    /// The first element that waits, by ordinal.
    pub(crate) fn first_waiting(&self) -> Option<u32> {
        let individual = self
            .elements
            .iter()
            .find(|(_, element)| matches!(element.phase, Phase::Waiting { .. }));
        let individual = individual.map(|(ordinal, _)| *ordinal);
        let fresh = (self.next < self.total).then_some(self.next);
        individual.into_iter().chain(fresh).min()
    }
}

/// Tasks and GPUs of one element: of an elastic gang what it holds, else what it needs.
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

/// State of the element that is furthest from done.
fn job_word(record: &JobRecord) -> Word {
    if record.active > 0 {
        let words = record
            .elements
            .values()
            .filter(|element| element.phase == Phase::Active)
            .map(|element| element_word(element));
        // Running outranks starting, which outranks stopping.
        let rank = |word: &Word| match word {
            Word::Running => 0,
            Word::Starting => 1,
            _ => 2,
        };
        return words.min_by_key(rank).unwrap_or(Word::Starting);
    }
    match record.first_waiting() {
        Some(ordinal) => match record.elements.get(&ordinal) {
            Some(element) => element_word(element),
            None if record.held => Word::Held,
            None => Word::Pending,
        },
        None if record.failed == 0 => Word::Done,
        None => {
            let ended = record.elements.values().map(|element| element_word(element));
            let rest = record.rest.as_ref().map(|rest| outcome_word(&rest.outcome));
            match ended.chain(rest).any(|word| word == Word::Failed) {
                true => Word::Failed,
                false => Word::Cancelled,
            }
        }
    }
}

fn element_word(element: &Element) -> Word {
    match &element.phase {
        Phase::Waiting { held: true, .. } => Word::Held,
        Phase::Waiting { held: false, .. } => Word::Pending,
        Phase::Ended { outcome, .. } => outcome_word(outcome),
        Phase::Active => match element.run.as_ref().map(|run| run.stage) {
            Some(RunStage::Running) => Word::Running,
            Some(RunStage::Stopping(_)) => Word::Stopping,
            _ => Word::Starting,
        },
    }
}

fn outcome_word(outcome: &Outcome) -> Word {
    match outcome {
        Outcome::Succeeded | Outcome::Idle { .. } => Word::Done,
        Outcome::Cancelled { .. } => Word::Cancelled,
        _ => Word::Failed,
    }
}

/// A request that nobody has answered.
fn asked(record: &JobRecord, run: &Run) -> Option<CheckpointAskedView> {
    let (at, checkpoint) = (run.asked.unanswered?, record.spec.checkpoint?);
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
    let individual = record.elements.values().filter_map(|element| match &element.phase {
        Phase::Ended { at, .. } => Some(*at),
        Phase::Waiting { .. } | Phase::Active => None,
    });
    individual.chain(record.rest.as_ref().map(|rest| rest.at)).max()
}

/// An element without a record: it waits, or ended together with the rest.
fn fresh_view(id: ElementId, record: &JobRecord, ordinal: u32) -> ElementView {
    let rest = record.rest.as_ref().filter(|rest| ordinal >= rest.from);
    let state = match rest {
        Some(rest) => outcome_word(&rest.outcome),
        None if record.held => Word::Held,
        None => Word::Pending,
    };
    ElementView {
        element: id,
        state,
        attempt: 0,
        backfilled: false,
        started: None,
        ends_by: None,
        ended: rest.map(|rest| rest.at),
        outcome: rest.map(|rest| rest.outcome.clone()),
        last_end: None,
        checkpoint: None,
        checkpoint_asked: None,
        goes_on_with: None,
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
        drained: node.drains.node.as_ref().filter(|_| node.walls.is_drained).map(why),
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
                    drained: node.foreign.drained.or(node.walls.drained).contains(index),
                    drain: node.drains.of_device(&node.spec, index).cloned(),
                    elements,
                }
            })
            .collect(),
        windows: node
            .claims
            .iter()
            .filter_map(|claim| window::view::of_node(claim, seen))
            .collect(),
    }
}

/// For people: saturates at four million GPUs.
fn gpu_milli(milli: u64) -> GpuMilli {
    GpuMilli(u32::try_from(milli).unwrap_or(u32::MAX))
}

/// Why a node takes no new work; at least by whose word.
fn why(drain: &Drain) -> String {
    match (&*drain.reason, &drain.by) {
        ("", Some(by)) => format!("drained by {by}"),
        (reason, _) => reason.to_owned(),
    }
}

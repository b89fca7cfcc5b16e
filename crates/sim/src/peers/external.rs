//! A policy outside of Muster as a scheduler: it gets the state at every instant and answers with
//! jobs to start. This file checks the answers and carries them out. How the policy is asked is
//! behind a trait: it must not do I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use muster_model::simulation::{
    PolicyAnswer, PolicyEvents, PolicyJob, PolicyNode, PolicyPlace, PolicyRun, PolicyStart,
    PolicyState,
};
use muster_model::{DeviceSet, NodeId, Span, Time};

use super::gang;
use crate::fleet::{ClusterState, FleetSite, JobNo, PoolNode, Scheduler, SchedulerError};

/// Most characters of an answer that an error quotes.
const MOST_QUOTED: usize = 300;

/// A policy that can be asked for decisions.
pub trait Policy: fmt::Debug + Send {
    /// Returns the decisions for a state.
    ///
    /// # Errors
    /// There is no usable answer.
    fn decide(&mut self, state: &PolicyState) -> Result<PolicyReply, PolicyError>;
}

/// Reason why a policy has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// The simulation is to stop.
    Interrupted,
    /// The policy failed; the text says why.
    Failed(String),
}

impl From<PolicyError> for SchedulerError {
    fn from(error: PolicyError) -> Self {
        match error {
            PolicyError::Interrupted => SchedulerError::Interrupted,
            PolicyError::Failed(why) => SchedulerError::Policy(why),
        }
    }
}

/// Answer of a policy, and the text of which it was read, for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyReply {
    /// Jobs to start, as parsed.
    pub answer: PolicyAnswer,
    /// The answer as it was written.
    pub line: String,
}

/// Returns an answer as errors quote it.
#[must_use]
pub fn quoted(line: &str) -> String {
    let mut text: String = line.chars().take(MOST_QUOTED).collect::<String>();
    text = text.escape_debug().to_string().replace("\\\"", "\"");
    let rest = if line.chars().count() > MOST_QUOTED { "…" } else { "" };
    format!("`{text}{rest}`")
}

/// A scheduler that asks a policy.
#[derive(Debug)]
pub struct External {
    policy: Box<dyn Policy>,
    nodes: BTreeMap<String, NodeId>,
    pending: BTreeSet<JobNo>,
    running: BTreeSet<JobNo>,
    /// Jobs that lost a task; the others still hold their resources.
    broken: BTreeSet<JobNo>,
    since: PolicyEvents,
    wake: Option<Time>,
}

impl External {
    /// Creates the scheduler of a site.
    #[must_use]
    pub fn new(site: &FleetSite, policy: Box<dyn Policy>) -> Self {
        let nodes = (0..).zip(&site.nodes);
        Self {
            policy,
            nodes: nodes.map(|(at, node)| (node.name.to_string(), NodeId(at))).collect(),
            pending: BTreeSet::new(),
            running: BTreeSet::new(),
            broken: BTreeSet::new(),
            since: PolicyEvents::default(),
            wake: None,
        }
    }

    fn state(&mut self, cluster: &ClusterState) -> PolicyState {
        PolicyState {
            now_ms: cluster.now().0,
            nodes: cluster.pool().nodes().map(|(_, node)| node_of(node)).collect(),
            pending: self.pending.iter().map(|job| job_of(cluster, *job)).collect(),
            running: self.running.iter().map(|job| run_of(cluster, *job)).collect(),
            since: std::mem::take(&mut self.since),
        }
    }

    /// Starts a pending job as a whole, or says why the answer is wrong.
    fn start(&mut self, cluster: &mut ClusterState, start: &PolicyStart) -> Result<(), String> {
        let number = start.job;
        let job = JobNo(number);
        if job.at() >= cluster.jobs().len() {
            return Err(format!("there is no job {number}"));
        }
        if !self.pending.contains(&job) {
            let why = if self.running.contains(&job) { "runs already" } else { "has ended" };
            return Err(format!("job {number} {why}"));
        }
        match &start.tasks {
            Some(places) => self.place(cluster, job, places)?,
            None => pack(cluster, job)?,
        }
        self.pending.remove(&job);
        self.running.insert(job);
        Ok(())
    }

    /// Places the tasks of a job as the policy says.
    fn place(
        &self,
        cluster: &mut ClusterState,
        job: JobNo,
        places: &[PolicyPlace],
    ) -> Result<(), String> {
        let number = job.0;
        let tasks = cluster.job(job).tasks;
        if places.len() != tasks as usize {
            return Err(format!("job {number} has {tasks} tasks, not {}", places.len()));
        }
        for (rank, PolicyPlace { node, devices }) in (0..).zip(places) {
            let id = *self
                .nodes
                .get(node)
                .ok_or_else(|| format!("there is no node {}", node.escape_debug()))?;
            let there = cluster.pool().node(id);
            let set = match devices {
                None => there.choose(&cluster.job(job).task),
                Some(devices) => {
                    let count = there.spec.devices.len();
                    if let Some(device) = devices.iter().find(|at| usize::from(**at) >= count) {
                        return Err(format!("node {node} has no GPU {device}"));
                    }
                    Some(devices.iter().map(|device| usize::from(*device)).collect::<DeviceSet>())
                }
            };
            let placed = set.map(|set| cluster.place_on(job, rank, id, set));
            if !matches!(placed, Some(Ok(()))) {
                return Err(format!(
                    "task {rank} of job {number} does not fit on node {node} there"
                ));
            }
        }
        Ok(())
    }
}

/// Places the tasks of a job where the fewest GPUs, then CPUs, are free.
fn pack(cluster: &mut ClusterState, job: JobNo) -> Result<(), String> {
    let number = job.0;
    let there = cluster.job(job);
    let fullest = |node: &PoolNode, placed: u32| {
        let gpus = u64::from(node.whole.len().saturating_sub(placed * there.task.gpu.devices));
        u64::MAX - (gpus << 32 | u64::from(node.cpus))
    };
    let places = gang::places(cluster.pool(), &there.task, there.tasks, fullest, |_| 0);
    let places = places.ok_or_else(|| format!("job {number} does not fit now"))?;
    gang::seat(cluster, job, &places).map_err(|error| error.to_string())
}

impl Scheduler for External {
    fn arrived(&mut self, _cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        self.pending.insert(job);
        self.since.arrived.push(job.0);
        Ok(())
    }

    fn ended(&mut self, _cluster: &ClusterState, job: JobNo) {
        self.running.remove(&job);
        self.since.ended.push(job.0);
    }

    fn lost(
        &mut self,
        _cluster: &ClusterState,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        for (job, _) in tasks {
            if self.running.remove(job) {
                self.broken.insert(*job);
                self.pending.insert(*job);
                self.since.stopped.push(job.0);
            }
        }
    }

    fn repaired(&mut self, _cluster: &ClusterState, _node: NodeId, _device: Option<usize>) {}

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        self.wake
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let now = cluster.now();
        for job in std::mem::take(&mut self.broken) {
            cluster.evict(job);
        }
        let state = self.state(cluster);
        let PolicyReply { answer, line } = self.policy.decide(&state)?;
        let refused = |what: String| {
            let at = Span(now.0);
            SchedulerError::Policy(format!(
                "{what} (at {at} of the trace); it wrote {}",
                quoted(&line)
            ))
        };
        for start in &answer.start {
            self.start(cluster, start).map_err(refused)?;
        }
        let wake = answer.wake_ms.map(Time);
        if let Some(Time(at)) = wake.filter(|at| *at <= now) {
            return Err(refused(format!("wake_ms {at} is not after now_ms {}", now.0)));
        }
        self.wake = wake;
        Ok(())
    }

    fn why(&mut self, _cluster: &ClusterState, _job: JobNo) -> String {
        "the policy has not started it".to_owned()
    }
}

fn node_of(node: &PoolNode) -> PolicyNode {
    let free = if node.is_up { node.whole } else { DeviceSet::EMPTY };
    PolicyNode {
        name: node.spec.name.to_string(),
        is_up: node.is_up,
        models: node.spec.devices.iter().map(|device| device.model.to_string()).collect(),
        free: free.iter().map(|at| at as u16).collect(),
        cpus_milli: node.cpus,
        memory_bytes: node.memory_bytes,
    }
}

fn job_of(cluster: &ClusterState, number: JobNo) -> PolicyJob {
    let job = cluster.job(number);
    PolicyJob {
        job: number.0,
        id: job.id.to_string(),
        user: job.user.to_string(),
        queue: job.queue.to_string(),
        priority: job.priority,
        submit_ms: job.submit.0,
        limit_ms: job.estimate.map(|limit| limit.0),
        tasks: job.tasks,
        task_gpus: job.task.gpu.devices,
        models: job.task.gpu.models.iter().map(ToString::to_string).collect(),
        task_cpus_milli: job.task.cpus.0,
        task_memory_bytes: job.task.memory.0,
    }
}

fn run_of(cluster: &ClusterState, number: JobNo) -> PolicyRun {
    let job = cluster.job(number);
    let places = (0..job.tasks).filter_map(|rank| cluster.place_of(number, rank));
    let tasks = places.map(|(node, devices)| PolicyPlace {
        node: cluster.pool().node(node).spec.name.to_string(),
        devices: Some(devices.iter().map(|at| at as u16).collect()),
    });
    PolicyRun {
        job: number.0,
        user: job.user.to_string(),
        start_ms: cluster.runs_since(number).unwrap_or_default().0,
        limit_ms: job.estimate.map(|limit| limit.0),
        tasks: tasks.collect(),
    }
}

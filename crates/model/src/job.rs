//! Jobs as submitted and checked: task groups, their resources, and scheduling options.
//!
//! This is the part that the engine schedules. Command and environment are in [`crate::payload`];
//! the text that users write is parsed in `spec`. A value of these types has passed the checks of
//! `spec`; nothing here checks again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::array::Array;
use crate::id::{AdvanceReservationName, JobId, NodeName, PayloadId, QueueName, UserName};
use crate::node::GpuModel;
use crate::unit::{Bytes, CpuMilli, GpuMilli, Span, Time};

/// Submitted job. All elements of an array share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name of the job, for users; not unique.
    pub name: Arc<str>,
    /// User that submitted the job.
    pub user: UserName,
    /// User id of the submitter; `None` where users have none. Owner checks compare the name and
    /// the number, since each alone is reused after an account is deleted.
    #[serde(default)]
    pub uid: Option<u32>,
    /// Leaf queue that the job is submitted to.
    pub queue: QueueName,
    /// Priority within the queue; higher values are scheduled first.
    pub priority: i32,
    /// Task groups; their minimum sizes together are the gang. Never empty.
    pub groups: Vec<TaskGroup>,
    /// Longest run time of one attempt, from the moment that user processes run; `None` means no
    /// limit.
    pub time_limit: Option<Span>,
    /// Run time that planning expects of one attempt; `None` where it goes by the time limit. Set
    /// by whoever submits for a site that plans by predictions; it ends nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_runtime: Option<Span>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Requirements on the nodes that host it.
    pub constraint: NodeConstraint,
    /// Indices of an array job; `None` when the job is not an array.
    pub array: Option<Array>,
    /// Jobs that must reach a state before this one starts.
    pub after: Vec<Dependency>,
    /// Restart policy for tasks that fail or are lost.
    pub restart: Restart,
    /// Checkpoint signal and its lead time before the time limit; `None` when the job takes no
    /// checkpoints.
    pub checkpoint: Option<Checkpoint>,
    /// True when the job is submitted on hold.
    pub held: bool,
    /// Earliest start; `None` means at once.
    pub begin: Option<Time>,
    /// Protection of running elements from preemption. With any protection of its own the job
    /// starts only within nominal quota, since borrowed quota must stay reclaimable.
    #[serde(default)]
    pub protect: Protection,
    /// Id of the stored command and environment.
    pub payload: PayloadId,
    /// Kind of workload: batch job, service or notebook.
    #[serde(default)]
    pub kind: WorkloadKind,
    /// Scheduling tier, which orders before the priority.
    #[serde(default)]
    pub tier: Tier,
    /// Run time at one size after which an elastic gang that takes checkpoints may grow; `None`
    /// means that it does not grow while it runs.
    #[serde(default = "JobSpec::default_grow_after")]
    pub grow_after: Option<Span>,
    /// True if running jobs may be preempted for it, by priority or to reclaim quota. Moves of
    /// `defragment` do not depend on it.
    #[serde(default = "JobSpec::default_preempts")]
    pub preempts: bool,
}

/// Sizes of an elastic gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// Index of the elastic task group in `groups`.
    pub group: u16,
    /// Fewest tasks of the group.
    pub min: u32,
    /// Most tasks of the group.
    pub max: u32,
    /// Tasks that are added or removed together: those of one node, or of one segment.
    pub step: u32,
}

impl JobSpec {
    /// Makes a job of these groups in the queue `default` without any options: no time limit, no
    /// grace, no restart.
    #[must_use]
    pub fn plain(
        name: impl Into<Arc<str>>,
        user: impl Into<UserName>,
        groups: Vec<TaskGroup>,
    ) -> Self {
        Self {
            name: name.into(),
            user: user.into(),
            uid: None,
            queue: "default".into(),
            priority: 0,
            groups,
            time_limit: None,
            expected_runtime: None,
            grace: Span(0),
            constraint: NodeConstraint::default(),
            array: None,
            after: Vec::new(),
            restart: Restart::NEVER,
            checkpoint: None,
            held: false,
            begin: None,
            protect: Protection::None,
            payload: PayloadId(0),
            kind: WorkloadKind::Task,
            tier: Tier::Normal,
            grow_after: Self::default_grow_after(),
            preempts: Self::default_preempts(),
        }
    }

    /// Returns the number of tasks at the gang's minimum size, over all groups.
    #[must_use]
    pub fn min_tasks(&self) -> u32 {
        self.groups.iter().map(|group| group.min_tasks).sum()
    }

    /// Returns the number of GPUs at the gang's minimum size, in thousandths.
    #[must_use]
    pub fn min_gpus(&self) -> u64 {
        self.groups
            .iter()
            .map(|group| u64::from(group.min_tasks) * u64::from(group.task.gpu.milli().0))
            .sum()
    }

    /// Returns the elastic group and its sizes; `None` when the size is fixed. At most one group is
    /// elastic.
    #[must_use]
    pub fn elastic(&self) -> Option<Elastic> {
        let mut groups = (0..).zip(&self.groups);
        let (at, group) = groups.find(|(_, group)| group.min_tasks < group.max_tasks)?;
        let segment =
            self.constraint.topology.as_ref().and_then(|topology| topology.segment.as_ref());
        let step = segment.map_or(group.tasks_per_node.unwrap_or(1), |segment| segment.tasks);
        Some(Elastic { group: at, min: group.min_tasks, max: group.max_tasks, step: step.max(1) })
    }

    /// Default of `grow_after`: run time at one size before a gang may grow.
    pub const GROW_AFTER: Span = Span::from_secs(600);

    fn default_grow_after() -> Option<Span> {
        Some(Self::GROW_AFTER)
    }

    fn default_preempts() -> bool {
        true
    }

    /// Returns the number of elements: 1 unless the job is an array or a service.
    #[must_use]
    pub fn element_count(&self) -> u32 {
        match (&self.kind, &self.array) {
            (WorkloadKind::Service(service), _) => service.replicas.max,
            (_, Some(array)) => array.count(),
            (_, None) => 1,
        }
    }

    /// Returns the service settings; `None` when the job is not a service.
    #[must_use]
    pub fn service(&self) -> Option<&Service> {
        match &self.kind {
            WorkloadKind::Service(service) => Some(service),
            WorkloadKind::Task | WorkloadKind::Notebook(_) => None,
        }
    }

    /// Returns the idle time after which the job is stopped; `None` when it is not stopped for
    /// that.
    #[must_use]
    pub fn idle(&self) -> Option<Span> {
        match &self.kind {
            WorkloadKind::Notebook(notebook) => notebook.idle,
            WorkloadKind::Task | WorkloadKind::Service(_) => None,
        }
    }

    /// Returns the tier of an element: replicas of a service above its guaranteed number are in the
    /// last one.
    #[must_use]
    pub fn tier_of(&self, ordinal: u32) -> Tier {
        match self.service() {
            Some(service) if ordinal >= service.replicas.guaranteed => Tier::Opportunistic,
            _ => self.tier,
        }
    }

    /// Returns the job's own protection of an element from preemption: guaranteed replicas of a
    /// service are always protected.
    #[must_use]
    pub fn protect_of(&self, ordinal: u32) -> Protection {
        match self.service() {
            Some(service) if ordinal < service.replicas.guaranteed => Protection::Always,
            Some(_) => Protection::None,
            None => self.protect,
        }
    }

    /// Returns the sort key of an element within its queue, highest first: its tier, then its
    /// priority.
    #[must_use]
    pub fn order_of(&self, ordinal: u32) -> i32 {
        self.tier_of(ordinal).order(self.priority)
    }
}

/// Kind of workload that a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadKind {
    /// Batch job that runs to its end.
    #[default]
    Task,
    /// Service that runs in replicas until it is cancelled.
    Service(Service),
    /// Interactive notebook: one task that a user works in.
    Notebook(Notebook),
}

/// Service: each replica is an element of its job, which starts, fails and restarts alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Guaranteed and highest number of replicas.
    pub replicas: Replicas,
    /// Port of replica 0; replica `n` listens on this port plus `n`. `None` when the service has no
    /// ports.
    pub port: Option<u16>,
}

impl Service {
    /// Returns the port of a replica; `None` when the service has no ports, or when the number
    /// would exceed 65535.
    #[must_use]
    pub fn port_of(&self, index: u32) -> Option<u16> {
        u16::try_from(u32::from(self.port?).checked_add(index)?).ok()
    }
}

/// Number of replicas: the first `guaranteed` ones are protected, those up to `max` are
/// opportunistic and wait in [`Tier::Opportunistic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Replicas {
    /// Guaranteed replicas, which are protected from preemption.
    #[serde(rename = "floor")]
    pub guaranteed: u32,
    /// Highest number of replicas; at least 1, never below `guaranteed`.
    #[serde(rename = "ceiling")]
    pub max: u32,
}

impl Replicas {
    /// Most replicas of a service; the limit exists because each has a record from the start.
    pub const LIMIT: u32 = 1_000;
}

/// Settings of a notebook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notebook {
    /// Idle time after which the notebook is stopped; `None` means never.
    pub idle: Option<Span>,
}

/// Scheduling tier of an element.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// After everything else in all queues: runs only on idle resources.
    #[serde(rename = "last")]
    Opportunistic,
    /// In normal scheduling order.
    #[default]
    #[serde(rename = "usual")]
    Normal,
}

impl Tier {
    /// Highest sort key in [`Tier::Opportunistic`]; keys of [`Tier::Normal`] are above it.
    pub const MAX_OPPORTUNISTIC_ORDER: i32 = -(1 << 30) - 1;

    /// Combines tier and priority into one sort key, higher first. All priorities that users may
    /// set keep their order.
    #[must_use]
    pub fn order(self, priority: i32) -> i32 {
        const WIDTH: i32 = 1 << 29;
        match self {
            Tier::Normal => priority.max(Self::MAX_OPPORTUNISTIC_ORDER + 1),
            Tier::Opportunistic => {
                Self::MAX_OPPORTUNISTIC_ORDER - WIDTH + priority.clamp(1 - WIDTH, WIDTH)
            }
        }
    }

    /// Returns the tier of a sort key.
    #[must_use]
    pub fn of_order(order: i32) -> Self {
        if order <= Self::MAX_OPPORTUNISTIC_ORDER { Tier::Opportunistic } else { Tier::Normal }
    }
}

/// Task group: identical tasks of one role in a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskGroup {
    /// Role, unique within the job: `worker`, `trainer`.
    pub name: Arc<str>,
    /// Fewest tasks of the group, without which the gang does not start.
    pub min_tasks: u32,
    /// Most tasks that the group may grow to; equal to `min_tasks` unless the job is elastic.
    pub max_tasks: u32,
    /// With `Some(n)`: exactly `n` tasks on each node used, so the number of tasks is a multiple of
    /// `n` and different blocks are on different nodes (`nodes: 2`). With `None`: tasks are placed
    /// on any nodes, several on one node where they fit.
    pub tasks_per_node: Option<u32>,
    /// Resources of each task.
    pub task: Resources,
}

impl TaskGroup {
    /// Makes a group with a fixed number of tasks that may share nodes.
    #[must_use]
    pub fn of(name: impl Into<Arc<str>>, tasks: u32, task: Resources) -> Self {
        Self { name: name.into(), min_tasks: tasks, max_tasks: tasks, tasks_per_node: None, task }
    }
}

/// Resources that one task holds on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resources {
    /// Whole GPUs, or a share of one.
    pub gpu: GpuRequest,
    /// Number of CPUs; 0 means that none are reserved.
    pub cpus: CpuMilli,
    /// Memory in bytes; 0 means that none is reserved.
    pub memory: Bytes,
    /// Extra resources of the node (licences, NICs), in whole units.
    pub extras: BTreeMap<Arc<str>, u64>,
}

/// GPU request of one task: whole devices, or a share of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuRequest {
    /// Number of whole devices; 0 when a share or no GPU is requested.
    pub devices: u32,
    /// Thousandths of one device, 1..=999; 0 when whole devices or no GPU are requested.
    pub share: GpuMilli,
    /// Accepted models; empty means any. All devices of a task are of one model.
    pub models: Vec<GpuModel>,
}

impl GpuRequest {
    /// Makes a request for `devices` whole GPUs of any model.
    #[must_use]
    pub fn whole(devices: u32) -> Self {
        Self { devices, ..Self::default() }
    }

    /// Returns the requested thousandths of a GPU in total.
    #[must_use]
    pub fn milli(&self) -> GpuMilli {
        GpuMilli(self.devices * 1000 + self.share.0)
    }

    /// Returns true when the task requests no GPU.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.devices == 0 && self.share.0 == 0
    }
}

/// Requirements on the nodes that host a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeConstraint {
    /// Labels, with their values, that a node must have.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Nodes that must not be used; grows when a gang restarts away from a failed node.
    pub exclude: Vec<NodeName>,
    /// Topology requirement; `None` means that any nodes will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Advance reservation that the job runs in, and only in it; `None` means outside of all.
    #[serde(default, rename = "window", skip_serializing_if = "Option::is_none")]
    pub advance_reservation: Option<AdvanceReservationName>,
}

/// Topology requirement of a gang. Level names are those of the cluster; the narrowest level of
/// every cluster is [`Topology::NODE`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topology {
    /// Rule for all tasks together.
    pub rule: TopologyRule,
    /// Segments of the gang that must each be in one domain; `None` means no segments.
    pub segment: Option<Segment>,
}

impl Topology {
    /// Name of the level at which each node is a domain by itself.
    pub const NODE: &'static str = "node";
}

/// Placement of a gang's tasks over the domains of a level.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TopologyRule {
    /// No rule; only the segments apply.
    Anywhere,
    /// All tasks in one domain of this level.
    Required(Arc<str>),
    /// As few domains of this level as possible.
    Preferred(Arc<str>),
    /// As many domains of this level as possible, evenly.
    Spread(Arc<str>),
}

/// Segments of a gang: every `tasks` consecutive ranks of a group are in one domain of a level. The
/// number of tasks of each group is a multiple of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Segment {
    /// Number of ranks per segment.
    pub tasks: u32,
    /// Topology level of the domain.
    pub level: Arc<str>,
}

/// Dependency on another job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// Condition that satisfies the dependency.
    pub kind: DependencyKind,
    /// Job to wait for; of an array, all elements.
    pub job: JobId,
}

/// Condition that satisfies a dependency (names as in Slurm).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DependencyKind {
    /// The other job has started or was cancelled.
    After,
    /// The other job ended, with any outcome.
    AfterAny,
    /// The other job ended with success.
    AfterOk,
    /// The other job ended without success.
    AfterNotOk,
}

impl DependencyKind {
    /// Kinds in the order in which messages list them.
    pub const ALL: [Self; 4] = [Self::AfterOk, Self::AfterNotOk, Self::AfterAny, Self::After];

    /// Returns the kind as users and Slurm write it: `afterok`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::After => "after",
            Self::AfterAny => "afterany",
            Self::AfterOk => "afterok",
            Self::AfterNotOk => "afternotok",
        }
    }

    /// Returns the state that the other job must reach, as a verb: `succeed`.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::After => "start",
            Self::AfterAny => "end",
            Self::AfterOk => "succeed",
            Self::AfterNotOk => "fail",
        }
    }
}

/// Restart policy: what happens when a task of the gang fails, times out on start, or is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// True to restart the whole gang after a task exits with an error, is lost (node gone,
    /// supervisor killed, reboot) or fails to start.
    pub on_failure: bool,
    /// Most restarts for failures.
    pub max_restarts: u32,
    /// Wait before the first restart; doubles each time, at most [`Restart::BACKOFF_CAP`].
    pub backoff: Span,
    /// True to restart after any end, success and time limit included, without a limit on restarts.
    #[serde(default)]
    pub always: bool,
}

impl Restart {
    /// Longest wait between restarts.
    pub const BACKOFF_CAP: Span = Span::from_secs(600);

    /// Policy without restarts: the gang fails when a task does.
    pub const NEVER: Restart =
        Restart { on_failure: false, max_restarts: 0, backoff: Span::from_secs(1), always: false };

    /// Policy of services: restart after every end; an element that ends at once waits longer each
    /// time.
    pub const ALWAYS: Restart = Restart {
        on_failure: true,
        max_restarts: u32::MAX,
        backoff: Span::from_secs(1),
        always: true,
    };

    /// Run time after which an element with the policy `always` counts as healthy: its back-off is
    /// reset.
    pub const HEALTHY_AFTER: Span = Restart::BACKOFF_CAP;

    /// Back-off of tasks that name none.
    pub const DEFAULT_BACKOFF: Span = Span::from_secs(10);

    /// Returns true if the back-off differs from both defaults, of tasks and of services. A default that
    /// the user wrote out counts as a default.
    #[must_use]
    pub fn has_own_backoff(&self) -> bool {
        ![Self::DEFAULT_BACKOFF, Self::ALWAYS.backoff].contains(&self.backoff)
    }
}

/// Time for which a running element is protected from preemption.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// Not protected from preemption.
    #[default]
    None,
    /// Protected for this long after the element began to hold its resources.
    For(Span),
    /// Protected until it ends.
    Always,
}

impl Protection {
    /// Returns the instant from which an element that holds its resources since `held_from` may be
    /// preempted.
    #[must_use]
    pub fn until(self, held_from: Time) -> Time {
        match self {
            Protection::None => Time(0),
            Protection::For(span) => held_from + span,
            Protection::Always => Time::NEVER,
        }
    }
}

/// Checkpoint settings: the signal that asks the job to save its progress before its time limit and
/// on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Number of the signal to send.
    pub signal: i32,
    /// Time before the time limit at which the signal is sent, and longest wait for the
    /// acknowledgement.
    pub lead: Span,
    /// Ranks that must acknowledge.
    #[serde(default)]
    pub by: CheckpointBy,
    /// Action after an acknowledgement of the warning before the time limit.
    #[serde(default)]
    pub then: AfterCheckpoint,
    /// Processes of a task that get the signal.
    #[serde(default)]
    pub to: CheckpointTo,
}

/// Processes of a task that get the checkpoint signal. A process that does not handle it never gets
/// it: the signal would end the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointTo {
    /// Every process that handles the signal, except forked copies of such a process: these inherit
    /// the handler, and their state is not the program's. A process that handles all signals alike
    /// (bash with an EXIT trap) does not count.
    #[default]
    Handlers,
    /// The outermost process that handles the signal, on each branch of the process tree; it
    /// forwards the signal if necessary.
    Outermost,
    /// Every process that handles the signal.
    All,
}

/// Ranks that must acknowledge a checkpoint of the gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointBy {
    /// Rank 0, on behalf of all ranks.
    #[default]
    First,
    /// Every rank; the checkpoint of the gang is as old as the oldest of their latest ones.
    All,
}

/// Action after a checkpoint that acknowledges the warning before the time limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterCheckpoint {
    /// The job continues to its time limit.
    #[default]
    Continue,
    /// The job is stopped and counts as timed out.
    Stop,
    /// The job is stopped and queued again; its next attempt resumes.
    Requeue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tier_comes_after_every_priority() {
        let orders: Vec<i32> = [
            (Tier::Opportunistic, i32::MIN),
            (Tier::Opportunistic, -1_000_000),
            (Tier::Opportunistic, 0),
            (Tier::Opportunistic, 1_000_000),
            (Tier::Opportunistic, i32::MAX),
            (Tier::Normal, i32::MIN),
            (Tier::Normal, -1_000_000),
            (Tier::Normal, 0),
            (Tier::Normal, i32::MAX),
        ]
        .into_iter()
        .map(|(tier, priority)| {
            assert_eq!(Tier::of_order(tier.order(priority)), tier);
            tier.order(priority)
        })
        .collect();
        assert!(orders.is_sorted() && orders.windows(2).all(|two| two[0] < two[1]), "{orders:?}");
    }

    #[test]
    fn ports_end_where_there_are_no_more() {
        let service = Service { replicas: Replicas { guaranteed: 1, max: 9 }, port: Some(65_534) };
        assert_eq!(
            [0, 1, 2].map(|index| service.port_of(index)),
            [Some(65_534), Some(65_535), None]
        );
    }
}

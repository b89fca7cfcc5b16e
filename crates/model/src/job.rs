//! What a user submits, checked: a job, its task groups, their resources, and how it wants to be
//! treated.
//!
//! Here is the *shape* that the engine schedules. Command and environment are in
//! [`crate::payload`]; the text that users write is in `spec`. A value of these types has passed
//! `spec`'s checks; nothing here re-checks.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::array::Array;
use crate::id::{JobId, NodeName, PayloadId, QueueName, UserName, WindowName};
use crate::node::GpuModel;
use crate::unit::{Bytes, CpuMilli, GpuMilli, Span, Time};

/// A submitted job. Elements of an array share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name for people; not unique.
    pub name: Arc<str>,
    /// Who submitted it.
    pub user: UserName,
    /// Their number, where users have one: with the name it says whose the job is, since each alone
    /// is given away again once an account was deleted.
    #[serde(default)]
    pub uid: Option<u32>,
    /// Leaf queue it waits in.
    pub queue: QueueName,
    /// Higher goes first within its queue.
    pub priority: i32,
    /// Roles; together their minimums are the gang. Never empty.
    pub groups: Vec<TaskGroup>,
    /// Walltime promised by the user, from the moment that user processes run; `None` is endless.
    pub time_limit: Option<Span>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Which nodes may host it.
    pub constraint: NodeConstraint,
    /// Elements, when this is an array.
    pub array: Option<Array>,
    /// Jobs that must have reached a state first.
    pub after: Vec<Dependency>,
    /// What happens when a task fails or is lost.
    pub restart: Restart,
    /// Warning before the limit.
    pub checkpoint: Option<Checkpoint>,
    /// Submitted on hold.
    pub held: bool,
    /// Not before this instant.
    pub begin: Option<Time>,
    /// Whether its running elements may be made to go for others. With any protection of its own it
    /// starts only within nominal quota: what cannot be taken back is not lent.
    #[serde(default)]
    pub protect: Protection,
    /// Where command and environment are kept.
    pub payload: PayloadId,
    /// What kind of workload it is.
    #[serde(default)]
    pub kind: Kind,
    /// Before or after all others it waits.
    #[serde(default)]
    pub tier: Tier,
    /// An elastic gang that takes checkpoints grows once it has run for so long at its size;
    /// `None`: never while it runs.
    #[serde(default = "JobSpec::usual_growth")]
    pub grow_after: Option<Span>,
}

/// How an elastic gang grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// Index of the group that does.
    pub group: u16,
    /// Its fewest tasks.
    pub min: u32,
    /// Its most tasks.
    pub max: u32,
    /// So many tasks come and go together: those of a node, or of a segment.
    pub step: u32,
}

impl JobSpec {
    /// A job of these groups in the queue `default` that asks for nothing else: no limit, no grace,
    /// no restart.
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
            kind: Kind::Task,
            tier: Tier::Usual,
            grow_after: Self::usual_growth(),
        }
    }

    /// Tasks at the gang's minimum, over all groups.
    #[must_use]
    pub fn min_tasks(&self) -> u32 {
        self.groups.iter().map(|group| group.min_tasks).sum()
    }

    /// GPUs at the gang's minimum, in thousandths.
    #[must_use]
    pub fn min_gpus(&self) -> u64 {
        self.groups
            .iter()
            .map(|group| u64::from(group.min_tasks) * u64::from(group.task.gpu.milli().0))
            .sum()
    }

    /// How it grows and shrinks; `None` when its size is fixed. At most one group does.
    #[must_use]
    pub fn elastic(&self) -> Option<Elastic> {
        let mut groups = (0..).zip(&self.groups);
        let (at, group) = groups.find(|(_, group)| group.min_tasks < group.max_tasks)?;
        let segment =
            self.constraint.topology.as_ref().and_then(|topology| topology.segment.as_ref());
        let step = segment.map_or(group.tasks_per_node.unwrap_or(1), |segment| segment.tasks);
        Some(Elastic { group: at, min: group.min_tasks, max: group.max_tasks, step: step.max(1) })
    }

    /// How long a gang runs at a size before it may grow, unless its job says otherwise.
    pub const GROW_AFTER: Span = Span::from_secs(600);

    fn usual_growth() -> Option<Span> {
        Some(Self::GROW_AFTER)
    }

    /// How many elements the job has: 1 unless it is an array or a service.
    #[must_use]
    pub fn element_count(&self) -> u32 {
        match (&self.kind, &self.array) {
            (Kind::Service(service), _) => service.replicas.ceiling,
            (_, Some(array)) => array.count(),
            (_, None) => 1,
        }
    }

    /// What it is as a service.
    #[must_use]
    pub fn service(&self) -> Option<&Service> {
        match &self.kind {
            Kind::Service(service) => Some(service),
            Kind::Task | Kind::Notebook(_) => None,
        }
    }

    /// It is stopped when its tasks have done nothing for so long.
    #[must_use]
    pub fn idle(&self) -> Option<Span> {
        match &self.kind {
            Kind::Notebook(notebook) => notebook.idle,
            Kind::Task | Kind::Service(_) => None,
        }
    }

    /// In which tier an element waits: of a service, what is above the floor comes last.
    #[must_use]
    pub fn tier_of(&self, ordinal: u32) -> Tier {
        match self.service() {
            Some(service) if ordinal >= service.replicas.floor => Tier::Last,
            _ => self.tier,
        }
    }

    /// How safe an element is from preemption by the job's own terms: the floor of a service is
    /// always.
    #[must_use]
    pub fn protect_of(&self, ordinal: u32) -> Protection {
        match self.service() {
            Some(service) if ordinal < service.replicas.floor => Protection::Always,
            Some(_) => Protection::None,
            None => self.protect,
        }
    }

    /// What orders an element within its queue, higher first: its tier, then its priority.
    #[must_use]
    pub fn order_of(&self, ordinal: u32) -> i32 {
        self.tier_of(ordinal).order(self.priority)
    }
}

/// What kind of workload a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Runs to its end.
    #[default]
    Task,
    /// Runs until it is cancelled, in replicas.
    Service(Service),
    /// One task that a person works in.
    Notebook(Notebook),
}

/// A service: each replica is an element of its job, which starts, fails and restarts alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// How many.
    pub replicas: Replicas,
    /// Replica `n` is told to listen on this port plus `n`.
    pub port: Option<u16>,
}

impl Service {
    /// The port of a replica; `None` without ports, or beyond the last one there is.
    #[must_use]
    pub fn port_of(&self, index: u32) -> Option<u16> {
        u16::try_from(u32::from(self.port?).checked_add(index)?).ok()
    }
}

/// How many replicas: the first `floor` of them are the job's own, those up to `ceiling` are its
/// burst, which waits in [`Tier::Last`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Replicas {
    /// Always.
    pub floor: u32,
    /// At most; at least 1, never below `floor`.
    pub ceiling: u32,
}

impl Replicas {
    /// Most replicas of a service: each has a record from the start.
    pub const MOST: u32 = 1_000;
}

/// A notebook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notebook {
    /// It is stopped when it has done nothing for so long. `None`: never for that.
    pub idle: Option<Span>,
}

/// Whether something waits among all others or behind them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Behind everything else of all queues: it starts in what is idle.
    Last,
    /// In its turn.
    #[default]
    Usual,
}

impl Tier {
    /// What orders within a queue is at most this in [`Tier::Last`], and above it otherwise.
    pub const LAST_ORDER: i32 = -(1 << 30) - 1;

    /// Tier and priority as one number that orders by both. Priorities that people may give stay
    /// apart.
    #[must_use]
    pub fn order(self, priority: i32) -> i32 {
        const WIDTH: i32 = 1 << 29;
        match self {
            Tier::Usual => priority.max(Self::LAST_ORDER + 1),
            Tier::Last => Self::LAST_ORDER - WIDTH + priority.clamp(1 - WIDTH, WIDTH),
        }
    }

    /// The tier of such a number.
    #[must_use]
    pub fn of_order(order: i32) -> Self {
        if order <= Self::LAST_ORDER { Tier::Last } else { Tier::Usual }
    }
}

/// Replicas of one role inside a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskGroup {
    /// Role, unique within the job: `worker`, `trainer`.
    pub name: Arc<str>,
    /// The gang needs this many.
    pub min_tasks: u32,
    /// Elastic jobs may grow to this many; equal to `min_tasks` otherwise.
    pub max_tasks: u32,
    /// With `Some(n)`: exactly `n` tasks on each node used, so tasks is a multiple of `n` and
    /// different blocks are on different nodes (`nodes: 2`). With `None`: tasks go wherever they
    /// fit, several on a node if they do.
    pub tasks_per_node: Option<u32>,
    /// What each task holds.
    pub task: Resources,
}

impl TaskGroup {
    /// So many tasks, no more and no fewer, that go wherever they fit.
    #[must_use]
    pub fn of(name: impl Into<Arc<str>>, tasks: u32, task: Resources) -> Self {
        Self { name: name.into(), min_tasks: tasks, max_tasks: tasks, tasks_per_node: None, task }
    }
}

/// What one task holds on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resources {
    /// GPUs.
    pub gpu: GpuRequest,
    /// CPUs; 0 means that none are set aside.
    pub cpus: CpuMilli,
    /// Memory; 0 means that none is set aside.
    pub memory: Bytes,
    /// Named extras of the node (licences, NICs), by whole units.
    pub extras: BTreeMap<Arc<str>, u64>,
}

/// GPUs of one task: whole devices, or a share of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuRequest {
    /// Whole devices; 0 when none or a share is asked for.
    pub devices: u32,
    /// Thousandths of one device, 1..=999; 0 when whole devices or none are asked for.
    pub share: GpuMilli,
    /// Acceptable models; empty means any. All devices of a task are of one model.
    pub models: Vec<GpuModel>,
}

impl GpuRequest {
    /// `devices` whole GPUs of any model.
    #[must_use]
    pub fn whole(devices: u32) -> Self {
        Self { devices, ..Self::default() }
    }

    /// Thousandths held in all.
    #[must_use]
    pub fn milli(&self) -> GpuMilli {
        GpuMilli(self.devices * 1000 + self.share.0)
    }

    /// True when the task asks for no GPU at all.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.devices == 0 && self.share.0 == 0
    }
}

/// Which nodes may host a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeConstraint {
    /// Labels a node must carry with these values.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Nodes that must not be used; grows when a gang restarts away from a bad node.
    pub exclude: Vec<NodeName>,
    /// How its nodes must lie to each other in the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// The advance reservation in which it runs, and only in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowName>,
}

/// How the nodes of a gang lie to each other. Levels are named as the cluster names them; the
/// narrowest of every cluster is [`Topology::NODE`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topology {
    /// Of all its tasks.
    pub rule: TopologyRule,
    /// Of every so many consecutive ranks of a group.
    pub segment: Option<Segment>,
}

impl Topology {
    /// The level at which each node is a domain by itself.
    pub const NODE: &'static str = "node";
}

/// What a gang asks of the domains of a level.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TopologyRule {
    /// Nothing; only its segments matter.
    Anywhere,
    /// All tasks in one domain.
    Required(Arc<str>),
    /// As few domains as can be.
    Preferred(Arc<str>),
    /// As many domains as can be, evenly.
    Spread(Arc<str>),
}

/// Slices of a gang: every `tasks` consecutive ranks of a group lie in one domain of a level. The
/// tasks of each group are a multiple of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Segment {
    /// Ranks of a slice.
    pub tasks: u32,
    /// Which level.
    pub level: Arc<str>,
}

/// A job waits for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// When it is satisfied.
    pub kind: DependencyKind,
    /// The job waited for; of an array, all elements.
    pub job: JobId,
}

/// When a dependency is satisfied (names as in Slurm).
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
    /// It has started, or was cancelled.
    After,
    /// It ended, however.
    AfterAny,
    /// It ended with success.
    AfterOk,
    /// It ended without success.
    AfterNotOk,
}

/// What happens when a task of the gang fails, times out on start, or is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Restart the whole gang after a task exits with an error. Lost tasks (node gone, supervisor
    /// killed, reboot) and failed starts count too.
    pub on_failure: bool,
    /// At most this many restarts for failures.
    pub max_restarts: u32,
    /// Wait before the first restart; doubles each time, at most [`Restart::BACKOFF_CAP`].
    pub backoff: Span,
    /// Restart whatever the end, success and time limit included, as often as it takes.
    #[serde(default)]
    pub always: bool,
}

impl Restart {
    /// Longest wait between restarts.
    pub const BACKOFF_CAP: Span = Span::from_secs(600);

    /// The gang fails when a task does.
    pub const NEVER: Restart =
        Restart { on_failure: false, max_restarts: 0, backoff: Span::from_secs(1), always: false };

    /// As services do: again after every end. Who crashes at once waits longer each time.
    pub const ALWAYS: Restart = Restart {
        on_failure: true,
        max_restarts: u32::MAX,
        backoff: Span::from_secs(1),
        always: true,
    };

    /// What ran for so long is taken for healthy where it always restarts: its wait begins anew.
    pub const HEALTHY_AFTER: Span = Restart::BACKOFF_CAP;
}

/// How long what runs is safe from being preempted.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// Not at all.
    #[default]
    None,
    /// This long after it began to hold its resources.
    For(Span),
    /// Always.
    Always,
}

impl Protection {
    /// The instant from which what holds its resources since `held_from` may be made to go.
    #[must_use]
    pub fn until(self, held_from: Time) -> Time {
        match self {
            Protection::None => Time(0),
            Protection::For(span) => held_from + span,
            Protection::Always => Time::NEVER,
        }
    }
}

/// Ask the job to save its progress: before its limit, and whenever somebody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Signal number to send.
    pub signal: i32,
    /// How long before the time limit, and how long an answer is waited for.
    pub lead: Span,
    /// Whose acknowledgement counts for the gang.
    #[serde(default)]
    pub by: CheckpointBy,
    /// What follows an acknowledgement that answers the warning before the limit.
    #[serde(default)]
    pub then: AfterCheckpoint,
    /// Which processes of a task get the signal.
    #[serde(default)]
    pub to: CheckpointTo,
}

/// Which processes of a task get the checkpoint signal. A process that does not handle it never
/// does: the signal would end it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointTo {
    /// Every process that handles it, except copies that such a process has forked: these inherited
    /// the handler, and what they would save is not the program's state. A process that handles all
    /// signals alike (bash with an EXIT trap) does not count.
    #[default]
    Handlers,
    /// The outermost process that handles it, on each branch of the process tree; it passes the
    /// signal on if it wants to.
    Outermost,
    /// Every process that handles it.
    All,
}

/// Whose acknowledgement counts for the gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointBy {
    /// Rank 0, which speaks for all.
    #[default]
    First,
    /// Every rank; the gang is as old as the oldest of their latest ones.
    All,
}

/// What follows a checkpoint that answers the warning before the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterCheckpoint {
    /// The job goes on to its limit.
    #[default]
    Continue,
    /// It is stopped, and counts as timed out.
    Stop,
    /// It is stopped and waits for its next turn, which resumes.
    Requeue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tier_comes_after_every_priority() {
        let orders: Vec<i32> = [
            (Tier::Last, i32::MIN),
            (Tier::Last, -1_000_000),
            (Tier::Last, 0),
            (Tier::Last, 1_000_000),
            (Tier::Last, i32::MAX),
            (Tier::Usual, i32::MIN),
            (Tier::Usual, -1_000_000),
            (Tier::Usual, 0),
            (Tier::Usual, i32::MAX),
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
        let service = Service { replicas: Replicas { floor: 1, ceiling: 9 }, port: Some(65_534) };
        assert_eq!(
            [0, 1, 2].map(|index| service.port_of(index)),
            [Some(65_534), Some(65_535), None]
        );
    }
}

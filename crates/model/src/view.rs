//! What people and programs are shown. These types are the wire format of API version 1 and of
//! `--json`: fields may be added, never renamed or removed (ADR 0003). They carry no secrets.

mod explanation;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use explanation::{
    Change, Eta, Explanation, Holder, HolderEnd, LeavingView, LevelUse, LevelWish, Moved,
    MovesView, OutOfService, PatienceView, PlacedOn, PlacementView, PreemptedView, SetAside, Stays,
    StaysView, Unmoved, Waiter,
};

use crate::id::{ElementId, JobId, NodeName, QueueName, Rank, UserName, WindowName};
use crate::node::{DeviceSet, Drain, GpuModel};
use crate::outcome::{Outcome, TaskExit};
use crate::reason::Reason;
use crate::unit::{Bytes, CpuMilli, GpuMilli, Span, Time};
use crate::window::WindowTimes;

/// State of an element, as people name it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for a release.
    Held,
    /// Waits for capacity, quota, a dependency or a time.
    Pending,
    /// Placed; its tasks are being made ready, none runs yet.
    Starting,
    /// Every task runs.
    Running,
    /// Being stopped; still holds its resources.
    Stopping,
    /// Ended with success.
    Done,
    /// Ended without success.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Keeps what it was given, and stands still until it is let go on.
    Suspended,
    /// Ended because it had to make room for others, and was not queued again.
    Preempted,
    /// Nobody knows what became of it.
    Unknown,
}

impl State {
    /// True when nothing more will happen.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            State::Done | State::Failed | State::Cancelled | State::Preempted | State::Unknown
        )
    }

    /// The word that views print.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Pending => "pending",
            State::Starting => "starting",
            State::Running => "running",
            State::Stopping => "stopping",
            State::Done => "done",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
            State::Suspended => "suspended",
            State::Preempted => "preempted",
            State::Unknown => "unknown",
        }
    }
}

/// A job: one row of `muster ps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobView {
    /// Number.
    pub job: JobId,
    /// Name.
    pub name: String,
    /// Owner.
    pub user: UserName,
    /// The owner's number; jobs of earlier versions and of other schedulers have none.
    #[serde(default)]
    pub uid: Option<u32>,
    /// Leaf queue.
    pub queue: QueueName,
    /// Priority.
    pub priority: i32,
    /// State of the element that is furthest from done: running before pending before final.
    pub state: State,
    /// Tasks of one element. Of an elastic gang those that hold something, its fewest while none
    /// does; of an array or a service of such gangs the fewest of each.
    pub tasks: u32,
    /// GPUs of these tasks.
    pub gpus: GpuMilli,
    /// What each role asks for, as in the job's file.
    #[serde(default)]
    pub roles: Vec<RoleView>,
    /// Set for elastic gangs.
    #[serde(default)]
    pub elastic: Option<ElasticView>,
    /// Time limit of one element.
    pub time_limit: Option<Span>,
    /// When it was submitted.
    pub submitted: Time,
    /// When its first element first ran.
    pub started: Option<Time>,
    /// When its last element ended.
    pub ended: Option<Time>,
    /// Set for arrays.
    pub array: Option<ArrayView>,
    /// Set for services.
    #[serde(default)]
    pub service: Option<ServiceView>,
    /// Somebody works in it.
    #[serde(default)]
    pub is_notebook: bool,
    /// Set for what is stopped when it has done nothing for so long.
    #[serde(default)]
    pub idle: Option<Span>,
    /// Elements that hold resources now (all of them, bounded by what the cluster holds), plus the
    /// element itself when the job is not an array, plus the one that was asked for by its index.
    /// Of a service all replicas.
    pub elements: Vec<ElementView>,
    /// Why it waits, when it waits: the first reason of its first waiting element.
    pub waiting_for: Option<Reason>,
    /// When its first waiting element starts at the latest, when that is known.
    pub eta: Option<Time>,
    /// What it is called where it was handed on to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<NativeView>,
}

impl JobView {
    /// Of a job of which nothing is to be said but whose it is and how it stands.
    #[must_use]
    pub fn blank(job: JobId, name: String, user: UserName, state: State, submitted: Time) -> Self {
        Self {
            job,
            name,
            user,
            uid: None,
            queue: "".into(),
            priority: 0,
            state,
            tasks: 0,
            gpus: GpuMilli(0),
            roles: Vec::new(),
            elastic: None,
            time_limit: None,
            submitted,
            started: None,
            ended: None,
            array: None,
            service: None,
            is_notebook: false,
            idle: None,
            elements: Vec::new(),
            waiting_for: None,
            eta: None,
            native: None,
        }
    }
}

impl ElementView {
    /// Of an element of which nothing is to be said but how it stands.
    #[must_use]
    pub fn blank(element: ElementId, state: State) -> Self {
        Self {
            element,
            state,
            attempt: 0,
            backfilled: false,
            started: None,
            ends_by: None,
            ended: None,
            outcome: None,
            last_end: None,
            checkpoint: None,
            checkpoint_asked: None,
            goes_on_with: None,
            tasks: Vec::new(),
        }
    }
}

/// A job as the queue knows it that it was handed on to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NativeView {
    /// Which kind of queue: `slurm`.
    pub system: String,
    /// Which of them, when it has a name.
    pub cluster: Option<String>,
    /// State in its own words, such as `PREEMPTED`, flags included.
    pub state: String,
    /// Reason in its own words, such as `QOSMaxGRESPerUser`.
    pub reason: Option<String>,
    /// Where it waits or waited there.
    pub partition: String,
    /// Quality of service there.
    pub qos: Option<String>,
    /// Times that it was queued again there.
    pub restarts: u32,
    /// Muster's own id of it; `None` for jobs that others submitted.
    pub id: Option<String>,
}

/// What the tasks of one role ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleView {
    /// The role.
    pub name: String,
    /// Fewest tasks of it.
    pub tasks: u32,
    /// GPUs of each: whole ones, or a share of one.
    pub gpus: GpuMilli,
    /// Models that will do; empty means any.
    pub models: Vec<GpuModel>,
    /// CPUs of each.
    pub cpus: CpuMilli,
    /// Memory of each.
    pub memory: Bytes,
}

/// Sizes that an elastic gang may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ElasticView {
    /// Tasks without which it does not run.
    pub fewest_tasks: u32,
    /// Tasks that it may grow to.
    pub most_tasks: u32,
    /// GPUs of the fewest tasks.
    pub fewest_gpus: GpuMilli,
    /// GPUs of the most tasks.
    pub most_gpus: GpuMilli,
}

/// Counts of an array's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArrayView {
    /// Elements in all.
    pub total: u32,
    /// Waiting or held.
    pub waiting: u32,
    /// Holding resources.
    pub active: u32,
    /// Ended with success.
    pub succeeded: u32,
    /// Ended otherwise.
    pub failed: u32,
    /// At most this many at once.
    pub max_running: Option<u32>,
}

/// Counts of a service's replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceView {
    /// So many are the service's own.
    pub floor: u32,
    /// At most so many; those above the floor run in what is idle.
    pub ceiling: u32,
    /// Running, and answering on their port where they have one.
    pub ready: u32,
    /// Holding resources.
    pub active: u32,
    /// Waiting or held.
    pub waiting: u32,
    /// Replica `n` is to listen on this port plus `n`.
    pub port: Option<u16>,
}

/// One element of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ElementView {
    /// Which.
    pub element: ElementId,
    /// Its state.
    pub state: State,
    /// Current or last attempt; 0 before the first.
    pub attempt: u32,
    /// Started before jobs that were ahead of it, without delaying them.
    pub backfilled: bool,
    /// When the user's processes of the current attempt ran.
    pub started: Option<Time>,
    /// When it ends at the latest, limit and grace included.
    pub ends_by: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// How its last attempt ended after which it waits or runs again.
    #[serde(default)]
    pub last_end: Option<Outcome>,
    /// The last checkpoint that it acknowledged, in whichever attempt.
    #[serde(default)]
    pub checkpoint: Option<CheckpointView>,
    /// A request for a checkpoint that its current or last attempt has not answered.
    #[serde(default)]
    pub checkpoint_asked: Option<CheckpointAskedView>,
    /// Set while it stops to start again with so many tasks: an elastic gang with more or fewer, or
    /// elsewhere with as many.
    #[serde(default)]
    pub goes_on_with: Option<u32>,
    /// Tasks of the current or last attempt, by rank; empty before the first, and for an element of
    /// an array that has ended as a whole.
    pub tasks: Vec<TaskView>,
}

/// Saved progress that the job told of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointView {
    /// When it was acknowledged.
    pub at: Time,
    /// What the job called it, such as `step 1200`; may be empty.
    pub label: String,
    /// In which attempt.
    pub attempt: u32,
}

/// A request for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointAskedView {
    /// When somebody asked.
    pub at: Time,
    /// Until when the job said that it would answer.
    pub until: Time,
    /// Number of the signal that asks for it.
    #[serde(default)]
    pub signal: i32,
    /// Tasks in which no process handles that signal, so that it was not sent there.
    #[serde(default)]
    pub undelivered: u32,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// Rank.
    pub rank: Rank,
    /// Role.
    pub group: String,
    /// Where it runs.
    pub node: NodeName,
    /// Device indices on that node.
    pub devices: Vec<u16>,
    /// Held per device.
    pub share: GpuMilli,
    /// `prepared`, `running`, `ended`.
    pub stage: TaskStage,
    /// It has answered on its port; of a replica of a service with a port.
    #[serde(default)]
    pub ready: bool,
    /// How it ended.
    pub exit: Option<TaskExit>,
}

/// How far a task has come.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TaskStage {
    /// Ordered, no answer yet.
    Ordered,
    /// Ready; no user process runs.
    Prepared,
    /// The user's process runs.
    Running,
    /// Over.
    Ended,
}

/// Who held which device when: a bar of the timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// Node.
    pub node: NodeName,
    /// Device index.
    pub device: u16,
    /// Who.
    pub element: ElementId,
    /// From when the device was held.
    pub from: Time,
    /// Until when; `None` while it is held.
    pub to: Option<Time>,
}

/// A node: one row of `muster nodes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeView {
    /// Name.
    pub name: NodeName,
    /// False when it is lost.
    pub up: bool,
    /// Takes no new work, and why.
    pub drained: Option<String>,
    /// As an administrator drained it; its instant may lie ahead.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// CPUs.
    pub cpus: CpuMilli,
    /// CPUs set aside for jobs.
    pub cpus_used: CpuMilli,
    /// Memory.
    pub memory: Bytes,
    /// Memory set aside for jobs.
    pub memory_used: Bytes,
    /// Devices by index.
    pub devices: Vec<DeviceView>,
    /// Advance reservations that it, or devices of it, are set aside for; by name.
    #[serde(default)]
    pub windows: Vec<NodeWindowView>,
}

/// An advance reservation as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeWindowView {
    /// Which.
    pub window: WindowName,
    /// Only these devices, by index; empty is the node as a whole.
    pub devices: Vec<u16>,
    /// It is open now.
    pub is_open: bool,
    /// When it begins next, or began if it is open.
    pub begins: Time,
    /// When it ends then.
    pub ends: Time,
}

/// An advance reservation: one row of `muster reserve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowView {
    /// Name.
    pub name: WindowName,
    /// Whose jobs may name it.
    pub users: Vec<UserName>,
    /// Queues whose jobs may name it.
    pub queues: Vec<QueueName>,
    /// When it is open.
    pub times: WindowTimes,
    /// It is open now.
    pub is_open: bool,
    /// When it begins next, or began if it is open; `None` once it is over.
    pub begins: Option<Time>,
    /// When it ends then.
    pub ends: Option<Time>,
    /// GPUs that it asks for; `None` when it names nodes.
    pub gpus: Option<u32>,
    /// Of this model; `None` is any.
    pub model: Option<GpuModel>,
    /// GPUs that could not be set aside yet, or not any more.
    pub gpus_missing: u32,
    /// Where it is, by node.
    pub places: Vec<WindowPlaceView>,
    /// Elements that name it and hold something now.
    pub running: u32,
    /// Elements that name it and wait.
    pub waiting: u32,
    /// What of others is still there when it begins is stopped.
    pub stop: bool,
    /// Who asked for it.
    pub by: Option<UserName>,
    /// What for; may be empty.
    pub reason: String,
}

/// Where an advance reservation is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowPlaceView {
    /// The node.
    pub node: NodeName,
    /// Only these devices, by index; empty is the node as a whole.
    pub devices: Vec<u16>,
}

/// A device of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceView {
    /// Index on its node.
    pub index: u16,
    /// Model.
    pub model: GpuModel,
    /// Memory; 0 when unknown.
    pub memory: Bytes,
    /// No hardware behind it.
    pub is_virtual: bool,
    /// Thousandths held by jobs.
    pub used: GpuMilli,
    /// In use by a process that is not Muster's.
    pub foreign: bool,
    /// Out of service.
    pub drained: bool,
    /// As an administrator drained it; its instant may lie ahead.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// Elements that hold it.
    pub elements: Vec<ElementId>,
}

/// A queue: one row of `muster queues`, parents before children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueView {
    /// Path.
    pub name: QueueName,
    /// Has no children.
    pub is_leaf: bool,
    /// Weight among its siblings.
    pub weight: u32,
    /// Per GPU model with a quota or usage.
    pub gpus: Vec<QuotaView>,
    /// Elements waiting in its subtree.
    pub waiting: u32,
    /// Elements holding resources in its subtree.
    pub running: u32,
    /// Decayed GPU-seconds of its subtree.
    pub usage_gpu_secs: u64,
    /// Its share in millionths: what orders it among its siblings, lowest first.
    pub share_ppm: u64,
    /// What is left of its GPU-hours, when it has a budget.
    #[serde(default)]
    pub budget: Option<BudgetView>,
    /// Time limit of a job whose file says nothing of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Span>,
    /// What the one who asks may do here; `None` where everybody may do everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessView>,
}

/// What a user of a shared daemon may do in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessView {
    /// They may submit here.
    pub may_submit: bool,
    /// Users who may; with `groups` empty, everybody.
    pub users: Vec<UserName>,
    /// Groups whose members may.
    pub groups: Vec<String>,
    /// The highest priority that a job of theirs may have.
    pub max_priority: i32,
    /// How long they may protect a job: 0 is not at all, the largest span is always.
    pub max_protect: Span,
}

/// A queue's budget in the present window. What is left is the budget without what is used and
/// promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetView {
    /// GPU-seconds of a window; `None` when only users have a budget.
    pub gpu_secs: Option<u64>,
    /// Of them, used by elements that ended.
    pub used_gpu_secs: u64,
    /// Of them, promised by elements that hold GPUs: all that their time limits allow.
    pub promised_gpu_secs: u64,
    /// GPU-seconds of a window for each user; `None` when users have no budget.
    pub per_user_gpu_secs: Option<u64>,
    /// Users who used or promised something, by name, when users have a budget.
    pub users: Vec<UserBudgetView>,
    /// How long a window is.
    pub every: Span,
    /// When the next window begins.
    pub refills_at: Time,
}

/// What one user takes of a budget in the present window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserBudgetView {
    /// Who.
    pub user: UserName,
    /// GPU-seconds used by elements that ended.
    pub used_gpu_secs: u64,
    /// GPU-seconds promised by elements that hold GPUs.
    pub promised_gpu_secs: u64,
}

/// Quota of a queue for one GPU model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaView {
    /// Model.
    pub model: GpuModel,
    /// Nominal quota; `None` when none is set.
    pub nominal: Option<GpuMilli>,
    /// Held by its subtree.
    pub used: GpuMilli,
    /// Held beyond nominal.
    pub borrowed: GpuMilli,
}

/// How much of a task's output is missing, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingOutput {
    /// Which task.
    pub rank: Rank,
    /// Bytes that were deleted because the output exceeds what is kept of one task (`serve
    /// --log-limit`).
    pub dropped: u64,
    /// How many bytes are kept before those.
    pub dropped_after: u64,
    /// Bytes that were not written because the disk was full; the output says where.
    pub disk_full: u64,
}

/// What a user consumed: one row of `muster usage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageView {
    /// User.
    pub user: UserName,
    /// Queue.
    pub queue: QueueName,
    /// Elements that ended or run.
    pub jobs: u64,
    /// GPU-seconds held, undecayed, running elements included.
    pub gpu_secs: u64,
    /// Of those, decayed GPU-seconds that count for fair share now.
    pub decayed_gpu_secs: u64,
}

/// Devices of a set as wire indices.
#[must_use]
pub fn device_indices(devices: DeviceSet) -> Vec<u16> {
    devices.iter().map(|index| index as u16).collect()
}

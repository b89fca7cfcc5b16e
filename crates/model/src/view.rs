//! Views: the types of API version 1 and of `--json`. Fields may be added, never renamed or removed
//! on the wire (ADR 0003). Views contain no secrets.

mod counters;
mod elements;
mod explanation;
mod gang;
mod load;
mod usage;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use counters::DaemonCounters;
pub use elements::{ElementRow, MetricView};
pub use explanation::{
    Eta, EvictionView, Explanation, Holder, HolderEnd, JobChange, LevelRequest, LevelUse, MovedJob,
    MovesView, NextStart, NotMovedReason, NotPreemptedReason, NotPreemptedView, OutOfService,
    PatienceView, PlacedOn, PlacementView, PreemptedView, ReservedCapacity, UsedOutside,
};
pub use gang::{GangPods, GangSource, GangView};
pub use load::{GpuLoad, GpuLoadView, IdleView};
pub use usage::{
    GpuUseView, HeldGpus, HoldingEnd, MeasuredUse, UsageKey, UsageRow, UsageSum, UsageView,
};

use crate::advance_reservation::AdvanceReservationTimes;
use crate::id::{AdvanceReservationName, ElementId, JobId, NodeName, QueueName, Rank, UserName};
use crate::node::{DeviceSet, Drain, ForeignProcess, GpuModel};
use crate::outcome::{Outcome, TaskExit};
use crate::queue::IdlePolicy;
use crate::reason::Reason;
use crate::unit::{Bytes, CpuMilli, GpuMilli, Span, Time};

/// State of a job or element, as users see it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// On hold until it is released.
    Held,
    /// Waiting for capacity, quota, a dependency or a time.
    Pending,
    /// Placed; its tasks are being prepared, and no user process runs yet.
    Starting,
    /// Running: every task runs.
    Running,
    /// Being stopped; still holds its resources.
    Stopping,
    /// Ended for good with success.
    Done,
    /// Ended for good without success.
    Failed,
    /// Ended because a user cancelled it.
    Cancelled,
    /// Suspended: holds its resources, but does not run until it is resumed.
    Suspended,
    /// Ended because it was preempted, without being queued again.
    Preempted,
    /// Unknown, since no source reports the job any more.
    Unknown,
}

impl JobState {
    /// Returns true when the state is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            JobState::Done
                | JobState::Failed
                | JobState::Cancelled
                | JobState::Preempted
                | JobState::Unknown
        )
    }

    /// Returns the word in tables and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            JobState::Held => "held",
            JobState::Pending => "pending",
            JobState::Starting => "starting",
            JobState::Running => "running",
            JobState::Stopping => "stopping",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
            JobState::Suspended => "suspended",
            JobState::Preempted => "preempted",
            JobState::Unknown => "unknown",
        }
    }
}

/// Job: one row of `muster ps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobView {
    /// Number of the job.
    pub job: JobId,
    /// Name of the job; not unique.
    pub name: String,
    /// User that submitted the job.
    pub user: UserName,
    /// User id of the owner; `None` for jobs of earlier versions and of other schedulers.
    #[serde(default)]
    pub uid: Option<u32>,
    /// Leaf queue that the job is in.
    pub queue: QueueName,
    /// Priority within the queue; higher values are scheduled first.
    pub priority: i32,
    /// State of the least advanced element: running before pending before final.
    pub state: JobState,
    /// Tasks of one element. For an elastic gang, those that hold resources, or the fewest while
    /// none do; for an array or a service of such gangs, the fewest of each.
    pub tasks: u32,
    /// GPUs of these tasks, in thousandths.
    pub gpus: GpuMilli,
    /// Resource request of each task group, as in the job file.
    #[serde(default)]
    pub roles: Vec<RoleView>,
    /// Sizes of an elastic gang; `None` when the size is fixed.
    #[serde(default)]
    pub elastic: Option<ElasticView>,
    /// Time limit of one element; `None` means no time limit.
    pub time_limit: Option<Span>,
    /// Run time that was predicted at the submission; `None` where planning goes by the time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_runtime: Option<Span>,
    /// Instant of the submission.
    pub submitted: Time,
    /// Instant at which its first element first ran; `None` before that.
    pub started: Option<Time>,
    /// Instant at which its last element ended; `None` before that.
    pub ended: Option<Time>,
    /// Element counts of an array; `None` for other jobs.
    pub array: Option<ArrayView>,
    /// Replica counts of a service; `None` for other jobs.
    #[serde(default)]
    pub service: Option<ServiceView>,
    /// True when the job is an interactive notebook.
    #[serde(default)]
    pub is_notebook: bool,
    /// Idle time after which the job is stopped; `None` means never.
    #[serde(default)]
    pub idle: Option<Span>,
    /// Elements that hold resources now (bounded by the size of the cluster), plus the only element
    /// of a job that is not an array, plus an element that was requested by its index. For a
    /// service, all replicas.
    pub elements: Vec<ElementView>,
    /// First reason of its first pending element; `None` when none is pending.
    pub waiting_for: Option<Reason>,
    /// Latest start of its first pending element, or, if `eta_predicted`, its expected start; `None`
    /// when unknown.
    pub eta: Option<Time>,
    /// True where planning goes by predicted run times: a job that runs longer delays the start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub eta_predicted: bool,
    /// Job as the external scheduler reports it; `None` for jobs that Muster itself schedules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<NativeView>,
}

impl JobView {
    /// Makes a view with only the owner and the state; all else is empty.
    #[must_use]
    pub fn blank(
        job: JobId,
        name: String,
        user: UserName,
        state: JobState,
        submitted: Time,
    ) -> Self {
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
            expected_runtime: None,
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
            eta_predicted: false,
            native: None,
        }
    }

    /// Returns the text by which commands take the job: its number, or its name where it has none.
    #[must_use]
    pub fn label(&self) -> String {
        let name = self.native.as_ref().and_then(|native| native.name.clone());
        name.unwrap_or_else(|| self.job.to_string())
    }
}

impl ElementView {
    /// Makes a view with only the state; all else is empty.
    #[must_use]
    pub fn blank(element: ElementId, state: JobState) -> Self {
        Self {
            element,
            state,
            attempt: 0,
            backfilled: false,
            started: None,
            ends_by: None,
            expected_end: None,
            ended: None,
            outcome: None,
            last_end: None,
            checkpoint: None,
            checkpoint_asked: None,
            restarts_with_tasks: None,
            tasks: Vec::new(),
        }
    }
}

/// Job as the external scheduler that it was submitted to reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NativeView {
    /// Type of the external scheduler: `slurm`, `kubernetes`.
    pub system: String,
    /// Name of its cluster, of Kubernetes the context of the kubeconfig that was named; `None` when it
    /// has no name.
    pub cluster: Option<String>,
    /// State in the external scheduler's terms, such as `PREEMPTED`, flags included.
    pub state: String,
    /// Pending reason in the external scheduler's terms, such as `QOSMaxGRESPerUser`; `None` when
    /// it gives none.
    pub reason: Option<String>,
    /// Partition that the job is or was pending in; on Kubernetes its namespace.
    pub partition: String,
    /// Quality of service of the job; `None` when it has none.
    pub qos: Option<String>,
    /// Number of times that the external scheduler requeued it.
    pub restarts: u32,
    /// Id of the job that is never reused: Muster's own on Slurm, where jobs that were not submitted
    /// by Muster have none; that of the object on Kubernetes.
    pub id: Option<String>,
    /// Name by which commands take the job where it has no number; `None` where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Resource request of one task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleView {
    /// Name of the task group.
    pub name: String,
    /// Fewest tasks of the group.
    pub tasks: u32,
    /// GPUs of each task, in thousandths: whole ones, or a share of one.
    pub gpus: GpuMilli,
    /// Accepted GPU models; empty means any.
    pub models: Vec<GpuModel>,
    /// CPUs of each task, in thousandths.
    pub cpus: CpuMilli,
    /// Memory of each task, in bytes.
    pub memory: Bytes,
}

/// Sizes of an elastic gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ElasticView {
    /// Fewest tasks, without which the gang does not run.
    pub fewest_tasks: u32,
    /// Most tasks that the gang may grow to.
    pub most_tasks: u32,
    /// GPUs of the fewest tasks, in thousandths.
    pub fewest_gpus: GpuMilli,
    /// GPUs of the most tasks, in thousandths.
    pub most_gpus: GpuMilli,
}

/// Numbers of an array's elements by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArrayView {
    /// Number of elements in total.
    pub total: u32,
    /// Elements that are pending or held.
    pub waiting: u32,
    /// Elements that hold resources.
    pub active: u32,
    /// Elements that ended with success.
    pub succeeded: u32,
    /// Elements that ended without success.
    pub failed: u32,
    /// Most elements that hold resources at once; `None` means no limit.
    pub max_running: Option<u32>,
}

/// Numbers of a service's replicas by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceView {
    /// Guaranteed replicas, which are protected from preemption.
    #[serde(rename = "floor")]
    pub guaranteed: u32,
    /// Highest number of replicas; those above the guaranteed number run on idle resources.
    #[serde(rename = "ceiling")]
    pub max: u32,
    /// Replicas that run, and answer on their port if they have one.
    pub ready: u32,
    /// Replicas that hold resources.
    pub active: u32,
    /// Replicas that are pending or held.
    pub waiting: u32,
    /// Port of replica 0; replica `n` listens on this port plus `n`. `None` when the service has no
    /// ports.
    pub port: Option<u16>,
}

/// Element of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ElementView {
    /// Id of the element.
    pub element: ElementId,
    /// State of the element.
    pub state: JobState,
    /// Number of the current or last attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// True when the element was backfilled: it started before jobs ahead of it, without delaying
    /// them.
    pub backfilled: bool,
    /// Instant at which the user's processes of the current attempt started; `None` before that.
    pub started: Option<Time>,
    /// Latest end, time limit and grace included; `None` when it has no time limit or does not run.
    pub ends_by: Option<Time>,
    /// End by which planning goes, from its predicted run time; it may run longer. `None` when it
    /// does not run, or planning goes by `ends_by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<Time>,
    /// Instant of the final end; `None` before that.
    pub ended: Option<Time>,
    /// Final outcome; `None` before the end.
    pub outcome: Option<Outcome>,
    /// Outcome of the last ended attempt, after which the element was queued again; `None` when
    /// there was none.
    #[serde(default)]
    pub last_end: Option<Outcome>,
    /// Last acknowledged checkpoint, of any attempt; `None` when there is none.
    #[serde(default)]
    pub checkpoint: Option<CheckpointView>,
    /// Checkpoint request that the current or last attempt has not acknowledged; `None` when there
    /// is none.
    #[serde(default)]
    pub checkpoint_asked: Option<CheckpointAskedView>,
    /// Number of tasks with which the element starts again after the present stop: an elastic gang
    /// with more or fewer, or an element that moves with as many. `None` when it does not.
    #[serde(default, rename = "goes_on_with")]
    pub restarts_with_tasks: Option<u32>,
    /// Tasks of the current or last attempt, by rank; empty before the first attempt, and for an
    /// element of an array that has ended as a whole.
    pub tasks: Vec<TaskView>,
}

/// Checkpoint that the job acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointView {
    /// Instant of the acknowledgement.
    pub at: Time,
    /// Label that the job gave it, such as `step 1200`; may be empty.
    pub label: String,
    /// Number of the attempt that took it.
    pub attempt: u32,
}

/// Checkpoint request that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointAskedView {
    /// Instant of the request.
    pub at: Time,
    /// Instant at which the lead time of the job's checkpoints expires.
    pub until: Time,
    /// Number of the checkpoint signal.
    #[serde(default)]
    pub signal: i32,
    /// Number of tasks in which no process handles the signal, so that it was not sent there.
    #[serde(default)]
    pub undelivered: u32,
}

/// Task of an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// Rank of the task in the gang.
    pub rank: Rank,
    /// Name of the task group.
    pub group: String,
    /// Node that the task runs on.
    pub node: NodeName,
    /// Device indices on that node.
    pub devices: Vec<u16>,
    /// Thousandths held of each device.
    pub share: GpuMilli,
    /// Stage of the task.
    pub stage: TaskStage,
    /// True when a replica of a service has answered on its port.
    #[serde(default)]
    pub ready: bool,
    /// End of the task's process; `None` before that.
    pub exit: Option<TaskExit>,
}

/// Stage of a task.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TaskStage {
    /// Ordered; the backend has not reported yet.
    Ordered,
    /// Prepared; no user process runs.
    Prepared,
    /// The user's process runs.
    Running,
    /// The user's process has ended.
    Ended,
}

/// Allocation of one device to one element over time: a bar of the timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceBar {
    /// Node of the device.
    pub node: NodeName,
    /// Index of the device on its node.
    pub device: u16,
    /// Element that held the device.
    pub element: ElementId,
    /// Start of the allocation.
    pub from: Time,
    /// End of the allocation; `None` while the device is held.
    pub to: Option<Time>,
}

/// Node: one row of `muster nodes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeView {
    /// Host name of the node.
    pub name: NodeName,
    /// False when the node is lost.
    pub up: bool,
    /// Reason why the node takes no new work; `None` when it does take work.
    pub drained: Option<String>,
    /// Drain of the node by an administrator, which may be in the future; `None` when there is
    /// none.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// CPUs of the node, in thousandths.
    pub cpus: CpuMilli,
    /// CPUs allocated to jobs, in thousandths.
    pub cpus_used: CpuMilli,
    /// Memory of the node, in bytes.
    pub memory: Bytes,
    /// Memory allocated to jobs, in bytes.
    pub memory_used: Bytes,
    /// Devices of the node by index.
    pub devices: Vec<DeviceView>,
    /// Advance reservations of the node or of its devices, by name.
    #[serde(default, rename = "windows")]
    pub advance_reservations: Vec<NodeAdvanceReservationView>,
}

/// Advance reservation on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeAdvanceReservationView {
    /// Name of the advance reservation.
    #[serde(rename = "window")]
    pub advance_reservation: AdvanceReservationName,
    /// Indices of the reserved devices; empty means the node as a whole.
    pub devices: Vec<u16>,
    /// True when the advance reservation is active now.
    #[serde(rename = "is_open")]
    pub is_active: bool,
    /// Start of the present occurrence if it is active, else of the next.
    pub begins: Time,
    /// End of that occurrence.
    pub ends: Time,
}

/// Advance reservation: one row of `muster reserve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdvanceReservationView {
    /// Name of the advance reservation.
    pub name: AdvanceReservationName,
    /// Users whose jobs may use it.
    pub users: Vec<UserName>,
    /// Queues whose jobs may use it.
    pub queues: Vec<QueueName>,
    /// Times at which it is active.
    pub times: AdvanceReservationTimes,
    /// True when it is active now.
    #[serde(rename = "is_open")]
    pub is_active: bool,
    /// Start of the present occurrence if it is active, else of the next; `None` when there is none
    /// left.
    pub begins: Option<Time>,
    /// End of that occurrence.
    pub ends: Option<Time>,
    /// Number of requested GPUs; `None` when it names nodes.
    pub gpus: Option<u32>,
    /// GPU model; `None` means any.
    pub model: Option<GpuModel>,
    /// Number of requested GPUs that could not be set aside.
    pub gpus_missing: u32,
    /// Reserved nodes and devices, by node.
    pub places: Vec<ReservedPlaceView>,
    /// Number of elements that use it and hold resources now.
    pub running: u32,
    /// Number of elements that name it and are pending.
    pub waiting: u32,
    /// True when other jobs that still run at its start are stopped.
    pub stop: bool,
    /// User that created it; `None` when unknown.
    pub by: Option<UserName>,
    /// Purpose, for users; may be empty.
    pub reason: String,
}

/// Place of an advance reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReservedPlaceView {
    /// Name of the node.
    pub node: NodeName,
    /// Indices of the reserved devices; empty means the node as a whole.
    pub devices: Vec<u16>,
}

/// Device of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceView {
    /// Index of the device on its node.
    pub index: u16,
    /// GPU model of the device.
    pub model: GpuModel,
    /// Memory in bytes; 0 when unknown.
    pub memory: Bytes,
    /// True when the device is virtual, without hardware behind it.
    pub is_virtual: bool,
    /// Thousandths of the device that jobs hold.
    pub used: GpuMilli,
    /// True when a process outside Muster uses the device.
    pub foreign: bool,
    /// Processes outside Muster that use it, where they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_processes: Vec<ForeignProcess>,
    /// True when the device is out of service.
    pub drained: bool,
    /// Drain of the device by an administrator, which may be in the future; `None` when there is
    /// none.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// Elements that hold the device or a share of it.
    pub elements: Vec<ElementId>,
}

/// Queue: one row of `muster queues`, parents before children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueView {
    /// Path of the queue: `research/vision`.
    pub name: QueueName,
    /// True when the queue has no children.
    pub is_leaf: bool,
    /// Weight for fair share among its siblings.
    pub weight: u32,
    /// Quota and usage per GPU model that has either.
    pub gpus: Vec<QuotaView>,
    /// Number of pending elements in its subtree.
    pub waiting: u32,
    /// Number of elements that hold resources in its subtree.
    pub running: u32,
    /// Decayed GPU-seconds of its subtree.
    pub usage_gpu_secs: u64,
    /// Fair-share value in millionths, which orders it among its siblings, lowest first.
    pub share_ppm: u64,
    /// Budget of GPU-hours; `None` when the queue has none.
    #[serde(default)]
    pub budget: Option<BudgetView>,
    /// Time limit of a job that sets none; `None` means no time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Span>,
    /// Policy for jobs that leave their GPUs idle; absent when neither the queue nor one above it sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdlePolicy>,
    /// Permissions of the requesting user; `None` when every user may do everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessView>,
}

/// Permissions of a user of a shared daemon in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessView {
    /// True when the user may submit here.
    pub may_submit: bool,
    /// Users that may submit; with `groups` empty too, every user.
    pub users: Vec<UserName>,
    /// Unix groups whose members may submit.
    pub groups: Vec<String>,
    /// Highest priority that the user's jobs may have.
    pub max_priority: i32,
    /// Longest protection that the user may request for a job: 0 means none, the largest span means
    /// always.
    pub max_protect: Span,
}

/// Budget of a queue in the present period. The remaining budget is `gpu_secs` minus
/// `used_gpu_secs` and `promised_gpu_secs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetView {
    /// GPU-seconds per period; `None` when only users have a budget.
    pub gpu_secs: Option<u64>,
    /// GPU-seconds used by ended elements.
    pub used_gpu_secs: u64,
    /// GPU-seconds charged in advance for elements that hold GPUs: as much as their time limits
    /// allow.
    pub promised_gpu_secs: u64,
    /// GPU-seconds per period for each user; `None` when users have no budget.
    pub per_user_gpu_secs: Option<u64>,
    /// Users with a charge in this period, by name; empty when users have no budget.
    pub users: Vec<UserBudgetView>,
    /// Length of a period.
    pub every: Span,
    /// Start of the next period.
    pub refills_at: Time,
}

/// Charges of one user to a budget in the present period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserBudgetView {
    /// Login name of the user.
    pub user: UserName,
    /// GPU-seconds used by ended elements.
    pub used_gpu_secs: u64,
    /// GPU-seconds charged in advance for elements that hold GPUs.
    pub promised_gpu_secs: u64,
}

/// Quota of a queue for one GPU model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaView {
    /// GPU model of the quota.
    pub model: GpuModel,
    /// Nominal quota in thousandths; `None` when none is set.
    pub nominal: Option<GpuMilli>,
    /// GPUs that its subtree holds, in thousandths.
    pub used: GpuMilli,
    /// GPUs held beyond nominal quota, in thousandths.
    pub borrowed: GpuMilli,
}

/// Gaps in a task's stored output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingOutput {
    /// Rank of the task.
    pub rank: Rank,
    /// Bytes that were deleted because the output exceeds the limit per task (`serve --log-limit`).
    pub dropped: u64,
    /// Bytes that are stored before the deleted ones.
    pub dropped_after: u64,
    /// Bytes that were not written because the disk was full; the output marks the places.
    pub disk_full: u64,
}

/// Returns the devices of a set as indices for the wire format.
#[must_use]
pub fn device_indices(devices: DeviceSet) -> Vec<u16> {
    devices.iter().map(|index| index as u16).collect()
}

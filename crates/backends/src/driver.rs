//! The contract between the daemon and a backend. Pure data in both directions; nothing here does
//! I/O.

use std::path::PathBuf;
use std::sync::Arc;

use crate::device_files::ClosedDeviceFiles;
use crate::order::GangOrder;
use muster_model::sweep::MetricReport;
use muster_model::view::GpuLoad;
use muster_model::{AttemptId, Bytes, NodeName, NodeSpec, Rank, StopCause, TaskReport, Time};
use tokio::sync::mpsc::UnboundedSender;

/// Channel on which a backend sends its reports. Unbounded by design: every live task sends at most
/// four reports on its stages, and one per second on checkpoints, so the queue is bounded by the
/// number of live tasks; and a backend must never block on the daemon.
pub type Reports = UnboundedSender<Report>;

/// One report of a backend.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A change of one task.
    Task(TaskReport),
    /// The metric of an element of a sweep, as its rank 0 reported it last.
    Metric {
        /// Attempt whose rank 0 wrote it.
        id: AttemptId,
        /// Step and value, the latest of a second.
        report: MetricReport,
    },
    /// Devices of a node that processes outside Muster use.
    Foreign {
        /// Node with the devices.
        node: NodeName,
        /// The devices in use.
        foreign: muster_model::Foreign,
    },
}

/// Command of the daemon to a backend. Repeating a command changes nothing; a command about an
/// attempt older than one already seen for the same element is silently ignored.
#[derive(Clone, Debug)]
pub enum BackendCommand {
    /// Prepare every task without running it; answered per task by `Prepared` or `Refused`. With
    /// [`GangOrder::starts_at_once`] also run it; answered by `Started` or `Refused`.
    Prepare(Arc<GangOrder>),
    /// Run the user's processes of a prepared attempt; answered per task by `Started`.
    Go(AttemptId),
    /// Ask every task of the attempt to save a checkpoint, by the signal in its order; answered by
    /// `Checkpointed` if the job acknowledges. Requests are numbered: a task ignores a number that
    /// it has already seen, and any lower one.
    Checkpoint(AttemptId, u32),
    /// End every task of the attempt; answered per task by `Exited` (or `Lost`).
    Stop(AttemptId, StopCause),
    /// Delete the records kept for re-adoption. Logs stay.
    Forget(AttemptId),
}

/// One task that, after a restart, the daemon's journal says exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedTask {
    /// Attempt of the task.
    pub id: AttemptId,
    /// Rank of the task within the attempt.
    pub rank: Rank,
    /// Node on which it was started.
    pub node: NodeName,
}

/// A change of a task that happened while no daemon ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastReport {
    /// Time of the change, on the daemon's time line.
    pub at: Time,
    /// Report of the change.
    pub report: TaskReport,
}

/// Capabilities of a backend; shown to users, and checked before a job is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Name shown to users: `local`, `fake`.
    pub name: &'static str,
    /// Mechanism that enforces memory limits (`cgroup v2`); `None` when they are only a convention.
    pub memory_enforced_by: Option<String>,
    /// Mechanism that enforces CPU limits; `None` when they are only a convention.
    pub cpu_enforced_by: Option<String>,
    /// Mechanism that enforces the limit on processes; `None` when it is only a convention.
    pub processes_enforced_by: Option<String>,
    /// Processes and threads that one task may have at a time; 0 is no limit.
    pub max_processes: u32,
    /// Size of the output kept per task; 0 is no limit.
    pub log_limit: Bytes,
    /// Mechanism that finds and kills all processes of a task: `cgroup v2`, `cgroup v1` or
    /// `environment tag`.
    pub kill_by: String,
    /// Mechanism that keeps a task from opening other GPUs; `None` when it is only a convention
    /// (visible-devices variables).
    pub devices_enforced_by: Option<String>,
}

/// A way to run gangs. Methods return at once unless they say otherwise; results come through
/// [`Reports`].
pub trait Backend: Send + Sync {
    /// Returns the capabilities of this backend.
    fn capabilities(&self) -> Capabilities;

    /// Returns the nodes that this backend offers.
    fn nodes(&self) -> Vec<NodeSpec>;

    /// Returns the device files that are closed to processes of users that belong to no task.
    fn closed_device_files(&self) -> ClosedDeviceFiles {
        ClosedDeviceFiles::default()
    }

    /// Returns the load of each device of a node now, by index; `None` for those that have none. Blocks while it asks
    /// the drivers.
    fn gpu_loads(&self, node: &NodeSpec) -> Vec<Option<GpuLoad>> {
        vec![None; node.devices.len()]
    }

    /// Carries out a command.
    fn execute(&self, command: BackendCommand);

    /// Returns the recorded changes of those expected tasks that have ended, per task in the order
    /// in which they happened. A task that may have been started and has lost its records is ended
    /// and `Lost`; it never starts. Called after a restart of the daemon, before any command and
    /// before [`Backend::adopt`]. Blocks while it reads the records.
    fn past(&self, expected: &[ExpectedTask]) -> Vec<PastReport>;

    /// Reports the present stage of every expected task (`Lost` where there is no record of it),
    /// and ends tasks that are not expected. Called after a restart of the daemon.
    fn adopt(&self, expected: Vec<ExpectedTask>);

    /// Returns the path of the file with a task's output (stdout and stderr, interleaved as
    /// written). The file may not exist yet.
    fn log_path(&self, id: AttemptId, rank: Rank) -> PathBuf;

    /// Deletes the remaining files of an attempt of `tasks` tasks: its output, and the claim and
    /// exit records that keep it from running twice. Only for attempts that are over and forgotten.
    /// Blocks while it deletes.
    fn discard(&self, id: AttemptId, tasks: u32);

    /// Returns the path of the socket on which the task's supervisor accepts terminal sessions and
    /// checkpoint acknowledgements; `None` when the backend has none.
    fn task_socket(&self, id: AttemptId, rank: Rank) -> Option<PathBuf>;
}

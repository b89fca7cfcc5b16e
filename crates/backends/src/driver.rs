//! The contract between the daemon and a backend. Pure data in both directions; nothing here does
//! I/O.

use std::path::PathBuf;
use std::sync::Arc;

use muster_model::launch::GangOrder;
use muster_model::{AttemptId, Bytes, NodeName, NodeSpec, Rank, StopCause, TaskReport, Time};
use tokio::sync::mpsc::UnboundedSender;

/// Where a backend sends what it sees. Unbounded by design: every live task sends at most four
/// reports on its stages, and on checkpoints one per second at most, so the queue is bounded by
/// what the cluster holds; and a backend must never block on the daemon.
pub type Reports = UnboundedSender<Report>;

/// Something a backend saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// About a task.
    Task(TaskReport),
    /// What processes that are not Muster's hold on a node.
    Foreign {
        /// Which node.
        node: NodeName,
        /// What they hold.
        foreign: muster_model::Foreign,
    },
}

/// What the daemon asks of a backend. Repeating a command changes nothing; a command about an
/// attempt older than one already seen for the same element is refused silently.
#[derive(Clone, Debug)]
pub enum Command {
    /// Make every task ready and run none; answered per task by `Prepared` or `Refused`.
    Prepare(Arc<GangOrder>),
    /// Run the user's processes of a prepared attempt; answered per task by `Started`.
    Go(AttemptId),
    /// Ask every task of the attempt to save its progress, by the signal of its order; answered, if
    /// the job does, by `Checkpointed`. The number tells requests apart: one that a task has seen,
    /// or an older one, changes nothing.
    Checkpoint(AttemptId, u32),
    /// End every task of the attempt; answered per task by `Exited` (or `Lost`).
    Stop(AttemptId, StopCause),
    /// Forget what is kept for re-adoption. Logs stay.
    Forget(AttemptId),
}

/// One task that the daemon believes to exist, after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Which attempt.
    pub id: AttemptId,
    /// Which task.
    pub rank: Rank,
    /// Where.
    pub node: NodeName,
}

/// Something that happened to a task while no daemon ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastReport {
    /// When, on the daemon's time line.
    pub at: Time,
    /// What.
    pub report: TaskReport,
}

/// What a backend can do; shown to users, and checked before a job is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Name shown to users: `local`, `fake`.
    pub name: &'static str,
    /// Memory limits are enforced, and by what (`cgroup v2`); `None` when they are a convention.
    pub memory_enforced_by: Option<String>,
    /// CPU limits are enforced, and by what.
    pub cpu_enforced_by: Option<String>,
    /// The limit on processes is enforced, and by what.
    pub processes_enforced_by: Option<String>,
    /// Processes and threads that one task may have at a time; 0 is no limit.
    pub max_processes: u32,
    /// Output that is kept of one task; 0 is no limit.
    pub log_limit: Bytes,
    /// What ends everything that a task started: `cgroup v2`, `cgroup v1`, `environment tag`.
    pub kill_by: String,
    /// Whether a task is prevented from opening other GPUs, and by what; `None` when it is a
    /// convention (visible-devices variables).
    pub devices_enforced_by: Option<String>,
}

/// A way to run gangs. Methods return at once; answers come through [`Reports`].
pub trait Backend: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// The nodes it offers.
    fn nodes(&self) -> Vec<NodeSpec>;

    /// Carries out a command.
    fn execute(&self, command: Command);

    /// After a restart of the daemon, before [`Backend::adopt`]: returns what is recorded of those
    /// expected tasks that have ended, in the order in which it happened to each. Blocks for as
    /// long as reading that takes.
    fn past(&self, expected: &[Expected]) -> Vec<PastReport>;

    /// After a restart of the daemon: reports the present stage of every expected task (`Lost`
    /// where nothing is known), and ends tasks of attempts that are not expected.
    fn adopt(&self, expected: Vec<Expected>);

    /// File that holds a task's output (stdout and stderr, interleaved as written). It may not
    /// exist yet.
    fn log_path(&self, id: AttemptId, rank: Rank) -> PathBuf;

    /// Deletes what an attempt of so many tasks left on disk, its output and the marks that kept it
    /// from running twice. For attempts that are over, forgotten and never asked about again.
    /// Blocks for as long as that takes.
    fn discard(&self, id: AttemptId, tasks: u32);

    /// Socket on which the task's supervisor takes terminal sessions and words for the task; `None`
    /// when the backend has none.
    fn task_socket(&self, id: AttemptId, rank: Rank) -> Option<PathBuf>;
}

//! The on-disk records of one task of one attempt, and their durable writes.
//!
//! Every file is versioned JSON, written to a temporary name and renamed, so that a reader never
//! sees a partial one. `claim.json` is created by hard link, which succeeds only once: it is the
//! lock that keeps an attempt from running twice. The directory belongs to the daemon's user (root
//! in system mode) with mode 0700, so that no other user can create names in it. `order.json` holds
//! the submitter's environment and is deleted on Forget.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use muster_model::payload::{Identity, TaskCommand};
use muster_model::sweep::{Metric, MetricReport};
use muster_model::{
    Attempt, AttemptId, Bytes, Checkpoint, ElementId, OutputFiles, Rank, Span, TaskCheckpoint,
    TaskEnvironment, TaskExit, TaskSignalled,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroup::CgroupPlan;
use crate::device_files::ClosedDeviceFiles;
use crate::epoch::Epoch;
use crate::process::ProcessKey;
use crate::segments;
use crate::times::TIMES;

/// Version of the records that this build writes. Older versions are read; newer ones are rejected
/// with [`RecordError::Newer`].
pub const VERSION: u32 = 1;

/// Names of the files in a task's directory: order, claim, exit record, output.
pub(crate) const ORDER: &str = "order.json";
pub(crate) const CLAIM: &str = "claim.json";
pub(crate) const EXIT: &str = "exit.json";
pub(crate) const LOG: &str = "output.log";
/// Name of the start record of earlier versions.
const STARTED: &str = "started.json";
/// Name of the record of the newest acknowledged checkpoint.
const CHECKPOINT: &str = "checkpoint.json";

/// Error of reading or writing a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system returned an error.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// A newer version of Muster wrote the record.
    #[error(
        "{path} has version {found}, this muster reads up to {VERSION}; hint: use the newer binary again"
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Version found in it.
        found: u32,
    },
    /// The file is not a record (a partial write before a power loss, or another file).
    #[error("{path} is not readable as a record: {what}")]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Description of the defect.
        what: String,
    },
    /// Another supervisor has claimed the task.
    #[error("this attempt was already started once")]
    Claimed,
}

/// Everything a supervisor needs to run one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRecord {
    /// Format version, see [`VERSION`].
    pub version: u32,
    /// Attempt of the task.
    pub id: AttemptId,
    /// Rank of the task within the attempt.
    pub rank: Rank,
    /// Epoch of the state that ordered it; orders of earlier versions have none.
    #[serde(default)]
    pub epoch: Option<Epoch>,
    /// Value of [`crate::env::TAG_VARIABLE`] in every process of the task.
    pub tag: String,
    /// Program and arguments of the task.
    pub command: TaskCommand,
    /// Whole environment, rank variables included.
    pub env: std::collections::BTreeMap<String, String>,
    /// Working directory, entered as the user.
    pub workdir: PathBuf,
    /// Files for its output with all placeholders replaced, opened as the user; orders of earlier
    /// versions have none.
    #[serde(default)]
    pub files: OutputFiles,
    /// Environment that is activated, as the user; orders of earlier versions have none.
    #[serde(default)]
    pub environment: TaskEnvironment,
    /// File mode creation mask.
    pub umask: u32,
    /// User of the job.
    pub identity: Identity,
    /// True to run as `identity` (system mode); otherwise the task runs as the daemon's user.
    pub switch_user: bool,
    /// The task runs on a pseudo-terminal.
    pub terminal: bool,
    /// Wall time from the start of the user's process.
    pub time_limit: Option<Span>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Checkpoint signal, and its lead before the time limit.
    pub checkpoint: Option<Checkpoint>,
    /// Rendezvous ports of the gang, one per task group.
    pub ports: Vec<u16>,
    /// Rendezvous port that this task's supervisor keeps bound until the user's process runs.
    pub hold_port: Option<u16>,
    /// Control groups to create and join.
    pub cgroup: CgroupPlan,
    /// `oom_score_adj` of the task where its supervisor's is lowered (system mode).
    #[serde(default)]
    pub oom_score_adj: Option<i32>,
    /// Soft limit of open files for the task, where the daemon raised its own.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// Device files of GPUs that the task was not allocated.
    #[serde(default)]
    pub closed_device_files: ClosedDeviceFiles,
    /// Size of the output kept on disk; 0 is no limit.
    #[serde(default)]
    pub log_limit: Bytes,
    /// Socket on which the supervisor listens.
    pub socket: PathBuf,
    /// Pipe for checkpoint acknowledgements of the task; orders of earlier versions have none.
    #[serde(default)]
    pub checkpoint_file: Option<PathBuf>,
    /// Metric that the task reports; `None` when it reports none.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// Pipe for the reports of the task; `None` when they are in its output, or when it reports none.
    #[serde(default)]
    pub report_file: Option<PathBuf>,
    /// Port of the service replica, which this task's supervisor keeps bound until the user's
    /// process runs.
    #[serde(default)]
    pub service_port: Option<u16>,
    /// Idle limit of the task.
    #[serde(default)]
    pub idle: Option<IdleOrder>,
    /// The task runs as soon as it is prepared, without Go.
    #[serde(default)]
    pub starts_at_once: bool,
    /// Time that the prepared task waits for Go while no daemon is connected; `None` is no limit.
    #[serde(default, rename = "gate_patience")]
    pub go_timeout: Option<Span>,
}

/// Idle limit of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleOrder {
    /// Idle time after which the task is stopped.
    pub after: Span,
    /// UUIDs of its NVIDIA GPUs, whose utilisation counts as activity.
    pub gpus: Vec<String>,
}

/// Claim of a task by a supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// Format version, see [`VERSION`].
    pub version: u32,
    /// Process of the supervisor that owns the task.
    pub supervisor: ProcessKey,
}

/// An instant on two clocks: wall clock and time since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instant {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Milliseconds since the machine booted; records of earlier versions have none.
    #[serde(default)]
    pub boot_ms: Option<u64>,
}

impl Instant {
    /// Returns the present instant on both clocks.
    #[must_use]
    pub fn now() -> Self {
        Self { at_ms: now_ms(), boot_ms: Some(millis(rustix::time::ClockId::Boottime)) }
    }
}

/// The newest checkpoint that the task acknowledged; written before it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// Format version, see [`VERSION`].
    pub version: u32,
    /// Newest checkpoint that the task acknowledged.
    #[serde(rename = "noted")]
    pub checkpoint: TaskCheckpoint,
}

/// End of a task; written before it is reported to the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Format version, see [`VERSION`].
    pub version: u32,
    /// Kind of end, with its exit or reason.
    pub end: TaskEnd,
    /// Resource usage; `None` when it did not run.
    #[serde(default)]
    pub usage: Option<TaskUsage>,
    /// Number of processes that got the signal of the last checkpoint request.
    #[serde(default)]
    pub signalled: Option<TaskSignalled>,
    /// Newest report of the metric; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<MetricReport>,
    /// Instant at which the user's process was released. `None` when it was not, and in records of
    /// earlier versions, which have a separate file for it.
    #[serde(default)]
    pub started: Option<Instant>,
    /// Instant of the end.
    #[serde(flatten)]
    pub at: Instant,
}

impl ExitRecord {
    /// Returns the record of a task that ends now and did not run.
    #[must_use]
    pub fn now(end: TaskEnd) -> Self {
        Self {
            version: VERSION,
            end,
            usage: None,
            signalled: None,
            report: None,
            started: None,
            at: Instant::now(),
        }
    }
}

/// Resource usage of a task's processes, as the kernel counts it for those that were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskUsage {
    /// Largest resident set of any one process, in bytes.
    pub max_rss_bytes: u64,
    /// CPU time of all processes, user and system, in milliseconds.
    pub cpu_ms: u64,
}

/// Kind of end of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEnd {
    /// The task could not be prepared, for this reason.
    Refused(String),
    /// The task could not be prepared, for this reason, and a retry would fail the same way.
    Impossible(String),
    /// The task ran, or was stopped before it ran.
    Exited(TaskExit),
}

/// Returns the directory of the jobs of an epoch: `<jobs>/<epoch>`. Jobs of versions without epochs
/// lie in `<jobs>` itself.
#[must_use]
pub fn epoch_dir(jobs: &Path, epoch: Option<&Epoch>) -> PathBuf {
    epoch.map_or_else(|| jobs.to_owned(), |epoch| jobs.join(epoch.as_str()))
}

/// Directory of one task of one attempt: `<jobs>/<job>/<index>/<attempt>/<rank>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDir {
    path: PathBuf,
}

impl TaskDir {
    /// Returns the directory of a task under the `jobs` directory.
    #[must_use]
    pub fn of(jobs: &Path, id: AttemptId, rank: Rank) -> Self {
        Self { path: attempt_dir(jobs, id).join(rank.to_string()) }
    }

    /// Returns the directory at `path`, as a supervisor gets it from the daemon.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the first file of the task's output.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Creates the directory and its parents, without access for other users.
    pub fn create(&self) -> Result<(), RecordError> {
        private_dirs(&self.path)
            .map_err(|source| RecordError::Io { path: self.path.clone(), source })
    }

    /// Returns the path of the order.
    #[must_use]
    pub fn order_path(&self) -> PathBuf {
        self.path.join(ORDER)
    }

    /// Writes the order. Not synced: it is useless after a reboot.
    pub fn write_order(&self, order: &OrderRecord) -> Result<(), RecordError> {
        self.write(ORDER, order, Sync::No)
    }

    /// Reads the order, if there is one.
    pub fn order(&self) -> Result<Option<OrderRecord>, RecordError> {
        self.read(ORDER)
    }

    /// Claims the task for the given supervisor.
    ///
    /// # Errors
    /// [`RecordError::Claimed`] when the task was claimed before.
    pub fn claim(&self, supervisor: ProcessKey) -> Result<(), RecordError> {
        let from = self.path.join(format!(".claim.{}", supervisor.pid));
        let to = self.path.join(CLAIM);
        let linked = write_whole(&from, &ClaimRecord { version: VERSION, supervisor }, Sync::No)
            .and_then(|()| std::fs::hard_link(&from, &to));
        let _ = std::fs::remove_file(&from);
        linked.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Claimed,
            _ => RecordError::Io { path: to, source },
        })
    }

    /// Reads the claim, if there is one.
    pub fn claimed(&self) -> Result<Option<ClaimRecord>, RecordError> {
        self.read(CLAIM)
    }

    /// Reads the start record that an earlier version wrote, if there is one.
    pub fn started_before(&self) -> Result<Option<Instant>, RecordError> {
        self.read(STARTED)
    }

    /// Writes the exit record. With [`Sync::Yes`] it survives a power loss on return; otherwise the
    /// caller ensures that, by [`TaskDir::sync_exit`] or because a journal has the end.
    pub fn write_exit(&self, ended: &ExitRecord, sync: Sync) -> Result<(), RecordError> {
        self.write(EXIT, ended, sync)
    }

    /// Syncs the exit record, so that it survives a power loss.
    pub fn sync_exit(&self) -> Result<(), RecordError> {
        let path = self.path.join(EXIT);
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced
            .and_then(|()| File::open(&self.path)?.sync_all())
            .map_err(|source| RecordError::Io { path, source })
    }

    /// Reads the exit record, if there is one.
    pub fn exit(&self) -> Result<Option<ExitRecord>, RecordError> {
        self.read(EXIT)
    }

    /// Records an acknowledged checkpoint durably.
    pub fn write_checkpoint(&self, checkpoint: TaskCheckpoint) -> Result<(), RecordError> {
        self.write(CHECKPOINT, &CheckpointRecord { version: VERSION, checkpoint }, Sync::Yes)
    }

    /// Reads the newest acknowledged checkpoint, if there is one.
    pub fn checkpoint(&self) -> Result<Option<CheckpointRecord>, RecordError> {
        self.read(CHECKPOINT)
    }

    /// Writes the number of output bytes that a full disk did not store.
    pub fn write_lost(&self, bytes: u64) -> Result<(), RecordError> {
        self.write(segments::LOST, &bytes, Sync::No)
    }

    /// Creates the log. Fails if the name exists, in particular as a symbolic link.
    pub fn create_log(&self) -> Result<File, RecordError> {
        create_log_at(self.log())
    }

    /// Creates the file of the times of the output, as [`TaskDir::create_log`] does.
    pub fn create_times(&self) -> Result<File, RecordError> {
        create_log_at(self.path.join(TIMES))
    }

    /// Creates the file for the output from position `start` on, as [`TaskDir::create_log`] does.
    pub fn create_log_segment(&self, start: u64) -> Result<File, RecordError> {
        create_log_at(segments::path_of(&self.log(), start))
    }

    /// Deletes the file for the output from position `start` on.
    pub fn remove_log_segment(&self, start: u64) {
        let _ = std::fs::remove_file(segments::path_of(&self.log(), start));
    }

    /// Deletes the records for re-adoption, which may hold secrets. The log stays, and so do claim
    /// and exit record, which keep the same attempt from ever running again.
    pub fn forget(&self) {
        for name in [ORDER, STARTED, CHECKPOINT] {
            let _ = std::fs::remove_file(self.path.join(name));
        }
    }

    fn write<T: Serialize>(&self, name: &str, record: &T, sync: Sync) -> Result<(), RecordError> {
        // Two writers in one process (in tests: a backend and its successor) must not share a
        // temporary file either.
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let path = self.path.join(name);
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        let temporary = self.path.join(format!(".{name}.{}.{number}", std::process::id()));
        let written = write_whole(&temporary, record, sync).and_then(|()| {
            std::fs::rename(&temporary, &path)?;
            match sync {
                Sync::Yes => File::open(&self.path)?.sync_all(),
                Sync::No => Ok(()),
            }
        });
        written.map_err(|source| RecordError::Io { path, source })
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, RecordError> {
        let path = self.path.join(name);
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => decode(&path, &bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RecordError::Io { path, source }),
        }
    }
}

fn create_log_at(path: PathBuf) -> Result<File, RecordError> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(&path)
        .map_err(|source| RecordError::Io { path, source })
}

fn write_whole<T: Serialize>(path: &Path, record: &T, sync: Sync) -> io::Result<()> {
    let bytes = serde_json::to_vec(record)?;
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&bytes)?;
    match sync {
        Sync::Yes => file.sync_data(),
        Sync::No => Ok(()),
    }
}

/// Durability of a record once it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The record survives a power loss.
    Yes,
    /// The record survives the end of any process, but possibly not a power loss.
    No,
}

/// Creates a directory and its parents; new ones give no access to other users.
pub fn private_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns the directory of all tasks of one attempt.
#[must_use]
pub fn attempt_dir(jobs: &Path, id: AttemptId) -> PathBuf {
    element_dir(jobs, id.element).join(id.attempt.to_string())
}

/// Returns the newest attempt of an element that has a directory.
#[must_use]
pub fn newest_attempt(jobs: &Path, element: ElementId) -> Option<Attempt> {
    numbers_in(&element_dir(jobs, element)).into_iter().max().map(Attempt)
}

/// Returns the ranks of an attempt that have a directory.
#[must_use]
pub fn ranks(jobs: &Path, id: AttemptId) -> Vec<Rank> {
    numbers_in(&attempt_dir(jobs, id)).into_iter().map(Rank).collect()
}

fn element_dir(jobs: &Path, element: ElementId) -> PathBuf {
    jobs.join(element.job.to_string()).join(element.index.to_string())
}

fn numbers_in(dir: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

fn decode<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, RecordError> {
    #[derive(Deserialize)]
    struct RecordVersion {
        version: u32,
    }
    let corrupt = |error: serde_json::Error| RecordError::Corrupt {
        path: path.to_owned(),
        what: error.to_string(),
    };
    let RecordVersion { version } = serde_json::from_slice(bytes).map_err(corrupt)?;
    if version > VERSION {
        return Err(RecordError::Newer { path: path.to_owned(), found: version });
    }
    serde_json::from_slice(bytes).map_err(corrupt)
}

pub(crate) fn now_ms() -> u64 {
    millis(rustix::time::ClockId::Realtime)
}

fn millis(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(test)]
mod tests {
    use muster_model::JobId;

    use super::*;

    fn id() -> AttemptId {
        AttemptId { element: ElementId { job: JobId(12), index: 3 }, attempt: Attempt(1) }
    }

    fn key(pid: i32) -> ProcessKey {
        ProcessKey { pid, start_ticks: 5, boot_id: "boot".into() }
    }

    #[test]
    fn only_the_first_claim_holds() {
        let temp = tempfile::tempdir().unwrap();
        let dir = TaskDir::of(temp.path(), id(), Rank(0));
        dir.create().unwrap();
        dir.claim(key(1)).unwrap();
        assert!(matches!(dir.claim(key(2)), Err(RecordError::Claimed)));
        assert_eq!(dir.claimed().unwrap().unwrap().supervisor, key(1));
        dir.forget();
        assert!(
            matches!(dir.claim(key(3)), Err(RecordError::Claimed)),
            "not even after it is forgotten"
        );
    }

    #[test]
    fn newer_records_are_refused_and_torn_ones_are_named() {
        let temp = tempfile::tempdir().unwrap();
        let dir = TaskDir::of(temp.path(), id(), Rank(0));
        dir.create().unwrap();
        assert!(dir.exit().unwrap().is_none());
        let path = dir.path().join("exit.json");
        std::fs::write(&path, r#"{"version":2,"shape":"unknown"}"#).unwrap();
        assert!(matches!(dir.exit(), Err(RecordError::Newer { found: 2, .. })));
        std::fs::write(&path, "").unwrap();
        assert!(matches!(dir.exit(), Err(RecordError::Corrupt { .. })));
        dir.write_exit(&ExitRecord::now(TaskEnd::Exited(TaskExit::Code { code: 3 })), Sync::Yes)
            .unwrap();
        assert_eq!(dir.exit().unwrap().unwrap().end, TaskEnd::Exited(TaskExit::Code { code: 3 }));
    }

    #[test]
    fn version_1_records_stay_readable() {
        let temp = tempfile::tempdir().unwrap();
        let dir = TaskDir::of(temp.path(), id(), Rank(0));
        dir.create().unwrap();
        let exit = r#"{"version":1,"end":{"exited":{"kind":"signal","signal":9}},"at_ms":5}"#;
        std::fs::write(dir.path().join("exit.json"), exit).unwrap();
        let claim = r#"{"version":1,"supervisor":{"pid":7,"start_ticks":99,"boot_id":"b"},"later_field":true}"#;
        std::fs::write(dir.path().join("claim.json"), claim).unwrap();
        assert_eq!(
            dir.exit().unwrap().unwrap().end,
            TaskEnd::Exited(TaskExit::Signal { signal: 9 })
        );
        assert_eq!(dir.claimed().unwrap().unwrap().supervisor.start_ticks, 99);
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let dir = TaskDir::of(temp.path(), id(), Rank(0));
        dir.create().unwrap();
        let victim = temp.path().join("victim");
        std::fs::write(&victim, "untouched").unwrap();
        std::os::unix::fs::symlink(&victim, dir.log()).unwrap();
        assert!(dir.create_log().is_err());
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "untouched");
    }
}

//! The on-disk record of one task of one attempt, and its durable writes.
//!
//! Every file is versioned JSON, written whole to a temporary name and renamed, so a reader never
//! sees half of one. `claim.json` appears by hard link and therefore once: it is the lock by which
//! a supervisor refuses to start the same attempt twice. The directory belongs to the daemon's user
//! (root in system mode) with mode 0700, so no other user can plant a name in it. `order.json`
//! holds the submitter's environment and is deleted on Forget.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use muster_model::payload::{Command, Identity};
use muster_model::{
    Attempt, AttemptId, Bytes, Checkpoint, ElementId, OutputFiles, Rank, Span, TaskCheckpoint,
    TaskExit, TaskSignalled,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroup::CgroupPlan;
use crate::epoch::Epoch;
use crate::process::ProcessKey;
use crate::segments;

/// Version of the records that this build writes. Older ones are read; newer ones are refused by
/// name.
pub const VERSION: u32 = 1;

/// Names in a task's directory: what it is to do, who owns it, how it ended, what it said.
pub(crate) const ORDER: &str = "order.json";
pub(crate) const CLAIM: &str = "claim.json";
pub(crate) const EXIT: &str = "exit.json";
pub(crate) const LOG: &str = "output.log";
/// When an earlier version released its process.
const STARTED: &str = "started.json";
/// What it acknowledged last.
const CHECKPOINT: &str = "checkpoint.json";

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system said no.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A newer Muster wrote it.
    #[error(
        "{path} has version {found}, this muster knows up to {VERSION}; hint: use the newer binary again"
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// It is not a record (a torn write before a power loss, or something else).
    #[error("{path} is not readable as a record: {what}")]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Somebody else has claimed the task.
    #[error("this attempt was already started once")]
    Claimed,
}

/// Everything a supervisor needs to run one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRecord {
    /// [`VERSION`].
    pub version: u32,
    /// Which attempt.
    pub id: AttemptId,
    /// Which task.
    pub rank: Rank,
    /// Epoch of the state that ordered it; orders of earlier versions have none.
    #[serde(default)]
    pub epoch: Option<Epoch>,
    /// Value of [`crate::env::TAG_VARIABLE`] in every process of the task.
    pub tag: String,
    /// What to run.
    pub command: Command,
    /// Whole environment, rank variables included.
    pub env: std::collections::BTreeMap<String, String>,
    /// Working directory, entered as the user.
    pub workdir: PathBuf,
    /// Files for its output with all marks filled in, opened as the user; orders of earlier
    /// versions have none.
    #[serde(default)]
    pub files: OutputFiles,
    /// File mode creation mask.
    pub umask: u32,
    /// As whom it runs.
    pub identity: Identity,
    /// Change to `identity` (system mode); otherwise run as whoever the daemon is.
    pub switch_user: bool,
    /// The task runs on a pseudo-terminal.
    pub terminal: bool,
    /// Walltime from the moment the user's process runs.
    pub time_limit: Option<Span>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Warning before the limit.
    pub checkpoint: Option<Checkpoint>,
    /// Rendezvous ports of the gang, one per task group.
    pub ports: Vec<u16>,
    /// The port that this task's supervisor keeps bound until the user's process runs.
    pub hold_port: Option<u16>,
    /// Control groups to make and join.
    pub cgroup: CgroupPlan,
    /// `oom_score_adj` of the task where its supervisor's is lowered (system mode).
    #[serde(default)]
    pub oom_score_adj: Option<i32>,
    /// Soft limit of open files for the task; the daemon raises its own.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// Output that is kept on disk; 0 is no limit.
    #[serde(default)]
    pub log_limit: Bytes,
    /// Socket on which the supervisor listens.
    pub socket: PathBuf,
    /// Where the task's processes say that their progress is saved; orders of earlier versions have
    /// none.
    #[serde(default)]
    pub checkpoint_file: Option<PathBuf>,
    /// The port of a replica of a service that this task's supervisor keeps bound until the user's
    /// process runs.
    #[serde(default)]
    pub service_port: Option<u16>,
    /// Stop the task when it does nothing.
    #[serde(default)]
    pub idle: Option<IdleOrder>,
    /// How long the task waits at the gate without a daemon that could let it run; `None` is for
    /// ever.
    #[serde(default)]
    pub gate_patience: Option<Span>,
}

/// When a task is stopped for doing nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleOrder {
    /// After so long.
    pub after: Span,
    /// UUIDs of its NVIDIA GPUs, on which work counts, too.
    pub gpus: Vec<String>,
}

/// Which supervisor owns the task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// [`VERSION`].
    pub version: u32,
    /// The supervisor.
    pub supervisor: ProcessKey,
}

/// An instant, by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instant {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Milliseconds since the machine booted; records of earlier versions have none.
    #[serde(default)]
    pub boot_ms: Option<u64>,
}

impl Instant {
    /// Reads both clocks.
    #[must_use]
    pub fn now() -> Self {
        Self { at_ms: now_ms(), boot_ms: Some(millis(rustix::time::ClockId::Boottime)) }
    }
}

/// The newest checkpoint that the task acknowledged; written before anybody is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpointed {
    /// [`VERSION`].
    pub version: u32,
    /// What was noted.
    pub noted: TaskCheckpoint,
}

/// How the task ended; written before the daemon is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// [`VERSION`].
    pub version: u32,
    /// How.
    pub end: End,
    /// What it used; `None` when it did not run.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// How far the last request for a checkpoint had got.
    #[serde(default)]
    pub signalled: Option<TaskSignalled>,
    /// When the user's process was released. `None` when it was not, and in records of earlier
    /// versions, which have a file of its own for it.
    #[serde(default)]
    pub started: Option<Instant>,
    /// When it ended.
    #[serde(flatten)]
    pub at: Instant,
}

impl Ended {
    /// An end at this instant of a task that did not run.
    #[must_use]
    pub fn now(end: End) -> Self {
        Self {
            version: VERSION,
            end,
            usage: None,
            signalled: None,
            started: None,
            at: Instant::now(),
        }
    }
}

/// What a task's processes used, as the kernel counts it for those that were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Largest resident set of any one process, in bytes.
    pub max_rss_bytes: u64,
    /// CPU time of all processes, user and system, in milliseconds.
    pub cpu_ms: u64,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It could not be made ready.
    Refused(String),
    /// It can never be made ready.
    Impossible(String),
    /// It ran, or was stopped before it ran.
    Exited(TaskExit),
}

/// Directory of the jobs of an epoch: `<jobs>/<epoch>`. Jobs of versions without epochs lie in
/// `<jobs>` itself.
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
    /// The directory of a task under the `jobs` directory.
    #[must_use]
    pub fn of(jobs: &Path, id: AttemptId, rank: Rank) -> Self {
        Self { path: attempt_dir(jobs, id).join(rank.to_string()) }
    }

    /// The directory at `path`, as a supervisor is told it.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the task's output goes.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Makes the directory and its parents, closed to others.
    pub fn create(&self) -> Result<(), RecordError> {
        private_dirs(&self.path)
            .map_err(|source| RecordError::Io { path: self.path.clone(), source })
    }

    /// Where the order is.
    #[must_use]
    pub fn order_path(&self) -> PathBuf {
        self.path.join(ORDER)
    }

    /// Writes the order. Not synced: it means nothing after a reboot.
    pub fn write_order(&self, order: &OrderRecord) -> Result<(), RecordError> {
        self.write(ORDER, order, Sync::No)
    }

    /// The order, if there is one.
    pub fn order(&self) -> Result<Option<OrderRecord>, RecordError> {
        self.read(ORDER)
    }

    /// Takes the task for the calling supervisor, once and for all.
    pub fn claim(&self, supervisor: ProcessKey) -> Result<(), RecordError> {
        let (from, to) =
            (self.path.join(format!(".claim.{}", supervisor.pid)), self.path.join(CLAIM));
        let linked = write_whole(&from, &Claim { version: VERSION, supervisor }, Sync::No)
            .and_then(|()| std::fs::hard_link(&from, &to));
        let _ = std::fs::remove_file(&from);
        linked.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Claimed,
            _ => RecordError::Io { path: to, source },
        })
    }

    /// Who claimed it, if somebody did.
    pub fn claimed(&self) -> Result<Option<Claim>, RecordError> {
        self.read(CLAIM)
    }

    /// Returns when an earlier version released the user's process of a task.
    pub fn started_before(&self) -> Result<Option<Instant>, RecordError> {
        self.read(STARTED)
    }

    /// Records how it ended. `sync` says whether the record is to survive a power loss on return;
    /// otherwise the caller sees to that, with [`TaskDir::sync_ended`] or because a journal has it.
    pub fn write_ended(&self, ended: &Ended, sync: Sync) -> Result<(), RecordError> {
        self.write(EXIT, ended, sync)
    }

    /// Makes the record of its end survive a power loss.
    pub fn sync_ended(&self) -> Result<(), RecordError> {
        let path = self.path.join(EXIT);
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced
            .and_then(|()| File::open(&self.path)?.sync_all())
            .map_err(|source| RecordError::Io { path, source })
    }

    /// How it ended, if that is known.
    pub fn ended(&self) -> Result<Option<Ended>, RecordError> {
        self.read(EXIT)
    }

    /// Records durably what the task acknowledged.
    pub fn write_checkpointed(&self, noted: TaskCheckpoint) -> Result<(), RecordError> {
        self.write(CHECKPOINT, &Checkpointed { version: VERSION, noted }, Sync::Yes)
    }

    /// What the task acknowledged last, if it did.
    pub fn checkpointed(&self) -> Result<Option<Checkpointed>, RecordError> {
        self.read(CHECKPOINT)
    }

    /// Writes how many bytes of output a full disk did not take.
    pub fn write_lost(&self, bytes: u64) -> Result<(), RecordError> {
        self.write(segments::LOST, &bytes, Sync::No)
    }

    /// Opens the log for the first time. Fails if anything is there already, a symbolic link above
    /// all.
    pub fn create_log(&self) -> Result<File, RecordError> {
        create_log_at(self.log())
    }

    /// Creates the file for the output from position `start` on, as [`TaskDir::create_log`] does.
    pub fn create_log_segment(&self, start: u64) -> Result<File, RecordError> {
        create_log_at(segments::path_of(&self.log(), start))
    }

    /// Deletes the file for the output from position `start` on.
    pub fn remove_log_segment(&self, start: u64) {
        let _ = std::fs::remove_file(segments::path_of(&self.log(), start));
    }

    /// Deletes what is kept for re-adoption, secrets above all. The log stays, and so do claim and
    /// exit, which keep the same attempt from ever running again.
    pub fn forget(&self) {
        for name in [ORDER, STARTED, CHECKPOINT] {
            let _ = std::fs::remove_file(self.path.join(name));
        }
    }

    fn write<T: Serialize>(&self, name: &str, record: &T, sync: Sync) -> Result<(), RecordError> {
        // Two writers of one process (a backend and its successor in tests) must not share a
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

/// Says whether a record must survive a power loss once it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// It must.
    Yes,
    /// It need not; it survives the end of any process.
    No,
}

/// Makes a directory and its parents, those that are new closed to others.
pub fn private_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Directory of all tasks of one attempt.
#[must_use]
pub fn attempt_dir(jobs: &Path, id: AttemptId) -> PathBuf {
    element_dir(jobs, id.element).join(id.attempt.to_string())
}

/// The newest attempt of an element that has left anything on disk.
#[must_use]
pub fn newest_attempt(jobs: &Path, element: ElementId) -> Option<Attempt> {
    numbers_in(&element_dir(jobs, element)).into_iter().max().map(Attempt)
}

/// Ranks of an attempt that have a directory.
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
    struct Banner {
        version: u32,
    }
    let corrupt = |error: serde_json::Error| RecordError::Corrupt {
        path: path.to_owned(),
        what: error.to_string(),
    };
    let banner: Banner = serde_json::from_slice(bytes).map_err(corrupt)?;
    if banner.version > VERSION {
        return Err(RecordError::Newer { path: path.to_owned(), found: banner.version });
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
        assert!(dir.ended().unwrap().is_none());
        let path = dir.path().join("exit.json");
        std::fs::write(&path, r#"{"version":2,"shape":"unknown"}"#).unwrap();
        assert!(matches!(dir.ended(), Err(RecordError::Newer { found: 2, .. })));
        std::fs::write(&path, "").unwrap();
        assert!(matches!(dir.ended(), Err(RecordError::Corrupt { .. })));
        dir.write_ended(&Ended::now(End::Exited(TaskExit::Code { code: 3 })), Sync::Yes).unwrap();
        assert_eq!(dir.ended().unwrap().unwrap().end, End::Exited(TaskExit::Code { code: 3 }));
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
        assert_eq!(dir.ended().unwrap().unwrap().end, End::Exited(TaskExit::Signal { signal: 9 }));
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

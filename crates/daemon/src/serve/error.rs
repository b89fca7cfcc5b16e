//! Errors of a daemon that cannot start, or that ended unexpectedly.

use std::fmt;
use std::io;
use std::path::PathBuf;

use muster_backends::local::LocalError;
use muster_runtime::StoreError;
use muster_spec::Diagnostics;

use crate::paths::PathsError;

/// Most tasks that a message names.
const MAX_NAMED: usize = 5;

/// Reason why a state does not match its task directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineageConflict {
    /// The database is new, but task directories exist.
    New,
    /// The high-water marks belong to another lineage.
    Other,
    /// The database ends at record `have`, but its marks have reached `seen`.
    Behind { have: u64, seen: u64 },
    /// The next job would get number `next`, but there are directories up to job `seen`.
    Numbers { next: u64, seen: u64 },
}

impl fmt::Display for LineageConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineageConflict::New => {
                f.write_str("the database is new, and jobs/ holds task directories of another one")
            }
            LineageConflict::Other => f.write_str("jobs/ belongs to another copy of the state"),
            LineageConflict::Behind { have, seen } => {
                write!(
                    f,
                    "the database ends at record {have}, and the state had reached record {seen}"
                )
            }
            LineageConflict::Numbers { next, seen } => {
                write!(
                    f,
                    "the database goes up to job {}, and jobs/ up to job {seen}",
                    next.saturating_sub(1)
                )
            }
        }
    }
}

/// State that is older than its data on disk.
#[derive(Clone, Debug)]
pub struct OlderState {
    pub(super) why: LineageConflict,
    /// Number of the next job if the state is accepted.
    pub first_job: u64,
    /// Running tasks that the state does not contain.
    pub running: Vec<String>,
}

impl fmt::Display for OlderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state is older than its task directories: {}", self.why)?;
        if !self.running.is_empty() {
            write!(f, "; tasks that it does not contain keep running: {}", named(&self.running))?;
        }
        Ok(())
    }
}

/// Formats the tasks: `job 3 rank 0 (supervisor 4711), and 2 more`.
pub(super) fn named(running: &[String]) -> String {
    let mut text = running.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = running.len().checked_sub(MAX_NAMED) {
        text.push_str(&format!(", and {more} more"));
    }
    text
}

/// Error of `muster serve`.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The paths cannot be used.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// The state cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state is older than the data outside the database.
    #[error("{0}")]
    Older(Box<OlderState>),
    /// The backend cannot start.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The queue file cannot be read.
    #[error("cannot read {}", .path.display())]
    QueuesFile {
        /// Path of the queue file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The queue file has errors, whose text has their places.
    #[error("{0}")]
    Queues(Box<Diagnostics>),
    /// The socket cannot be created.
    #[error("cannot listen on {}", .path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Other GPUs are declared while jobs hold the present ones.
    #[error("jobs hold some of {declared}; the daemon cannot switch to {asked}")]
    OtherGpus {
        /// GPUs that were declared before.
        declared: String,
        /// GPUs that are declared now.
        asked: String,
    },
    /// A daemon that all users share is installed on this machine, and a second one would allocate
    /// the same devices again.
    #[error(
        "a daemon that all users share is installed on this machine, and a second one would allocate the same devices"
    )]
    SharedInstalled,
    /// Threads or signal handlers cannot be set up.
    #[error("cannot set up threads and signals")]
    Runtime(#[source] io::Error),
    /// The dispatcher panicked. The state on disk is consistent.
    #[error("the daemon stopped because of an internal error; its log has the details")]
    Defect,
}

impl ServeError {
    /// Returns the next step for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            ServeError::Paths(error) => Some(error.hint().to_owned()),
            ServeError::Store(error) => Some(error.hint().to_owned()),
            ServeError::Older(older) => Some(format!(
                "restore a newer copy of the database; or continue with this one, numbering new jobs from {}: \
                 `muster serve --accept-older-state` (with --system for the shared daemon), then start the daemon. \
                 running tasks are not touched",
                older.first_job
            )),
            ServeError::OtherGpus { .. } => Some(
                "wait until the running jobs have ended or cancel them, then start the daemon again; \
                 or use another MUSTER_HOME"
                    .to_owned(),
            ),
            ServeError::SharedInstalled => Some(
                "use the shared one (`systemctl status muster` shows its state); \
                 `muster serve --virtual-gpus N` starts a daemon of your own that owns no device; \
                 --beside-shared starts one nevertheless; \
                 if the shared one is no longer used, an administrator removes /var/lib/muster"
                    .to_owned(),
            ),
            ServeError::Defect => Some("start it again: it adopts the running tasks".to_owned()),
            ServeError::Local(_)
            | ServeError::QueuesFile { .. }
            | ServeError::Queues(_)
            | ServeError::Socket { .. }
            | ServeError::Runtime(_) => None,
        }
    }
}

//! Why a daemon did not start, or ended other than it should.

use std::io;
use std::path::PathBuf;

use muster_backends::local::LocalError;
use muster_runtime::StoreError;
use muster_spec::Diagnostics;

use super::Older;
use crate::paths::PathsError;

/// The daemon cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its places cannot be used.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// Its state cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is older than what it left outside the database.
    #[error("{0}")]
    Older(Box<Older>),
    /// The backend cannot work.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The queue file cannot be read.
    #[error("cannot read {}", .path.display())]
    QueuesFile {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The queue file has errors; the text says where.
    #[error("{0}")]
    Queues(Box<Diagnostics>),
    /// The socket cannot be made.
    #[error("cannot listen on {}", .path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Other GPUs are asked for while jobs hold the ones that are there.
    #[error("this daemon has {declared} while jobs hold some of them; it cannot have {asked}")]
    OtherGpus {
        /// What was declared before.
        declared: String,
        /// What is asked for now.
        asked: String,
    },
    /// All users of this machine share a daemon, and a second one would give its devices away
    /// again.
    #[error(
        "a daemon that all users share is installed on this machine, and a second one would own the same devices"
    )]
    SharedInstalled,
    /// Threads or signals cannot be set up.
    #[error("cannot set up threads and signals")]
    Runtime(#[source] io::Error),
    /// A defect ended it. The state on disk is sound.
    #[error("the daemon ended by a defect; its log says more")]
    Defect,
}

impl ServeError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            ServeError::Paths(error) => Some(error.hint().to_owned()),
            ServeError::Store(error) => Some(error.hint().to_owned()),
            ServeError::Older(older) => Some(format!(
                "put back a newer copy of the database; or go on with this one, new jobs being numbered from {}: \
                 `muster serve --accept-older-state` (with --system for the shared daemon), then start the daemon. \
                 running tasks are left alone",
                older.first_job
            )),
            ServeError::OtherGpus { .. } => Some(
                "wait until the running jobs have ended or cancel them, then start the daemon again; \
                 or use another MUSTER_HOME"
                    .to_owned(),
            ),
            ServeError::SharedInstalled => Some(
                "use the shared one (`systemctl status muster` says how it is); \
                 `muster serve --virtual-gpus N` is a daemon of your own that owns no device; \
                 --beside-shared starts one all the same; \
                 where the shared one is no longer used, an administrator removes /var/lib/muster"
                    .to_owned(),
            ),
            ServeError::Defect => Some("start it again: running tasks are found again".to_owned()),
            ServeError::Local(_)
            | ServeError::QueuesFile { .. }
            | ServeError::Queues(_)
            | ServeError::Socket { .. }
            | ServeError::Runtime(_) => None,
        }
    }
}

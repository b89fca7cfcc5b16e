//! What the runtime asks of the world: a durable store and a clock. Implementations live in the
//! daemon (SQLite) and in tests and simulation (memory).

use muster_engine::Snapshot;
use muster_model::unit::Time;
use muster_model::{QueueTree, UserName};
use serde::{Deserialize, Serialize};

use crate::journal::{Batch, JOURNAL_VERSION, Receipt, Record};

/// Durable state.
pub trait Store {
    /// Makes a batch durable, whole or not at all. After an error the caller does not know which:
    /// it drops what it holds and loads again.
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// Reads the last snapshot and every record after it, oldest first.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Keeps the state as it is after the last appended record and lets the journal up to there go.
    /// A failure loses nothing: the journal still has it all.
    fn save(&mut self, state: &SavedState) -> Result<(), StoreError>;

    /// The answer that this key of this user got before.
    fn receipt(&self, user: &UserName, key: &str) -> Result<Option<Receipt>, StoreError>;

    /// Tries a small durable write, to learn whether a store that failed has recovered.
    fn probe(&mut self) -> Result<(), StoreError>;
}

/// What [`Store::load`] found.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The last snapshot.
    pub saved: Option<SavedState>,
    /// Records after it.
    pub records: Vec<(Time, Record)>,
}

/// A snapshot with what the runtime itself remembers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedState {
    /// The instant of the last record in it.
    pub at: Time,
    /// Number of the next job.
    pub next_job: u64,
    /// The queue tree as set last.
    pub queues: QueueTree,
    /// The engine's state.
    pub engine: Snapshot,
}

/// Why the store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No space is left.
    #[error("no space is left for the state: {0}")]
    Full(String),
    /// It cannot be written.
    #[error("the state cannot be written: {0}")]
    ReadOnly(String),
    /// A newer binary wrote it.
    #[error("the state has journal version {found}, and this binary knows up to {JOURNAL_VERSION}")]
    NewerVersion {
        /// Version found.
        found: u32,
    },
    /// It does not read back as what was written.
    #[error("the state is damaged: {0}")]
    Corrupt(String),
    /// Another daemon uses it.
    #[error("another daemon uses this state: {0}")]
    Locked(String),
    /// Anything else that the system says.
    #[error("the state cannot be reached: {0}")]
    Io(String),
}

impl StoreError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            StoreError::Full(_) => "free some space; the daemon goes on by itself",
            StoreError::ReadOnly(_) => {
                "make the directory writable, or point MUSTER_HOME at another one"
            }
            StoreError::NewerVersion { .. } => {
                "start the newer muster that wrote it, or point MUSTER_HOME elsewhere"
            }
            StoreError::Corrupt(_) => {
                "keep a copy of the file for a report, then restore a backup or point MUSTER_HOME elsewhere"
            }
            StoreError::Locked(_) => "use the running daemon, or stop it first: muster stop-daemon",
            StoreError::Io(_) => "see the daemon's log for what the system said",
        }
    }
}

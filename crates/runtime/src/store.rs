//! The durable store that the runtime needs. Implementations are in the daemon (SQLite) and in
//! tests and simulation (memory).

use muster_engine::{RuntimePredictor, Snapshot};
use muster_model::unit::Time;
use muster_model::{QueueTree, UserName};
use serde::{Deserialize, Serialize};

use crate::journal::{JOURNAL_VERSION, JournalBatch, JournalRecord, Receipt};

/// Store for durable state.
pub trait Store {
    /// Makes a batch durable, atomically. After an error it is unknown whether the batch is
    /// durable: the caller drops its state and loads again.
    fn append(&mut self, batch: &JournalBatch) -> Result<(), StoreError>;

    /// Reads the last snapshot and every record after it, oldest first.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Saves the state after the last appended record and truncates the journal before it. A
    /// failure loses nothing: the journal still contains everything.
    fn save(&mut self, state: &SavedState) -> Result<(), StoreError>;

    /// Returns the stored answer to a submission with this user and key.
    fn receipt(&self, user: &UserName, key: &str) -> Result<Option<Receipt>, StoreError>;

    /// Attempts a small durable write, to find out whether a store that failed has recovered.
    fn probe(&mut self) -> Result<(), StoreError>;
}

/// State that [`Store::load`] returns.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Last snapshot, if there is one.
    pub saved: Option<SavedState>,
    /// Records after the snapshot, oldest first.
    pub records: Vec<(Time, JournalRecord)>,
}

/// Snapshot with the runtime's own state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedState {
    /// Instant of the last record in it.
    pub at: Time,
    /// Number of the next job.
    pub next_job: u64,
    /// Queue tree as set last.
    pub queues: QueueTree,
    /// Run times of ended jobs, for predictions.
    #[serde(default)]
    pub predictor: RuntimePredictor,
    /// State of the engine.
    pub engine: Snapshot,
}

/// Error of the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No space left on the device.
    #[error("no space is left for the state: {0}")]
    Full(String),
    /// The state cannot be written.
    #[error("the state cannot be written: {0}")]
    ReadOnly(String),
    /// Written by a newer binary.
    #[error(
        "the state has journal version {found}, but this binary supports up to {JOURNAL_VERSION}"
    )]
    NewerVersion {
        /// Journal version that was found.
        found: u32,
    },
    /// The contents cannot be read back.
    #[error("the state is damaged: {0}")]
    Corrupt(String),
    /// In use by another daemon.
    #[error("another daemon uses this state: {0}")]
    Locked(String),
    /// Any other system error.
    #[error("the state cannot be reached: {0}")]
    Io(String),
}

impl StoreError {
    /// Returns a hint for the user.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            StoreError::Full(_) => "free some space; the daemon then continues",
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
            StoreError::Io(_) => "see the daemon's log for the system error",
        }
    }
}

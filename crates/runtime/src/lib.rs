//! The sans-io shell around the engine: journal, release of effects, and recovery after a crash.
//! The daemon and the simulator drive the same [`Runtime`] with their own [`Store`] and their own
//! time.
//!
//! One step validates and applies the inputs of an instant, plans, checks the plan, commits it,
//! appends inputs, decisions and facts in one durable batch, and only then releases effects. When
//! the append fails, the engine in memory is dropped and rebuilt from the store: error recovery is
//! crash recovery, so it is always tested. Nothing here reads a clock, a file or a socket, and
//! nothing plans during recovery.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod intake;
mod journal;
mod runtime;
mod store;

pub use intake::{JobDraft, JobSubmission, RefusedInput, StepInput};
pub use journal::{JOURNAL_VERSION, JournalBatch, JournalRecord, Receipt, ReceiptJob};
pub use muster_engine as engine;
pub use runtime::{Runtime, SNAPSHOT_AFTER, StepFailure, StepResult};
pub use store::{Loaded, SavedState, Store, StoreError};

//! The sans-io shell around the engine: what is journalled, when effects may leave, how state comes
//! back after a crash. The daemon and the simulator drive the same [`Runtime`] with their own
//! [`Store`] and their own time.
//!
//! Protocol of one step: judge and apply the inputs of this instant, plan, check the plan, commit
//! it, append inputs, decisions and facts in one durable batch, and only then hand out effects.
//! When the append fails, the engine in memory is dropped and rebuilt from the store: error
//! recovery is crash recovery, so it is always tested. Nothing here reads a clock, a file or a
//! socket, and nothing here plans during recovery.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod intake;
mod journal;
mod mem;
mod runtime;
mod store;

pub use intake::{Draft, Input, Refused, Submission};
pub use journal::{Batch, JOURNAL_VERSION, Receipt, ReceiptJob, Record};
pub use mem::MemStore;
pub use muster_engine as engine;
pub use runtime::{Runtime, SNAPSHOT_AFTER, Step, StepFailure};
pub use store::{Loaded, SavedState, Store, StoreError};

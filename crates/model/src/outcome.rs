//! How tasks and elements end. Told apart truthfully: an out-of-memory kill is not a failure of the
//! program's own, and a time-out is not a cancellation.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{Rank, UserName};
use crate::unit::Span;

/// How one task's process ended, as its supervisor saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TaskExit {
    /// It exited by itself.
    Code {
        /// Exit code, 0..=255.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// Signal number.
        signal: i32,
    },
    /// The kernel killed it for memory.
    OutOfMemory,
    /// It was stopped at its time limit.
    TimedOut,
    /// It was stopped because the scheduler asked (cancel, gang failure).
    Stopped,
    /// It was stopped because it had done nothing for so long.
    Idle {
        /// How long.
        after: Span,
    },
}

impl TaskExit {
    /// True for exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, TaskExit::Code { code: 0 })
    }
}

/// How an element ended, for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// Every task exited with 0.
    Succeeded,
    /// A task exited with another code; the first one seen.
    Failed {
        /// Which task.
        rank: Rank,
        /// Its exit code.
        code: i32,
    },
    /// A task was ended by a signal that Muster did not send.
    Signaled {
        /// Which task.
        rank: Rank,
        /// Signal number.
        signal: i32,
    },
    /// A task ran out of memory.
    OutOfMemory {
        /// Which task.
        rank: Rank,
    },
    /// The time limit was reached.
    TimedOut,
    /// Somebody cancelled it.
    Cancelled {
        /// Who.
        by: UserName,
    },
    /// A task was lost: node gone, reboot, or its supervisor was killed.
    Lost {
        /// Which task.
        rank: Rank,
        /// What is known.
        reason: Arc<str>,
    },
    /// It could not be started, and no restart is left.
    StartFailed {
        /// Which task.
        rank: Rank,
        /// What the backend said.
        reason: Arc<str>,
    },
    /// A dependency can no longer be satisfied.
    DependencyFailed {
        /// The job waited for.
        on: crate::id::JobId,
    },
    /// It was stopped because it had done nothing for so long, as its job asks. Nothing failed.
    Idle {
        /// How long.
        after: Span,
    },
    /// As the queue says that it was handed on to, which does not say of which task.
    Native {
        /// Its own word, such as `NODE_FAIL`.
        state: Arc<str>,
        /// The same for people.
        says: Arc<str>,
        /// What `wait` passes on.
        code: i32,
    },
}

impl Outcome {
    /// True for success. What was stopped for being idle ended as it was meant to.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Outcome::Succeeded | Outcome::Idle { .. })
    }

    /// The exit code that `wait` and `run --wait` pass on: the job's own; 128 + signal; 124 for a
    /// time-out (as timeout(1)); 130 for cancelled; 137 for out of memory; 125 for everything that
    /// Muster itself decided.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Outcome::Succeeded | Outcome::Idle { .. } => 0,
            Outcome::Failed { code, .. } | Outcome::Native { code, .. } => *code,
            Outcome::Signaled { signal, .. } => 128 + signal,
            Outcome::OutOfMemory { .. } => 137,
            Outcome::TimedOut => 124,
            Outcome::Cancelled { .. } => 130,
            Outcome::Lost { .. }
            | Outcome::StartFailed { .. }
            | Outcome::DependencyFailed { .. } => 125,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Succeeded => f.write_str("done"),
            Outcome::Failed { rank, code } => write!(f, "rank {rank} exited with {code}"),
            Outcome::Signaled { rank, signal } => write!(f, "rank {rank} ended by signal {signal}"),
            Outcome::OutOfMemory { rank } => write!(f, "rank {rank} ran out of memory"),
            Outcome::TimedOut => f.write_str("reached its time limit"),
            Outcome::Cancelled { by } => write!(f, "cancelled by {by}"),
            Outcome::Lost { rank, reason } => write!(f, "rank {rank} lost: {reason}"),
            Outcome::StartFailed { rank, reason } => {
                write!(f, "rank {rank} did not start: {reason}")
            }
            Outcome::Idle { after } => write!(f, "stopped after {after} without activity"),
            Outcome::Native { says, .. } => f.write_str(says),
            Outcome::DependencyFailed { on } => {
                write!(f, "job {on} did not end as its dependency requires")
            }
        }
    }
}

//! Outcomes of tasks and elements. Each cause has its own variant: an out-of-memory kill is not an
//! error exit of the program, and a time-out is not a cancellation.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{QueueName, Rank, UserName};
use crate::unit::Span;

/// End of one task's process, as its supervisor observed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TaskExit {
    /// The process exited by itself.
    Code {
        /// Exit code of the process, 0..=255.
        code: i32,
    },
    /// A signal ended the process.
    Signal {
        /// Number of the signal.
        signal: i32,
    },
    /// The kernel killed the process because of memory.
    OutOfMemory,
    /// The process was stopped at its time limit.
    TimedOut,
    /// The scheduler stopped the process (cancellation, failure of another task of the gang).
    Stopped,
    /// The process was stopped because it was idle for too long.
    Idle {
        /// Idle time after which it was stopped.
        after: Span,
    },
}

impl TaskExit {
    /// Returns true for exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, TaskExit::Code { code: 0 })
    }
}

/// Final outcome of an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// Every task exited with 0.
    Succeeded,
    /// A task exited with another code than 0; the first such task seen.
    Failed {
        /// Rank of the task.
        rank: Rank,
        /// Exit code of the task.
        code: i32,
    },
    /// A signal that Muster did not send ended a task.
    Signaled {
        /// Rank of the task.
        rank: Rank,
        /// Number of the signal.
        signal: i32,
    },
    /// A task ran out of memory.
    OutOfMemory {
        /// Rank of the task.
        rank: Rank,
    },
    /// The element reached its time limit.
    TimedOut,
    /// A user cancelled the element.
    Cancelled {
        /// User that cancelled it.
        by: UserName,
    },
    /// A task was lost: its node is gone, was rebooted, or its supervisor was killed.
    Lost {
        /// Rank of the task.
        rank: Rank,
        /// Details, as far as they are known.
        reason: Arc<str>,
    },
    /// The element could not be started, and no restart is left.
    StartFailed {
        /// Rank of the task that did not start.
        rank: Rank,
        /// Error of the backend.
        reason: Arc<str>,
    },
    /// A dependency can no longer be satisfied.
    DependencyFailed {
        /// Job that this one depended on.
        on: crate::id::JobId,
    },
    /// The element was stopped after an idle time that its job sets. Counts as success.
    Idle {
        /// Idle time after which it was stopped.
        after: Span,
    },
    /// The element of a sweep was stopped because it did worse than others. Counts as success.
    StoppedEarly {
        /// Step of its last report.
        step: u64,
        /// Comparison with other elements, as the end of a sentence.
        why: Arc<str>,
    },
    /// The queue ended the element, since all its GPUs were idle for as long as the queue allows.
    IdleGpus {
        /// Queue whose policy it is.
        queue: QueueName,
        /// Number of the GPUs.
        gpus: u32,
        /// Use in percent that none of them reached.
        below_percent: u8,
        /// Time for which they were idle.
        after: Span,
    },
    /// Outcome as an external scheduler reports it, which does not tell the task.
    Native {
        /// State in the external scheduler's terms, such as `NODE_FAIL`.
        state: Arc<str>,
        /// The same as a sentence.
        #[serde(rename = "says")]
        message: Arc<str>,
        /// Exit code that `wait` returns.
        code: i32,
    },
}

impl Outcome {
    /// Returns true for success. A stop after the idle time that the job sets is one, and an early
    /// stop of a sweep.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Outcome::Succeeded | Outcome::Idle { .. } | Outcome::StoppedEarly { .. })
    }

    /// Returns the exit code of `wait` and `run --wait`: the job's own; 128 + signal; 124 for a
    /// time-out (as timeout(1)); 130 for cancelled; 137 for out of memory; 125 for everything that
    /// Muster itself decided.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Outcome::Succeeded | Outcome::Idle { .. } | Outcome::StoppedEarly { .. } => 0,
            Outcome::Failed { code, .. } | Outcome::Native { code, .. } => *code,
            Outcome::Signaled { signal, .. } => 128 + signal,
            Outcome::OutOfMemory { .. } => 137,
            Outcome::TimedOut => 124,
            Outcome::Cancelled { .. } => 130,
            Outcome::Lost { .. }
            | Outcome::StartFailed { .. }
            | Outcome::IdleGpus { .. }
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
            Outcome::StoppedEarly { step, why } => {
                write!(f, "stopped early at step {step}: {why}")
            }
            Outcome::Idle { after } => write!(f, "stopped after {after} without activity"),
            Outcome::IdleGpus { queue, gpus, below_percent, after } => {
                let gpus = match gpus {
                    1 => "GPU was".to_owned(),
                    gpus => format!("{gpus} GPUs were"),
                };
                write!(
                    f,
                    "ended by queue {queue}: its {gpus} under {below_percent} % busy for {after}"
                )
            }
            Outcome::Native { message: says, .. } => f.write_str(says),
            Outcome::DependencyFailed { on } => {
                write!(f, "job {on} did not end as its dependency requires")
            }
        }
    }
}

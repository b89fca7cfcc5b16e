//! Effects: commands of the engine to a backend. Each names an attempt, and a backend rejects an
//! attempt that is older than one it has seen. Repeating an effect changes nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{AttemptId, PayloadId};
use crate::plan::TaskPlacement;

/// Command to a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Prepare every task of the attempt, without starting a user process. The backend reports per
    /// task [`crate::Observation::Prepared`] or [`crate::Observation::Refused`].
    Prepare {
        /// Id of the attempt to prepare.
        id: AttemptId,
        /// Placement of each task, by rank.
        placement: Arc<[TaskPlacement]>,
        /// Payload that the tasks run.
        payload: PayloadId,
    },
    /// Start the user processes; all tasks are prepared.
    Go {
        /// Id of the attempt to start.
        id: AttemptId,
    },
    /// Ask every task to save its progress. If the job does, the backend reports
    /// [`crate::Observation::Checkpointed`].
    Checkpoint {
        /// Id of the attempt to checkpoint.
        id: AttemptId,
        /// Number of the request within the attempt, from 1. A task ignores a request that is not
        /// newer than the last one it has seen.
        request: u32,
    },
    /// Stop every task: SIGTERM, grace, SIGKILL; a task that is only prepared is removed at once.
    Stop {
        /// Id of the attempt to stop.
        id: AttemptId,
        /// Cause, for the record.
        cause: StopCause,
    },
    /// The end of the attempt is journalled: the backend may delete what it keeps for re-adoption
    /// (not logs).
    Forget {
        /// Id of the attempt to forget.
        id: AttemptId,
    },
}

impl Effect {
    /// Returns the attempt that the effect applies to.
    #[must_use]
    pub fn id(&self) -> AttemptId {
        match self {
            Effect::Prepare { id, .. }
            | Effect::Go { id }
            | Effect::Checkpoint { id, .. }
            | Effect::Stop { id, .. }
            | Effect::Forget { id } => *id,
        }
    }
}

/// Cause of stopping an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// A user or administrator cancelled it.
    Cancelled,
    /// Another task of the gang failed, was refused or was lost.
    GangFailed,
    /// A user or administrator asked for a restart from the beginning.
    Requeued,
    /// Another job gets its resources.
    Preempted,
}

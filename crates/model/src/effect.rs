//! What the world is asked to do. Effects are commands to a backend; each names an attempt, and a
//! backend refuses one that is older than what it has seen. Repeating an effect changes nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{AttemptId, PayloadId};
use crate::plan::TaskPlacement;

/// A request to a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Make every task of the attempt ready to run, and run none. Answered per task by
    /// [`crate::Observation::Prepared`] or [`crate::Observation::Refused`].
    Prepare {
        /// Which attempt.
        id: AttemptId,
        /// Where each rank goes, by rank.
        placement: Arc<[TaskPlacement]>,
        /// What to run.
        payload: PayloadId,
    },
    /// All tasks are prepared: run the user's processes.
    Go {
        /// Which attempt.
        id: AttemptId,
    },
    /// Ask every task to save its progress. Answered, if the job does, by
    /// [`crate::Observation::Checkpointed`].
    Checkpoint {
        /// Which attempt.
        id: AttemptId,
        /// Which of its requests, from 1. One that a task has seen, or an older one, changes
        /// nothing.
        request: u32,
    },
    /// End every task: SIGTERM, grace, SIGKILL; a task that only was prepared is dropped at once.
    Stop {
        /// Which attempt.
        id: AttemptId,
        /// Why, for the record.
        cause: StopCause,
    },
    /// The end of the attempt is journalled: the backend may forget what it keeps for re-adoption
    /// (not logs).
    Forget {
        /// Which attempt.
        id: AttemptId,
    },
}

impl Effect {
    /// The attempt it is about.
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

/// Why tasks are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// A user or admin cancelled it.
    Cancelled,
    /// Another task of the gang failed, was refused or lost.
    GangFailed,
    /// A user or admin asked for it to run again from the start.
    Requeued,
    /// Another job takes its place.
    Preempted,
}

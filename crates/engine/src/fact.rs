//! Facts for accounting and history. The engine records each once, when it becomes true, and does
//! not read them back.

use std::sync::Arc;

use muster_model::outcome::Outcome;
use muster_model::view::JobView;
use muster_model::{
    AttemptId, ElementId, EvictionCause, JobId, QueueName, Span, TaskPlacement, Time, UserName,
};
use serde::{Deserialize, Serialize};

/// Event that accounting and history record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountingFact {
    /// A job was accepted.
    Queued {
        /// Number of the job.
        job: JobId,
        /// User of the job.
        user: UserName,
        /// Leaf queue of the job.
        queue: QueueName,
        /// Number of elements of the job.
        elements: u32,
        /// Time of the submission.
        at: Time,
    },
    /// An element holds resources from now on.
    Started {
        /// Attempt of the element that started.
        id: AttemptId,
        /// Time of the start.
        at: Time,
        /// Nodes and devices that it holds, by rank.
        placement: Arc<[TaskPlacement]>,
    },
    /// The user's processes of all tasks run.
    Running {
        /// Attempt whose tasks all run.
        id: AttemptId,
        /// Time at which the last process ran.
        at: Time,
    },
    /// An attempt is being evicted for another element.
    Evicted {
        /// Attempt that is evicted.
        id: AttemptId,
        /// Element that preempts it.
        by: ElementId,
        /// Cause of the eviction.
        cause: EvictionCause,
        /// Time of the decision.
        at: Time,
    },
    /// An attempt has ended and released all its resources.
    AttemptEnded {
        /// Attempt that released its resources.
        id: AttemptId,
        /// User of the job.
        user: UserName,
        /// Leaf queue of the job.
        queue: QueueName,
        /// Time from which on it held resources.
        held_from: Time,
        /// Time from which on the user's processes ran; `None` if they never did.
        running_from: Option<Time>,
        /// Time of its end.
        at: Time,
        /// Thousandths of GPUs × milliseconds that it held.
        gpu_millis: u64,
        /// Time limit of the job.
        #[serde(default)]
        time_limit: Option<Span>,
        /// Nodes and devices that it held, by rank.
        placement: Arc<[TaskPlacement]>,
    },
    /// An element ended (and may be requeued).
    ElementEnded {
        /// Element whose last attempt ended.
        element: ElementId,
        /// Outcome of the element.
        outcome: Outcome,
        /// Time of its end.
        at: Time,
        /// Number of attempts of the element.
        attempts: u32,
    },
    /// All elements of a range of an array that had never been started or acted on ended together.
    RestEnded {
        /// Number of the job.
        job: JobId,
        /// Number of elements that ended.
        count: u32,
        /// First array index of the range that contains these elements. Other elements in the range
        /// have facts of their own.
        first: u32,
        /// Last array index of the range.
        last: u32,
        /// Step between two indices of the range.
        step: u32,
        /// Outcome of these elements.
        outcome: Outcome,
        /// Time of their end.
        at: Time,
    },
    /// All elements ended: the job leaves the engine's memory.
    JobEnded {
        /// Number of the job.
        job: JobId,
        /// Time of its end.
        at: Time,
        /// True when every element succeeded.
        succeeded: bool,
        /// Last view of the job, for history.
        view: Box<JobView>,
    },
}

/// Facts that the caller has not taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingFacts {
    pending: Vec<AccountingFact>,
    /// True if facts are not recorded.
    is_disabled: bool,
}

impl PendingFacts {
    /// Discards all facts and stops recording.
    pub(crate) fn disable(&mut self) {
        *self = Self { pending: Vec::new(), is_disabled: true };
    }

    /// Returns true if facts are recorded.
    pub(crate) fn is_enabled(&self) -> bool {
        !self.is_disabled
    }

    /// Records a fact, unless recording is disabled.
    pub(crate) fn record(&mut self, fact: impl FnOnce() -> AccountingFact) {
        if !self.is_disabled {
            self.pending.push(fact());
        }
    }

    /// Returns the facts recorded since they were last taken.
    pub(crate) fn pending_mut(&mut self) -> &mut Vec<AccountingFact> {
        &mut self.pending
    }
}

/// Numbers of elements, nodes and jobs in the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineCounts {
    /// Number of pending elements, including those on hold.
    pub pending: u64,
    /// Number of elements that hold resources.
    pub active: u64,
    /// Number of nodes that ever joined.
    pub nodes: u64,
    /// Number of jobs in memory.
    pub jobs: u64,
}

//! Facts: what accounting and history keep of what happened. The engine states each once, when it
//! becomes true; it does not read them back.

use std::sync::Arc;

use muster_model::outcome::Outcome;
use muster_model::view::JobView;
use muster_model::{
    AttemptId, ElementId, EvictionCause, JobId, QueueName, TaskPlacement, Time, UserName,
};
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// A job was accepted.
    Queued {
        /// Which.
        job: JobId,
        /// Whose.
        user: UserName,
        /// In which leaf queue.
        queue: QueueName,
        /// How many elements it has.
        elements: u32,
        /// When.
        at: Time,
    },
    /// An element holds resources from here on.
    Started {
        /// Which attempt.
        id: AttemptId,
        /// When.
        at: Time,
        /// What it holds, by rank.
        placement: Arc<[TaskPlacement]>,
    },
    /// The user's processes of every task run.
    Running {
        /// Which attempt.
        id: AttemptId,
        /// When.
        at: Time,
    },
    /// An attempt was told to go for another element.
    Evicted {
        /// Which attempt.
        id: AttemptId,
        /// For whom.
        by: ElementId,
        /// By what right.
        cause: EvictionCause,
        /// When.
        at: Time,
    },
    /// An attempt is over and has given everything back.
    AttemptEnded {
        /// Which attempt.
        id: AttemptId,
        /// Whose.
        user: UserName,
        /// In which leaf queue.
        queue: QueueName,
        /// Since when it held resources.
        held_from: Time,
        /// When the user's processes ran; `None` if they never did.
        running_from: Option<Time>,
        /// When it ended.
        at: Time,
        /// Thousandths of GPUs × milliseconds held.
        gpu_millis: u64,
        /// What it held, by rank.
        placement: Arc<[TaskPlacement]>,
    },
    /// An element ended for good (until somebody requeues it).
    ElementEnded {
        /// Which.
        element: ElementId,
        /// How.
        outcome: Outcome,
        /// When.
        at: Time,
        /// How often it was started.
        attempts: u32,
    },
    /// All elements of a range of an array that had never been started or acted on ended together.
    RestEnded {
        /// Of which job.
        job: JobId,
        /// How many.
        count: u32,
        /// They are among the array indices from this one on,
        first: u32,
        /// up to this one,
        last: u32,
        /// at this distance; others in that range end by a fact of their own.
        step: u32,
        /// How.
        outcome: Outcome,
        /// When.
        at: Time,
    },
    /// All elements ended: the job leaves the engine's memory.
    JobEnded {
        /// Which.
        job: JobId,
        /// When.
        at: Time,
        /// True when every element succeeded.
        succeeded: bool,
        /// The last view of it, for history.
        view: Box<JobView>,
    },
}

/// Facts that nobody has taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    told: Vec<Fact>,
    /// Nobody takes them.
    are_idle: bool,
}

impl Facts {
    /// From here on nobody takes them, and none are made.
    pub(crate) fn stop(&mut self) {
        *self = Self { told: Vec::new(), are_idle: true };
    }

    /// They are made for somebody.
    pub(crate) fn are_wanted(&self) -> bool {
        !self.are_idle
    }

    /// One more.
    pub(crate) fn tell(&mut self, fact: impl FnOnce() -> Fact) {
        if !self.are_idle {
            self.told.push(fact());
        }
    }

    /// Those that were made since they were taken.
    pub(crate) fn told_mut(&mut self) -> &mut Vec<Fact> {
        &mut self.told
    }
}

/// How much the engine holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Elements that wait, for whatever reason.
    pub pending: u64,
    /// Elements that hold resources.
    pub active: u64,
    /// Nodes ever joined.
    pub nodes: u64,
    /// Jobs in memory.
    pub jobs: u64,
}

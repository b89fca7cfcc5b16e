//! What the world reports: one closed enum of everything that can change the engine's state.
//!
//! Events are journalled. Changing a variant needs a new journal version (see `runtime`); add, do
//! not edit.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{AttemptId, JobId, NodeName, Rank, UserName, WindowName};
use crate::job::{JobSpec, Replicas};
use crate::node::{DeviceSet, Drain, Foreign, NodeSpec};
use crate::outcome::TaskExit;
use crate::queue::QueueTree;
use crate::unit::{Span, Time};
use crate::window::{Window, WindowPlace};

/// Everything that can wake the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A node joined, or came back with other capacity. Tasks running on it are kept.
    NodeJoined(Box<NodeSpec>),
    /// A node is gone; its tasks are lost.
    NodeLost {
        /// Which node.
        node: NodeName,
        /// What is known.
        reason: Arc<str>,
    },
    /// Take no new work on a node, or take it again.
    NodeDrained {
        /// Which node.
        node: NodeName,
        /// True to drain, false to resume.
        drained: bool,
        /// Why, for people.
        reason: Arc<str>,
    },
    /// Take no new work on a node or on some of its devices, from an instant on; or take it again.
    /// Replaces what was said of the same node or device before; the node and each of its devices
    /// are drained on their own.
    DrainSet {
        /// Which node.
        node: NodeName,
        /// Only these devices; `None` is the node as a whole.
        devices: Option<DeviceSet>,
        /// `None` takes them back.
        drain: Option<Drain>,
    },
    /// What others hold of a node.
    ForeignUse {
        /// Which node.
        node: NodeName,
        /// Replaces the last observation.
        foreign: Foreign,
    },
    /// The queue tree was set or changed; jobs in removed queues move to the default queue.
    QueuesSet(Box<QueueTree>),
    /// The topology levels of the cluster, widest first, without the node. Where none were ever set
    /// there are none.
    LevelsSet(Vec<Arc<str>>),
    /// A job was submitted; ids are given by the runtime and only grow.
    Submitted {
        /// Its number.
        job: JobId,
        /// What it asks for.
        spec: Arc<JobSpec>,
    },
    /// Keep pending elements from starting.
    Hold(Target),
    /// Undo a hold. One of an administrator stays.
    Release(Target),
    /// Keep pending elements from starting until an administrator releases them.
    AdminHold {
        /// What.
        target: Target,
        /// Which administrator.
        by: UserName,
    },
    /// Undo a hold as an administrator: that of an administrator where there is one, else the
    /// user's own.
    AdminRelease {
        /// What.
        target: Target,
        /// Which administrator.
        by: UserName,
    },
    /// End it, whatever its state.
    Cancel {
        /// What.
        target: Target,
        /// Who asked.
        by: UserName,
    },
    /// Run it again from the start: stops it when it runs, revives it when it has ended and is
    /// still in memory.
    Requeue(Target),
    /// Ask what runs to save its progress now.
    Checkpoint(Target),
    /// A backend reports on a task.
    Task(TaskReport),
    /// A gang was not ready in time: it counts as failed to start. Ignored when it is ready by now,
    /// or is another attempt than the current one.
    StartOverdue {
        /// Which attempt.
        id: AttemptId,
        /// How long it was waited for.
        after: Span,
    },
    /// An attempt that has to go was waited for long enough to save its progress. Ignored when it
    /// is another attempt than the current one, or is being stopped by now.
    EvictionDue {
        /// Which attempt.
        id: AttemptId,
    },
    /// A service has another number of replicas from now on.
    Scaled {
        /// Which job.
        job: JobId,
        /// How many.
        replicas: Replicas,
        /// Who asked.
        by: UserName,
    },
    /// Nodes or GPUs are set aside for some users over a stretch of time.
    WindowSet(Box<Window>),
    /// Where a window is that names GPUs by number: replaces what was said before.
    WindowPlaced {
        /// Which.
        window: WindowName,
        /// Its places.
        places: Vec<WindowPlace>,
    },
    /// A window is no more: taken back, or over for good. What runs in it goes on.
    WindowDropped {
        /// Which.
        window: WindowName,
        /// Who took it back; `None` when it is over.
        by: Option<UserName>,
    },
}

/// A job, or one element of its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The job.
    pub job: JobId,
    /// One element; `None` is all of them.
    pub index: Option<u32>,
}

/// What a backend says about one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Which attempt; a report on another attempt than the current one is ignored.
    pub id: AttemptId,
    /// Which task.
    pub rank: Rank,
    /// What was seen.
    pub what: Observation,
}

/// What was seen of a task. Observing the same twice changes nothing; a later stage implies the
/// earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observation {
    /// Ready to run, waiting for [`crate::Effect::Go`].
    Prepared,
    /// It cannot be made ready.
    Refused {
        /// Why, for people.
        reason: Arc<str>,
    },
    /// The user's process runs.
    Started,
    /// The user's process ended and nothing it started is left.
    Exited(TaskExit),
    /// Nobody knows how it ended; nothing it started is left.
    Lost {
        /// What is known.
        reason: Arc<str>,
    },
    /// Its process says that its progress is saved. Says nothing of its stage.
    Checkpointed(TaskCheckpoint),
    /// It answers on its port. Says nothing of its stage.
    Ready,
    /// Its supervisor has looked for processes that handle the checkpoint signal. Says nothing of
    /// its stage.
    Signalled(TaskSignalled),
    /// It can never be made ready: its program or its directory does not exist or may not be used.
    /// Trying again would come to the same.
    Impossible {
        /// Why, for people.
        reason: Arc<str>,
    },
}

/// How far the newest request for a checkpoint, or the warning before the limit, has got in a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSignalled {
    /// The newest request; 0 is none.
    pub request: u32,
    /// The warning before the time limit has come.
    pub warned: bool,
    /// Processes that got the signal; 0 when no process of the task handles it so far.
    pub reached: u32,
}

/// A checkpoint that a process of a task acknowledged, as its supervisor noted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCheckpoint {
    /// Which of the task's, from 1: of two reports the one with the higher number is newer.
    pub count: u32,
    /// The newest request that had reached the task by then; 0 is none.
    pub answers: u32,
    /// The warning before the time limit had reached the task by then.
    pub warned: bool,
    /// When, by the clock of its machine.
    pub at: Time,
    /// What the process wrote, such as `step 1200`; may be empty, at most
    /// [`TaskCheckpoint::MAX_LABEL_BYTES`].
    pub label: Arc<str>,
}

impl TaskCheckpoint {
    /// Longest label that is kept, in bytes: room for a step, an epoch or a file name, and no place
    /// for a log.
    pub const MAX_LABEL_BYTES: usize = 128;
}

//! Events: one closed enum of everything that can change the engine's state.
//!
//! Events are journalled. Changing a variant needs a new journal version (see `runtime`); add
//! variants, do not edit them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::advance_reservation::{AdvanceReservation, ReservedPlace};
use crate::id::{AdvanceReservationName, AttemptId, JobId, NodeName, QueueName, Rank, UserName};
use crate::job::{JobSpec, Replicas};
use crate::node::{DeviceSet, Drain, Foreign, NodeSpec};
use crate::outcome::TaskExit;
use crate::queue::{IdleAction, QueueTree};
use crate::unit::{Span, Time};

/// Input of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A node joined, or rejoined with other capacity. Tasks that run on it are kept.
    NodeJoined(Box<NodeSpec>),
    /// A node is gone; its tasks are lost.
    NodeLost {
        /// Node that is gone.
        node: NodeName,
        /// Details, as far as they are known.
        reason: Arc<str>,
    },
    /// A node takes no new work, or takes it again.
    NodeDrained {
        /// Node to drain or resume.
        node: NodeName,
        /// True to drain, false to resume.
        drained: bool,
        /// Reason that users see.
        reason: Arc<str>,
    },
    /// Sets or clears the drain of a node or of some of its devices, from an instant on. Replaces
    /// the last drain of the same node or device; the node and each of its devices are drained
    /// independently.
    DrainSet {
        /// Node to drain or resume.
        node: NodeName,
        /// Devices to drain; `None` means the node as a whole.
        devices: Option<DeviceSet>,
        /// The drain; `None` ends it.
        drain: Option<Drain>,
    },
    /// Resources of a node that processes outside Muster use.
    ForeignUse {
        /// Node that was observed.
        node: NodeName,
        /// Resources in use; replaces the last observation.
        foreign: Foreign,
    },
    /// The queue tree was set or changed; jobs in removed queues move to the default queue.
    QueuesSet(Box<QueueTree>),
    /// The topology levels of the cluster, widest first, without the node level. None exist until
    /// this event.
    LevelsSet(Vec<Arc<str>>),
    /// A job was submitted; the runtime assigns ids in ascending order.
    Submitted {
        /// Number of the job.
        job: JobId,
        /// Job as its user submitted it.
        spec: Arc<JobSpec>,
    },
    /// Keep pending elements from starting.
    Hold(CommandTarget),
    /// Undo a hold of a user. A hold of an administrator stays.
    Release(CommandTarget),
    /// Keep pending elements from starting until an administrator releases them.
    AdminHold {
        /// Job or element to hold.
        target: CommandTarget,
        /// Administrator that holds it.
        by: UserName,
    },
    /// Undo a hold as an administrator: the administrator's hold where there is one, else the
    /// user's.
    AdminRelease {
        /// Job or element to release.
        target: CommandTarget,
        /// Administrator that releases it.
        by: UserName,
    },
    /// End the job or element in any state.
    Cancel {
        /// Job or element to cancel.
        target: CommandTarget,
        /// User that cancels it.
        by: UserName,
    },
    /// Run again from the beginning: stops what runs, and revives an element that has ended and is
    /// still in memory.
    Requeue(CommandTarget),
    /// Ask running tasks to save their progress now.
    Checkpoint(CommandTarget),
    /// A backend reports on a task.
    Task(TaskReport),
    /// An attempt began earlier than its start in the engine: a scheduler that took over found it running.
    /// The work that a preemption would lose, and the time of its protection, count from `since`. The time limit
    /// does not change: the job was submitted with what was left of it. Ignored when the attempt is not the
    /// current one, or does not run.
    RunningSince {
        /// Attempt that was found running.
        id: AttemptId,
        /// Instant at which it got its nodes.
        since: Time,
    },
    /// A gang was not ready in time: counts as a failed start. Ignored when it is ready by now, or
    /// when the attempt is not the current one.
    StartOverdue {
        /// Attempt that is late.
        id: AttemptId,
        /// Time that the engine waited for it.
        after: Span,
    },
    /// The checkpoint grace of a preempted attempt is over. Ignored when the attempt is not the
    /// current one, or is already being stopped.
    EvictionDue {
        /// Attempt that is preempted.
        id: AttemptId,
    },
    /// An element of a sweep does too badly to go on. Ignored when the attempt is not the current one,
    /// or is ending already.
    StopEarly {
        /// Attempt that ends, if it is the current one.
        id: AttemptId,
        /// Step of its last report.
        step: u64,
        /// Comparison with other elements that says so, as the end of a sentence.
        why: Arc<str>,
    },
    /// All GPUs of an attempt have been idle for as long as its queue allows. Ignored when the attempt is not the current
    /// one, or is ending already.
    GpusIdle {
        /// Attempt that ends, if it is the current one.
        id: AttemptId,
        /// Queue whose policy it is.
        queue: QueueName,
        /// Number of its GPUs.
        gpus: u32,
        /// Use in percent that none of them reached.
        below_percent: u8,
        /// Time for which they were idle.
        after: Span,
        /// Action of the queue; nothing follows from [`IdleAction::Notify`].
        action: IdleAction,
    },
    /// The number of replicas of a service changed.
    Scaled {
        /// Job of the service.
        job: JobId,
        /// New number of replicas.
        replicas: Replicas,
        /// User that changed it.
        by: UserName,
    },
    /// An advance reservation was set: nodes or GPUs are set aside for some users and times.
    #[serde(rename = "WindowSet")]
    AdvanceReservationSet(Box<AdvanceReservation>),
    /// The places of an advance reservation that asks for a number of GPUs; replaces the last ones.
    #[serde(rename = "WindowPlaced")]
    AdvanceReservationPlaced {
        /// Advance reservation that was placed.
        #[serde(rename = "window")]
        advance_reservation: AdvanceReservationName,
        /// Nodes and devices that it uses.
        places: Vec<ReservedPlace>,
    },
    /// An advance reservation was removed or has ended for good. Jobs that run in it continue.
    #[serde(rename = "WindowDropped")]
    AdvanceReservationRemoved {
        /// Advance reservation that was removed.
        #[serde(rename = "window")]
        advance_reservation: AdvanceReservationName,
        /// User that removed it; `None` when it has ended.
        by: Option<UserName>,
    },
}

/// Job, or one element of its array, that a command applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommandTarget {
    /// Job of the command.
    pub job: JobId,
    /// Index of the element; `None` means all elements.
    pub index: Option<u32>,
}

/// Report of a backend on one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Attempt of the task; the engine ignores a report on an attempt that is not the current one.
    pub id: AttemptId,
    /// Rank of the task.
    pub rank: Rank,
    /// Observation of the backend.
    #[serde(rename = "what")]
    pub observation: Observation,
}

/// Observed state of a task. Observing the same state twice changes nothing; a later stage implies
/// the earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observation {
    /// Ready to run, waiting for [`crate::Effect::Go`].
    Prepared,
    /// The task cannot be prepared on this node now.
    Refused {
        /// Reason that users see.
        reason: Arc<str>,
    },
    /// The user's process runs.
    Started,
    /// The user's process ended, and no process that it started is left.
    Exited(TaskExit),
    /// The task ended in an unknown way, and no process that it started is left.
    Lost {
        /// Details, as far as they are known.
        reason: Arc<str>,
    },
    /// The process acknowledged a checkpoint. Independent of the task's stage.
    Checkpointed(TaskCheckpoint),
    /// The task accepts connections on its port. Independent of the task's stage.
    Ready,
    /// The supervisor has looked for processes that handle the checkpoint signal. Independent of
    /// the task's stage.
    Signalled(TaskSignalled),
    /// The task can never be prepared: its program or its directory does not exist or is not
    /// permitted. Another attempt would fail in the same way.
    Impossible {
        /// Reason that users see.
        reason: Arc<str>,
    },
}

/// Delivery of the newest checkpoint request, or of the warning before the time limit, in a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSignalled {
    /// Number of the newest request; 0 means none.
    pub request: u32,
    /// True when the warning before the time limit was sent.
    pub warned: bool,
    /// Processes that got the signal; 0 when no process of the task handles it so far.
    pub reached: u32,
}

/// Checkpoint that a process of a task acknowledged, as its supervisor recorded it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCheckpoint {
    /// Number of the checkpoint within the task, from 1: of two reports the one with the higher
    /// number is newer.
    pub count: u32,
    /// Number of the newest request that had reached the task by then; 0 means none.
    pub answers: u32,
    /// True when the warning before the time limit had reached the task by then.
    pub warned: bool,
    /// Time of the acknowledgement, by the clock of the task's node.
    pub at: Time,
    /// Text that the process wrote, such as `step 1200`; may be empty, at most
    /// [`TaskCheckpoint::MAX_LABEL_BYTES`].
    pub label: Arc<str>,
}

impl TaskCheckpoint {
    /// Longest label that is kept, in bytes: enough for a step, an epoch or a file name, but not
    /// for a log.
    pub const MAX_LABEL_BYTES: usize = 128;
}

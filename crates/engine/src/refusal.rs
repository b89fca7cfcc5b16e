//! Reasons for which the engine rejects an event or a snapshot. Refusals go to the caller and are
//! not journalled.

use muster_model::{
    AdvanceReservationName, CommandTarget, ElementId, JobId, NodeName, QueueName, Reason, UserName,
};
use muster_policy::TreeError;

use crate::bounds::MalformedJob;

/// Reason for which the engine rejects an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventRefusal {
    /// The job could never start; the reason has the numbers.
    #[error("the job can never start: {0:?}")]
    NeverStarts(Reason),
    /// The user has as many pending jobs as a queue admits; the reason has the numbers.
    #[error("too many pending jobs: {0:?}")]
    TooManyPending(Reason),
    /// No job of this number is in memory.
    #[error("there is no pending or running job {0}")]
    UnknownJob(JobId),
    /// A job with this number was submitted before.
    #[error("job {0} exists already")]
    JobExists(JobId),
    /// The job has no element of this index.
    #[error("job {} has no element {}", .0.job, .0.index)]
    UnknownElement(ElementId),
    /// The element has ended.
    #[error("{0} has ended")]
    Ended(ElementId),
    /// The element holds resources; only pending elements can be held.
    #[error("{0} holds resources; only pending jobs can be held")]
    NotWaiting(ElementId),
    /// A user may not undo the hold of an administrator.
    #[error("{} is held by {by}, an administrator: only an administrator can release it", target_text(.target))]
    HeldByAdmin {
        /// Job or element to release.
        target: CommandTarget,
        /// Administrator that holds it.
        by: UserName,
    },
    /// The job has no checkpoint signal.
    #[error("job {0} has no checkpoint signal")]
    NoCheckpoint(JobId),
    /// The job is not a service, so it has no replicas.
    #[error("job {0} is not a service; only services can be scaled")]
    NoService(JobId),
    /// No element of the target runs.
    #[error("{} is not running", target_text(.0))]
    NotRunning(CommandTarget),
    /// The job contradicts itself or exceeds a bound.
    #[error(transparent)]
    Malformed(#[from] MalformedJob),
    /// The job would run no task.
    #[error("the job has no task")]
    NoTasks,
    /// The queue does not exist, or is not a leaf.
    #[error("there is no leaf queue {0}")]
    UnknownQueue(QueueName),
    /// The job depends on a job that the engine does not remember.
    #[error("the job depends on job {0}, which is unknown")]
    UnknownDependency(JobId),
    /// The job depends on itself or a later job, which could form a cycle.
    #[error("job {job} cannot depend on job {on}: dependencies may only name earlier jobs")]
    DependencyCycle {
        /// Job that is submitted.
        job: JobId,
        /// Job on which it depends.
        on: JobId,
    },
    /// No node of this name is known.
    #[error("there is no node {0}")]
    UnknownNode(NodeName),
    /// The node has no device of this index.
    #[error("node {node} has no GPU {device}; {}", device_range(*.known))]
    UnknownDevice {
        /// Name of the node.
        node: NodeName,
        /// Index of the device.
        device: usize,
        /// Number of devices of the node.
        known: usize,
    },
    /// The node has more devices than are supported.
    #[error(
        "node {node} has {devices} devices; at most {} are supported",
        muster_model::DeviceSet::MAX_DEVICES
    )]
    TooManyDevices {
        /// Name of the node.
        node: NodeName,
        /// Number of devices in the event.
        devices: usize,
    },
    /// An advance reservation of this name exists, with other terms.
    #[error("the reservation {0} exists already")]
    ReservationExists(AdvanceReservationName),
    /// The advance reservation contradicts itself.
    #[error("invalid reservation: {0}")]
    InvalidReservation(&'static str),
    /// No advance reservation of this name exists.
    #[error("there is no reservation {0}")]
    UnknownReservation(AdvanceReservationName),
    /// The advance reservation does not admit the job's user or queue.
    #[error("the reservation {0} is for other users and queues")]
    ReservationNotAllowed(AdvanceReservationName),
    /// Another advance reservation has the node at an overlapping time.
    #[error("{node} is in the reservation {other} at an overlapping time")]
    ReservationOverlaps {
        /// Name of the node.
        node: NodeName,
        /// Advance reservation that has the node.
        other: AdvanceReservationName,
    },
    /// Other jobs would still hold the resources when the advance reservation begins.
    #[error("{}", conflict_text(*.gpus, .conflicts))]
    ReservationConflict {
        /// GPUs requested and found; `None` if it names nodes.
        gpus: Option<(u32, u32)>,
        /// Elements that would still hold the others.
        conflicts: Vec<ElementId>,
    },
    /// The queue is not in the tree, as a leaf or a parent.
    #[error("there is no queue {0}")]
    NoQueue(QueueName),
    /// The queue tree contradicts itself.
    #[error(transparent)]
    Queues(#[from] TreeError),
}

/// Reason for which a snapshot cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A job names a node that the snapshot does not have.
    #[error("job {0} holds a node that the snapshot does not have")]
    UnknownNode(JobId),
    /// A job is in a queue that the snapshot does not have.
    #[error("job {0} is in a queue that the snapshot does not have")]
    UnknownQueue(JobId),
}

/// Most elements named in one refusal.
const MAX_NAMED: usize = 5;

/// Returns why an advance reservation cannot have the resources that it asks for.
fn conflict_text(gpus: Option<(u32, u32)>, conflicts: &[ElementId]) -> String {
    let what = match gpus {
        Some((requested, found)) => {
            format!("only {found} of {requested} GPUs can be reserved then")
        }
        None => "not all of its nodes are free then".to_owned(),
    };
    let more = match conflicts.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> = conflicts.iter().take(MAX_NAMED).map(ElementId::to_string).collect();
    if named.is_empty() {
        what
    } else {
        format!("{what}; still held by: {}{more}", named.join(", "))
    }
}

/// Formats a job, or one element of its array.
fn target_text(target: &CommandTarget) -> String {
    match target.index {
        Some(index) => ElementId { job: target.job, index }.to_string(),
        None => format!("job {}", target.job),
    }
}

/// Returns the range of device indices of a node, as text.
fn device_range(known: usize) -> String {
    match known {
        0 => "it has none".to_owned(),
        1 => "its only one is 0".to_owned(),
        _ => format!("they are 0 to {}", known - 1),
    }
}

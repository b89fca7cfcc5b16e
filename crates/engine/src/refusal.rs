//! Why an event is not accepted. A refusal is for the one who asked; nothing of it is journalled.

use muster_model::{ElementId, JobId, NodeName, QueueName, Reason, Target, UserName, WindowName};
use muster_policy::TreeError;

use crate::bounds::Malformed;

/// The engine does not accept an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It could never start; the reason has the numbers.
    #[error("it can never start: {0:?}")]
    Never(Reason),
    /// Its user has as many jobs waiting as a queue admits; the reason has the numbers.
    #[error("too many jobs wait: {0:?}")]
    TooMany(Reason),
    /// No job of that number is in memory.
    #[error("there is no job {0} that waits or runs")]
    UnknownJob(JobId),
    /// The number was given before.
    #[error("job {0} exists already")]
    JobExists(JobId),
    /// The job has no element of that index.
    #[error("job {} has no element {}", .0.job, .0.index)]
    UnknownElement(ElementId),
    /// Nothing is left to be done with it.
    #[error("{0} has ended")]
    Ended(ElementId),
    /// Only what waits can be held.
    #[error("{0} holds resources; only what waits can be held")]
    NotWaiting(ElementId),
    /// A user may not undo the hold of an administrator.
    #[error("{} is held by {by}, an administrator: only an administrator can release it", named(.target))]
    HeldByAdmin {
        /// What.
        target: Target,
        /// Which administrator.
        by: UserName,
    },
    /// Nobody said how the job is asked to save its progress.
    #[error("job {0} takes no checkpoint signal")]
    NoCheckpoint(JobId),
    /// Only a service has replicas.
    #[error("job {0} is no service; only services are scaled")]
    NoService(JobId),
    /// None of it runs.
    #[error("{} does not run", named(.0))]
    NotRunning(Target),
    /// It has numbers that the engine cannot count with.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The job would run no task.
    #[error("the job has no task")]
    NoTasks,
    /// The queue is not there, or is a parent of others.
    #[error("there is no leaf queue {0}")]
    UnknownQueue(QueueName),
    /// A dependency on a job that nobody remembers.
    #[error("it depends on job {0}, which is unknown")]
    UnknownDependency(JobId),
    /// A dependency on itself or on a job that comes later would be a cycle.
    #[error("job {job} cannot depend on job {on}: dependencies may only name earlier jobs")]
    DependencyCycle {
        /// The job.
        job: JobId,
        /// What it names.
        on: JobId,
    },
    /// No such node.
    #[error("there is no node {0}")]
    UnknownNode(NodeName),
    /// The node has no device of that index.
    #[error("node {node} has no GPU {device}; {}", numbered(*.known))]
    UnknownDevice {
        /// The node.
        node: NodeName,
        /// The index.
        device: usize,
        /// How many it has.
        known: usize,
    },
    /// More devices than a node can have.
    #[error(
        "node {node} has {devices} devices; at most {} are supported",
        muster_model::DeviceSet::MAX_DEVICES
    )]
    TooManyDevices {
        /// The node.
        node: NodeName,
        /// How many it names.
        devices: usize,
    },
    /// A window of that name is there, with other terms.
    #[error("there is a reservation {0} already")]
    WindowExists(WindowName),
    /// A window that makes no sense.
    #[error("the reservation makes no sense: {0}")]
    BadWindow(&'static str),
    /// No such window.
    #[error("there is no reservation {0}")]
    UnknownWindow(WindowName),
    /// The job's user and queue are not among those that a window is for.
    #[error("the reservation {0} is for others")]
    NotForYou(WindowName),
    /// Another window has the node at some time of this one.
    #[error("{node} is set aside for the reservation {other} at some of that time")]
    WindowOverlaps {
        /// The node.
        node: NodeName,
        /// Whose it is.
        other: WindowName,
    },
    /// Others would still be there when a window begins.
    #[error("{}", taken(*.gpus, .in_way))]
    WindowTaken {
        /// GPUs asked for and found; `None` when it names nodes.
        gpus: Option<(u32, u32)>,
        /// Who would hold the others.
        in_way: Vec<ElementId>,
    },
    /// A queue that is not in the tree, be it a leaf or a parent.
    #[error("there is no queue {0}")]
    NoQueue(QueueName),
    /// The queue tree contradicts itself.
    #[error(transparent)]
    Queues(#[from] TreeError),
}

/// A snapshot cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A job names a node that the snapshot does not have.
    #[error("job {0} holds a node that the snapshot does not have")]
    UnknownNode(JobId),
    /// A job is in a queue that the snapshot does not have.
    #[error("job {0} is in a queue that the snapshot does not have")]
    UnknownQueue(JobId),
}

/// So many are named; the next refusal names others.
const MOST_NAMED: usize = 5;

/// Why a window cannot have what it asks for.
fn taken(gpus: Option<(u32, u32)>, in_way: &[ElementId]) -> String {
    let what = match gpus {
        Some((asked, found)) => format!("only {found} of {asked} GPUs can be set aside then"),
        None => "its nodes are not all free then".to_owned(),
    };
    let more = match in_way.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> = in_way.iter().take(MOST_NAMED).map(ElementId::to_string).collect();
    match named.is_empty() {
        true => what,
        false => format!("{what}; still there: {}{more}", named.join(", ")),
    }
}

/// A job, or one element of its array.
fn named(target: &Target) -> String {
    match target.index {
        Some(index) => ElementId { job: target.job, index }.to_string(),
        None => format!("job {}", target.job),
    }
}

/// How the devices of a node are numbered.
fn numbered(known: usize) -> String {
    match known {
        0 => "it has none".to_owned(),
        1 => "its only one is 0".to_owned(),
        _ => format!("they are 0 to {}", known - 1),
    }
}

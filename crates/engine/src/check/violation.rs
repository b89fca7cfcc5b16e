//! Violations of invariants by a plan or a state.

use std::sync::Arc;

use muster_model::{AttemptId, ElementId, JobId, NodeId, Reason};

/// Invariant that a plan or a state breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Decision about an element that is not in memory.
    #[error("{0} is not in memory")]
    Unknown(ElementId),
    /// Start of an element that does not wait, or may not start yet.
    #[error("{0} may not start: {1}")]
    NotStartable(ElementId, &'static str),
    /// Second start of the same element.
    #[error("{0} is started twice")]
    StartedTwice(ElementId),
    /// Attempt number that is not the next one.
    #[error("{id} should be attempt {expected}")]
    WrongAttempt {
        /// Attempt that the plan starts.
        id: AttemptId,
        /// Attempt number that it should have.
        expected: u32,
    },
    /// More active elements of an array than it allows.
    #[error("job {0} exceeds its array's cap")]
    ArrayCap(JobId),
    /// Gang with too few or too many tasks.
    #[error("{element}: group {group} has {tasks} tasks, not {min}..={max}")]
    PartialGang {
        /// Element of the gang.
        element: ElementId,
        /// Index of the group.
        group: u16,
        /// Number of tasks placed.
        tasks: u32,
        /// Minimum number of tasks of the group.
        min: u32,
        /// Maximum number of tasks of the group.
        max: u32,
    },
    /// Task that holds other resources than it asks for.
    #[error("{element} rank {rank}: {what}")]
    WrongTask {
        /// Element of the task.
        element: ElementId,
        /// Rank of the task.
        rank: u32,
        /// Description of the error.
        what: &'static str,
    },
    /// Gang that must be in one domain but is in several, or in none.
    #[error("{element} is not in one {level}")]
    Apart {
        /// Element of the gang.
        element: ElementId,
        /// Level that the gang requires.
        level: Arc<str>,
    },
    /// Slice of consecutive ranks that is not in one domain.
    #[error("{element}: slice {slice} of group {group} is not in one {level}")]
    SplitSegment {
        /// Element of the gang.
        element: ElementId,
        /// Index of the group.
        group: u16,
        /// Index of the slice within the group.
        slice: u32,
        /// Level of the gang's segments.
        level: Arc<str>,
    },
    /// Gang that must be spread evenly and is not, though capacity was free.
    #[error("{element} is not spread evenly over the domains of {level}")]
    Uneven {
        /// Element of the gang.
        element: ElementId,
        /// Level over which it must be spread.
        level: Arc<str>,
    },
    /// Node that takes no work, that the job excludes, or whose labels do not match.
    #[error("{element} may not use node {node}: {what}")]
    WrongNode {
        /// Element that uses the node.
        element: ElementId,
        /// Node that it may not use.
        node: NodeId,
        /// Reason why the element may not use it.
        what: &'static str,
    },
    /// Device that is over-allocated, used outside Muster, or out of service.
    #[error("node {node} device {device} is over-allocated: {milli} thousandths")]
    Device {
        /// Node of the device.
        node: NodeId,
        /// Index of the device.
        device: usize,
        /// Thousandths held, in all.
        milli: u64,
    },
    /// Quantity (CPUs, memory, extras) that is over-allocated.
    #[error("node {node} is out of {what}")]
    Quantity {
        /// Node that is over-allocated.
        node: NodeId,
        /// Name of the quantity.
        what: &'static str,
    },
    /// Limit or quota that is exceeded.
    #[error("a limit or quota is exceeded: {0:?}")]
    Limit(Box<Reason>),
    /// Start that would still run when a reservation begins.
    #[error("a start on node {node} runs into the reservation of {element}")]
    Reservation {
        /// Element with the reservation.
        element: ElementId,
        /// Node on which they collide.
        node: NodeId,
    },
    /// Element that the plan names as a queue head, or gives a head reservation, although it
    /// does not qualify.
    #[error("{0} may not have a head reservation: {1}")]
    NoHeadReservation(ElementId, &'static str),
    /// Start on capacity that a head reservation keeps free.
    #[error("node {node} is reserved for the queue head {element}, but another job gets it")]
    HeadReservationTaken {
        /// Queue head with the reservation.
        element: ElementId,
        /// Node on which they collide.
        node: NodeId,
    },
    /// Start of a job behind a queue head whose patience is over and whose gang could be placed,
    /// but that has no head reservation.
    #[error("{by} starts before the queue head {element}, whose patience is over")]
    HeadPassed {
        /// Queue head that was passed.
        element: ElementId,
        /// Element that starts before it.
        by: ElementId,
    },
    /// Element with a pending allocation that starts elsewhere, gets a second one, or gives up one
    /// that it does not have.
    #[error("{0} does not match its pending allocation")]
    NotAsNominated(ElementId),
    /// Attempt that must not be evicted.
    #[error("{0} must not be evicted: {1}")]
    NotEvictable(AttemptId, &'static str),
    /// Attempt that would lose too much work for a candidate that has not waited long.
    #[error("{0} must not be evicted: it would lose more than `reclaim-after` for each GPU")]
    LosesMuchWork(AttemptId),
    /// Start without an effect that orders it.
    #[error("{0} is started without an effect")]
    NoEffect(AttemptId),
    /// State that contradicts itself.
    #[error("state: {0}")]
    State(String),
}

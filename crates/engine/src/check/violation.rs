//! What can be wrong with a plan or a state.

use std::sync::Arc;

use muster_model::{AttemptId, ElementId, JobId, NodeId, Reason};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A decision about something that is not in memory.
    #[error("{0} is not in memory")]
    Unknown(ElementId),
    /// It starts something that does not wait, or may not start yet.
    #[error("{0} may not start: {1}")]
    NotStartable(ElementId, &'static str),
    /// It starts the same element twice.
    #[error("{0} is started twice")]
    StartedTwice(ElementId),
    /// Attempt numbers grow by one.
    #[error("{id} should be attempt {expected}")]
    WrongAttempt {
        /// As planned.
        id: AttemptId,
        /// As it should be.
        expected: u32,
    },
    /// More elements of an array would be active than it allows.
    #[error("job {0} exceeds its array's cap")]
    ArrayCap(JobId),
    /// A gang is there with some of its tasks, or with too many.
    #[error("{element}: group {group} has {tasks} tasks, not {min}..={max}")]
    PartialGang {
        /// Which.
        element: ElementId,
        /// Index of the group.
        group: u16,
        /// Tasks placed.
        tasks: u32,
        /// The gang's minimum.
        min: u32,
        /// The group's maximum.
        max: u32,
    },
    /// A task holds something else than it asks for.
    #[error("{element} rank {rank}: {what}")]
    WrongTask {
        /// Which.
        element: ElementId,
        /// Its rank.
        rank: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// A gang that must be in one domain is in several, or in none.
    #[error("{element} is not in one {level}")]
    Apart {
        /// Which.
        element: ElementId,
        /// The level that it requires.
        level: Arc<str>,
    },
    /// A slice of consecutive ranks is not in one domain.
    #[error("{element}: slice {slice} of group {group} is not in one {level}")]
    SplitSegment {
        /// Which.
        element: ElementId,
        /// Index of the group.
        group: u16,
        /// Which slice of it, from 0.
        slice: u32,
        /// The level of its segments.
        level: Arc<str>,
    },
    /// A gang that is to be spread evenly is not, and there was room.
    #[error("{element} is not spread evenly over the domains of {level}")]
    Uneven {
        /// Which.
        element: ElementId,
        /// The level.
        level: Arc<str>,
    },
    /// A node that takes no work, that the job excludes or whose labels do not match.
    #[error("{element} may not use node {node}: {what}")]
    WrongNode {
        /// Which.
        element: ElementId,
        /// The node.
        node: NodeId,
        /// Why not.
        what: &'static str,
    },
    /// A device is held beyond what there is of it, by others, or is out of service.
    #[error("node {node} device {device} is over-allocated: {milli} thousandths")]
    Device {
        /// The node.
        node: NodeId,
        /// The device.
        device: usize,
        /// Held in all.
        milli: u64,
    },
    /// A quantity is held beyond what there is of it.
    #[error("node {node} is out of {what}")]
    Quantity {
        /// The node.
        node: NodeId,
        /// Of what.
        what: &'static str,
    },
    /// A limit or quota is exceeded.
    #[error("a limit or quota is exceeded: {0:?}")]
    Limit(Box<Reason>),
    /// What is started now would still be there when a reservation begins.
    #[error("the reservation of {element} on node {node} is not kept")]
    Reservation {
        /// Whose.
        element: ElementId,
        /// On which node.
        node: NodeId,
    },
    /// An element that did not wait as a head for long enough keeps places, or one is called a head
    /// that is none.
    #[error("{0} may not keep places: {1}")]
    NotPatient(ElementId, &'static str),
    /// What is kept for a head is given to another element.
    #[error("what is kept for {element} on node {node} is given to another job")]
    Kept {
        /// For which element.
        element: ElementId,
        /// On which node.
        node: NodeId,
    },
    /// A head whose patience is over, and whose gang could become whole, keeps nothing while a job
    /// behind it starts.
    #[error("{by} passes {element}, whose patience is over")]
    Overtaken {
        /// The head.
        element: ElementId,
        /// What starts.
        by: ElementId,
    },
    /// An element with a claim starts elsewhere, claims again, or gives up what it was not
    /// promised.
    #[error("{0} does not start as it was promised")]
    NotAsClaimed(ElementId),
    /// An attempt that must not be made to go.
    #[error("{0} must not be made to go: {1}")]
    NotEvictable(AttemptId, &'static str),
    /// A start that the world is not asked to carry out.
    #[error("{0} is started without an effect")]
    NoEffect(AttemptId),
    /// The state disagrees with itself.
    #[error("state: {0}")]
    State(String),
}

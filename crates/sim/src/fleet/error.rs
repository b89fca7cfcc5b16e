//! Failures that end a run early.

use muster_engine::{EventRefusal, Violation};

/// Failure that ends a run early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchedulerError {
    /// The engine rejects the site or a job.
    #[error("{what}: {refusal}")]
    Refused {
        /// Name of the rejected object.
        what: String,
        /// Reason of the rejection.
        refusal: EventRefusal,
    },
    /// The engine's check rejects the engine's own plan: a defect of the engine.
    #[error("the engine made a plan that its check rejects: {0:?}")]
    BadPlan(Vec<Violation>),
    /// An external policy gave no usable answer.
    #[error("the policy failed: {0}")]
    Policy(String),
    /// The simulation is to stop, and an external policy was not waited for.
    #[error("interrupted")]
    Interrupted,
    /// A task was placed on resources that are not free: a defect of the scheduler.
    #[error("task {rank} of job {job} was placed on resources of node {node} that are not free")]
    NotFree {
        /// Identifier of the job.
        job: String,
        /// Rank of the task.
        rank: u32,
        /// Name of the node.
        node: String,
    },
    /// A task was placed that is placed already, or has ended: a defect of the scheduler.
    #[error("task {rank} of job {job} was placed twice")]
    PlacedTwice {
        /// Identifier of the job.
        job: String,
        /// Rank of the task.
        rank: u32,
    },
}

//! The gang scheduler of a Kubernetes cluster, without its I/O: [`Scheduler::observe`] takes what
//! was seen in the cluster, [`Scheduler::step`] returns what to do there. Pods become jobs of the
//! engine, which decides; a gang is bound as a whole or not at all.
//!
//! It knows no clock and no client: time is an argument, and what the API server does not confirm
//! did not happen.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at an unexpected value"))]

mod admission;
mod adopt;
mod agenda;
mod apart;
mod assignment;
mod awaited;
mod batch;
mod carriers;
mod claimants;
mod counts;
mod devices;
mod empty_groups;
mod gang;
mod held;
mod inspect;
mod job;
mod local_queues;
mod metrics;
mod nodes;
mod observation;
mod pending;
mod priorities;
mod reconcile;
mod reservations;
mod roll_back;
mod rules;
mod scheduler;
mod set_aside;
mod shares;
mod start;
mod volumes;

pub use counts::Counts;
pub use inspect::Subject;
pub use local_queues::QueueCounts;
pub use muster_engine::UsageRecord;
pub use nodes::Level;
pub use observation::{
    Action, ClaimBinding, ClaimId, DeviceChange, Observation, PodId, WorkloadId,
};
pub use reservations::{ReservationState, ReservationStatus};
pub use scheduler::Scheduler;

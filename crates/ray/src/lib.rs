//! All text of Ray: the launcher that starts the nodes of a cluster within a job. Pure: values in, text
//! out; it never talks to a cluster.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at an unexpected value"))]

mod dashboard;
mod inside;
mod launcher;
mod ray_job;
pub mod setup;
mod status;
mod token;

pub use dashboard::{DASHBOARD, DashboardPlace, RELAY};
pub use inside::inside;
pub use launcher::{grows, program, read_program};
pub use ray_job::{
    Entrypoint, PROGRAM_FOLDER, ReadEntrypoint, entrypoint, read_entrypoint, start_params,
};
pub use status::{ClusterStatus, GrowthStatus, RayResources, STATUS, WaitingPart};
pub use token::{TOKEN, begins_cluster, set_token};

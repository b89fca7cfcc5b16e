//! All text of Kubernetes: pods, nodes, gang objects and suspended workloads as the API server prints
//! them, queue objects, lists of nodes for a cluster file, the commands that label a pool of nodes, the
//! manifests of the scheduler, the queues of other schedulers, jobs as objects, and objects as jobs. Pure: text in, values out; it
//! never talks to a cluster.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at an unexpected value"))]

mod admission_policy;
pub mod anti_affinity;
pub mod checkpoint;
mod custom_resource;
pub mod device;
pub mod documents;
pub mod gpu_share;
mod gpu_share_policy;
pub mod group;
pub mod import;
pub mod init;
pub mod instant;
pub mod inventory;
pub mod job;
pub mod kueue;
pub mod leaf;
pub mod manifest;
mod mutating_policy;
pub mod names;
pub mod node;
pub mod object;
pub mod pod;
pub mod pool;
pub mod priority;
pub mod probe;
pub mod quantity;
pub mod queue;
pub mod ray_setup;
pub mod render;
pub mod reservation;
pub mod resources;
pub mod rule;
pub mod span;
pub mod volume;

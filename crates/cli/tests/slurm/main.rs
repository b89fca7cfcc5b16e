//! Tests against a real Slurm cluster, which `cargo xtask slurm test` starts, and in whose
//! namespace they run. Without one each test is ignored with that reason; no part of Slurm is
//! simulated.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod actions;
mod agreement;
mod check;
mod cluster;
#[path = "../conform/mod.rs"]
mod conform;
mod conformance;
mod cost;
mod explain;
mod export;
mod failure;
mod gang;
mod init;
mod jobs;
mod model;
mod muster;
mod outage;
mod output;
mod python;
mod random_load;
mod ray;
#[path = "../recipes/ray_outputs.rs"]
mod ray_outputs;
mod reconcile;
mod refused;
mod rest;
mod reused_numbers;
mod test_cluster;
mod verify;

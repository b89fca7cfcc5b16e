//! Serves Muster's API from an external scheduler: each route asks the scheduler in the caller's
//! process and as the caller, so that all commands work without a daemon. The external queue is
//! authoritative. Only what it cannot hold is kept here: of jobs on Slurm the submitted scripts, output,
//! and Muster's own job ids. Nothing here schedules.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail"))]

mod error;
pub mod kubernetes;
mod last_lines;
mod route;
pub mod slurm;

pub use last_lines::last_lines;

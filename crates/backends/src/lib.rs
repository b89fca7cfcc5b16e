//! Backends: orders in, observations out. Each has a pure codec (render, parse) and thin I/O.
//!
//! A backend makes no scheduling choice and never sees the engine. What it must do is written once,
//! in [`driver`], and tested once, in [`conform`], against every backend.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

pub mod cgroup;
pub mod conform;
pub mod driver;
pub mod env;
pub mod epoch;
pub mod fake;
pub mod gpu;
pub mod inventory;
pub mod kube;
pub mod live;
pub mod local;
pub mod port;
pub mod probe;
pub mod process;
mod purge;
pub mod record;
pub mod segments;
pub mod slurm;
pub mod socket;
pub mod supervise;
pub mod wire;

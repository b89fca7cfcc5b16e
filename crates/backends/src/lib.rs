//! Backends: they carry out orders and report observations. Each has a pure codec (render, parse)
//! and a thin layer of I/O.
//!
//! A backend makes no scheduling choice and never sees the engine. Its contract is the trait
//! [`driver::Backend`]; [`conform`] tests every backend against it.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

pub mod cgroup;
pub mod conform;
pub mod device_files;
pub mod driver;
pub mod env;
pub mod environment;
pub mod epoch;
pub mod fake;
pub mod gpu;
pub mod listening;
pub mod live;
pub mod local;
pub mod notice;
pub mod order;
pub mod port;
pub mod probe;
pub mod process;
mod purge;
pub mod record;
pub mod segments;
pub mod socket;
pub mod supervise;
pub mod times;
pub mod wire;

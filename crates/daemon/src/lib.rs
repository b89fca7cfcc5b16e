//! The daemon: a clock, a durable store, one dispatcher around the runtime, a backend, and a REST
//! API on a unix socket.
//!
//! All inputs are queued in `dispatch`, the only module that changes state; the others read,
//! translate or carry out. [`serve`] runs the daemon on this machine; [`embed`] runs the same parts
//! inside another program, such as the tests.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

pub mod auth;
pub mod clock;
mod dispatch;
pub mod embed;
pub mod failure;
mod gpu_use;
mod idle;
mod listen;
mod notices;
mod orders;
pub mod paths;
mod rest;
mod serve;
pub mod store;

pub use auth::DaemonMode;
pub use paths::{Paths, PathsError, host_name};
pub use serve::{
    DaemonSettings, OlderState, ServeError, ServeOptions, SettingsSource, accept_older_state, serve,
};
pub use store::Retention;

pub use muster_backends::local::{TaskLimits, VirtualGpus};

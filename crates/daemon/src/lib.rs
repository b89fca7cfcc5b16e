//! The daemon: a clock, a durable store, one dispatcher around the runtime, a backend, and REST on
//! a unix socket.
//!
//! Causes line up in `dispatch`, the only place that changes state; everything else reads,
//! translates or carries out. [`serve`] runs it on this machine's own places; [`embed`] runs the
//! same parts inside another program, which is how the tests drive it.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod attach;
pub mod auth;
pub mod clock;
mod dispatch;
pub mod embed;
pub mod failure;
mod listen;
mod logs;
mod netfs;
mod orders;
pub mod paths;
mod rest;
mod serve;
pub mod store;

pub use auth::Mode;
pub use paths::{Paths, PathsError, host_name};
pub use serve::{Declared, Older, ServeError, ServeOptions, Settings, accept_older_state, serve};
pub use store::Retention;

pub use muster_backends::local::{TaskLimits, VirtualGpus};

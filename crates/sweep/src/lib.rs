//! Sweeps: what a job file's values become in the command of an element, what its output reports, and which
//! elements do too badly to go on. Text and numbers in, text and numbers out.
//!
//! `fill` replaces `{lr}` in commands, `draw` makes the points of a random search, `reports` reads the metric, `shell` writes
//! all this for scripts that run without Muster's daemon,
//! and `early_stop` compares elements. The sweep itself is [`muster_model::sweep::Sweep`].

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod draw;
mod early_stop;
mod fill;
mod reports;
pub mod shell;

pub use draw::{Distribution, draw};
pub use early_stop::{Comparison, Progress, Standing};
pub use fill::{Reference, command, references, variables};
pub use reports::{BadPattern, MetricReader};

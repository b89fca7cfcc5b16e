//! The supervisor of one task, and the second stage that becomes the user's program.
//!
//! Hidden subcommands of the same binary: `__supervise <task-dir>` and `__exec`. Both are small on
//! purpose: no async runtime, no argument parser, no logging set up; they run once per task or
//! nearly so. A supervisor is detached from the daemon and outlives it. It must never decide
//! anything about scheduling: it runs one task at a time, ends it when told or when its time is up,
//! and writes down what happened.

mod clock;
mod control;
mod exec;
mod finish;
mod idle;
mod life;
mod log;
mod output;
mod prepare;
mod progress;
mod ready;
mod sessions;
mod signal;
mod stage;
mod stay;
mod supervisor;
mod terminal;
mod usage;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::record::TaskDir;

pub(crate) use life::REAP_PAUSE_MAX as LISTEN_AGAIN;
pub(crate) use progress::{PASSAGE_MODE, label as label_of};
pub(crate) use stay::STAY;

/// First argument that makes the binary a supervisor.
pub const SUPERVISE: &str = "__supervise";
/// First argument that makes the binary the second stage of a task.
pub const EXEC: &str = "__exec";

/// Runs a hidden subcommand. `args` are the process's arguments; a leading program name is skipped.
#[must_use]
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args = args.skip_while(|arg| arg != SUPERVISE && arg != EXEC);
    match (args.next(), args.next()) {
        (Some(word), Some(dir)) if word == SUPERVISE => {
            prepare::run(TaskDir::at(PathBuf::from(dir)));
            ExitCode::SUCCESS
        }
        (Some(word), None) if word == EXEC => exec::run(),
        _ => ExitCode::from(2),
    }
}

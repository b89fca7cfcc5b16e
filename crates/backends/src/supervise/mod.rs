//! The supervisor of one task, and stage two, the process that becomes the user's program: hidden
//! subcommands `__supervise <task-dir>` and `__exec` of the same binary.
//!
//! Both are small on purpose (no async runtime, no argument parser, no logging): they run about
//! once per task. A supervisor is detached from the daemon and outlives it. It makes no scheduling
//! decision: it runs one task at a time, ends it on command or at a limit, and records the result.

mod activity;
mod checkpoints;
mod clock;
mod control;
mod deadlines;
mod exec;
mod finish;
mod life;
mod log;
mod metric;
mod output;
mod prepare;
mod ready;
mod reuse;
mod sessions;
mod signal;
mod stage;
mod supervisor;
mod terminal;
mod usage;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::record::TaskDir;

pub(crate) use checkpoints::{TRAVERSE_ONLY_MODE, label as label_of};
pub(crate) use exec::become_account;

pub(crate) use deadlines::REAP_PAUSE_MAX as RELISTEN_TIME;
pub(crate) use reuse::REUSE_TIMEOUT;

/// First argument that makes the binary a supervisor.
pub const SUPERVISE: &str = "__supervise";
/// First argument that makes the binary the second stage of a task.
pub const EXEC: &str = "__exec";

/// Runs a hidden subcommand. `args` are the process's arguments; a leading program name is skipped.
#[must_use]
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args = args.skip_while(|arg| arg != SUPERVISE && arg != EXEC);
    match (args.next(), args.next()) {
        (Some(subcommand), Some(dir)) if subcommand == SUPERVISE => {
            prepare::run(TaskDir::at(PathBuf::from(dir)));
            ExitCode::SUCCESS
        }
        (Some(subcommand), None) if subcommand == EXEC => exec::run(),
        _ => ExitCode::from(2),
    }
}

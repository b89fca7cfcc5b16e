//! `muster release`.

use anyhow::Result;
use muster_api::types::BulkAction;

use crate::act::{self, ActArgs, ActPart};
use crate::app::App;

/// Let held jobs start
///
/// Undoes `muster hold` and `run --hold`. The hold of an administrator must be released by an
/// administrator first; `muster explain` says whose hold it is. Filters select as in `muster
/// cancel`. JSON: a list with the result for each job.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster release [OPTIONS] JOB...\n       muster release [OPTIONS] FILTER...",
    after_long_help = "Examples:\n\
                       \x20 muster release 12-40\n\
                       \x20 muster release --state held --name 'sweep-*'"
)]
pub struct ReleaseArgs {
    #[command(flatten)]
    act: ActArgs,
}

/// Runs `muster release`; returns its exit code.
pub async fn run(app: &App, args: ReleaseArgs) -> Result<u8> {
    act::run(app, &args.act, (BulkAction::Release, ActPart::Whole), "release").await
}

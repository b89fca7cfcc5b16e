//! `muster release`.

use anyhow::Result;
use muster_api::types::BulkAction;

use crate::act::{self, ActArgs};
use crate::app::App;

/// Let held jobs start
///
/// Undoes `muster hold` and `run --hold`, but not the hold of an administrator: `muster explain`
/// says who holds a job. An administrator releases that first, and the user's own hold after it.
/// Filters select as in `muster cancel`. JSON: a list of what it came to per job.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster release [OPTIONS] JOB...\n       muster release [OPTIONS] FILTER...",
    after_long_help = "Examples:\n\
                       \x20 muster release 12-40\n\
                       \x20 muster release --state held --name 'sweep-*'"
)]
pub struct Args {
    #[command(flatten)]
    act: ActArgs,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    act::run(app, &args.act, BulkAction::Release, "release").await
}

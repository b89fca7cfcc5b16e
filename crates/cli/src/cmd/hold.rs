//! `muster hold`.

use anyhow::Result;
use muster_api::types::BulkAction;

use crate::act::{self, ActArgs};
use crate::app::App;

/// Keep waiting jobs from starting
///
/// A job that runs is not stopped. `muster release` undoes it. What an administrator holds of
/// another user's, only an administrator releases. Filters select as in `muster cancel`. JSON: a
/// list of what it came to per job.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster hold [OPTIONS] JOB...\n       muster hold [OPTIONS] FILTER...",
    after_long_help = "Examples:\n\
                       \x20 muster hold 12-40\n\
                       \x20 muster hold --state pending --name 'sweep-*'"
)]
pub struct Args {
    #[command(flatten)]
    act: ActArgs,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    act::run(app, &args.act, BulkAction::Hold, "hold").await
}

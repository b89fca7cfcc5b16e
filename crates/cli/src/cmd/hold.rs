//! `muster hold`.

use anyhow::Result;
use muster_api::types::BulkAction;

use crate::act::{self, ActArgs, ActPart};
use crate::app::App;

/// Prevent pending jobs from starting
///
/// Running jobs are not stopped. `muster release` undoes it; a job that an administrator held can
/// only be released by an administrator. Filters select as in `muster cancel`. JSON: a list with
/// the result for each job.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster hold [OPTIONS] JOB...\n       muster hold [OPTIONS] FILTER...",
    after_long_help = "Examples:\n\
                       \x20 muster hold 12-40\n\
                       \x20 muster hold --state pending --name 'sweep-*'"
)]
pub struct HoldArgs {
    #[command(flatten)]
    act: ActArgs,
}

/// Runs `muster hold`; returns its exit code.
pub async fn run(app: &App, args: HoldArgs) -> Result<u8> {
    act::run(app, &args.act, (BulkAction::Hold, ActPart::Whole), "hold").await
}

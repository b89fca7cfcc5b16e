//! `muster cancel`.

use anyhow::Result;
use muster_api::types::BulkAction;

use crate::act::{self, ActArgs};
use crate::app::App;

/// End jobs, whatever their state
///
/// A waiting job ends at once. A running one gets SIGTERM, and SIGKILL when its grace is over.
/// Filters select among your own jobs that have not ended, and narrow each other; more than 10 jobs
/// that were not typed one by one are asked about first. JSON: a list of what it came to per job.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster cancel [OPTIONS] JOB...\n       muster cancel [OPTIONS] FILTER...",
    after_long_help = "Examples:\n\
                       \x20 muster cancel 12 15 20-40\n\
                       \x20 muster cancel --state pending --name 'sweep-*'\n\
                       \x20 muster cancel --queue research --dry-run\n\
                       \x20 muster cancel --all --yes"
)]
pub struct Args {
    #[command(flatten)]
    act: ActArgs,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    act::run(app, &args.act, BulkAction::Cancel, "cancel").await
}

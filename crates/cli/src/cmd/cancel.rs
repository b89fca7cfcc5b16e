//! `muster cancel`.

use anyhow::Result;
use muster_api::types::BulkAction;

use crate::act::{self, ActArgs, ActPart};
use crate::app::App;

/// Cancel pending and running jobs
///
/// A pending job ends at once. A running one gets SIGTERM, and SIGKILL after its grace period.
/// Filters select among your own jobs that have not ended; a job must match all of them. If a
/// filter or range selects more than 10 jobs, confirmation is requested. JSON: a list with the
/// result for each job.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster cancel [OPTIONS] JOB...\n       muster cancel [OPTIONS] FILTER...",
    after_long_help = "Examples:\n\
                       \x20 muster cancel 12 15 20-40\n\
                       \x20 muster cancel --state pending --name 'sweep-*'\n\
                       \x20 muster cancel --queue research --dry-run\n\
                       \x20 muster cancel --all --yes"
)]
pub struct CancelArgs {
    #[command(flatten)]
    act: ActArgs,
}

/// Runs `muster cancel`; returns its exit code.
pub async fn run(app: &App, args: CancelArgs) -> Result<u8> {
    act::run(app, &args.act, (BulkAction::Cancel, ActPart::Whole), "cancel").await
}

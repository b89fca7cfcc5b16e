//! `muster requeue`.

use anyhow::Result;
use muster_api::types::BulkAction;

use crate::act::{self, ActArgs, ActPart};
use crate::app::App;

/// Restart jobs from the beginning
///
/// A running job is stopped and queued again; a job that has ended is queued again if the daemon
/// still has it. On Kubernetes only running jobs can be, as a whole. Filters select as in `muster cancel`. JSON: a list with the result for each job.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster requeue [OPTIONS] JOB...\n       muster requeue [OPTIONS] FILTER...",
    after_long_help = "Examples:\n\
                       \x20 muster requeue 12 15\n\
                       \x20 muster requeue --state running --name 'sweep-*'\n\
                       \x20 muster requeue tune --failed"
)]
pub struct RequeueArgs {
    #[command(flatten)]
    act: ActArgs,
    /// Of an array or sweep, only the elements that failed
    #[arg(long)]
    failed: bool,
}

/// Runs `muster requeue`; returns its exit code.
pub async fn run(app: &App, args: RequeueArgs) -> Result<u8> {
    let part = if args.failed { ActPart::FailedElements } else { ActPart::Whole };
    act::run(app, &args.act, (BulkAction::Requeue, part), "requeue").await
}

//! `muster requeue`.

use anyhow::Result;
use muster_api::types::BulkAction;

use crate::act::{self, ActArgs};
use crate::app::App;

/// Run jobs again from the start
///
/// A running job is stopped first; one that has ended is revived while the daemon still holds it.
/// Filters select as in `muster cancel`. JSON: a list of what it came to per job.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "muster requeue [OPTIONS] JOB...\n       muster requeue [OPTIONS] FILTER...",
    after_long_help = "Examples:\n\
                       \x20 muster requeue 12 15\n\
                       \x20 muster requeue --state running --name 'sweep-*'"
)]
pub struct Args {
    #[command(flatten)]
    act: ActArgs,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    act::run(app, &args.act, BulkAction::Requeue, "requeue").await
}

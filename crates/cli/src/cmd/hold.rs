//! `muster hold`.

use anyhow::Result;
use muster_api::Action;

use crate::app::App;
use crate::args::Output;
use crate::jobref::JobRef;

/// Keep waiting jobs from starting
///
/// A job that runs is not stopped. `muster release` undoes it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Jobs, as 3, 3[7] for one element of an array, or by name
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<JobRef>,
    #[command(flatten)]
    output: Output,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    super::act(app, &args.jobs, Action::Hold, args.output).await
}

//! `muster logs`.

use anyhow::Result;

use crate::app::App;
use crate::connect;
use crate::follow::{self, Which};
use crate::jobref::JobRef;

/// Show the output of a task
///
/// What the task wrote to stdout and stderr, as it was written. With --follow, goes on until the task has ended.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Job, as 3, 3[7] for one element of an array, or by name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Go on until the task has ended
    #[arg(short, long)]
    follow: bool,
    /// Task of the gang
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    rank: u32,
    /// Which start of the job; by default the last one
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only the last lines
    #[arg(short = 'n', long, value_name = "LINES")]
    tail: Option<u32>,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    let which = Which { rank: Some(args.rank), attempt: args.attempt, tail: args.tail };
    match args.follow {
        true => follow::follow(app, &client, target, which).await?,
        false => follow::print(app, &client, target, which).await?,
    }
    Ok(0)
}

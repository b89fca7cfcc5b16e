//! `muster logs`.

use std::str::FromStr;

use anyhow::Result;

use crate::app::App;
use crate::connect;
use crate::follow::{self, Which};
use crate::jobref::JobRef;

/// Show the output of a task
///
/// What the task wrote to stdout and stderr, as it was written. With --follow, goes on until the
/// task has ended. With --rank all, the lines of all tasks, each behind the number of its rank:
/// rank by rank, or with --follow as they come.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Job, as 3, 3[7] for one element of an array, or by name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Go on until the task has ended
    #[arg(short, long)]
    follow: bool,
    /// Task of the gang, or `all`
    #[arg(short, long, value_name = "N", default_value = "0")]
    rank: Ranks,
    /// Which start of the job; by default the last one
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only the last lines
    #[arg(short = 'n', long, value_name = "LINES")]
    tail: Option<u32>,
}

/// One rank, or all of them.
#[derive(Clone, Copy, Debug)]
struct Ranks(Option<u32>);

impl FromStr for Ranks {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "all" => Ok(Self(None)),
            _ => text
                .parse()
                .map(|rank| Self(Some(rank)))
                .map_err(|_| "expected a number, or `all`".to_owned()),
        }
    }
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    if args.follow {
        client.stay(muster_api::Stay::Watches);
    }
    let target = args.job.resolve(&client).await?;
    let which = Which { rank: args.rank.0, attempt: args.attempt, tail: args.tail };
    if args.rank.0.is_none() {
        follow::all(app, &client, target, which, args.follow).await?;
        return Ok(0);
    }
    match args.follow {
        true => follow::follow(app, &client, target, which).await?,
        false => follow::print(app, &client, target, which).await?,
    }
    Ok(0)
}

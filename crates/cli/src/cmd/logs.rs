//! `muster logs`.

use std::str::FromStr;

use anyhow::Result;

use crate::app::App;
use crate::connect;
use crate::follow::{self, OutputSelection};
use crate::jobref::JobRef;

/// Show the output of a job's tasks
///
/// Prints what the task of rank 0, or of another --rank, wrote to stdout and stderr. With --follow,
/// continues until the task has ended. With --rank all, prints the lines of all tasks, each
/// prefixed with its rank: rank by rank, or with --follow as they are written.
#[derive(Debug, clap::Args)]
pub struct LogsArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Follow the output until the task has ended
    #[arg(short, long)]
    follow: bool,
    /// Rank of the task, or `all`
    #[arg(short, long, value_name = "N", default_value = "0")]
    rank: Ranks,
    /// Attempt (start) of the job; by default the last one
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Show only this many last lines
    #[arg(short = 'n', long, value_name = "LINES")]
    tail: Option<u32>,
}

/// Rank as typed; `None` is all ranks.
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

/// Runs `muster logs`; returns its exit code.
pub async fn run(app: &App, args: LogsArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    if args.follow {
        client.set_wait_mode(muster_api::WaitMode::Watch);
    }
    let target = args.job.resolve(&client).await?;
    let which = OutputSelection { rank: args.rank.0, attempt: args.attempt, tail: args.tail };
    if args.rank.0.is_none() {
        follow::print_all_ranks(app, &client, target, which, args.follow).await?;
        return Ok(0);
    }
    if args.follow {
        follow::follow(app, &client, target, which).await?
    } else {
        follow::print(app, &client, target, which).await?
    }
    Ok(0)
}

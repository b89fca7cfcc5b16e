//! `muster logs`.

use std::str::FromStr;

use anyhow::Result;
use regex::bytes::Regex;

use crate::app::App;
use crate::connect;
use crate::jobref::JobRef;
use crate::logs::{self, OutputSelection, Ranks};
use crate::past::Past;

/// Show the output of a job's tasks
///
/// Prints what the tasks wrote to stdout and stderr. Of a job with several tasks, every line is
/// prefixed with its rank, and of an array, sweep or service also with its element: `[7] 3: …`.
/// With --follow, continues until the job has ended, and shows lines as they are written; without,
/// task by task. Of a Ray cluster, rank 0 is shown, which runs the program.
#[derive(Debug, clap::Args)]
pub struct LogsArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Follow the output until the job has ended
    #[arg(short, long)]
    follow: bool,
    /// Rank of the task, or `all`; by default all, of a Ray cluster 0
    #[arg(short, long, value_name = "N", value_parser = Ranks::from_str)]
    rank: Option<Ranks>,
    /// Attempt (start) of the job; by default the last one
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Show only this many last lines of each task
    #[arg(short = 'n', long, value_name = "LINES")]
    tail: Option<u32>,
    /// Show what was written since then: 10m, 2h, 09:30 or 2026-08-01T06:00:00Z; with --tail,
    /// whichever shows less
    #[arg(long, value_name = "TIME")]
    since: Option<Past>,
    /// Show only lines that match this regular expression; --tail counts lines before this filter
    #[arg(short, long, value_name = "PATTERN")]
    grep: Option<Regex>,
}

impl FromStr for Ranks {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::One).map_err(|_| "expected a number, or `all`".to_owned()),
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
    let now = jiff::Zoned::now();
    let which = OutputSelection {
        ranks: args.rank.unwrap_or_default(),
        attempt: args.attempt,
        tail: args.tail,
        since: args.since.map(|since| since.instant(&now)).transpose()?,
        filter: args.grep,
        follow: args.follow,
    };
    logs::print(app, &client, target, &which).await?;
    Ok(0)
}

//! `muster ps`.

use anyhow::Result;
use muster_api::query::JobFilter;
use muster_report::amount::count;
use muster_report::ps;

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::Failure;
use crate::select::StateArg;
use crate::track::Tracker;
use crate::watch::{Until, Watch};

/// List jobs
///
/// Jobs that wait or run; with --all also those that have ended. On a terminal at most 200 rows are
/// shown, active jobs first, and how many more match; --limit shows others. JSON: a `JobList`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also jobs that have ended
    #[arg(short, long)]
    all: bool,
    /// Jobs of this user only
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// Jobs of this queue, or of the queues below it
    #[arg(short, long, value_name = "QUEUE", alias = "partition")]
    queue: Option<String>,
    /// Jobs in this state only
    #[arg(short, long, value_enum, value_name = "STATE")]
    state: Option<StateArg>,
    /// Jobs with such a name only; * stands for any characters, ? for one
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// At most so many rows, active jobs first; 0 is no limit
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u32>,
    /// Show it again whenever something changes, until Ctrl-C
    #[arg(short, long, conflicts_with_all = ["json", "output"])]
    watch: bool,
    #[command(flatten)]
    output: Output,
}

/// Rows on a terminal where no limit is given: what a person scrolls through.
const ROWS: u32 = 200;

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let first = match args.limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        // What is piped on is counted and searched: all of it.
        None => (app.ui.is_terminal() && !args.output.json()).then_some(ROWS),
    };
    let filter = JobFilter {
        all: args.all,
        user: args.user,
        queue: args.queue,
        state: args.state.map(StateArg::word),
        name: args.name,
        first,
        ..JobFilter::default()
    };
    if args.watch {
        return Watch::new(app, &client, Tracker::filtered(&client, filter), Until::Interrupted)
            .run()
            .await;
    }
    let list = client.jobs(filter).await.map_err(Failure::from)?;
    let more = list.matched.unwrap_or(0).saturating_sub(list.jobs.len() as u64);
    if args.output.json() {
        app.ui.json(&list)?;
    } else if list.jobs.is_empty() {
        app.ui.status(if args.all {
            "no jobs"
        } else {
            "no jobs wait or run; `muster ps -a` shows those that have ended"
        });
    } else {
        app.ui.data(&ps::jobs(&list.jobs, &[], list.now, &app.ui.style()))?;
        if more > 0 {
            app.ui.status(&format!("and {}", count(more, "more job")));
            app.ui
                .hint("`--limit 0` shows all; --user, --queue, --state and --name narrow the list");
        }
    }
    Ok(0)
}

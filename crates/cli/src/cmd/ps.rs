//! `muster ps`.

use anyhow::Result;
use muster_api::query::JobFilter;
use muster_report::amount::count;
use muster_report::ps;

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::Failure;
use crate::select::StateArg;
use crate::track::Tracker;
use crate::watch::{JobWatch, Until};

/// List jobs
///
/// Pending and running jobs; with --all also those that have ended. On a terminal at most 200 rows
/// are shown, active jobs first, and the number of further matches; --limit changes that. JSON: a
/// `JobList`.
#[derive(Debug, clap::Args)]
pub struct PsArgs {
    /// Include jobs that have ended
    #[arg(short, long)]
    all: bool,
    /// Only jobs of this user
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// Only jobs of this queue and the queues below it
    #[arg(short, long, value_name = "QUEUE", alias = "partition")]
    queue: Option<String>,
    /// Only jobs in this state
    #[arg(short, long, value_enum, value_name = "STATE")]
    state: Option<StateArg>,
    /// Only jobs whose name matches; * matches any characters, ? matches one
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// Maximum number of rows, active jobs first; 0 is no limit
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u32>,
    /// Update the list when it changes, until Ctrl-C
    #[arg(short, long, conflicts_with_all = ["json", "output"])]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Default limit of rows on a terminal.
const ROWS: u32 = 200;

/// Runs `muster ps`; returns its exit code.
pub async fn run(app: &App, args: PsArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let first = match args.limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        // Piped output is counted and searched by other programs, so it is complete.
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
        return JobWatch::new(app, &client, Tracker::filtered(&client, filter), Until::Interrupted)
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
            "no pending or running jobs; `muster ps -a` shows those that have ended"
        });
    } else {
        app.ui.data(&ps::jobs(&list.jobs, &[], app.ui.context().at(list.now)))?;
        if more > 0 {
            app.ui.status(&format!("and {}", count(more, "more job")));
            app.ui
                .hint("`--limit 0` shows all; --user, --queue, --state and --name filter the list");
        }
    }
    Ok(0)
}

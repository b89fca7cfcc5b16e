//! `muster ps`.

use anyhow::Result;
use clap::ValueEnum;
use muster_api::query::JobFilter;
use muster_report::ps;

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::Failure;
use crate::track::Tracker;
use crate::watch::{Until, Watch};

/// List jobs
///
/// Jobs that wait or run; with --all also those that have ended. JSON: a `JobList`.
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
    /// Show it again whenever something changes, until Ctrl-C
    #[arg(short, long, conflicts_with_all = ["json", "output"])]
    watch: bool,
    #[command(flatten)]
    output: Output,
}

/// States as they are typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StateArg {
    Held,
    Pending,
    Starting,
    Running,
    Stopping,
    Done,
    Failed,
    Cancelled,
    Suspended,
    Preempted,
    Unknown,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let state =
        args.state.and_then(|state| state.to_possible_value()).map(|value| value.get_name().to_owned());
    let filter =
        JobFilter { all: args.all, user: args.user, queue: args.queue, state, ..JobFilter::default() };
    if args.watch {
        return Watch::new(app, &client, Tracker::filtered(&client, filter), Until::Interrupted).run().await;
    }
    let list = client.jobs(filter).await.map_err(Failure::from)?;
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
    }
    Ok(0)
}

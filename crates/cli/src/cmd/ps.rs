//! `muster ps`.

use anyhow::Result;
use futures_util::future::join_all;
use muster_api::query::JobFilter;
use muster_api::types::JobList;
use muster_report::amount::count;
use muster_report::ps;

use crate::app::App;
use crate::args::{Global, OutputArgs};
use crate::connect;
use crate::exit::{FAILURE, Failure};
use crate::on::On;
use crate::select::StateArg;
use crate::site_file::SiteFileArgs;
use crate::track::Tracker;
use crate::watch::{JobWatch, Until};

/// List jobs
///
/// Pending and running jobs; with --all also those that have ended. On a terminal at most 200 rows
/// are shown, active jobs first, and the number of further matches; --limit changes that. With
/// several clusters (`--on slurm,kubernetes`, or `--on auto` for those of the site file) one list has
/// the jobs of all. JSON: a `JobList`.
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
    site: SiteFileArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Default limit of rows on a terminal.
const ROWS: u32 = 200;

/// Runs `muster ps`; returns its exit code.
pub async fn run(app: &App, args: PsArgs) -> Result<u8> {
    args.site.check_applies(&app.global)?;
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
        let client = connect::find(&app.global)?;
        return JobWatch::new(app, &client, Tracker::filtered(&client, filter), Until::Interrupted)
            .run()
            .await;
    }
    let clusters = clusters(&app.global, &args.site)?;
    let answers = join_all(clusters.iter().map(|cluster| list(cluster, &filter))).await;
    let (list, code) = merge(app, &clusters, answers)?;
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
    Ok(code)
}

/// Returns the options of each cluster that `--on` or the site file names.
fn clusters(global: &Global, site: &SiteFileArgs) -> Result<Vec<Global>> {
    let each = match &global.on {
        None | Some(On::Cluster(_)) => return Ok(vec![global.clone()]),
        Some(On::Several(each)) => each.clone(),
        Some(On::Auto) => {
            let site = site.read()?;
            let each = muster_advise::route_targets(&site.profile);
            if each.is_empty() {
                return Err(Failure::usage(format!("{} names no cluster", site.name))
                    .hint("its lines for this are such as `clusters: {batch: slurm, services: kubernetes}`")
                    .into());
            }
            each
        }
    };
    let options = |one| Global { on: Some(On::Cluster(one)), ..global.clone() };
    Ok(each.into_iter().map(options).collect())
}

/// Returns the jobs of one cluster.
async fn list(cluster: &Global, filter: &JobFilter) -> Result<JobList> {
    let client = connect::find(cluster)?;
    Ok(client.jobs(filter.clone()).await.map_err(Failure::from)?)
}

/// Joins the lists of several clusters, the oldest jobs first, with the exit code: clusters that do not
/// answer are told, and the jobs of the others are listed.
fn merge(app: &App, clusters: &[Global], answers: Vec<Result<JobList>>) -> Result<(JobList, u8)> {
    let mut lists = Vec::new();
    let mut errors = Vec::new();
    for (cluster, answer) in clusters.iter().zip(answers) {
        match answer {
            Ok(list) => lists.push(list),
            Err(error) => errors.push((cluster.on.as_ref(), error)),
        }
    }
    let Some(mut all) = lists.pop() else {
        let (on, error) = errors.remove(0);
        warn_of(app, &errors);
        let name = on.filter(|_| clusters.len() > 1).map(|on| format!("{on}: "));
        return Err(match error.downcast::<Failure>() {
            Ok(failure) => {
                let message = name.unwrap_or_default() + &failure.message;
                Failure { message, ..failure }.into()
            }
            Err(error) => error,
        });
    };
    for list in lists {
        all.now = all.now.max(list.now);
        all.matched = all.matched.zip(list.matched).map(|(one, other)| one + other);
        all.jobs.extend(list.jobs);
    }
    if clusters.len() > 1 {
        all.jobs.sort_by_key(|job| job.submitted);
        // Changes are followed in one cluster only.
        all.revision = 0;
    }
    Ok((all, warn_of(app, &errors)))
}

/// Tells clusters that do not answer; returns the exit code.
fn warn_of(app: &App, errors: &[(Option<&On>, anyhow::Error)]) -> u8 {
    let mut code = 0;
    for (on, error) in errors {
        let name = on.map_or_else(String::new, On::to_string);
        app.ui.warning(&format!("{name}: {error}"));
        code = error.downcast_ref::<Failure>().map_or(FAILURE, |failure| failure.code);
    }
    code
}

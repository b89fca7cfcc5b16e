//! `muster wait`.

use anyhow::Result;
use muster_api::{Client, WaitMode};
use muster_model::JobId;
use muster_model::view::JobView;
use muster_report::amount::count;
use muster_report::style::clean;

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::{Failure, INTERRUPTED};
use crate::failures;
use crate::jobref::{JobRef, JobTarget};
use crate::track::{self, PATIENCE, Tracker};

/// Wait until jobs have ended
///
/// Returns the exit code of the first job, in the order given, that did not succeed; `muster help`
/// lists the codes that are not the job's own. The last lines of a task that failed are printed on
/// stderr; for an array, name one element: `muster wait 3[7]`. JSON: a list of `JobView`.
#[derive(Debug, clap::Args)]
pub struct WaitArgs {
    /// Jobs: 3, an array element 3[7], or a name
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<JobRef>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `muster wait`; returns its exit code.
pub async fn run(app: &App, args: WaitArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    client.set_wait_mode(WaitMode::WaitForJobs);
    let mut targets = Vec::new();
    let mut rows = Vec::new();
    for job in &args.jobs {
        let target = job.resolve(&client).await?;
        // Look each up, so that an unknown job is an error and not taken for an ended one.
        rows.push(client.job(target.job, target.index).await.map_err(Failure::from)?.job);
        targets.push(target);
    }
    let are_whole_jobs = targets.iter().all(|target| target.index.is_none());
    // On Slurm each look at the queue is the start of a program.
    if !(are_whole_jobs && track::all_ended(&rows)) {
        let Some(ended) = until_ended(&client, &targets).await? else { return Ok(INTERRUPTED) };
        rows = ended;
    }
    if args.output.json() {
        app.ui.json(&rows)?;
    } else {
        for (row, target) in rows.iter().zip(&targets) {
            let outcome = row
                .elements
                .iter()
                .filter_map(|element| element.outcome.as_ref())
                .find(|o| !o.is_success());
            let why = match (outcome, &row.array) {
                (Some(outcome), _) => format!(": {}", clean(&outcome.to_string())),
                (None, Some(array)) if array.failed > 0 => {
                    format!(": {} of {} failed", array.failed, count(array.total.into(), "element"))
                }
                (None, _) => String::new(),
            };
            app.ui.data(&format!("{}: {}{why}\n", target.text(&client), row.state.word()))?;
        }
        let jobs = rows.iter().zip(targets.iter().copied());
        for text in failures::last_lines(&client, jobs, None).await {
            app.ui.status(text.trim_end());
        }
    }
    Ok(track::exit_code(&rows))
}

/// Returns the rows of all targets once they have ended; `None` when interrupted before.
async fn until_ended(client: &Client, targets: &[JobTarget]) -> Result<Option<Vec<JobView>>> {
    let jobs: Vec<JobId> = targets.iter().map(|target| target.job).collect();
    let mut tracker = Tracker::of(client, &jobs);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let rows = tokio::select! {
            rows = poll_rows(client, &mut tracker, targets) => rows?,
            _ = &mut interrupted => return Ok(None),
        };
        if rows.len() == targets.len() && track::all_ended(&rows) {
            return Ok(Some(rows));
        }
    }
}

/// Returns the rows of all targets, once something has changed.
async fn poll_rows(
    client: &Client,
    tracker: &mut Tracker,
    targets: &[JobTarget],
) -> Result<Vec<JobView>> {
    let list = tracker.next(PATIENCE).await?;
    let mut rows = Vec::new();
    for target in targets {
        rows.extend(row_of(client, *target, &list.jobs).await?);
    }
    Ok(rows)
}

/// Returns the row of a target; for one element of an array, a row of just that element.
async fn row_of(client: &Client, target: JobTarget, rows: &[JobView]) -> Result<Option<JobView>> {
    let Some(index) = target.index else {
        return Ok(rows.iter().find(|row| row.job == target.job).cloned());
    };
    let mut row = client.job(target.job, Some(index)).await.map_err(Failure::from)?.job;
    row.elements.retain(|element| element.element.index == index);
    row.array = None;
    row.state = match row.elements.first() {
        Some(element) => element.state,
        // The view does not list all elements: this one is pending or has ended.
        None => {
            client.explain(target.job, Some(index)).await.map_err(Failure::from)?.explanation.state
        }
    };
    Ok(Some(row))
}

//! `muster show`.

use anyhow::Result;
use muster_report::show::{JobSheet, show};

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::Failure;
use crate::failures;
use crate::jobref::JobRef;

mod elements;

/// Show a job in full
///
/// Requested resources, nodes and GPUs, commands, outcome of each task, paths of the logs, which
/// isolation is enforced, and the last lines of a task that failed. Of a sweep, a table of its elements, the best
/// first; of an array, the elements that failed. JSON: a `JobDetail`; with --elements, an `ElementList`.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Show only the elements of an array or sweep
    #[arg(short, long)]
    elements: bool,
    /// Show all elements, not only the first ones
    #[arg(long)]
    all: bool,
    /// Order of the elements: `index`, `metric`, or a parameter; by default `metric` where there is one
    #[arg(long, value_name = "KEY")]
    sort: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `muster show`; returns its exit code.
pub async fn run(app: &App, args: ShowArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    if args.elements && args.output.json() {
        let list = client.elements(target.job).await.map_err(Failure::from)?;
        elements::warn_without_reports(app, &list);
        app.ui.json(&list)?;
        return Ok(0);
    }
    let detail = client.job(target.job, target.index).await.map_err(Failure::from)?;
    if args.output.json() {
        app.ui.json(&detail)?;
        return Ok(0);
    }
    let shown = JobSheet {
        job: &detail.job,
        commands: detail.commands.as_ref(),
        workdir: detail.workdir.as_deref(),
        files: detail.files.as_ref(),
        environment: detail.environment.as_ref(),
        logs: &detail.logs,
        missing_output: &detail.missing_output,
        notices: &detail.notices,
        idle_since: detail.idle_since,
        gpu_use: detail.gpu_use.as_ref(),
        enforcement: &detail.enforcement,
    };
    if !args.elements {
        app.ui.data(&show(&shown, app.ui.context().at(detail.now)))?;
    }
    let fails = detail.job.array.is_some_and(|array| array.failed > 0);
    let has_table = target.index.is_none() && (detail.is_sweep || fails);
    if args.elements || has_table || args.all || args.sort.is_some() {
        elements::print(app, &client, &args, target).await?;
    }
    for text in failures::last_lines(&client, [(&detail.job, target)], None).await {
        app.ui.data(&format!("\n{text}"))?;
    }
    Ok(0)
}

//! `muster show`.

use anyhow::Result;
use muster_report::show::{Detail, show};

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::Failure;
use crate::jobref::JobRef;

/// Show a job in full
///
/// What it asked for, what it runs where, how its tasks ended, where its logs are, and what of its
/// isolation is enforced. JSON: a `JobDetail`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Job, as 3, 3[7] for one element of an array, or by name
    #[arg(value_name = "JOB")]
    job: JobRef,
    #[command(flatten)]
    output: Output,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    let detail = client.job(target.job, target.index).await.map_err(Failure::from)?;
    if args.output.json() {
        app.ui.json(&detail)?;
        return Ok(0);
    }
    let shown = Detail {
        job: &detail.job,
        now: detail.now,
        commands: detail.commands.as_ref(),
        workdir: detail.workdir.as_deref(),
        files: detail.files.as_ref(),
        logs: &detail.logs,
        missing_output: &detail.missing_output,
        enforcement: &detail.enforcement,
    };
    app.ui.data(&show(&shown, &app.ui.style()))?;
    Ok(0)
}

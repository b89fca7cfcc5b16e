//! `muster explain`.

use anyhow::Result;
use muster_report::explain::explain;

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::Failure;
use crate::jobref::JobRef;

/// Explain why a job is pending, when it starts and what would start it now; or where it runs and
/// how good its placement is
///
/// A change is suggested only if the job would start when cancelled and resubmitted with it. JSON:
/// an `ExplainResponse`.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: JobRef,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `muster explain`; returns its exit code.
pub async fn run(app: &App, args: ExplainArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    let explained = client.explain(target.job, target.index).await.map_err(Failure::from)?;
    if args.output.json() {
        app.ui.json(&explained)?;
    } else {
        app.ui.data(&explain(&explained.explanation, app.ui.context().at(explained.now)))?;
    }
    Ok(0)
}

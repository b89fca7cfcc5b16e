//! `muster explain`.

use anyhow::Result;
use muster_report::explain::explain;

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::Failure;
use crate::jobref::JobRef;

/// Say why a job waits, when it starts, and what would start it now; or where it runs, and how good
/// a place that is
///
/// A change is offered only if the job, cancelled and submitted anew with it, does start. JSON: an
/// `Explained`.
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
    let explained = client.explain(target.job, target.index).await.map_err(Failure::from)?;
    if args.output.json() {
        app.ui.json(&explained)?;
    } else {
        app.ui.data(&explain(&explained.explanation, explained.now, &app.ui.style()))?;
    }
    Ok(0)
}

//! `muster usage`.

use anyhow::Result;
use muster_report::usage::usage;

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::Failure;

/// Show the GPU-hours used per user
///
/// GPU-hours in total, and decayed GPU-hours, which count for fair share (usage decays with a
/// half-life). On Kubernetes, users are namespaces, and the total is that of the pods that still
/// exist. JSON: a `UsageList`.
#[derive(Debug, clap::Args)]
pub struct UsageArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `muster usage`; returns its exit code.
pub async fn run(app: &App, args: UsageArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let list = client.usage().await.map_err(Failure::from)?;
    if args.output.json() {
        app.ui.json(&list)?;
    } else if list.rows.is_empty() {
        app.ui.status("no usage is recorded");
    } else {
        app.ui.data(&usage(&list.rows, app.ui.context()))?;
    }
    Ok(0)
}

//! `muster usage`.

use anyhow::Result;
use muster_report::usage::usage;

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::Failure;

/// Show what users consumed
///
/// GPU-hours held, and how much of that still counts for fair share now (it halves with time).
/// JSON: a `UsageList`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    output: Output,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let list = client.usage().await.map_err(Failure::from)?;
    if args.output.json() {
        app.ui.json(&list)?;
    } else if list.rows.is_empty() {
        app.ui.status("nothing has run yet");
    } else {
        app.ui.data(&usage(&list.rows, &app.ui.style()))?;
    }
    Ok(0)
}

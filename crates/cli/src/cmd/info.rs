//! `muster info`: who answers. Hidden: for tests and for questions in bug reports.

use anyhow::Result;

use crate::app::App;
use crate::connect;
use crate::exit::Failure;

/// Show the daemon that answers, as JSON
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the verb.
pub async fn run(app: &App, _: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    app.ui.json(&client.info().await.map_err(Failure::from)?)?;
    Ok(0)
}

//! `muster info`: information on the daemon. Hidden: for tests and bug reports.

use anyhow::Result;

use crate::app::App;
use crate::connect;
use crate::exit::Failure;

/// Show information on the daemon as JSON
#[derive(Debug, clap::Args)]
pub struct InfoArgs {}

/// Runs `muster info`; returns its exit code.
pub async fn run(app: &App, _: InfoArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    app.ui.json(&client.info().await.map_err(Failure::from)?)?;
    Ok(0)
}

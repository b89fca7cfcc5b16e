//! `muster schema`.

use anyhow::Result;

use crate::app::App;

/// Print the JSON Schema of job files
///
/// For editors that complete and check YAML.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(app: &App, _: &Args) -> Result<u8> {
    app.ui.json(&muster_spec::schema())?;
    Ok(0)
}

//! `muster man`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::app::App;
use crate::args::Cli;

/// Print the manual page, or write all of them into a directory
///
/// Read it with `muster man | man -l -`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write a page for muster and one for each verb into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    let command = Cli::command().disable_help_subcommand(true);
    match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            clap_mangen::generate_to(command, dir)
                .with_context(|| format!("cannot write to {}", dir.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            app.ui.bytes(&page)?;
        }
    }
    Ok(0)
}

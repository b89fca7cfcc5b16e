//! `muster completions`.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::app::App;
use crate::args::Cli;

/// Print a completion script for a shell
///
/// For bash: `muster completions bash > ~/.local/share/bash-completion/completions/muster`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "muster", &mut script);
    app.ui.bytes(&script)?;
    Ok(0)
}

//! `muster import`: job files of what others have. One file per kind of source; what is read is understood elsewhere.

mod script;

use anyhow::Result;

use crate::app::App;

/// Make a job file of a Slurm script, and say what is wrong with the script
///
/// Every `#SBATCH` option becomes a field of the job, or is handed on to sbatch as it is, or is listed with why not. The job file
/// goes to stdout, everything else to stderr. Nothing is run and no Slurm is needed. docs/slurm.md says more.
#[derive(Debug, clap::Args)]
#[command(after_long_help = script::EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    script: script::ScriptArgs,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    script::run(app, &args.script)
}

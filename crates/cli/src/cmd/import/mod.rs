//! `muster import`: job files, cluster files and queue files of what others have. One file per kind
//! of source; what is read is understood elsewhere.

pub mod script;
mod slurm_conf;

use anyhow::Result;

use crate::app::App;

/// Make a job file of a Slurm script, and say what is wrong with the script; or a cluster file and
/// a queue file of a Slurm cluster
///
/// Every `#SBATCH` option becomes a field of the job, or is handed on to sbatch as it is, or is
/// listed with why not. The job file goes to stdout, everything else to stderr. Nothing is run and
/// no Slurm is needed. With --slurm-conf a whole cluster is read in place of a script: what of it a
/// queue file cannot say is listed. docs/slurm.md says more.
#[derive(Debug, clap::Args)]
#[command(after_long_help = script::EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    script: script::ScriptArgs,
    #[command(flatten)]
    cluster: slurm_conf::SlurmConfArgs,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    match args.cluster.path() {
        Some(path) => {
            slurm_conf::run(app, path, &args.cluster, args.script.output(), args.script.force())
        }
        None => script::run(app, &args.script),
    }
}

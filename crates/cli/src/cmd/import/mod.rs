//! `muster import`: converts sbatch scripts to job files, and Slurm configurations to cluster and
//! queue files. One file per kind of source.

pub mod script;
mod slurm_conf;

use anyhow::Result;

use crate::app::App;

/// Convert an sbatch script to a job file and report problems in it; or convert a Slurm
/// configuration to a cluster file and a queue file
///
/// Every `#SBATCH` option becomes a field of the job, is passed on to sbatch, or is listed with the
/// reason why it cannot be converted. The job file goes to stdout, everything else to stderr.
/// Nothing is run and Slurm is not needed. With --slurm-conf the configuration of a cluster is
/// converted in place of a script, and settings that a queue file cannot express are listed. See
/// docs/slurm.md.
#[derive(Debug, clap::Args)]
#[command(after_long_help = script::EXAMPLES)]
pub struct ImportArgs {
    #[command(flatten)]
    script: script::ScriptArgs,
    #[command(flatten)]
    cluster: slurm_conf::SlurmConfArgs,
}

/// Runs `muster import`; returns its exit code.
pub fn run(app: &App, args: &ImportArgs) -> Result<u8> {
    match args.cluster.path() {
        Some(path) => {
            slurm_conf::run(app, path, &args.cluster, args.script.output(), args.script.force())
        }
        None => script::run(app, &args.script),
    }
}

//! `muster import`: converts sbatch scripts, objects of Kubernetes and experiments of Determined to job files,
//! and Slurm configurations to cluster and queue files.

pub mod script;
mod slurm_conf;

use anyhow::Result;

use crate::app::App;

/// Convert an sbatch script, Kubernetes objects or an experiment of Determined to a job file and report problems
/// in it; or convert a Slurm configuration to a cluster file and a queue file
///
/// Every `#SBATCH` option becomes a field of the job, is passed on to sbatch, or is listed with the
/// reason why it cannot be converted. Files with `apiVersion` are objects of Kubernetes, of which
/// each field becomes one of the job or is listed; several jobs become several documents. The job
/// file goes to stdout, everything else to stderr.
/// Nothing is run; neither Slurm nor a cluster is needed. With --slurm-conf the configuration of a cluster is
/// converted in place of a script, and settings that a queue file cannot express are listed. See
/// docs/slurm.md, docs/kubernetes.md and docs/determined.md.
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

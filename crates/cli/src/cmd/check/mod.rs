//! `muster check`: finds problems of a cluster. One file per kind of cluster.

mod ask;
pub(super) mod collect;
mod probes;
mod slurm;

use anyhow::Result;
use clap::Subcommand;

use crate::app::App;

/// Check the configuration of an existing cluster
///
/// No daemon is needed and nothing is changed. docs/check.md lists all rules.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    #[command(subcommand)]
    cluster: CheckCommand,
}

#[derive(Debug, Subcommand)]
enum CheckCommand {
    Slurm(Box<slurm::CheckSlurmArgs>),
}

/// Runs `muster check`; returns its exit code.
pub async fn run(app: &App, args: CheckArgs) -> Result<u8> {
    match args.cluster {
        CheckCommand::Slurm(args) => slurm::run(app, &args).await,
    }
}

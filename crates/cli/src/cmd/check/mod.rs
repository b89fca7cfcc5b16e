//! `muster check`: what is wrong with a cluster. One file per kind of cluster.

mod ask;
pub(super) mod collect;
mod probes;
mod slurm;

use anyhow::Result;
use clap::Subcommand;

use crate::app::App;

/// Find what is wrong with a cluster that others run
///
/// No daemon is needed, and nothing is changed. docs/check.md has all rules.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    cluster: Cluster,
}

#[derive(Debug, Subcommand)]
enum Cluster {
    Slurm(Box<slurm::Args>),
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    match args.cluster {
        Cluster::Slurm(args) => slurm::run(app, &args).await,
    }
}

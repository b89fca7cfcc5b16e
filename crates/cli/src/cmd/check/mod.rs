//! `muster check`: finds problems of a cluster. One file per kind of cluster.

mod ask;
pub(super) mod collect;
mod gang_probes;
mod kubernetes;
mod probes;
mod ray;
mod report_args;
mod slurm;
mod snapshot;

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Subcommand;

use crate::app::App;
use crate::on::Endpoint;

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
    Kubernetes(Box<kubernetes::CheckKubernetesArgs>),
    Ray(Box<ray::CheckRayArgs>),
}

/// Runs `muster check`; returns its exit code.
pub async fn run(app: &App, args: CheckArgs) -> Result<u8> {
    match args.cluster {
        CheckCommand::Slurm(args) => slurm::run(app, &args).await,
        CheckCommand::Kubernetes(args) => kubernetes::run(app, &args).await,
        CheckCommand::Ray(args) => ray::run(app, &args).await,
    }
}

/// Returns the nodes of a cluster file, such as those of `muster init hybrid`; `None` for other text.
fn nodes_of_cluster_file(text: &str) -> Option<BTreeSet<String>> {
    let cluster = muster_spec::parse_cluster(text, None).ok()?;
    Some(cluster.nodes.iter().map(|node| node.name.to_string()).collect())
}

impl CheckArgs {
    /// Returns the service that the check asks.
    pub fn endpoint(&self) -> Endpoint {
        match self.cluster {
            CheckCommand::Slurm(_) => Endpoint::Cluster,
            CheckCommand::Kubernetes(_) => Endpoint::Kubernetes,
            CheckCommand::Ray(_) => Endpoint::AnyCluster,
        }
    }
}

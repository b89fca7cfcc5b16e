//! `muster init`: writes the files to set up a control plane; one file of this folder per control
//! plane. The user reads the files and installs them; nothing is installed or run here.

mod boundary;
mod check;
mod generated;
mod hybrid;
mod kubernetes;
mod none;
mod queue_objects;
mod ray;
mod site;
mod slurm;

pub use ray::RayHost;

use anyhow::Result;
use clap::Subcommand;
use muster_kubernetes::init::Plane;

use crate::app::App;
use crate::on::Endpoint;

/// Write the files to set up a control plane
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    #[command(subcommand)]
    plane: InitCommand,
}

#[derive(Debug, Subcommand)]
enum InitCommand {
    Site(site::InitSiteArgs),
    None(none::InitNoneArgs),
    Hybrid(Box<hybrid::InitHybridArgs>),
    Slurm(Box<slurm::InitSlurmArgs>),
    Kubernetes(kubernetes::InitKubernetesArgs),
    /// Write the queues of Kueue: ResourceFlavors, Cohorts, ClusterQueues, LocalQueues and its settings
    ///
    /// Every quota, weight and limit on borrowing and lending is Kueue's own; settings that Kueue cannot
    /// express are printed. Jobs are admitted whole, and only where their pods fit on nodes. Kueue itself is
    /// installed by its own manifests. See docs/kubernetes.md.
    ///
    ///   kubectl get nodes -o json | muster inventory --from - > cluster.yaml
    ///   muster init kueue --cluster cluster.yaml --queues queues.yaml
    #[command(verbatim_doc_comment)]
    Kueue(queue_objects::InitQueueObjectsArgs),
    /// Write the queues of Volcano, the settings of its scheduler, and HyperNodes for the topology
    ///
    /// Settings of the queue file that Volcano cannot express are printed. Volcano itself is installed by its
    /// own manifests. See docs/kubernetes.md.
    ///
    ///   kubectl get nodes -o json | muster inventory --from - > cluster.yaml
    ///   muster init volcano --cluster cluster.yaml --queues queues.yaml
    #[command(verbatim_doc_comment)]
    Volcano(queue_objects::InitQueueObjectsArgs),
    /// Write the queues of KAI, and its Topology
    ///
    /// Settings of the queue file that KAI cannot express are printed. KAI itself is installed by its own
    /// chart. See docs/kubernetes.md.
    ///
    ///   kubectl get nodes -o json | muster inventory --from - > cluster.yaml
    ///   muster init kai --cluster cluster.yaml --queues queues.yaml
    #[command(verbatim_doc_comment)]
    Kai(queue_objects::InitQueueObjectsArgs),
    Ray(Box<ray::InitRayArgs>),
}

impl InitArgs {
    /// Returns the cluster that the subcommand uses: none, but `ray` writes for the kind that `--on` names.
    pub fn endpoint(&self) -> Endpoint {
        if matches!(self.plane, InitCommand::Ray(_)) { Endpoint::FilesFor } else { Endpoint::None }
    }
}

/// Runs `muster init`; returns its exit code.
pub fn run(app: &App, args: &InitArgs) -> Result<u8> {
    match &args.plane {
        InitCommand::Site(args) => site::run(app, args),
        InitCommand::None(args) => none::run(app, args),
        InitCommand::Hybrid(args) => hybrid::run(app, args),
        InitCommand::Slurm(args) => slurm::run(app, args),
        InitCommand::Kubernetes(args) => kubernetes::run(app, args),
        InitCommand::Kueue(args) => queue_objects::run(app, Plane::Kueue, args),
        InitCommand::Volcano(args) => queue_objects::run(app, Plane::Volcano, args),
        InitCommand::Kai(args) => queue_objects::run(app, Plane::Kai, args),
        InitCommand::Ray(args) => ray::run(app, args),
    }
}

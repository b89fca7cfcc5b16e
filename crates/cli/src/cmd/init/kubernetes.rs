//! `muster init kubernetes`: prints the manifests of the scheduler. `muster-kubernetes` makes the
//! text.

use anyhow::Result;
use muster_kubernetes::manifest::{self, Install};

use crate::app::App;
use crate::queue_objects::QueueObjects;
use crate::topology_label::TopologyLabel;

/// Print the manifests that install Muster's scheduler in a Kubernetes cluster
///
/// Two replicas of which one is active, the rights that they need and no others, a disruption
/// budget, and policies that suspend new Jobs, JobSets, TrainJobs and RayClusters in namespaces with
/// the label muster.run/queue. Running pods are not touched by installing, upgrading or removing it.
///
///   muster init kubernetes --image registry.example.com/muster:0.1.0 > muster.yaml
///   kubectl apply -f muster.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct InitKubernetesArgs {
    /// Image with the program `muster` in its PATH
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// Namespace of the scheduler, which is made
    #[arg(long, value_name = "NAME", default_value = "muster-system")]
    namespace: String,
    /// Topology level, and the label with a node's domain at that level; repeat from the widest
    /// level to the narrowest
    #[arg(long, value_name = "LEVEL=LABEL")]
    level: Vec<TopologyLabel>,
    /// Objects that describe the queues: Queue objects of muster, or those of kueue, whose controller
    /// must not run then
    #[arg(long, value_name = "SYSTEM", default_value = "muster")]
    queues_from: QueueObjects,
}

/// Runs `muster init kubernetes`; returns its exit code.
pub fn run(app: &App, args: &InitKubernetesArgs) -> Result<u8> {
    let install = Install {
        image: args.image.clone(),
        namespace: args.namespace.clone(),
        levels: args.level.iter().map(|one| format!("{}={}", one.name, one.label)).collect(),
        queue_schema: muster_spec::queues_schema(),
        reads_kueue: args.queues_from == QueueObjects::Kueue,
    };
    app.ui.data(&manifest::render(&install))?;
    Ok(0)
}

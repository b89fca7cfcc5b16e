//! `muster scheduler`: schedules the pods of a Kubernetes cluster that ask for it, until it is
//! stopped. The work is in `muster-operator`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use muster_operator::{GpuHolders, QueueSource, Settings};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failure;
use crate::kubernetes::{LEASE, LeaseName, levels, queue_tree};
use crate::logging::log_to;
use crate::queue_objects::QueueObjects;
use crate::topology_label::TopologyLabel;

const EXAMPLES: &str = "\
Examples:
  muster init kubernetes --image IMAGE | kubectl apply -f -
  muster scheduler --no-lease --level rack=example.com/rack";

/// Schedule the pods of a Kubernetes cluster as gangs
///
/// Binds pods with `schedulerName: muster`, a gang as a whole or not at all. What makes a gang: the
/// PodGroups of Kubernetes, coscheduling, Volcano and KAI, LeaderWorkerSet, JobSet, PyTorchJob,
/// MPIJob, RayCluster, an Indexed Job, or the label muster.run/gang. The cluster is that of the
/// kubeconfig, or of the pod in which it runs. Of several processes one is active. See
/// docs/kubernetes.md.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct SchedulerArgs {
    /// Context of the kubeconfig; by default the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Topology level, and the label with a node's domain at that level; repeat from the widest
    /// level to the narrowest
    #[arg(long, value_name = "LEVEL=LABEL")]
    level: Vec<TopologyLabel>,
    /// Queue file; by default the Queue objects of the cluster, and without any one queue without
    /// limits
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// Objects that describe the queues: Queue objects of muster, or, in a cluster that leaves Kueue,
    /// its ClusterQueues, Cohorts and LocalQueues. Kueue's own controller must not run then
    #[arg(long, value_name = "SYSTEM", default_value = "muster", conflicts_with = "queues")]
    queues_from: QueueObjects,
    /// Address of metrics and health checks; by default there are none
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Lease of the active process
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = LEASE)]
    lease: LeaseName,
    /// Image with the program `muster` for the pods that hold GPUs for pods with the annotation
    /// muster.run/gpu-share; they are in the namespace of the lease. Without it no shares are given
    #[arg(long, value_name = "IMAGE")]
    gpu_holder_image: Option<String>,
    /// Take no lease: no other scheduler process may run
    #[arg(long, conflicts_with = "lease")]
    no_lease: bool,
}

/// Runs the scheduler until it is stopped or fails.
pub fn run(args: &SchedulerArgs) -> Result<u8> {
    let queues = match (queue_tree(args.queues.as_ref())?, args.queues_from) {
        (Some(tree), _) => QueueSource::Tree(Box::new(tree)),
        (None, QueueObjects::Muster) => QueueSource::Objects,
        (None, QueueObjects::Kueue) => QueueSource::Kueue,
    };
    let LeaseName(namespace, name) = args.lease.clone();
    let holders = args.gpu_holder_image.clone();
    let holders = holders.map(|image| GpuHolders { namespace: namespace.clone(), image });
    let settings = Settings {
        context: args.context.clone(),
        levels: levels(&args.level),
        queues,
        listen: args.listen,
        lease: (!args.no_lease).then_some((namespace, name)),
        holders,
    };
    log_to(std::io::stderr)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot set up asynchronous input and output")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
        let stopped = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        muster_operator::run(settings, stopped).await.map_err(Failure::from)?;
        Ok(0)
    })
}

//! The client side of the scheduler inside Kubernetes: watches the cluster, hands what it sees to
//! [`muster_scheduler`], and carries out its actions. It decides nothing.

pub mod access;
mod actions;
pub mod address;
mod condition;
mod election;
pub mod error;
mod health;
mod kueue;
mod leader;
mod object_name;
mod own_words;
mod queue_source;
mod queues;
pub mod reader;
mod sources;
mod usage;
mod watch;
mod workload;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use muster_model::QueueTree;
use muster_scheduler::Level;
use tokio::task::JoinSet;

pub use error::{OperatorError, ReadError};
pub use object_name::ObjectName;

/// Settings of a scheduler process.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Context of the kubeconfig; `None` means the current one, or the pod's service account.
    pub context: Option<String>,
    /// Topology levels, widest first.
    pub levels: Vec<Level>,
    /// Source of queues, quotas and policies.
    pub queues: QueueSource,
    /// Address of metrics and health checks; `None` for none.
    pub listen: Option<SocketAddr>,
    /// Namespace and name of the lease of the active process; `None` for a process that is alone.
    pub lease: Option<(String, String)>,
}

/// Source of the queue tree.
#[derive(Clone, Debug)]
pub enum QueueSource {
    /// `Queue` objects of the cluster; without any there is one queue.
    Objects,
    /// Kueue's objects in the cluster, whose status Muster writes: Kueue's controller must not run.
    Kueue,
    /// Fixed tree, such as that of a queue file.
    Tree(Box<QueueTree>),
}

/// Runs the scheduler until `stopped`, an error, or the loss of its lease to another process.
///
/// # Errors
/// If the cluster cannot be reached at the start, or the lease is lost: another process may be
/// active then, so this one must end.
pub async fn run(
    settings: Settings,
    stopped: impl Future<Output = ()>,
) -> Result<(), OperatorError> {
    let client = access::client(None, settings.context.as_deref()).await?;
    let version = client.apiserver_version().await?;
    tracing::info!("connected to Kubernetes {}", version.git_version);
    let health = Arc::new(health::Health::default());
    let server = match settings.listen {
        Some(address) => Some(tokio::spawn(health::serve(address, Arc::clone(&health)).await?)),
        None => None,
    };
    let result = match &settings.lease {
        None => tokio::select! {
            result = leader::run(client, &settings, &health) => result,
            () = stopped => Ok(()),
        },
        Some((namespace, name)) => {
            let mut election = election::Election::new(client.clone(), namespace, name)?;
            tracing::info!("{} waits for the lease {namespace}/{name}", election.identity());
            let result = tokio::select! {
                result = lead(client, &settings, &health, &mut election) => result,
                () = stopped => Ok(()),
            };
            // Only an orderly end gives the lease back: after an error another process may have it.
            if result.is_ok() {
                election.release().await;
            }
            result
        }
    };
    if let Some(server) = server {
        server.abort();
    }
    result
}

/// Waits for the lease, then schedules as long as it is kept.
async fn lead(
    client: Client,
    settings: &Settings,
    health: &Arc<health::Health>,
    election: &mut election::Election,
) -> Result<(), OperatorError> {
    election.acquire().await;
    tracing::info!("active");
    // In a task of its own: a long step of the scheduler must not hold renewals up.
    let mut renewals = JoinSet::new();
    let mut keeper = election.clone();
    renewals.spawn(async move { keeper.keep().await });
    tokio::select! {
        result = leader::run(client, settings, health) => result,
        _ = renewals.join_next() => Err(OperatorError::LeaseLost),
    }
}

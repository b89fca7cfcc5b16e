//! The client side of the scheduler inside Kubernetes: watches the cluster, hands what it sees to
//! [`muster_scheduler`], and carries out its actions. It decides nothing.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at an unexpected value"))]

pub mod access;
mod actions;
pub mod address;
mod condition;
mod device_claims;
mod discovery;
mod election;
pub mod error;
#[cfg(test)]
mod fake_server;
mod gpu_holders;
mod health;
mod kueue;
mod leader;
mod object_conditions;
mod object_name;
mod queue_source;
mod queues;
pub mod reader;
mod reservations;
mod sources;
mod usage;
mod watch;
mod workload;
mod writes;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use kube::Client;
use muster_model::QueueTree;
use muster_scheduler::Level;
use tokio::task::JoinSet;

use writes::Writes;

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
    /// Pods that hold GPUs for pods with shares of them; `None` where shares are not given.
    pub holders: Option<GpuHolders>,
}

/// Terms of the pods that hold GPUs.
#[derive(Clone, Debug)]
pub struct GpuHolders {
    /// Namespace of the pods, in which users create none.
    pub namespace: String,
    /// Image with the program `muster`.
    pub image: String,
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
        None => {
            let writes = Arc::new(Writes::without_lease());
            tokio::select! {
                result = leader::run(client, &settings, &health, writes) => result,
                () = stopped => Ok(()),
            }
        }
        Some((namespace, name)) => {
            let mut election = election::Election::new(client.clone(), namespace, name)?;
            tracing::info!("{} waits for the lease {namespace}/{name}", election.identity());
            let result = lead(client, &settings, &health, &mut election, stopped).await;
            // Only an orderly end gives the lease back: after an error another process may have it, and
            // what is still on its way must not meet another process.
            if matches!(result, Ok(LeadEnd::InOrder)) {
                election.release().await;
            }
            result.map(drop)
        }
    };
    if let Some(server) = server {
        server.abort();
    }
    result
}

/// Way in which the active process ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeadEnd {
    /// Nothing is on its way to the API server.
    InOrder,
    /// Some requests have no answer yet.
    WithRequests,
}

/// Waits for the lease, then schedules as long as it is kept.
async fn lead(
    client: Client,
    settings: &Settings,
    health: &Arc<health::Health>,
    election: &mut election::Election,
    stopped: impl Future<Output = ()>,
) -> Result<LeadEnd, OperatorError> {
    let mut stopped = pin!(stopped);
    tokio::select! {
        () = election.acquire() => {}
        () = &mut stopped => return Ok(LeadEnd::InOrder),
    }
    tracing::info!("active");
    let mut keeper = election.clone();
    let settings = settings.clone();
    let health = Arc::clone(health);
    let writes = Arc::new(Writes::with_lease(Instant::now() + election::GIVE_UP));
    let [working, keeping, ending] = [(); 3].map(|()| Arc::clone(&writes));
    let work = async move { leader::run(client, &settings, &health, working).await };
    let kept = async move { keeper.keep(&keeping).await };
    while_kept(work, kept, stopped, async move { ending.stop().await }).await
}

/// Works as long as a lease is kept. Both are tasks of their own: a long step of the scheduler must
/// not hold up renewals, and after a loss no request of that step may be sent. An orderly stop waits
/// for the end of the step, then until `answered` says that no request is on its way, since the lease is
/// given back then.
async fn while_kept(
    work: impl Future<Output = Result<(), OperatorError>> + Send + 'static,
    kept: impl Future<Output = ()> + Send + 'static,
    stopped: impl Future<Output = ()>,
    answered: impl Future<Output = bool>,
) -> Result<LeadEnd, OperatorError> {
    let mut tasks = JoinSet::new();
    let work = tasks.spawn(work);
    tasks.spawn(async move {
        kept.await;
        Err(OperatorError::LeaseLost)
    });
    tokio::select! {
        Some(first) = tasks.join_next() => match first {
            Ok(result) => result.map(|()| LeadEnd::InOrder),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        },
        () = stopped => {
            // The lease is renewed until the step has ended, and its requests are answered.
            work.abort();
            let first = tasks.join_next().await;
            let ended = if answered.await { LeadEnd::InOrder } else { LeadEnd::WithRequests };
            tasks.shutdown().await;
            match first {
                Some(Ok(result)) => result.map(|()| ended),
                _ => Ok(ended),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lost_lease_does_not_wait_for_the_end_of_a_step() {
        let (release, blocked) = mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let work = async move {
            let _ = started.send(());
            let _ = blocked.recv();
            Ok(())
        };
        let kept = async { has_started.await.expect("the step has started") };
        let result = while_kept(work, kept, pending(), ready(true)).await;
        assert!(matches!(result, Err(OperatorError::LeaseLost)), "{result:?}");
        release.send(()).expect("the step was not over");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_orderly_stop_waits_for_the_end_of_a_step() {
        let (release, blocked) = mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let work = async move {
            let _ = started.send(());
            let _ = blocked.recv();
            over.store(true, Ordering::SeqCst);
            pending().await
        };
        let stopped = async {
            has_started.await.expect("the step has started");
            release.send(()).expect("the step waits");
        };
        assert!(while_kept(work, pending(), stopped, ready(true)).await.is_ok());
        assert!(is_over.load(Ordering::SeqCst));
        let ended = while_kept(ready(Ok(())), pending(), pending(), ready(true)).await;
        assert!(ended.is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_lease_is_kept_until_the_last_step_has_ended() {
        let (lease, lost) = mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let was_lost = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&was_lost);
        let work = async move {
            let _ = started.send(());
            // A step of this length: long enough for the keeper to be ended by mistake.
            let loss = lost.recv_timeout(std::time::Duration::from_millis(200));
            seen.store(loss == Err(mpsc::RecvTimeoutError::Disconnected), Ordering::SeqCst);
            pending().await
        };
        let kept = async move {
            let _lease = lease;
            pending().await
        };
        let stopped = async { has_started.await.expect("the step has started") };
        assert!(while_kept(work, kept, stopped, ready(true)).await.is_ok());
        assert!(!was_lost.load(Ordering::SeqCst));
    }
}

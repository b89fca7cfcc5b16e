//! State that the handlers of the page share.

use std::sync::Arc;

use muster_api::Client;
use tokio::sync::Semaphore;

use super::access::Access;
use super::job_origins::JobOrigins;

/// Name of the daemon of this machine in place of a cluster.
pub(super) const LOCAL: &str = "local";
/// Most connections to jobs at once: a browser has a handful for each page, and one for each websocket.
const MAX_CONNECTIONS: usize = 512;

/// State of all handlers. Clones are cheap.
#[derive(Clone, Debug)]
pub(super) struct PageState {
    /// Client of the daemon, or of an external scheduler.
    pub(super) client: Client,
    /// Cluster that the jobs are on, as `--on` names it.
    pub(super) cluster: String,
    /// Links and keys, which handlers change.
    pub(super) access: Arc<Access>,
    /// Port of this machine that the page is on.
    pub(super) port: u16,
    /// Origins of jobs, which handlers change.
    pub(super) origins: Arc<JobOrigins>,
    /// Connections to jobs that may still be made.
    pub(super) connections: Arc<Semaphore>,
    /// Turn of the what-if question that is being answered.
    pub(super) questions: Arc<Semaphore>,
    /// Values of `Host` that lead here: addresses of this machine itself, with the port.
    pub(super) hosts: [String; 2],
}

impl PageState {
    /// Makes the state of a server on a port of this machine.
    pub(super) fn new(client: Client, cluster: String, access: Arc<Access>, port: u16) -> Self {
        Self {
            client,
            cluster,
            access,
            port,
            origins: Arc::default(),
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            questions: Arc::new(Semaphore::new(1)),
            hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        }
    }

    /// Returns whether jobs run on this machine, under its daemon.
    pub(super) fn is_local(&self) -> bool {
        self.cluster == LOCAL
    }
}

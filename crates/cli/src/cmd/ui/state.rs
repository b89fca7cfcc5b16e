//! State that the handlers of the page share.

use std::sync::Arc;

use muster_api::Client;
use tokio::sync::Semaphore;

use super::access::Access;

/// State of all handlers. Clones are cheap.
#[derive(Clone, Debug)]
pub(super) struct PageState {
    /// Client of the daemon, or of an external scheduler.
    pub(super) client: Client,
    /// Cluster that the jobs are on, as `--on` names it.
    pub(super) cluster: String,
    /// Links and keys, which handlers change.
    pub(super) access: Arc<Access>,
    /// Turn of the what-if question that is being answered.
    pub(super) questions: Arc<Semaphore>,
    /// Values of `Host` that lead here: addresses of this machine itself, with the port.
    pub(super) hosts: [String; 2],
}

impl PageState {
    /// Makes the state of a server on a port of this machine.
    pub(super) fn new(client: Client, cluster: String, access: Arc<Access>, port: u16) -> Self {
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let questions = Arc::new(Semaphore::new(1));
        Self { client, cluster, access, questions, hosts }
    }
}

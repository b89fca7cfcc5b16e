//! Errors that end the process.

/// Reason for which the scheduler process ends.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// Neither a kubeconfig nor a service account was usable.
    #[error("no cluster is configured: {0}")]
    Config(String),
    /// The API server could not be reached, or refused the first requests.
    #[error("the Kubernetes API server cannot be used: {}", message(.0))]
    Api(#[from] kube::Error),
    /// Another process may hold the lease.
    #[error("the lease was lost: another scheduler may be active")]
    LeaseLost,
    /// The queue tree has a defect.
    #[error("the queue tree is invalid: {0}")]
    Queues(String),
    /// The address of metrics and health checks cannot be used.
    #[error("cannot listen on {0}: {1}")]
    Listen(std::net::SocketAddr, std::io::Error),
}

/// Returns an error as text: the message of the API server, or what kept it from answering.
pub(crate) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Returns the HTTP status of an answer of the API server; `None` if there was no answer.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Returns true for errors that another try may not meet: no answer, overload, an error within the
/// server.
pub(crate) fn is_transient(error: &kube::Error) -> bool {
    code(error).is_none_or(|code| code == 429 || code >= 500)
}

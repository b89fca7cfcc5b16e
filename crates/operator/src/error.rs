//! Errors of the scheduler process, and of questions about a cluster.

use muster_model::Span;

/// Reason for which the scheduler process ends.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// Neither a kubeconfig nor a service account was usable.
    #[error("no cluster is configured: {0}")]
    Config(String),
    /// The kubeconfig gives no credentials.
    #[error("there are no credentials for the cluster: {0}")]
    Credentials(String),
    /// The API server could not be reached, or refused the first requests.
    #[error("the Kubernetes API server cannot be used: {}", message(.0))]
    Api(#[from] kube::Error),
    /// Another process may hold the lease.
    #[error("the lease was lost: another scheduler may be active")]
    LeaseLost,
    /// The clock of the machine was set back.
    #[error("the clock was set back by {0}; the scheduler starts anew from what the cluster says")]
    ClockSetBack(Span),
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
#[must_use]
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Returns true for errors that another try may not meet: no answer, overload, an error within the
/// server.
#[must_use]
pub fn is_transient(error: &kube::Error) -> bool {
    code(error).is_none_or(|code| code == 429 || code >= 500)
}

/// Reason for which a question about a cluster has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The cluster cannot be used at all.
    #[error(transparent)]
    Cluster(#[from] OperatorError),
    /// The API server does not accept the credentials.
    #[error("the Kubernetes API server does not accept your credentials: {0}")]
    Credentials(String),
    /// The API server gives no answer.
    #[error("the Kubernetes API server does not answer: {0}")]
    Silent(String),
    /// The user lacks these rights.
    #[error("you may not {}", .0.join(", "))]
    Forbidden(Vec<String>),
    /// The active scheduler has published something that this version cannot read.
    #[error("{what} of the active scheduler cannot be read: {error}")]
    Published {
        /// Settings, or queue tree.
        what: &'static str,
        /// Message of the reader, for users.
        error: String,
        /// Options that replace it.
        options: &'static str,
    },
    /// No object has the name.
    #[error("there is no pod or gang object {what} in namespace {namespace}")]
    NotFound {
        /// Object in the words of the user.
        what: String,
        /// Namespace that was searched.
        namespace: String,
    },
    /// Several objects that are different gangs have the name.
    #[error("`{name}` names several objects: {}", .choices.join(", "))]
    Ambiguous {
        /// Object in the words of the user.
        name: String,
        /// Each object, as it can be typed.
        choices: Vec<String>,
    },
}

impl From<kube::Error> for ReadError {
    fn from(error: kube::Error) -> Self {
        let text = || chain(&error);
        match (&error, code(&error)) {
            (_, Some(401)) | (kube::Error::Auth(_), None) => ReadError::Credentials(text()),
            (_, Some(code)) if code < 500 && code != 429 => OperatorError::Api(error).into(),
            _ => ReadError::Silent(text()),
        }
    }
}

/// Returns an error with its causes, each once: the outer ones say little.
fn chain(error: &kube::Error) -> String {
    let mut text = message(error);
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

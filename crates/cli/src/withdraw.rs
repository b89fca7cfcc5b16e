//! Requests that Ctrl-C withdraws: what a client in this process has created in a cluster is removed again.
//! Requests to a daemon go on without their sender, and are not withdrawn.

use muster_api::{Client, ClientError};
use tokio::signal::unix::{SignalKind, signal};

/// Returns the answer to a request. Ctrl-C and SIGTERM withdraw the request; the answer is then its error, or its
/// result if that came first.
///
/// # Errors
/// Those of the request, and if the system delivers no signals.
pub async fn or_withdraw<T>(
    client: &Client,
    answer: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    if client.socket().is_some() {
        return answer.await;
    }
    let mut terminated = signal(SignalKind::terminate()).map_err(ClientError::Io)?;
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => return answer,
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
    client.withdraw();
    answer.await
}

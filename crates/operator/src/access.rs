//! Access to a cluster as kubectl finds it: a kubeconfig and its context, else the pod's service
//! account.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::error::OperatorError;

/// Longest wait of a user for a connection; each round trip takes less than a second.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest wait of a user for an answer: half of the API server's own limit.
const ANSWER: Duration = Duration::from_secs(30);

/// Returns a client of a cluster for a process that stays.
pub(crate) async fn client(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, OperatorError> {
    Ok(Client::try_from(config(kubeconfig, context).await?)?)
}

/// Returns a client for one question of a user, and the namespace of the context.
///
/// # Errors
/// If the kubeconfig is missing or wrong.
pub async fn client_of_user(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<(Client, String), OperatorError> {
    let mut config = config(kubeconfig, context).await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(ANSWER);
    let namespace = config.default_namespace.clone();
    Ok((Client::try_from(config)?, namespace))
}

/// Returns a client for answers that come bit by bit, with any pause in between: logs and watches.
///
/// # Errors
/// If the kubeconfig is missing or wrong.
pub async fn client_for_streams(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, OperatorError> {
    let mut config = config(kubeconfig, context).await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = None;
    Ok(Client::try_from(config)?)
}

async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, OperatorError> {
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let text = |error: &dyn std::error::Error| OperatorError::Config(error.to_string());
    match (kubeconfig, context) {
        (Some(path), _) => {
            let file = Kubeconfig::read_from(path).map_err(|error| text(&error))?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| text(&error))
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|error| text(&error)),
        (None, None) => Config::infer().await.map_err(|error| text(&error)),
    }
}

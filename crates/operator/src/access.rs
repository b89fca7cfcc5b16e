//! Access to a cluster as kubectl finds it: a kubeconfig and its context, else the pod's service
//! account.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use kube::client::AuthError;
use kube::config::{ExecConfig, KubeConfigOptions, Kubeconfig, KubeconfigError};
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
    connect(config(kubeconfig, context).await?)
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
    Ok((connect(config)?, namespace))
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
    connect(config)
}

/// Makes a client, which may run a program of the kubeconfig for its credentials.
fn connect(config: Config) -> Result<Client, OperatorError> {
    let plugin = config.auth_info.exec.clone();
    Client::try_from(config).map_err(|error| match (error, plugin) {
        (kube::Error::Auth(error), plugin) => {
            OperatorError::Credentials(failure_of(&error, plugin.as_ref()))
        }
        (error, _) => error.into(),
    })
}

/// Returns why there are no credentials, in words: the library prints what a program wrote as bytes.
fn failure_of(error: &AuthError, plugin: Option<&ExecConfig>) -> String {
    let command = plugin.and_then(|plugin| plugin.command.as_deref()).unwrap_or_default();
    match error {
        AuthError::AuthExecStart(error) => {
            let hint = plugin.and_then(|plugin| plugin.install_hint.as_deref());
            let hint = hint.map_or(String::new(), |hint| format!("; {}", hint.trim()));
            format!("the program `{command}` of the kubeconfig did not start: {error}{hint}")
        }
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said = said.trim().lines().last().map_or(String::new(), |line| format!(": {line}"));
            format!("the program `{command}` of the kubeconfig ended with {}{said}", out.status)
        }
        AuthError::AuthExecParse(error) => {
            format!("the program `{command}` of the kubeconfig printed no credentials: {error}")
        }
        other => other.to_string(),
    }
}

async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, OperatorError> {
    let defect = match from_files(kubeconfig, context).await {
        Ok(config) => return Ok(config),
        Err(error) => error.to_string(),
    };
    if kubeconfig.is_none()
        && context.is_none()
        && let Ok(config) = Config::incluster()
    {
        return Ok(config);
    }
    Err(OperatorError::Config(defect))
}

/// Reads the file, or else those of `KUBECONFIG`, or else that of the home directory.
async fn from_files(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Config, KubeconfigError> {
    let files = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path)?,
        None => match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
            Some(list) => of_list(&list)?,
            None => Kubeconfig::read()?,
        },
    };
    let context = context.or(files.current_context.as_deref()).map(str::to_owned);
    let has_own_proxy = has_own_proxy(&files, context.as_deref());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(files, &options).await?;
    // The library holds NO_PROXY against the address of the proxy.
    if !has_own_proxy && !is_proxied(&config.cluster_url) {
        config.proxy_url = None;
    }
    Ok(config)
}

/// Reads the files of a list. Those that do not exist are left out, as long as one does.
fn of_list(list: &OsStr) -> Result<Kubeconfig, KubeconfigError> {
    let mut paths: Vec<PathBuf> = std::env::split_paths(list).collect();
    if paths.iter().any(|path| path.exists()) {
        paths.retain(|path| path.exists());
    }
    let read = |merged: Kubeconfig, path: &PathBuf| merged.merge(Kubeconfig::read_from(path)?);
    paths.iter().try_fold(Kubeconfig::default(), read)
}

/// Returns true if the cluster of a context names a proxy.
fn has_own_proxy(files: &Kubeconfig, context: Option<&str>) -> bool {
    let named = files.contexts.iter().find(|one| Some(&*one.name) == context);
    let cluster = named.and_then(|one| one.context.as_ref()).map(|context| &context.cluster);
    let cluster = files.clusters.iter().find(|one| Some(&one.name) == cluster);
    let proxy = cluster.and_then(|one| one.cluster.as_ref()?.proxy_url.as_deref());
    proxy.is_some_and(|proxy| !proxy.is_empty())
}

/// Returns true if the environment has a proxy for an address; one of this machine needs none.
fn is_proxied(address: &http::Uri) -> bool {
    let host = address.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    !is_here && Matcher::from_env().intercept(address).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a kubeconfig with one cluster, its user and its context, all of one name.
    fn kubeconfig(name: &str, cluster: &str, user: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: {name}, \
             contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}}}}}], \
             clusters: [{{name: {name}, cluster: {{server: 'https://10.1.2.3:6443'{cluster}}}}}], \
             users: [{{name: {name}, user: {{{user}}}}}]}}"
        );
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[tokio::test]
    async fn a_proxy_of_the_file_is_used() {
        let file = kubeconfig("a", ", proxy-url: 'http://10.9.9.9:3128'", "");
        let config = config(Some(file.path()), None).await.unwrap();
        assert_eq!(config.proxy_url.as_ref().unwrap().host(), Some("10.9.9.9"));
        assert!(connect(config).is_ok());
    }

    #[test]
    fn files_of_a_list_may_be_missing_but_not_all() {
        let [first, second] = ["a", "b"].map(|name| kubeconfig(name, "", ""));
        let missing = PathBuf::from("/no/such/kubeconfig");
        let paths = [missing.as_path(), first.path(), second.path()];
        let files = of_list(&std::env::join_paths(paths).unwrap()).unwrap();
        assert_eq!(files.current_context.as_deref(), Some("a"), "the first wins");
        assert_eq!(files.clusters.len(), 2);
        let error = of_list(missing.as_os_str()).unwrap_err();
        assert!(error.to_string().contains("/no/such/kubeconfig"), "{error}");
    }

    #[tokio::test]
    async fn a_program_for_credentials_that_fails_is_named_with_its_last_words() {
        let failure = async |command: &str| {
            let user = format!(
                "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
                 installHint: install it, {command}}}"
            );
            let file = kubeconfig("a", "", &user);
            let config = config(Some(file.path()), None).await.unwrap();
            connect(config).err().expect("there are no credentials").to_string()
        };
        let told = failure("command: /no/such/plugin").await;
        assert!(told.contains("`/no/such/plugin` of the kubeconfig did not start"), "{told}");
        assert!(told.ends_with("; install it"), "{told}");
        let told =
            failure("command: sh, args: [-c, 'echo x; echo log in first >&2; exit 3']").await;
        assert!(told.contains("ended with exit status: 3: log in first"), "{told}");
        let told = failure("command: sh, args: [-c, 'echo hello']").await;
        assert!(told.contains("printed no credentials"), "{told}");
    }

    #[tokio::test]
    async fn a_program_gives_credentials() {
        let printed = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}"#;
        let user = format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
             command: printf, args: ['%s', '{printed}']}}"
        );
        let file = kubeconfig("a", "", &user);
        assert!(connect(config(Some(file.path()), None).await.unwrap()).is_ok());
    }

    #[test]
    fn this_machine_needs_no_proxy() {
        for address in ["https://localhost:6443", "https://127.0.0.1:6443", "https://[::1]:6443"] {
            assert!(!is_proxied(&address.parse().unwrap()), "{address}");
        }
    }
}

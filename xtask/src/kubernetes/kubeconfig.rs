//! Kubeconfigs: files that say where the API server is and who calls it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::cluster::{API_ADDRESS, API_PORT, KubernetesTestCluster};

/// Lifetime of the token of a service account, longer than any test.
const TOKEN_LIFETIME: &str = "24h";

/// Proof of a user's identity.
pub enum Credentials<'a> {
    /// Name of a certificate and its key in the folder `pki`.
    Certificate(&'a str),
    /// Token of a service account.
    Token(&'a str),
}

/// Returns the text of a kubeconfig.
pub fn text(cluster: &KubernetesTestCluster, credentials: &Credentials<'_>) -> String {
    let pki = format!("{}/pki", cluster.text());
    let user = match credentials {
        Credentials::Certificate(file) => {
            format!("client-certificate: {pki}/{file}.crt, client-key: {pki}/{file}.key")
        }
        Credentials::Token(token) => format!("token: {token}"),
    };
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters: [{{name: test, cluster: {{server: \"https://{API_ADDRESS}:{API_PORT}\", certificate-authority: {pki}/ca.crt}}}}]\n\
         users: [{{name: user, user: {{{user}}}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: user}}}}]\n\
         current-context: test\n"
    )
}

/// Writes a kubeconfig that only its owner can read.
pub fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, "")?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    fs::write(path, text)?;
    Ok(())
}

/// Returns the kubeconfig of a service account, `NAMESPACE/NAME`, with a new token.
pub fn of_service_account(cluster: &KubernetesTestCluster, account: &str) -> Result<String> {
    cluster.require_up()?;
    let (namespace, name) = account
        .split_once('/')
        .with_context(|| format!("{account}: not a service account, NAMESPACE/NAME"))?;
    let duration = format!("--duration={TOKEN_LIFETIME}");
    let token =
        cluster.run(&["kubectl", "create", "token", name, "--namespace", namespace, &duration])?;
    Ok(text(cluster, &Credentials::Token(token.trim())))
}

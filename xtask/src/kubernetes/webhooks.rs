//! Webhooks of controllers that run in the cluster's network namespace, where no proxy has the addresses of Services: their
//! manifests get the address of the program in place of its Service.

use anyhow::{Result, ensure};

use super::cluster::KubernetesTestCluster;
use crate::test_cluster::command;

/// Text by which manifests made with kubebuilder name the Service, up to the path.
const SERVICE: &str =
    "service:\n      name: webhook-service\n      namespace: system\n      path: ";

/// Fails if manifests name the Service of the webhooks in another way.
pub fn check(manifests: &str) -> Result<()> {
    ensure!(
        manifests.contains(SERVICE),
        "the webhooks name their Service otherwise: adapt SERVICE in xtask/src/kubernetes/webhooks.rs"
    );
    Ok(())
}

/// Returns the manifests of webhooks that listen at this port of loopback, with the cluster's certificate.
///
/// # Errors
/// If the certificate cannot be read, or the manifests name the Service in another way.
pub fn at_port(cluster: &KubernetesTestCluster, manifests: &str, port: u16) -> Result<String> {
    check(manifests)?;
    let authority = cluster.dir().join("pki/ca.crt").display().to_string();
    let authority = command::outside(&["base64", "--wrap=0", &authority])?;
    let address = format!("caBundle: {authority}\n    url: https://127.0.0.1:{port}");
    Ok(manifests.replace(SERVICE, &address))
}

//! Conditions that tell when a program of the cluster works. Each is a request that needs it; none is a
//! pause.

use std::time::Duration;

use anyhow::{Result, bail};

use super::cluster::KubernetesTestCluster;
use super::daemon::KubernetesDaemon;
use crate::test_cluster::process;

/// Timeout for each condition; normally a second, and ten for 1,000 nodes.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Waits until a program works; fails at once when it ends.
pub fn wait_for(cluster: &KubernetesTestCluster, daemon: KubernetesDaemon) -> Result<()> {
    let mut has_ended = false;
    process::wait(daemon.program(), TIMEOUT, || {
        has_ended = daemon.pid(cluster).is_none();
        has_ended || works(cluster, daemon)
    })?;
    if has_ended {
        bail!("{} has ended; see {}", daemon.program(), cluster.log(daemon.program()).display());
    }
    Ok(())
}

fn works(cluster: &KubernetesTestCluster, daemon: KubernetesDaemon) -> bool {
    match daemon {
        KubernetesDaemon::Etcd => answers(cluster, "http://127.0.0.1:2379", "/health"),
        KubernetesDaemon::ApiServer => {
            cluster.run(&["kubectl", "get", "--raw=/readyz"]).is_ok_and(|text| text == "ok")
        }
        KubernetesDaemon::ControllerManager => {
            // Its first work for a user: pods need this account.
            answers(cluster, "https://127.0.0.1:10257", "/healthz")
                && cluster.run(&["kubectl", "get", "serviceaccount", "default"]).is_ok()
        }
        KubernetesDaemon::Scheduler => answers(cluster, "https://127.0.0.1:10259", "/readyz"),
        KubernetesDaemon::FakeKubelet => has_all_nodes(cluster),
    }
}

/// Returns true if a health check of a server succeeds.
fn answers(cluster: &KubernetesTestCluster, server: &str, path: &str) -> bool {
    let server = format!("--server={server}");
    cluster.run(&["kubectl", &server, "get", &format!("--raw={path}")]).is_ok()
}

/// Waits until a node accepts pods.
pub fn wait_for_node(cluster: &KubernetesTestCluster, node: &str) -> Result<()> {
    process::wait(node, TIMEOUT, || ready_nodes(cluster, &[node]) == 1)
}

/// Returns true if every node that the cluster was started with accepts pods.
fn has_all_nodes(cluster: &KubernetesTestCluster) -> bool {
    let nodes = cluster.options().ok().and_then(|options| usize::try_from(options.fake_nodes).ok());
    nodes.is_some_and(|nodes| ready_nodes(cluster, &[]) >= nodes)
}

/// Returns the number of nodes that are ready and have no taints, of all or of those named. New nodes are
/// tainted, and so are nodes that were not ready until now.
fn ready_nodes(cluster: &KubernetesTestCluster, names: &[&str]) -> usize {
    let line = r#"{.status.conditions[?(@.type=="Ready")].status} {.spec.taints[*].key}{"\n"}"#;
    // kubectl prints a list, unless one object is named.
    let path = if names.len() == 1 {
        format!("jsonpath={line}")
    } else {
        format!("jsonpath={{range .items[*]}}{line}{{end}}")
    };
    let words = [&["kubectl", "get", "nodes", "--output", &path], names].concat();
    let nodes = cluster.run(&words).unwrap_or_default();
    nodes.lines().filter(|line| line.trim_end() == "True").count()
}

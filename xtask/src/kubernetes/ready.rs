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

/// Returns true if every node that the cluster was started with is ready, and has lost the taint of new
/// nodes.
fn has_all_nodes(cluster: &KubernetesTestCluster) -> bool {
    let Ok(options) = cluster.options() else { return false };
    let columns = r#"jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {.spec.taints[*].key}{"\n"}{end}"#;
    let nodes = cluster.run(&["kubectl", "get", "nodes", "--output", columns]);
    let is_ready = |line: &&str| line.trim_end() == "True";
    nodes.is_ok_and(|text| {
        text.lines().filter(is_ready).count() >= usize::try_from(options.fake_nodes).unwrap_or(0)
    })
}

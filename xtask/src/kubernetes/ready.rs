//! Conditions that tell when a program of the cluster works. Each is a request that needs it; none is a
//! pause.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::cluster::KubernetesTestCluster;
use super::daemon::KubernetesDaemon;
use super::node::RealNode;
use super::node::programs::NodeProgram;
use crate::test_cluster::{command, process};

/// Timeout for each condition; normally a second, and ten for 1,000 nodes.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Lines of the log of a program that has ended: a trace of its threads has about so many.
const LINES: usize = 40;

/// Waits until a program works; fails at once when it ends.
pub fn wait_for(cluster: &KubernetesTestCluster, daemon: KubernetesDaemon) -> Result<()> {
    let mut has_ended = false;
    let name = daemon.name();
    process::wait(&name, TIMEOUT, || {
        has_ended = daemon.pid(cluster).is_none();
        has_ended || works(cluster, daemon)
    })?;
    if has_ended {
        let log = cluster.log(&name);
        bail!("{name} has ended; the end of {}:\n{}", log.display(), end_of(&log));
    }
    Ok(())
}

/// Returns the last lines of a log. A cluster that a test starts is removed with its logs.
fn end_of(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
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
        // It has listed all Services and pods.
        KubernetesDaemon::CoreDns => answers(cluster, "http://127.0.0.1:8181", "/ready"),
        KubernetesDaemon::JobSet => answers(cluster, "http://127.0.0.1:8081", "/readyz"),
        KubernetesDaemon::Node(program, node) => node_works(cluster, program, node),
    }
}

fn node_works(cluster: &KubernetesTestCluster, program: NodeProgram, node: RealNode) -> bool {
    match program {
        // Its name is that of the program which it starts at last.
        NodeProgram::Namespaces => true,
        NodeProgram::Containerd => {
            let socket = node.dir(cluster).join("ctd.sock").display().to_string();
            command::outside(&["ctr", "--address", &socket, "version"]).is_ok()
        }
        // Plugins register here. A kubelet that starts deletes the sockets of plugins that are there
        // already.
        NodeProgram::Kubelet => listens(cluster, node, "device-plugins/kubelet.sock"),
        NodeProgram::FakeGpus => listens(cluster, node, "device-plugins/fake-gpus.sock"),
        NodeProgram::FakeDriver => listens(cluster, node, "plugins/gpus.example.com/dra.sock"),
    }
}

/// Returns true if a program listens on a socket in the kubelet's folder. The path in the node's namespace is
/// short enough for a socket; that in its folder may not be.
fn listens(cluster: &KubernetesTestCluster, node: RealNode, socket: &str) -> bool {
    let holder = KubernetesDaemon::Node(NodeProgram::Namespaces, node).pid(cluster);
    holder.is_some_and(|pid| {
        let path = format!("/proc/{pid}/root/var/lib/kubelet/{socket}");
        UnixStream::connect(path).is_ok()
    })
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
    let nodes = cluster.options().ok().and_then(|options| usize::try_from(options.nodes).ok());
    nodes.is_some_and(|nodes| ready_nodes(cluster, &[]) >= nodes)
}

/// Returns the number of nodes that are ready, have all GPUs and no taints, of all or of those named. New
/// nodes are tainted, and so are nodes that were not ready until now.
fn ready_nodes(cluster: &KubernetesTestCluster, names: &[&str]) -> usize {
    let Ok(options) = cluster.options() else { return 0 };
    let line = r#"{.status.conditions[?(@.type=="Ready")].status} {.status.allocatable.nvidia\.com/gpu} {.spec.taints[*].key}{"\n"}"#;
    // kubectl prints a list, unless one object is named.
    let path = if names.len() == 1 {
        format!("jsonpath={line}")
    } else {
        format!("jsonpath={{range .items[*]}}{line}{{end}}")
    };
    let words = [&["kubectl", "get", "nodes", "--output", &path], names].concat();
    let nodes = cluster.run(&words).unwrap_or_default();
    let gpus = options.gpus.to_string();
    let is_ready = |line: &&str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["True"] => options.gpus == 0,
        ["True", allocatable] => allocatable == gpus,
        _ => false,
    };
    nodes.lines().filter(is_ready).count()
}

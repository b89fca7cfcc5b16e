//! The network between nodes: a bridge in the cluster's network namespace, a pair of virtual devices for each
//! node, and routes to its pods.

use anyhow::Result;

use super::super::cluster::KubernetesTestCluster;
use super::RealNode;
use crate::test_cluster::command;

/// Name of the bridge.
const BRIDGE: &str = "nodes";

/// Address of the bridge, which routes between nodes, pods and the API server.
const GATEWAY: &str = "10.99.0.1";

/// Address of the API server's Service, which pods are told. Here no proxy has the addresses of Services, so the server
/// itself has it.
const API_SERVICE: &str = "10.96.0.1/32";

/// Makes the namespace forward packets.
const FORWARD: [&str; 3] = ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"];

/// Creates the bridge, in the cluster's namespace.
pub fn create_bridge(cluster: &KubernetesTestCluster) -> Result<()> {
    let name = cluster.namespace().name();
    ip(name, &["link", "add", BRIDGE, "type", "bridge"])?;
    ip(name, &["addr", "add", &format!("{GATEWAY}/24"), "dev", BRIDGE])?;
    ip(name, &["link", "set", BRIDGE, "up"])?;
    ip(name, &["addr", "add", API_SERVICE, "dev", "lo"])?;
    cluster.run(&FORWARD).map(drop)
}

/// Creates a node's namespace and connects it with the bridge.
pub fn connect(cluster: &KubernetesTestCluster, node: RealNode) -> Result<()> {
    let namespace = node.namespace(cluster);
    let inner = namespace.name();
    let outer = cluster.namespace().name();
    let address = node.address();
    namespace.create("127.0.0.2/32")?;
    let device = node.name();
    ip(outer, &["link", "add", &device, "type", "veth", "peer", "name", "eth0", "netns", inner])?;
    ip(outer, &["link", "set", &device, "master", BRIDGE, "up"])?;
    ip(outer, &["route", "add", &node.subnet(), "via", &address, "onlink", "dev", BRIDGE])?;
    ip(inner, &["addr", "add", &format!("{address}/24"), "dev", "eth0"])?;
    ip(inner, &["link", "set", "eth0", "up"])?;
    ip(inner, &["route", "add", "default", "via", GATEWAY])?;
    command::under(namespace.prefix(), &FORWARD).map(drop)
}

fn ip(namespace: &str, words: &[&str]) -> Result<()> {
    command::outside(&[&["ip", "-n", namespace], words].concat()).map(drop)
}

//! The DNS of the pods of real nodes: the address, configuration and rights of CoreDNS. The texts are in
//! `conf/`. This starts no program.

use std::fs;

use anyhow::Result;

use super::cluster::KubernetesTestCluster;
use crate::test_cluster::command;

/// Address of the server, which is that of its Service where kubeadm makes a cluster. Here no proxy has
/// the addresses of Services, so the server itself has it.
pub const ADDRESS: &str = "10.96.0.10";

/// Domain of the names of the cluster.
pub const DOMAIN: &str = "cluster.local";

/// User name of the server, and of its kubeconfig.
pub const USER: &str = "coredns";

const COREFILE: &str = include_str!("conf/Corefile");
const RIGHTS: &str = include_str!("conf/coredns.yaml");

/// Creates the address and all that the server needs, in a cluster whose API server works.
pub fn create(cluster: &KubernetesTestCluster) -> Result<()> {
    let namespace = cluster.namespace().name();
    let address = format!("{ADDRESS}/32");
    command::outside(&["ip", "-n", namespace, "addr", "add", &address, "dev", "lo"])?;
    fs::write(cluster.dir().join("etc/Corefile"), fill(COREFILE, cluster))?;
    let words = ["kubectl", "create", "--filename=-"];
    command::with_input(cluster.inside(), &words, &fill(RIGHTS, cluster)).map(drop)
}

fn fill(text: &str, cluster: &KubernetesTestCluster) -> String {
    let text = text.replace("{dir}", cluster.text());
    text.replace("{user}", USER).replace("{domain}", DOMAIN)
}

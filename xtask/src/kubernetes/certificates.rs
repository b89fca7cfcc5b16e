//! The users of a cluster: their certificates, which the program `certificates` makes, and their kubeconfigs.

use std::fs;

use anyhow::Result;

use super::cluster::{API_ADDRESS, KubernetesTestCluster};
use super::dns;
use super::kubeconfig::{self, Credentials};
use super::nodes;

/// Users with a certificate: name of the file, user name, and group if any.
const USERS: [(&str, &str, &str); 6] = [
    ("admin", "admin", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("fake-kubelet", FAKE_KUBELET, ""),
    (dns::USER, dns::USER, ""),
    ("kubelet-client", "kubelet-client", "system:masters"),
];

/// User name of the program that carries the fake nodes.
pub const FAKE_KUBELET: &str = "fake-kubelet";

/// Writes certificates and kubeconfigs.
pub fn write(cluster: &KubernetesTestCluster) -> Result<()> {
    let pki = cluster.dir().join("pki");
    fs::create_dir_all(&pki)?;
    let mut words = vec!["certificates".to_owned(), format!("--dir={}", pki.display())];
    words.push(format!("--address={API_ADDRESS}"));
    let mut files = Vec::new();
    for (file, name, group) in USERS {
        let comma = if group.is_empty() { "" } else { "," };
        words.push(format!("{file}={name}{comma}{group}"));
        files.push(file.to_owned());
    }
    for node in nodes::all(cluster)? {
        let name = node.name();
        words.push(format!("{name}=system:node:{name},system:nodes"));
        files.push(name);
    }
    cluster.run(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    for file in files {
        let path = cluster.dir().join("etc").join(format!("{file}.kubeconfig"));
        kubeconfig::write(&path, &kubeconfig::text(cluster, &Credentials::Certificate(&file)))?;
    }
    let admin = kubeconfig::text(cluster, &Credentials::Certificate("admin"));
    kubeconfig::write(&cluster.kubeconfig(), &admin)
}

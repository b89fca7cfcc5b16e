//! The users of a cluster: their certificates, which the program `certificates` makes, and their kubeconfigs.

use std::fs;

use anyhow::Result;

use super::cluster::{API_ADDRESS, KubernetesTestCluster};
use super::kubeconfig::{self, Credentials};

/// Users with a certificate: name of the file, user name, and group if any.
const USERS: [(&str, &str, &str); 4] = [
    ("admin", "admin", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("fake-kubelet", FAKE_KUBELET, ""),
];

/// User name of the program that carries the fake nodes.
pub const FAKE_KUBELET: &str = "fake-kubelet";

/// Writes certificates and kubeconfigs.
pub fn write(cluster: &KubernetesTestCluster) -> Result<()> {
    let pki = cluster.dir().join("pki");
    fs::create_dir_all(&pki)?;
    let mut words = vec!["certificates".to_owned(), format!("--dir={}", pki.display())];
    words.push(format!("--address={API_ADDRESS}"));
    words.extend(USERS.iter().map(|(file, name, group)| {
        if group.is_empty() { format!("{file}={name}") } else { format!("{file}={name},{group}") }
    }));
    cluster.run(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    for (file, ..) in USERS {
        let path = cluster.dir().join("etc").join(format!("{file}.kubeconfig"));
        kubeconfig::write(&path, &kubeconfig::text(cluster, &Credentials::Certificate(file)))?;
    }
    let admin = kubeconfig::text(cluster, &Credentials::Certificate("admin"));
    kubeconfig::write(&cluster.kubeconfig(), &admin)
}

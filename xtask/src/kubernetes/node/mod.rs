//! A real node: names, paths and addresses. Each node has a network, mount and UTS namespace, and cgroups of
//! its own. This starts no program; see `nodes`.

pub mod cgroups;
pub mod files;
pub mod images;
pub mod network;
pub mod programs;

use std::path::PathBuf;
use std::process::Command;

use super::cluster::KubernetesTestCluster;
use crate::test_cluster::namespace::NetworkNamespace;

/// A node with a kubelet and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealNode {
    /// Number of the node in its name, from 1.
    pub number: u32,
}

impl RealNode {
    /// Returns its name in the cluster.
    pub fn name(self) -> String {
        format!("node{}", self.number)
    }

    /// Returns the folder of its files.
    pub fn dir(self, cluster: &KubernetesTestCluster) -> PathBuf {
        cluster.dir().join(self.name())
    }

    /// Returns its address, on the bridge of the cluster's network namespace.
    pub fn address(self) -> String {
        format!("10.99.0.{}", 10 + self.number)
    }

    /// Returns the addresses of its pods.
    pub fn subnet(self) -> String {
        format!("10.88.{}.0/24", self.number)
    }

    /// Returns its network namespace.
    pub fn namespace(self, cluster: &KubernetesTestCluster) -> NetworkNamespace {
        NetworkNamespace::of(&self.name(), cluster.dir())
    }

    /// Returns the name of its cgroup under every controller, below which its pods are.
    pub fn cgroup(self, cluster: &KubernetesTestCluster) -> String {
        self.namespace(cluster).name().to_owned()
    }

    /// Returns a command prefix that enters the namespaces which a process of the node holds.
    pub fn enter(self, holder: u32) -> Command {
        let mut command = Command::new("nsenter");
        command.args([&format!("--target={holder}"), "--net", "--mount", "--uts"]);
        command
    }
}

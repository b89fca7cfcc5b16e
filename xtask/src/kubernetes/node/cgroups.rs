//! The cgroups of a node, version 1: created before its kubelet starts, and removed with all processes in
//! them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::cluster::KubernetesTestCluster;
use super::RealNode;
use crate::test_cluster::cgroup;
use crate::test_cluster::process::{self, Signal};

/// Controllers in which kubelet and runc create groups.
const CONTROLLERS: [&str; 9] =
    ["cpu", "cpuacct", "cpuset", "memory", "pids", "devices", "freezer", "blkio", "systemd"];

/// Settings that a new cpuset lacks; without them no process can enter it.
const CPUSET: [&str; 2] = ["cpuset.cpus", "cpuset.mems"];

/// Returns the reason for which this machine has no suitable cgroups, if there is one.
pub fn obstacle() -> Option<String> {
    let missing = CONTROLLERS.into_iter().find(|controller| !cgroup::root(controller).is_dir());
    missing.map(|controller| format!("real nodes need cgroups of version 1: no {controller}"))
}

/// Creates the groups of a node.
pub fn create(cluster: &KubernetesTestCluster, node: RealNode) -> Result<()> {
    for group in groups(cluster, node) {
        fs::create_dir_all(&group).with_context(|| group.display().to_string())?;
    }
    for file in CPUSET {
        let machine = cgroup::root("cpuset");
        let own = machine.join(node.cgroup(cluster));
        fs::write(own.join(file), fs::read_to_string(machine.join(file))?)?;
    }
    Ok(())
}

/// Kills all processes of the node's pods.
pub fn kill(cluster: &KubernetesTestCluster, node: RealNode) -> Result<()> {
    let pids = || groups(cluster, node).iter().flat_map(|group| cgroup::pids(group)).collect();
    process::wait("the end of the pods' processes", Duration::from_secs(15), || {
        let left: Vec<u32> = pids();
        for pid in &left {
            // Again in the next round, if it fails.
            let _ = process::signal(*pid, Signal::Kill);
        }
        left.is_empty()
    })
}

/// Removes the groups, which must have no processes.
pub fn remove(cluster: &KubernetesTestCluster, node: RealNode) {
    // runc creates groups in the hierarchy of version 2 as well, where that is mounted.
    let unified = cgroup::root("unified").join(node.cgroup(cluster));
    for group in groups(cluster, node).into_iter().chain([unified]) {
        cgroup::remove(&group);
    }
}

fn groups(cluster: &KubernetesTestCluster, node: RealNode) -> Vec<PathBuf> {
    let name = node.cgroup(cluster);
    CONTROLLERS.iter().map(|controller| cgroup::root(controller).join(&name)).collect()
}

//! Stops a cluster: its nodes, its programs by pid, then all other processes in its network namespace, then the
//! namespace. The files stay, because of the logs.

use anyhow::Result;

use super::cluster::KubernetesTestCluster;
use super::daemon::KubernetesDaemon;
use super::nodes;
use crate::test_cluster::process::{self, Signal};

/// Stops the cluster and removes its namespace.
pub fn run(cluster: &KubernetesTestCluster) -> Result<()> {
    let Some(namespace) = cluster.namespace().inode() else {
        println!("no cluster runs at {}", cluster.text());
        return Ok(());
    };
    // Killed at once: what they would write at their end is deleted with the cluster.
    for node in nodes::all(cluster)? {
        nodes::remove(cluster, node)?;
    }
    let mut stopped = 0;
    for daemon in KubernetesDaemon::all(&cluster.options()?).into_iter().rev() {
        if daemon.pid(cluster).is_some() {
            daemon.end(cluster, Signal::Kill)?;
            stopped += 1;
        }
    }
    // Besides them, the namespace has only users' shells.
    let rest = process::kill_in_namespace(namespace)?;
    cluster.namespace().delete()?;
    println!(
        "stopped {stopped} programs and {rest} other processes; the logs stay in {}",
        cluster.text()
    );
    Ok(())
}

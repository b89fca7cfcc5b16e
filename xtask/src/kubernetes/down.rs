//! Stops a cluster: its programs by pid, then all other processes in its network namespace, then the
//! namespace. The files stay, because of the logs.

use std::time::Duration;

use anyhow::Result;

use super::cluster::KubernetesTestCluster;
use super::daemon::KubernetesDaemon;
use crate::test_cluster::process::{self, Signal};

/// Stops the cluster and removes its namespace.
pub fn run(cluster: &KubernetesTestCluster) -> Result<()> {
    let Some(namespace) = cluster.namespace().inode() else {
        println!("no cluster runs at {}", cluster.text());
        return Ok(());
    };
    // Killed at once: what they would write at their end is deleted with the cluster.
    let mut stopped = 0;
    for daemon in KubernetesDaemon::ALL.into_iter().rev() {
        if daemon.pid(cluster).is_some() {
            daemon.end(cluster, Signal::Kill)?;
            stopped += 1;
        }
    }
    // Besides them, the namespace has only users' shells.
    let rest = process::pids_in_namespace(namespace);
    for pid in &rest {
        process::signal(*pid, Signal::Kill)?;
    }
    process::wait("the end of other processes", Duration::from_secs(15), || {
        process::pids_in_namespace(namespace).is_empty()
    })?;
    cluster.namespace().delete()?;
    println!(
        "stopped {stopped} programs and {} other processes; the logs stay in {}",
        rest.len(),
        cluster.text()
    );
    Ok(())
}

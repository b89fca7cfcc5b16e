//! Stops a cluster: its daemons by pid, then all other processes in its network namespace, then the
//! namespace. The files stay, because of the logs.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::cluster::SlurmTestCluster;
use super::daemon::Daemon;
use crate::test_cluster::cgroup;
use crate::test_cluster::process::{self, Signal};

/// Stops the cluster and removes its namespace.
pub fn run(cluster: &SlurmTestCluster) -> Result<()> {
    let Some(namespace) = cluster.namespace().inode() else {
        println!("no cluster runs at {}", cluster.text());
        return Ok(());
    };
    // 1. Stop the daemons in reverse order, first with SIGTERM: each may still write to those that
    //    started before it.
    let mut stopped = 0;
    for daemon in Daemon::all(cluster.nodes()).into_iter().rev() {
        let Some(pid) = daemon.pid(cluster) else { continue };
        if daemon.end(cluster, Signal::Term).is_err() {
            println!("{} did not stop on SIGTERM; killing it", daemon.name());
            process::signal(pid, Signal::Kill)?;
        }
        stopped += 1;
    }
    // 2. Kill job steps and their processes: besides them, the namespace has only users' shells.
    let rest = process::kill_in_namespace(namespace)?;
    // 3. Delete the namespace and the cgroups.
    cluster.namespace().delete()?;
    cgroups(cluster);
    println!(
        "stopped {stopped} daemons and {rest} processes of jobs; the logs stay in {}",
        cluster.text()
    );
    Ok(())
}

/// Removes the empty cgroups of this cluster's jobs. Jobs of other clusters have other numbers; the
/// cgroups of nodes are removed by the last slurmd of that name.
fn cgroups(cluster: &SlurmTestCluster) {
    let own = cluster.first_job()..cluster.first_job() + 100_000;
    for controller in ["freezer", "memory", "devices", "cpuset", "cpuacct"] {
        for node in cgroup::children(&cgroup::root(controller), "slurm_node") {
            for user in cgroup::children(&node, "uid_") {
                let jobs = cgroup::children(&user, "job_");
                for job in
                    jobs.iter().filter(|job| number(job).is_some_and(|job| own.contains(&job)))
                {
                    cgroup::remove(job);
                }
                // Fails while another cluster has jobs there.
                let _ = fs::remove_dir(&user);
            }
        }
    }
}

fn number(job: &Path) -> Option<u64> {
    job.file_name()?.to_str()?.strip_prefix("job_")?.parse().ok()
}

//! Stops a cluster: its daemons by pid, then all other processes in its network namespace, then the
//! namespace. The files stay, because of the logs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::cluster::SlurmTestCluster;
use super::daemon::Daemon;
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
    let rest = process::pids_in_namespace(namespace);
    for pid in &rest {
        process::signal(*pid, Signal::Kill)?;
    }
    process::wait("the end of job processes", Duration::from_secs(15), || {
        process::pids_in_namespace(namespace).is_empty()
    })?;
    // 3. Delete the namespace and the cgroups.
    cluster.namespace().delete()?;
    cgroups(cluster);
    println!(
        "stopped {stopped} daemons and {} processes of jobs; the logs stay in {}",
        rest.len(),
        cluster.text()
    );
    Ok(())
}

/// Removes the empty cgroups of this cluster's jobs. Jobs of other clusters have other numbers; the
/// cgroups of nodes are removed by the last slurmd of that name.
fn cgroups(cluster: &SlurmTestCluster) {
    let own = cluster.first_job()..cluster.first_job() + 100_000;
    for controller in ["freezer", "memory", "devices", "cpuset", "cpuacct"] {
        for node in folders(&Path::new("/sys/fs/cgroup").join(controller), "slurm_node") {
            for user in folders(&node, "uid_") {
                let jobs = folders(&user, "job_");
                for job in
                    jobs.iter().filter(|job| number(job).is_some_and(|job| own.contains(&job)))
                {
                    empty(job);
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

fn folders(parent: &Path, prefix: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Removes a cgroup with its children; those with processes stay, and so do their parents.
fn empty(group: &Path) {
    for inner in folders(group, "") {
        empty(&inner);
    }
    let _ = fs::remove_dir(group);
}

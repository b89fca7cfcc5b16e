//! Stops a cluster: its daemons by their numbers, then whatever still is in its network namespace,
//! then the namespace. The files stay, for their logs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::command;
use super::daemon::Daemon;
use super::process::{self, Signal};
use super::site::Site;

/// Stops all of it.
pub fn run(site: &Site) -> Result<()> {
    let Some(namespace) = site.namespace_inode() else {
        println!("no cluster runs at {}", site.text());
        return Ok(());
    };
    // 1. The daemons in the reverse order, asked first: what each writes at its end still finds its
    //    reader.
    let mut stopped = 0;
    for daemon in Daemon::all(site.nodes()).into_iter().rev() {
        let Some(pid) = daemon.pid(site) else { continue };
        if daemon.end(site, Signal::Term).is_err() {
            println!("{} did not stop when asked", daemon.name());
            process::signal(pid, Signal::Kill)?;
        }
        stopped += 1;
    }
    // 2. Steps of jobs, and what they started: only they and a person's shell are in this
    //    namespace.
    let rest = process::of_namespace(namespace);
    for pid in &rest {
        process::signal(*pid, Signal::Kill)?;
    }
    process::wait("the end of what jobs left", Duration::from_secs(15), || {
        process::of_namespace(namespace).is_empty()
    })?;
    // 3. What the kernel holds.
    command::outside(&["ip", "netns", "del", &site.namespace()])?;
    cgroups(site);
    println!(
        "stopped {stopped} daemons and {} processes of jobs; the logs stay in {}",
        rest.len(),
        site.text()
    );
    Ok(())
}

/// Removes the empty groups of this cluster's jobs; those of another cluster have other numbers,
/// and the groups of nodes are removed by the last slurmd of that name itself.
fn cgroups(site: &Site) {
    let own = site.first_job()..site.first_job() + 100_000;
    for controller in ["freezer", "memory", "devices", "cpuset", "cpuacct"] {
        for node in folders(&Path::new("/sys/fs/cgroup").join(controller), "slurm_node") {
            for user in folders(&node, "uid_") {
                let jobs = folders(&user, "job_");
                for job in
                    jobs.iter().filter(|job| number(job).is_some_and(|job| own.contains(&job)))
                {
                    empty(job);
                }
                // Refused while another cluster has jobs there.
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

/// Innermost first; a group that is not empty stays, and so do those around it.
fn empty(group: &Path) {
    for inner in folders(group, "") {
        empty(&inner);
    }
    let _ = fs::remove_dir(group);
}

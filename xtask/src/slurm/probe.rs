//! Checks whether the machine can run a cluster, and installs missing programs where that needs no
//! confirmation. Everything that the checks create is removed.

use std::fs;

use anyhow::Result;

use super::cluster::SlurmTestCluster;
use super::conf;
use crate::test_cluster::namespace::NetworkNamespace;
use crate::test_cluster::packages;
use crate::tools;

/// Programs that a cluster needs.
const PROGRAMS: [&str; 12] = [
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "sbatch",
    "sacctmgr",
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "ip",
    "nsenter",
    "setpriv",
];
/// Debian and Ubuntu packages that contain [`PROGRAMS`].
pub const PACKAGES: [&str; 10] = [
    "slurm-wlm",
    "slurmdbd",
    "slurmrestd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-jwt-plugin",
    "munge",
    "mariadb-server",
    "iproute2",
    "util-linux",
];

/// Cgroup v1 controllers that Slurm needs to confine a job to its devices and memory.
const CONTROLLERS: [&str; 4] = ["freezer", "memory", "devices", "cpuset"];

/// Returns the reason for which no cluster can run here, if there is one; installs missing
/// programs.
pub fn obstacle(cluster: &SlurmTestCluster) -> Option<String> {
    if !tools::is_root() {
        return Some("root is required: network namespace, devices, several users".into());
    }
    if let Err(error) = packages::ensure(&PROGRAMS, &PACKAGES) {
        return Some(format!("Slurm cannot be installed: {error:#}"));
    }
    if let Err(error) = NetworkNamespace::probe() {
        return Some(format!("network namespaces cannot be created: {error:#}"));
    }
    if let Err(error) = devices(cluster) {
        return Some(format!("device files cannot be created in {}: {error:#}", cluster.text()));
    }
    None
}

/// Checks that device files can be created in the folder's file system.
fn devices(cluster: &SlurmTestCluster) -> Result<()> {
    let new = !cluster.dir().exists();
    fs::create_dir_all(cluster.dir())?;
    let path = cluster.dir().join("probe-device");
    let made = conf::device(&path, 0);
    // Remove the test file also after a failure.
    let _ = fs::remove_file(&path);
    if new {
        fs::remove_dir(cluster.dir())?;
    }
    made
}

/// Checks that Slurm can confine jobs to their devices and memory.
pub fn cgroups() -> Result<(), String> {
    for controller in CONTROLLERS {
        let folder = format!("/sys/fs/cgroup/{controller}/muster-probe-{}", std::process::id());
        if let Err(error) = fs::create_dir(&folder).and_then(|()| fs::remove_dir(&folder)) {
            // Cgroup v2 is not used: without systemd it is not delegated to Slurm.
            return Err(format!("no cgroup v1 for {controller}: {error}"));
        }
    }
    Ok(())
}

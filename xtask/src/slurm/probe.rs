//! Checks whether the machine can run a cluster, and installs missing programs where that needs no
//! confirmation. Everything that the checks create is removed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;

use super::cluster::SlurmTestCluster;
use super::{command, conf};
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

/// Debian's policy script, which can prevent the start of installed daemons.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Cgroup v1 controllers that Slurm needs to confine a job to its devices and memory.
const CONTROLLERS: [&str; 4] = ["freezer", "memory", "devices", "cpuset"];

/// Returns the reason for which no cluster can run here, if there is one; installs missing
/// programs.
pub fn obstacle(cluster: &SlurmTestCluster) -> Option<String> {
    if !tools::is_root() {
        return Some("root is required: network namespace, devices, several users".into());
    }
    if let Err(error) = install() {
        return Some(format!("Slurm cannot be installed: {error:#}"));
    }
    let probe = format!("muster-probe-{}", std::process::id());
    if let Err(error) = command::outside(&["ip", "netns", "add", &probe]) {
        return Some(format!("network namespaces cannot be created: {error:#}"));
    }
    let removed = command::outside(&["ip", "netns", "del", &probe]);
    if let Err(error) = removed.and(devices(cluster)) {
        return Some(format!("device files cannot be created in {}: {error:#}", cluster.text()));
    }
    None
}

/// Installs missing packages without starting their daemons.
fn install() -> Result<()> {
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| !found(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("missing: {}", missing.join(" "));
    let policy = Path::new(POLICY);
    let own = !policy.exists();
    if own {
        fs::write(policy, "#!/bin/sh\nexit 101\n")?;
        fs::set_permissions(policy, fs::Permissions::from_mode(0o755))?;
    }
    let installed = tools::install(&PACKAGES);
    if own {
        fs::remove_file(policy)?;
    }
    installed?;
    match PROGRAMS.into_iter().find(|program| !found(program)) {
        Some(program) => anyhow::bail!("{program} is still missing after the installation"),
        None => Ok(()),
    }
}

fn found(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|folder| Path::new(folder).join(program).exists())
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

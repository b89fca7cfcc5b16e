//! What the machine lacks for a cluster, said exactly; programs are installed where that is
//! possible without asking. It leaves nothing behind of what it tries.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;

use super::site::Site;
use super::{command, conf};
use crate::tools;

/// Programs, and the packages of Debian and Ubuntu that bring them.
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

/// Debian's switch that keeps an installed daemon from being started.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Controllers of version 1 that Slurm needs to hold a job to its devices and memory.
const CONTROLLERS: [&str; 4] = ["freezer", "memory", "devices", "cpuset"];

/// Why no cluster can run here, if none can; installs what is missing.
pub fn obstacle(site: &Site) -> Option<String> {
    if !tools::is_root() {
        return Some("needs root: network namespace, devices, several users".into());
    }
    if let Err(error) = install() {
        return Some(format!("Slurm cannot be installed: {error:#}"));
    }
    let probe = format!("muster-probe-{}", std::process::id());
    if let Err(error) = command::outside(&["ip", "netns", "add", &probe]) {
        return Some(format!("no network namespaces here: {error:#}"));
    }
    let removed = command::outside(&["ip", "netns", "del", &probe]);
    if let Err(error) = removed.and(devices(site)) {
        return Some(format!("no devices under {}: {error:#}", site.text()));
    }
    None
}

/// Installs what is not there; what it brings does not start by itself.
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

/// A device node can be made in the folder's file system.
fn devices(site: &Site) -> Result<()> {
    let new = !site.dir().exists();
    fs::create_dir_all(site.dir())?;
    let path = site.dir().join("probe-device");
    let made = conf::device(&path, 0);
    // Whatever failed, nothing of the trial stays.
    let _ = fs::remove_file(&path);
    if new {
        fs::remove_dir(site.dir())?;
    }
    made
}

/// Whether jobs are held to their devices and memory; if not, why.
pub fn cgroups() -> Result<(), String> {
    for controller in CONTROLLERS {
        let folder = format!("/sys/fs/cgroup/{controller}/muster-probe-{}", std::process::id());
        if let Err(error) = fs::create_dir(&folder).and_then(|()| fs::remove_dir(&folder)) {
            // Version 2 is left alone: without systemd nobody delegates it to Slurm.
            return Err(format!("no cgroup of version 1 for {controller}: {error}"));
        }
    }
    Ok(())
}

//! Writes the files that the daemons read: configuration, keys, and device files that represent
//! GPUs. The texts are in `conf/`; only values that depend on the folder and the machine are set
//! here.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::cluster::SlurmTestCluster;
use super::command;

const FILES: [(&str, &str); 5] = [
    ("slurm.conf", include_str!("conf/slurm.conf")),
    ("slurmdbd.conf", include_str!("conf/slurmdbd.conf")),
    ("gres.conf", include_str!("conf/gres.conf")),
    ("topology.conf", include_str!("conf/topology.conf")),
    ("cgroup.conf", include_str!("conf/cgroup.conf")),
];

/// Commands that create the tree of accounts and the QOS.
pub const ACCOUNTS: &str = include_str!("conf/accounts.txt");
/// Commands that assign QOS to the accounts, in a second session: the one that creates them cannot.
/// They run before the controller starts, because a running one may not be notified of changes for
/// child accounts (24.11).
pub const SHARES: &str = include_str!("conf/shares.txt");
/// Commands that set limits on GPUs: slurmdbd accepts these only after slurmctld has registered its
/// GPUs. The start waits for the last of them.
pub const LIMITS: &str = include_str!("conf/limits.txt");

/// Major number of NVIDIA's devices; a driver is not needed.
const MAJOR: &str = "195";
/// Number of devices of a node. All nodes share the same files, because each machine of a real
/// cluster has the numbers 0 to 7.
const DEVICES: u8 = 8;

/// Writes all files, into a folder that is empty or was used by a cluster before.
pub fn write(cluster: &SlurmTestCluster, constrained: bool) -> Result<()> {
    for (name, mode) in [
        ("", 0o755),
        ("etc", 0o755),
        ("run", 0o755),
        ("log", 0o755),
        ("spool", 0o755),
        ("state", 0o700),
        ("dev", 0o755),
        ("work", 0o1777),
    ] {
        let folder = cluster.dir().join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        fs::set_permissions(&folder, Permissions::from_mode(mode))?;
    }
    let etc = cluster.dir().join("etc");
    for (name, text) in FILES {
        fs::write(etc.join(name), fill(text, cluster, constrained))?;
    }
    fs::set_permissions(etc.join("slurmdbd.conf"), Permissions::from_mode(0o600))?;
    key(&etc.join("munge.key"), 128)?;
    key(&etc.join("jwt.key"), 32)?;
    for index in 0..DEVICES {
        device(&cluster.dir().join(format!("dev/nvidia{index}")), index)?;
    }
    Ok(())
}

/// Replaces the names in braces in a text.
pub fn fill(text: &str, cluster: &SlurmTestCluster, constrained: bool) -> String {
    let (proctrack, task, prolog) = if constrained {
        ("proctrack/cgroup", "task/cgroup", "Contain")
    } else {
        ("proctrack/linuxproc", "task/none", "Alloc")
    };
    text.replace("{dir}", cluster.text())
        .replace("{proctrack}", proctrack)
        .replace("{task}", task)
        .replace("{prolog}", prolog)
        .replace("{first_job}", &cluster.first_job().to_string())
}

/// Writes a random key that only its owner can read.
fn key(path: &Path, bytes: u64) -> Result<()> {
    let mut secret = Vec::new();
    File::open("/dev/urandom")?.take(bytes).read_to_end(&mut secret)?;
    fs::write(path, [])?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    fs::write(path, secret)?;
    Ok(())
}

/// Creates a character device; Slurm accepts no other file type for a GPU.
pub fn device(path: &Path, minor: u8) -> Result<()> {
    let path = path.to_str().context("the folder's name is UTF-8")?;
    command::outside(&["mknod", "--mode=666", path, "c", MAJOR, &minor.to_string()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_braces_is_filled_in() {
        let cluster = SlurmTestCluster::at(Path::new("/no/such/cluster")).unwrap();
        for (name, text) in FILES.into_iter().chain(super::super::external_config::OVERRIDES) {
            for constrained in [false, true] {
                let filled = fill(text, &cluster, constrained);
                let settings: String =
                    filled.lines().filter(|line| !line.starts_with('#')).collect();
                assert!(!settings.contains('{'), "{name}: {settings}");
            }
        }
    }
}

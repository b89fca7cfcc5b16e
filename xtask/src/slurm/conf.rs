//! Writes what the daemons read: configuration, keys, and the devices that stand for GPUs. The
//! texts are in `conf/`; only what depends on the folder and the machine is decided here.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::command;
use super::site::Site;

const FILES: [(&str, &str); 5] = [
    ("slurm.conf", include_str!("conf/slurm.conf")),
    ("slurmdbd.conf", include_str!("conf/slurmdbd.conf")),
    ("gres.conf", include_str!("conf/gres.conf")),
    ("topology.conf", include_str!("conf/topology.conf")),
    ("cgroup.conf", include_str!("conf/cgroup.conf")),
];

/// The tree of accounts and the QOS.
pub const ACCOUNTS: &str = include_str!("conf/accounts.txt");
/// Which QOS the accounts have: the session that makes them does not know them yet. A controller
/// that runs already may not hear of it for the accounts below (24.11), so it comes before that.
pub const SHARES: &str = include_str!("conf/shares.txt");
/// Limits on GPUs: slurmdbd knows that there are any only after slurmctld has told it. Last is what
/// the start waits for.
pub const LIMITS: &str = include_str!("conf/limits.txt");

/// Major number of NVIDIA's devices; no driver needs to have it.
const MAJOR: &str = "195";
/// Devices of a node; all nodes have the same, as each machine of a real cluster has its own
/// numbers 0 to 7.
const DEVICES: u8 = 8;

/// Makes all of it, in a folder that is empty or was ours.
pub fn write(site: &Site, constrained: bool) -> Result<()> {
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
        let folder = site.dir().join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        fs::set_permissions(&folder, Permissions::from_mode(mode))?;
    }
    let etc = site.dir().join("etc");
    for (name, text) in FILES {
        fs::write(etc.join(name), fill(text, site, constrained))?;
    }
    fs::set_permissions(etc.join("slurmdbd.conf"), Permissions::from_mode(0o600))?;
    key(&etc.join("munge.key"), 128)?;
    key(&etc.join("jwt.key"), 32)?;
    for index in 0..DEVICES {
        device(&site.dir().join(format!("dev/nvidia{index}")), index)?;
    }
    Ok(())
}

/// A text with its names in braces filled in.
pub fn fill(text: &str, site: &Site, constrained: bool) -> String {
    let (proctrack, task, prolog) = match constrained {
        true => ("proctrack/cgroup", "task/cgroup", "Contain"),
        false => ("proctrack/linuxproc", "task/none", "Alloc"),
    };
    text.replace("{dir}", site.text())
        .replace("{proctrack}", proctrack)
        .replace("{task}", task)
        .replace("{prolog}", prolog)
        .replace("{first_job}", &site.first_job().to_string())
}

/// A key that nobody else reads.
fn key(path: &Path, bytes: u64) -> Result<()> {
    let mut secret = Vec::new();
    File::open("/dev/urandom")?.take(bytes).read_to_end(&mut secret)?;
    fs::write(path, [])?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    fs::write(path, secret)?;
    Ok(())
}

/// A character device; Slurm takes no other file for a GPU.
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
        let site = Site::at(Path::new("/no/such/cluster")).unwrap();
        for (name, text) in FILES.into_iter().chain(super::super::given::OVERRIDES) {
            for constrained in [false, true] {
                let filled = fill(text, &site, constrained);
                let settings: String =
                    filled.lines().filter(|line| !line.starts_with('#')).collect();
                assert!(!settings.contains('{'), "{name}: {settings}");
            }
        }
    }
}

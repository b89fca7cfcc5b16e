//! The network namespace of a cluster, in which every port is free and nothing is reachable from
//! outside. It exists while the cluster is up.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{command, folder};

/// A network namespace, which need not exist.
pub struct NetworkNamespace {
    name: String,
}

impl NetworkNamespace {
    /// Returns the namespace of a cluster. Its name is derived from the folder, so that clusters
    /// never share one.
    pub fn of(kind: &str, dir: &Path) -> Self {
        let number = folder::fnv(dir.as_os_str().as_encoded_bytes());
        Self { name: format!("muster-{kind}-{:08x}", number & 0xffff_ffff) }
    }

    /// Returns its name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of its file, which exists while it does.
    pub fn file(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// Returns the inode of the namespace, which identifies it; `None` while it does not exist.
    pub fn inode(&self) -> Option<u64> {
        fs::metadata(self.file()).ok().map(|file| file.ino())
    }

    /// Creates it with a loopback device that has an additional address, such as `10.99.0.1/32`.
    pub fn create(&self, address: &str) -> Result<()> {
        command::outside(&["ip", "netns", "add", &self.name])?;
        command::outside(&["ip", "-n", &self.name, "link", "set", "lo", "up"])?;
        command::outside(&["ip", "-n", &self.name, "addr", "add", address, "dev", "lo"])?;
        Ok(())
    }

    /// Deletes it; its processes keep it alive without a name.
    pub fn delete(&self) -> Result<()> {
        command::outside(&["ip", "netns", "del", &self.name]).map(drop)
    }

    /// Returns a command prefix that runs inside the namespace.
    pub fn prefix(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file().display()));
        command
    }

    /// Fails if this process cannot create namespaces.
    pub fn probe() -> Result<()> {
        let probe = Self { name: format!("muster-probe-{}", std::process::id()) };
        command::outside(&["ip", "netns", "add", &probe.name])?;
        probe.delete()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_have_different_namespaces() {
        let name = |kind, dir| NetworkNamespace::of(kind, Path::new(dir)).name;
        assert_ne!(name("slurm", "/no/such/a"), name("slurm", "/no/such/b"));
        assert_ne!(name("slurm", "/no/such/a"), name("kubernetes", "/no/such/a"));
    }
}

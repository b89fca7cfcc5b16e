//! Paths and names of a cluster: its folder, network namespace and files. It starts nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Number of nodes of a cluster, and the maximum.
pub const NODES: u8 = 8;

/// Maximum length of the folder's path: the kernel accepts 107 bytes for the path of a socket in
/// it.
const MAX_DIR_BYTES: usize = 80;

/// A test cluster, running or not.
pub struct SlurmTestCluster {
    dir: PathBuf,
    number: u64,
}

impl SlurmTestCluster {
    /// Returns the cluster of a folder, which need not exist yet.
    pub fn at(dir: &Path) -> Result<Self> {
        let absolute = std::path::absolute(dir)?;
        let dir = fs::canonicalize(&absolute).unwrap_or(absolute);
        let text = dir.to_str().context("the folder's name is not UTF-8")?;
        if text.len() > MAX_DIR_BYTES
            || text.contains(|c: char| c.is_whitespace() || "\"'#,=".contains(c))
        {
            bail!(
                "{text}: Slurm needs a short path without spaces, quotes or commas\nhint: choose another DIR"
            );
        }
        let number = fnv(text.as_bytes());
        Ok(Self { dir, number })
    }

    /// Returns the folder of the cluster.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the folder as text.
    pub fn text(&self) -> &str {
        self.dir.to_str().expect("checked in `at`")
    }

    /// Returns the name of the network namespace, derived from the folder, so that clusters never
    /// share one.
    pub fn namespace(&self) -> String {
        format!("muster-slurm-{:08x}", self.number & 0xffff_ffff)
    }

    /// Returns the path of the namespace file.
    pub fn namespace_file(&self) -> PathBuf {
        Path::new("/run/netns").join(self.namespace())
    }

    /// Returns the inode of the namespace, which identifies it; `None` while the cluster is down.
    pub fn namespace_inode(&self) -> Option<u64> {
        fs::metadata(self.namespace_file()).ok().map(|file| file.ino())
    }

    /// Returns the first job number. Clusters have different ranges, because cgroups v1 are named
    /// after node and job, machine-wide.
    pub fn first_job(&self) -> u64 {
        (1 + self.number % 600) * 100_000
    }

    /// Returns the path of the facts file, which marks the folder as a cluster's and describes it.
    pub fn facts(&self) -> PathBuf {
        self.dir.join("facts")
    }

    /// Returns the number of nodes, from the facts file.
    pub fn nodes(&self) -> u8 {
        let facts = fs::read_to_string(self.facts()).unwrap_or_default();
        let nodes = facts.lines().find_map(|line| line.strip_prefix("nodes: ")?.parse().ok());
        nodes.unwrap_or(NODES)
    }

    /// Returns the path of a daemon's standard output and error.
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join("log").join(format!("{name}.out"))
    }

    /// Returns the path of a daemon's pid file.
    pub fn pid_file(&self, name: &str) -> PathBuf {
        self.dir.join("run").join(format!("{name}.pid"))
    }

    /// Returns a command prefix that runs inside the namespace, where Slurm's commands find the
    /// cluster.
    pub fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace_file().display()));
        command.env("SLURM_CONF", self.dir.join("etc/slurm.conf")).env_remove("SLURM_JWT");
        command
    }

    /// Fails when the cluster is down.
    pub fn require_up(&self) -> Result<()> {
        if self.namespace_inode().is_none() {
            bail!("no cluster is running at {0}\nhint: cargo xtask slurm up {0}", self.text());
        }
        Ok(())
    }
}

/// FNV-1a hash, which is the same in every build.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_have_different_namespaces_and_job_numbers() {
        let a = SlurmTestCluster::at(Path::new("/no/such/a")).unwrap();
        let b = SlurmTestCluster::at(Path::new("/no/such/b")).unwrap();
        assert_ne!(a.namespace(), b.namespace());
        assert!(a.first_job().abs_diff(b.first_job()) >= 100_000);
        assert!(a.first_job() + 100_000 < 67_108_863, "the largest number that Slurm gives");
    }

    #[test]
    fn a_folder_with_an_invalid_path_is_rejected() {
        assert!(SlurmTestCluster::at(Path::new("/no/such/with space")).is_err());
        assert!(SlurmTestCluster::at(&Path::new("/no").join("x".repeat(100))).is_err());
    }
}

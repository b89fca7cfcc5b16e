//! Paths and names of a cluster: its folder, network namespace and files. It starts nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::test_cluster::folder;
use crate::test_cluster::namespace::NetworkNamespace;

/// Number of nodes of a cluster, and the maximum.
pub const NODES: u8 = 8;

/// A test cluster, running or not.
pub struct SlurmTestCluster {
    dir: PathBuf,
    namespace: NetworkNamespace,
}

impl SlurmTestCluster {
    /// Returns the cluster of a folder, which need not exist yet.
    pub fn at(dir: &Path) -> Result<Self> {
        let dir = folder::checked(dir)?;
        let namespace = NetworkNamespace::of("slurm", &dir);
        Ok(Self { dir, namespace })
    }

    /// Returns the folder of the cluster.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the folder as text.
    pub fn text(&self) -> &str {
        self.dir.to_str().expect("checked in `at`")
    }

    /// Returns the network namespace of the daemons.
    pub fn namespace(&self) -> &NetworkNamespace {
        &self.namespace
    }

    /// Returns the first job number. Clusters have different ranges, because cgroups v1 are named
    /// after node and job, machine-wide.
    pub fn first_job(&self) -> u64 {
        (1 + folder::fnv(self.text().as_bytes()) % 600) * 100_000
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
        let mut command = self.namespace.prefix();
        command.env("SLURM_CONF", self.dir.join("etc/slurm.conf")).env_remove("SLURM_JWT");
        command
    }

    /// Fails when the cluster is down.
    pub fn require_up(&self) -> Result<()> {
        if self.namespace.inode().is_none() {
            bail!("no cluster is running at {0}\nhint: cargo xtask slurm up {0}", self.text());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_have_different_job_numbers() {
        let a = SlurmTestCluster::at(Path::new("/no/such/a")).unwrap();
        let b = SlurmTestCluster::at(Path::new("/no/such/b")).unwrap();
        assert!(a.first_job().abs_diff(b.first_job()) >= 100_000);
        assert!(a.first_job() + 100_000 < 67_108_863, "the largest number that Slurm gives");
    }
}

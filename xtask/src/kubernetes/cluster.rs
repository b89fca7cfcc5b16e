//! Paths and names of a cluster: its folder, network namespace and files. It starts no daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::options::ClusterOptions;
use crate::test_cluster::namespace::NetworkNamespace;
use crate::test_cluster::{command, folder};

/// Address of the API server, which only the namespace has.
pub const API_ADDRESS: &str = "10.98.0.1";

/// Port of the API server: that of its Service, whose address it has, too.
pub const API_PORT: u16 = 443;

/// A test cluster, running or not.
pub struct KubernetesTestCluster {
    dir: PathBuf,
    namespace: NetworkNamespace,
}

impl KubernetesTestCluster {
    /// Returns the cluster of a folder, which need not exist yet.
    pub fn at(dir: &Path) -> Result<Self> {
        let dir = folder::checked(dir)?;
        let namespace = NetworkNamespace::of("kubernetes", &dir);
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

    /// Returns the network namespace of all programs.
    pub fn namespace(&self) -> &NetworkNamespace {
        &self.namespace
    }

    /// Returns the path of the facts file, which marks the folder as a cluster's and describes it.
    pub fn facts(&self) -> PathBuf {
        self.dir.join("facts")
    }

    /// Returns the options with which the cluster was started.
    pub fn options(&self) -> Result<ClusterOptions> {
        ClusterOptions::from_lines(&fs::read_to_string(self.facts())?)
    }

    /// Returns the path of a program's standard output and error.
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join("log").join(format!("{name}.out"))
    }

    /// Returns the path of a program's pid file.
    pub fn pid_file(&self, name: &str) -> PathBuf {
        self.dir.join("run").join(format!("{name}.pid"))
    }

    /// Returns the link to the folder of the programs.
    pub fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// Returns the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// Returns a command prefix that runs inside the namespace, with `kubectl` as the
    /// administrator's.
    pub fn inside(&self) -> Command {
        let mut command = self.namespace.prefix();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.bin().display()));
        command.env("KUBECONFIG", self.kubeconfig());
        command
    }

    /// Runs a program inside the namespace; returns its output, or an error that contains it.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        command::under(self.inside(), words)
    }

    /// Fails when the cluster is down.
    pub fn require_up(&self) -> Result<()> {
        if self.namespace.inode().is_none() {
            bail!("no cluster is running at {0}\nhint: cargo xtask kubernetes up {0}", self.text());
        }
        Ok(())
    }
}

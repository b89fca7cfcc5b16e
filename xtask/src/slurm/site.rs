//! Where a cluster lies: its folder, its network namespace, the names of its files. It starts
//! nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::daemon::NODES;

/// Sockets lie in the folder; the kernel takes 107 bytes for a socket's path.
const MAX_DIR_BYTES: usize = 80;

/// One cluster, running or not.
pub struct Site {
    dir: PathBuf,
    number: u64,
}

impl Site {
    /// The cluster of a folder, which need not exist yet.
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

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder as text.
    pub fn text(&self) -> &str {
        self.dir.to_str().expect("checked when it was made")
    }

    /// Name of the network namespace, from the folder, so that two clusters never meet.
    pub fn namespace(&self) -> String {
        format!("muster-slurm-{:08x}", self.number & 0xffff_ffff)
    }

    /// The namespace as a file.
    pub fn namespace_file(&self) -> PathBuf {
        Path::new("/run/netns").join(self.namespace())
    }

    /// Which namespace a process of this cluster is in; none while the cluster is down.
    pub fn namespace_inode(&self) -> Option<u64> {
        fs::metadata(self.namespace_file()).ok().map(|file| file.ino())
    }

    /// Job numbers of two clusters differ: cgroups of version 1 are named after node and job, and
    /// seen by the whole machine.
    pub fn first_job(&self) -> u64 {
        (1 + self.number % 600) * 100_000
    }

    /// What marks the folder as ours, and says what this cluster can show.
    pub fn facts(&self) -> PathBuf {
        self.dir.join("facts")
    }

    /// How many nodes it has, as it says of itself.
    pub fn nodes(&self) -> u8 {
        let facts = fs::read_to_string(self.facts()).unwrap_or_default();
        let said = facts.lines().find_map(|line| line.strip_prefix("nodes: ")?.parse().ok());
        said.unwrap_or(NODES)
    }

    /// What a daemon writes, and its predecessor wrote.
    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join("log").join(format!("{name}.out"))
    }

    /// Which process the daemon of this name is.
    pub fn pid_file(&self, name: &str) -> PathBuf {
        self.dir.join("run").join(format!("{name}.pid"))
    }

    /// A command line that goes on inside the namespace, where Slurm's own commands find the
    /// cluster.
    pub fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace_file().display()));
        command.env("SLURM_CONF", self.dir.join("etc/slurm.conf")).env_remove("SLURM_JWT");
        command
    }

    /// Refuses to go on where there is no cluster.
    pub fn require_up(&self) -> Result<()> {
        if self.namespace_inode().is_none() {
            bail!("no cluster runs at {0}\nhint: cargo xtask slurm up {0}", self.text());
        }
        Ok(())
    }
}

/// FNV-1a: the same name for the same folder in every build.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_have_two_namespaces_and_no_common_job_numbers() {
        let (a, b) = (
            Site::at(Path::new("/no/such/a")).unwrap(),
            Site::at(Path::new("/no/such/b")).unwrap(),
        );
        assert_ne!(a.namespace(), b.namespace());
        assert!(a.first_job().abs_diff(b.first_job()) >= 100_000);
        assert!(a.first_job() + 100_000 < 67_108_863, "the largest number that Slurm gives");
    }

    #[test]
    fn a_folder_that_slurm_cannot_name_is_refused() {
        assert!(Site::at(Path::new("/no/such/with space")).is_err());
        assert!(Site::at(&Path::new("/no").join("x".repeat(100))).is_err());
    }
}

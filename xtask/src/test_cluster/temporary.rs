//! Clusters of the test command: started for some tests and stopped afterwards, whatever the result.
//! Each verb is a process of its own, as a user would run it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Returns the folder of a cluster of this process: one of its kind and number.
pub fn dir(kind: &str, number: usize) -> PathBuf {
    std::env::temp_dir().join(format!("{}{}-{number}", prefix(kind), std::process::id()))
}

/// Returns the start of the names of these folders; the pid of the process that started the cluster
/// follows.
fn prefix(kind: &str) -> String {
    format!("muster-{kind}-")
}

/// A cluster that is stopped, and whose folder is removed, when this is dropped; also in a panic.
pub struct TemporaryCluster {
    kind: &'static str,
    dir: PathBuf,
}

impl TemporaryCluster {
    /// Starts a cluster. The output of its start and end is shown only after a failure.
    pub fn start(kind: &'static str, dir: &Path, options: &[&str]) -> Result<Self> {
        let running = Self { kind, dir: dir.to_path_buf() };
        running.verb("up", options)?;
        Ok(running)
    }

    /// Runs `cargo xtask KIND VERB DIR OPTIONS` ; its output is part of the error.
    fn verb(&self, verb: &str, options: &[&str]) -> Result<()> {
        let mut command = Command::new(own_path()?);
        command.args([self.kind, verb]).arg(&self.dir).args(options).stdin(Stdio::null());
        let output = command.output()?;
        if !output.status.success() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            bail!("{} {verb}\n{}{}", self.kind, text(&output.stdout), text(&output.stderr));
        }
        Ok(())
    }
}

impl Drop for TemporaryCluster {
    fn drop(&mut self) {
        let ended = self.verb("down", &[]).and_then(|()| Ok(fs::remove_dir_all(&self.dir)?));
        if let Err(error) = ended {
            println!("the cluster was not stopped cleanly: {error:#}");
        }
    }
}

/// Stops clusters of earlier runs that were killed.
pub fn remove_stale(kind: &'static str) -> Result<()> {
    for entry in fs::read_dir(std::env::temp_dir())?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| pid_of(kind, name)) else { continue };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            println!("stopping the cluster that process {pid} left:");
            drop(TemporaryCluster { kind, dir: entry.path() });
        }
    }
    Ok(())
}

/// Returns the pid in the name of a cluster's folder.
fn pid_of(kind: &str, name: &str) -> Option<u32> {
    let rest = name.strip_prefix(&prefix(kind))?;
    rest.split_once('-').map_or(rest, |(pid, _)| pid).parse().ok()
}

/// Returns the path of this program. If it was rebuilt meanwhile, the kernel appends " (deleted)"
/// to the path of the running file.
pub fn own_path() -> Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the path of this program")?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_a_run_are_found_by_its_process() {
        let own = dir("slurm", 2);
        let name = own.file_name().unwrap().to_str().unwrap();
        assert_eq!(pid_of("slurm", name), Some(std::process::id()));
        assert_eq!(pid_of("kubernetes", name), None);
        assert_eq!(pid_of("slurm", "muster-slurm-17"), Some(17));
        assert_eq!(pid_of("slurm", "muster-slurm-x-1"), None);
    }
}

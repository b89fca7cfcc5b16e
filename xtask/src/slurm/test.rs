//! Runs the tests that need a Slurm cluster: starts one, runs them inside its namespace, and stops
//! it, whatever their result. Where no cluster can run the reason is printed, and the tests count
//! as skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use super::cluster::SlurmTestCluster;
use super::{down, probe, up};
use crate::cargo;
use crate::suite::count;
use crate::totals::Totals;

/// Time limit for all tests together, in seconds.
const SECS: &str = "1500";

/// Prefix of these clusters' folders; the pid of the process that started them follows.
const PREFIX: &str = "muster-slurm-";

/// Tests that make the controller lose jobs. Slurm then reuses their numbers, and `muster` warns of
/// the loss, so they run in a separate cluster, after the others.
const SEPARATE_CLUSTER: [&str; 2] = ["reused_numbers::", "reconcile::"];

const TARGET: [&str; 6] = ["test", "--package", "muster", "--test", "slurm", "--locked"];

/// Runs `cargo xtask slurm test --release`: the tests inside the root of a release. They are built
/// outside, where the compiler is.
pub fn of_release(root: &Path, release: &str, filter: Option<&str>) -> Result<ExitCode> {
    let mut totals = Totals::default();
    count(Command::new(cargo()).args(TARGET).arg("--no-run").current_dir(root), &mut totals)?;
    let args: Vec<&str> = ["slurm", "test"].into_iter().chain(filter).collect();
    super::root::enter(root, release, &args)
}

/// Runs `cargo xtask slurm test`.
pub fn run_standalone(root: &Path, filter: Option<&str>) -> Result<ExitCode> {
    let mut totals = Totals::default();
    let result = run(root, filter, &mut totals);
    println!("{totals}");
    result.map(|()| ExitCode::SUCCESS)
}

/// Runs the step of the test command.
pub fn run(root: &Path, filter: Option<&str>, totals: &mut Totals) -> Result<()> {
    let temporary = std::env::temp_dir();
    remove_stale_clusters(&temporary)?;
    let cluster = SlurmTestCluster::at(&temporary.join(format!("{PREFIX}{}", std::process::id())))?;
    if let Some(obstacle) = probe::obstacle(&cluster) {
        println!("no Slurm cluster can run here, its tests are skipped: {obstacle}");
        return count(Command::new(cargo()).args(TARGET).args(filter).current_dir(root), totals);
    }
    // Compile outside the namespace, which has no network.
    count(Command::new(cargo()).args(TARGET).arg("--no-run").current_dir(root), totals)?;
    match filter {
        Some(filter) => in_a_cluster(root, &cluster, &[filter], totals),
        None => {
            let skipped: Vec<&str> =
                SEPARATE_CLUSTER.iter().flat_map(|tests| ["--skip", tests]).collect();
            let most = in_a_cluster(root, &cluster, &skipped, totals);
            most.and(in_a_cluster(root, &cluster, &SEPARATE_CLUSTER, totals))
        }
    }
}

/// Starts the cluster, runs the tests that these arguments select, and stops it.
fn in_a_cluster(
    root: &Path,
    cluster: &SlurmTestCluster,
    words: &[&str],
    totals: &mut Totals,
) -> Result<()> {
    let running = ClusterGuard(cluster);
    up::run(cluster, None)?;
    let mut tests = cluster.inside();
    tests.args(["timeout", "--kill-after=5", SECS]).arg(cargo()).args(TARGET);
    tests.args(["--", "--include-ignored", "--test-threads=1"]).args(words).current_dir(root);
    tests.env("MUSTER_TEST_SLURM", cluster.dir());
    tests.env("MUSTER_XTASK", own_path()?);
    let result =
        count(&mut tests, totals).with_context(|| format!("the tests, limited to {SECS} s"));
    drop(running);
    result
}

/// Returns the path of this program. If it was rebuilt meanwhile, the kernel appends " (deleted)"
/// to the path of the running file.
pub fn own_path() -> Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the path of this program")?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), PathBuf::from))
}

/// Stops the cluster when dropped, also in a panic.
struct ClusterGuard<'a>(&'a SlurmTestCluster);

impl Drop for ClusterGuard<'_> {
    fn drop(&mut self) {
        let ended = down::run(self.0).and_then(|()| Ok(fs::remove_dir_all(self.0.dir())?));
        if let Err(error) = ended {
            println!("the cluster was not stopped cleanly: {error:#}");
        }
    }
}

/// Stops clusters of earlier runs that were killed.
fn remove_stale_clusters(temporary: &Path) -> Result<()> {
    for entry in fs::read_dir(temporary)?.flatten() {
        let name = entry.file_name();
        let Some(pid) =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok())
        else {
            continue;
        };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            println!("stopping the cluster that process {pid} left:");
            drop(ClusterGuard(&SlurmTestCluster::at(&entry.path())?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_a_separate_cluster_are_named_as_their_files_are() {
        for module in SEPARATE_CLUSTER {
            let file = format!("crates/cli/tests/slurm/{}.rs", module.trim_end_matches("::"));
            assert!(crate::root().join(&file).exists(), "there is no {file}");
        }
    }
}

//! Runs the tests that need a Slurm cluster: starts one, runs them inside its namespace, stops it,
//! whatever became of them. Where there can be no cluster it says why, and the tests count as
//! skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use super::site::Site;
use super::{down, probe, up};
use crate::cargo;
use crate::suite::count;
use crate::totals::Totals;

/// Longest time for all tests together.
const SECS: &str = "1500";

/// Folders of such clusters, with the number of the process that started them.
const PREFIX: &str = "muster-slurm-";

/// Tests after which the controller has forgotten jobs. Slurm then reuses their numbers, and
/// `muster` warns of what was lost, so they run in a cluster of their own, after the others.
const SPOILERS: [&str; 2] = ["given_away::", "reconcile::"];

const TARGET: [&str; 6] = ["test", "--package", "muster", "--test", "slurm", "--locked"];

/// `cargo xtask slurm test --release`: the same inside the root of a release. The tests are built
/// outside, where the compiler is.
pub fn of_release(root: &Path, release: &str, filter: Option<&str>) -> Result<ExitCode> {
    let mut totals = Totals::default();
    count(Command::new(cargo()).args(TARGET).arg("--no-run").current_dir(root), &mut totals)?;
    let args: Vec<&str> = ["slurm", "test"].into_iter().chain(filter).collect();
    super::root::enter(root, release, &args)
}

/// `cargo xtask slurm test`.
pub fn alone(root: &Path, filter: Option<&str>) -> Result<ExitCode> {
    let mut totals = Totals::default();
    let result = run(root, filter, &mut totals);
    println!("{totals}");
    result.map(|()| ExitCode::SUCCESS)
}

/// The step of the test command.
pub fn run(root: &Path, filter: Option<&str>, totals: &mut Totals) -> Result<()> {
    let temporary = std::env::temp_dir();
    sweep(&temporary)?;
    let site = Site::at(&temporary.join(format!("{PREFIX}{}", std::process::id())))?;
    if let Some(obstacle) = probe::obstacle(&site) {
        println!("no Slurm cluster here, its tests are skipped: {obstacle}");
        return count(Command::new(cargo()).args(TARGET).args(filter).current_dir(root), totals);
    }
    // Compiled outside, where there is a network.
    count(Command::new(cargo()).args(TARGET).arg("--no-run").current_dir(root), totals)?;
    match filter {
        Some(filter) => in_a_cluster(root, &site, &[filter], totals),
        None => {
            let skipped: Vec<&str> = SPOILERS.iter().flat_map(|tests| ["--skip", tests]).collect();
            let most = in_a_cluster(root, &site, &skipped, totals);
            most.and(in_a_cluster(root, &site, &SPOILERS, totals))
        }
    }
}

/// Starts the cluster, runs the tests that these words choose, and stops it.
fn in_a_cluster(root: &Path, site: &Site, words: &[&str], totals: &mut Totals) -> Result<()> {
    let running = Running(site);
    up::run(site, None)?;
    let mut tests = site.inside();
    tests.args(["timeout", "--kill-after=5", SECS]).arg(cargo()).args(TARGET);
    tests.args(["--", "--include-ignored", "--test-threads=1"]).args(words).current_dir(root);
    tests.env("MUSTER_TEST_SLURM", site.dir());
    tests.env("MUSTER_XTASK", own_path()?);
    let result =
        count(&mut tests, totals).with_context(|| format!("the tests, which have {SECS} s"));
    drop(running);
    result
}

/// Where this program lies. The tests before may have built it anew: the kernel then calls the file
/// that runs deleted.
pub fn own_path() -> Result<PathBuf> {
    let path = std::env::current_exe().context("where this program lies")?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), PathBuf::from))
}

/// Ends the cluster when it goes out of scope, also in a panic.
struct Running<'a>(&'a Site);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let ended = down::run(self.0).and_then(|()| Ok(fs::remove_dir_all(self.0.dir())?));
        if let Err(error) = ended {
            println!("the cluster was not stopped cleanly: {error:#}");
        }
    }
}

/// Ends clusters of runs that were themselves killed.
fn sweep(temporary: &Path) -> Result<()> {
    for entry in fs::read_dir(temporary)?.flatten() {
        let name = entry.file_name();
        let Some(pid) =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok())
        else {
            continue;
        };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            println!("left by process {pid}:");
            drop(Running(&Site::at(&entry.path())?));
        }
    }
    Ok(())
}

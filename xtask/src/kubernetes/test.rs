//! Runs the tests that need a Kubernetes cluster: those of real nodes in one cluster, all others in one with
//! fake nodes. Each is started for them and stopped afterwards, whatever the result. Where it cannot run
//! the reason is printed, and its tests count as skipped.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::cluster::KubernetesTestCluster;
use super::{binary, probe};
use crate::binaries::{self, TestBinary, watch};
use crate::test_cluster::temporary::{self, TemporaryCluster, own_path};
use crate::totals::Totals;

/// Name of the test target, and of the command that starts a cluster.
const TARGET: &str = "kubernetes";

/// Time limit for the tests of a cluster, in seconds.
const SECS: &str = "2700";

/// Module of the tests that need real nodes.
const OF_REAL_NODES: &str = "real_nodes::";

/// Options of the cluster of the other tests: PodGroups are off by default.
const FAKE_NODES: [&str; 2] = ["--gate", "GenericWorkload"];

/// Options of the cluster of tests of real nodes.
const REAL_NODES: [&str; 4] = ["--nodes", "2", "--gpus", "4"];

/// Reason for which no cluster can run here, if there is one; an error if the binary cannot be built for
/// any other reason.
pub type Preparation = Result<Option<String>>;

/// Runs `cargo xtask kubernetes test`.
pub fn run_standalone(root: &Path, filter: Option<&str>) -> Result<ExitCode> {
    let mut totals = Totals::default();
    let result = run(root, prepare(root), filter, &mut totals);
    print!("the slowest tests, in seconds:\n{}", totals.slowest());
    println!("{totals}");
    result.map(|()| ExitCode::SUCCESS)
}

/// Installs what a cluster needs besides its binary, if this machine can run one: before steps that run
/// beside each other, each of which may install packages.
pub fn install() -> Result<()> {
    if let Some(obstacle) = probe::machine().or_else(probe::real_nodes) {
        println!("no Kubernetes cluster with real nodes can run here: {obstacle}");
    }
    Ok(())
}

/// Builds the binary, if this machine can run a cluster. That takes minutes, so other steps run
/// meanwhile.
pub fn prepare(root: &Path) -> Preparation {
    match probe::obstacle(root) {
        Some(obstacle) => Ok(Some(obstacle)),
        None => binary::ensure(root).map(|_| None),
    }
}

/// Runs the step of the test command.
pub fn run(
    root: &Path,
    preparation: Preparation,
    filter: Option<&str>,
    totals: &mut Totals,
) -> Result<()> {
    temporary::remove_stale(TARGET)?;
    // Compile outside the namespace, which has no network.
    let tests = binaries::with_own_step(root, TARGET)?;
    let obstacle = preparation?;
    let mut names = tests.list()?;
    names.retain(|name| name.contains(filter.unwrap_or_default()));
    let (of_real, of_fake): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| name.starts_with(OF_REAL_NODES));
    let obstacle_of_real = if of_real.is_empty() { None } else { probe::real_nodes() };
    let parts = [
        ("kubernetes", &FAKE_NODES[..], of_fake, obstacle.clone()),
        ("kubernetes, real nodes", &REAL_NODES[..], of_real, obstacle.or(obstacle_of_real)),
    ];
    let mut failed = Vec::new();
    for (number, (title, options, names, obstacle)) in parts.into_iter().enumerate() {
        if names.is_empty() {
            continue;
        }
        let result = match obstacle {
            Some(obstacle) => {
                println!("{title}: no cluster can run here, its tests are skipped: {obstacle}");
                watch(tests.command().arg("--exact").args(&names), title, totals)
            }
            None => {
                let dir = temporary::dir(TARGET, number);
                in_a_cluster(&tests, &dir, title, options, &names, totals)
            }
        };
        failed.extend(result.err().map(|error| format!("{title}: {error:#}")));
    }
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

/// Starts a cluster with these options, runs the tests, and stops it.
fn in_a_cluster(
    tests: &TestBinary,
    dir: &Path,
    title: &str,
    options: &[&str],
    names: &[String],
    totals: &mut Totals,
) -> Result<()> {
    println!("{title}: starting a cluster in {}", dir.display());
    let running = TemporaryCluster::start(TARGET, dir, options)?;
    let mut limited = KubernetesTestCluster::at(dir)?.inside();
    limited.args(["timeout", "--kill-after=5", SECS]);
    let mut command = tests.command_under(limited);
    command.args(["--include-ignored", "--test-threads=1", "--exact"]).args(names);
    command.env("MUSTER_TEST_KUBERNETES", dir).env("MUSTER_XTASK", own_path()?);
    let result = watch(&mut command, title, totals);
    drop(running);
    result.with_context(|| format!("limited to {SECS} s"))
}

//! Runs the tests that need a Kubernetes cluster, in one that is started for them and stopped afterwards,
//! whatever the result. Where no cluster can run the reason is printed, and the tests count as skipped.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::cluster::KubernetesTestCluster;
use super::{binary, probe};
use crate::binaries::{self, watch};
use crate::test_cluster::temporary::{self, TemporaryCluster, own_path};
use crate::totals::Totals;

/// Name of the test target, and of the command that starts a cluster.
const TARGET: &str = "kubernetes";

/// Time limit for all tests, in seconds.
const SECS: &str = "1500";

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
    if let Some(obstacle) = probe::machine() {
        println!("no Kubernetes cluster can run here: {obstacle}");
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
    if let Some(obstacle) = preparation? {
        println!("no Kubernetes cluster can run here, its tests are skipped: {obstacle}");
        return watch(tests.command().args(filter), TARGET, totals);
    }
    let dir = temporary::dir(TARGET, 0);
    println!("kubernetes: starting a cluster in {}", dir.display());
    let running = TemporaryCluster::start(TARGET, &dir, &[])?;
    let mut limited = KubernetesTestCluster::at(&dir)?.inside();
    limited.args(["timeout", "--kill-after=5", SECS]);
    let mut command = tests.command_under(limited);
    command.args(["--include-ignored", "--test-threads=1"]).args(filter);
    command.env("MUSTER_TEST_KUBERNETES", &dir).env("MUSTER_XTASK", own_path()?);
    let result = watch(&mut command, TARGET, totals);
    drop(running);
    result.with_context(|| format!("limited to {SECS} s"))
}

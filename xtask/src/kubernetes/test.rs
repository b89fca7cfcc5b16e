//! Runs the tests that need a Kubernetes cluster: those of real nodes in one cluster, all others in one with
//! fake nodes. Each is started for them and stopped afterwards, whatever the result. Where it cannot run
//! the reason is printed, and its tests count as skipped. A run of all tests also finds rights of the scheduler
//! that it does not use.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use super::audit::RightsAudit;
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
const FAKE_NODES: [&str; 4] = ["--gate", "GenericWorkload", "--audit", SCHEDULER];

/// Options of the cluster of tests of real nodes.
const REAL_NODES: [&str; 6] = ["--nodes", "2", "--gpus", "4", "--audit", SCHEDULER];

/// Service account of the scheduler, whose roles have the same name.
const SCHEDULER: &str = "muster-system/muster-scheduler";
const ROLE: &str = "muster-scheduler";

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
    let muster = super::target(root).join("debug/muster");
    let mut audit = RightsAudit::default();
    let mut is_whole = filter.is_none();
    for (number, (title, options, names, obstacle)) in parts.into_iter().enumerate() {
        if names.is_empty() {
            continue;
        }
        is_whole &= obstacle.is_none();
        let result = match obstacle {
            Some(obstacle) => {
                println!("{title}: no cluster can run here, its tests are skipped: {obstacle}");
                watch(tests.command().arg("--exact").args(&names), title, totals)
            }
            None => {
                let dir = temporary::dir(TARGET, number);
                in_a_cluster((&tests, &muster), &dir, (title, options), &names, &mut audit, totals)
            }
        };
        failed.extend(result.err().map(|error| format!("{title}: {error:#}")));
    }
    if is_whole && failed.is_empty() {
        failed.extend(judge(&audit));
    }
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

/// Says which rights of the scheduler no test used.
fn judge(audit: &RightsAudit) -> Option<String> {
    let untested = audit.untested();
    if !untested.is_empty() {
        println!("rights of the scheduler to what no test cluster serves: {}", untested.join(", "));
    }
    let superfluous = audit.superfluous();
    (!superfluous.is_empty()).then(|| {
        format!(
            "rights of the scheduler that no test uses: {}\n\
             hint: remove them from `rules` in crates/kubernetes/src/manifest.rs, or add a test that needs them",
            superfluous.join(", ")
        )
    })
}

/// Starts a cluster with these options, runs the tests, and stops it.
fn in_a_cluster(
    (tests, muster): (&TestBinary, &Path),
    dir: &Path,
    (title, options): (&str, &[&str]),
    names: &[String],
    audit: &mut RightsAudit,
    totals: &mut Totals,
) -> Result<()> {
    println!("{title}: starting a cluster in {}", dir.display());
    let running = TemporaryCluster::start(TARGET, dir, options)?;
    let cluster = KubernetesTestCluster::at(dir)?;
    let mut limited = cluster.inside();
    limited.args(["timeout", "--kill-after=5", SECS]);
    let mut command = tests.command_under(limited);
    command.args(["--include-ignored", "--test-threads=1", "--exact"]).args(names);
    command.env("MUSTER_TEST_KUBERNETES", dir).env("MUSTER_XTASK", own_path()?);
    let result = watch(&mut command, title, totals);
    let audited = add_to(audit, &cluster, muster);
    drop(running);
    result.with_context(|| format!("limited to {SECS} s"))?;
    audited.context("cannot audit the rights of the scheduler")
}

/// Adds the rights that the manifests give, and those that were used in a cluster.
fn add_to(audit: &mut RightsAudit, cluster: &KubernetesTestCluster, muster: &Path) -> Result<()> {
    for options in [&[][..], &["--queues-from", "kueue"]] {
        let words = ["init", "kubernetes", "--image", "none"];
        let manifests = binary::succeed(Command::new(muster).args(words).args(options))?;
        let file = cluster.dir().join("etc/muster.yaml");
        fs::write(&file, manifests)?;
        audit.add_given(cluster, &file, ROLE)?;
    }
    audit.add_cluster(cluster)
}

//! Runs the tests that need a Kubernetes cluster: those of real nodes in one cluster, all others in one with
//! fake nodes. Each is started for them and stopped afterwards, whatever the result. Where it cannot run
//! the reason is printed, and its tests count as skipped. A run of all tests also finds rights of the scheduler
//! that it does not use. Tests of jobs with schedulers and operators of other projects are a run of their own: to build
//! those takes as long as all other tests.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use super::audit::RightsAudit;
use super::cluster::KubernetesTestCluster;
use super::peers::{self, PEERS, Peer};
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

/// Module of the tests that need schedulers or operators of other projects, with a module for each.
const OF_PEERS: &str = "peers::";

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

/// Tests that a user asked for.
#[derive(Default)]
pub struct TestOptions<'a> {
    /// Part of their names.
    filter: Option<&'a str>,
    /// Schedulers and operators of other projects whose tests are meant; without one, all other tests.
    peers: Vec<&'static Peer>,
}

impl<'a> TestOptions<'a> {
    /// Parses the words after `test`.
    pub fn parse(words: &[&'a str]) -> Result<Self> {
        let mut options = Self::default();
        for word in words {
            match word.split_once('=') {
                None if *word == "--peers" => options.peers = PEERS.iter().collect(),
                Some(("--peers", names)) => {
                    options.peers = names.split(',').map(peers::named).collect::<Result<_>>()?;
                }
                _ if word.starts_with("--") || options.filter.is_some() => {
                    bail!("unknown argument: {word}\nhint: cargo xtask kubernetes help")
                }
                _ => options.filter = Some(word),
            }
        }
        Ok(options)
    }
}

/// Runs `cargo xtask kubernetes test`.
pub fn run_standalone(root: &Path, options: &TestOptions<'_>) -> Result<ExitCode> {
    let mut totals = Totals::default();
    let result = run(root, prepare(root), options, &mut totals);
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

/// Tests that run in one cluster.
struct TestPart {
    title: String,
    options: Vec<&'static str>,
    /// Scheduler or operator of another project that runs in it.
    peer: Option<&'static Peer>,
    names: Vec<String>,
}

impl TestPart {
    /// Divides tests among clusters.
    fn all(mut names: Vec<String>, asked: &TestOptions<'_>) -> Vec<Self> {
        names.retain(|name| name.contains(asked.filter.unwrap_or_default()));
        let (of_peers, names): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| name.starts_with(OF_PEERS));
        let part = |title: &str, options: &[&'static str], peer, names| Self {
            title: title.to_owned(),
            options: options.to_vec(),
            peer,
            names,
        };
        let mut parts = Vec::new();
        if asked.peers.is_empty() {
            let (of_real, of_fake): (Vec<_>, Vec<_>) =
                names.into_iter().partition(|name| name.starts_with(OF_REAL_NODES));
            parts.push(part("kubernetes", &FAKE_NODES, None, of_fake));
            parts.push(part("kubernetes, real nodes", &REAL_NODES, None, of_real));
        }
        for peer in &asked.peers {
            let module = format!("{OF_PEERS}{}::", peer.name);
            let own = of_peers.iter().filter(|name| name.starts_with(&module)).cloned();
            let title = format!("kubernetes, {}", peer.title());
            parts.push(part(&title, &REAL_NODES, Some(*peer), own.collect()));
        }
        parts.retain(|part| !part.names.is_empty());
        parts
    }

    fn has_real_nodes(&self) -> bool {
        self.options.contains(&"--nodes")
    }
}

/// Runs the step of the test command.
pub fn run(
    root: &Path,
    preparation: Preparation,
    asked: &TestOptions<'_>,
    totals: &mut Totals,
) -> Result<()> {
    temporary::remove_stale(TARGET)?;
    // Compile outside the namespace, which has no network.
    let tests = binaries::with_own_step(root, TARGET)?;
    let obstacle = preparation?;
    let muster = super::target(root).join("debug/muster");
    let mut audit = RightsAudit::default();
    let mut is_whole = asked.filter.is_none() && asked.peers.is_empty();
    let mut failed = Vec::new();
    for (number, part) in TestPart::all(tests.list()?, asked).into_iter().enumerate() {
        let of_real = || part.has_real_nodes().then(probe::real_nodes).flatten();
        let obstacle = obstacle.clone().or_else(of_real);
        is_whole &= obstacle.is_none();
        let title = part.title.as_str();
        let result = match obstacle {
            Some(obstacle) => {
                println!("{title}: no cluster can run here, its tests are skipped: {obstacle}");
                watch(tests.command().arg("--exact").args(&part.names), title, totals)
            }
            None => {
                let dir = temporary::dir(TARGET, number);
                in_a_cluster(root, (&tests, &muster), &dir, &part, &mut audit, totals)
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

/// Starts a cluster for a part of the tests, runs them, and stops it.
fn in_a_cluster(
    root: &Path,
    (tests, muster): (&TestBinary, &Path),
    dir: &Path,
    part: &TestPart,
    audit: &mut RightsAudit,
    totals: &mut Totals,
) -> Result<()> {
    println!("{}: starting a cluster in {}", part.title, dir.display());
    let running = TemporaryCluster::start(TARGET, dir, &part.options)?;
    let cluster = KubernetesTestCluster::at(dir)?;
    if let Some(peer) = part.peer {
        peer.start(root, &cluster)?;
    }
    let mut limited = cluster.inside();
    limited.args(["timeout", "--kill-after=5", SECS]);
    let mut command = tests.command_under(limited);
    command.args(["--include-ignored", "--test-threads=1", "--exact"]).args(&part.names);
    command.env("MUSTER_TEST_KUBERNETES", dir).env("MUSTER_XTASK", own_path()?);
    let result = watch(&mut command, &part.title, totals);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns titles and numbers of tests of the parts that are run for these words.
    fn parts(words: &[&str]) -> Vec<(String, usize)> {
        let names = ["pod_watch::a", "real_nodes::b", "peers::kueue::c", "peers::volcano::d"];
        let names = names.map(str::to_owned).to_vec();
        let parts = TestPart::all(names, &TestOptions::parse(words).unwrap());
        parts.into_iter().map(|part| (part.title, part.names.len())).collect()
    }

    #[test]
    fn tests_of_other_schedulers_run_only_when_they_are_asked_for() {
        let titles = |words: &[&str]| {
            let parts = parts(words);
            assert!(parts.iter().all(|(_, count)| *count == 1), "{parts:?}");
            parts.into_iter().map(|(title, _)| title).collect::<Vec<_>>()
        };
        assert_eq!(titles(&[]), ["kubernetes", "kubernetes, real nodes"]);
        assert_eq!(titles(&["real_nodes"]), ["kubernetes, real nodes"]);
        let [volcano, kueue, _, _] =
            PEERS.each_ref().map(|peer| format!("kubernetes, {}", peer.title()));
        assert_eq!(titles(&["--peers"]), [volcano, kueue.clone()]);
        assert_eq!(titles(&["--peers=kueue"]), std::slice::from_ref(&kueue));
        assert_eq!(titles(&["kueue::", "--peers"]), [kueue]);
        for words in [&["--peer"][..], &["--peers=slurm"], &["a", "b"]] {
            assert!(TestOptions::parse(words).is_err(), "{words:?}");
        }
    }
}

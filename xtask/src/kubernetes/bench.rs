//! `cargo xtask kubernetes bench`: how fast pods get their nodes, with several schedulers one after
//! the other on one control plane of 1,000 fake nodes. What is measured, and what was: docs/PERFORMANCE.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::cluster::KubernetesTestCluster;
use super::daemon::KubernetesDaemon;
use super::peers::{self, Peer};
use super::probe;
use crate::cargo;
use crate::test_cluster::process::Signal;
use crate::test_cluster::temporary::{self, TemporaryCluster};

/// Options of the cluster: with the gate, kube-scheduler places gangs, too.
const OPTIONS: [&str; 4] = ["--fake-nodes", "1000", "--gate", "GenericWorkload"];

/// Workloads: number of pods, and of pods in each gang.
const WORKLOADS: [(u32, u32); 4] = [(5000, 1), (1500, 5), (1500, 50), (4000, 500)];
/// The same in small, to see that everything works.
const QUICK: [(u32, u32); 3] = [(500, 1), (250, 5), (200, 50)];

/// Schedulers under measurement: the name, and how its gangs say that they are gangs.
const SCHEDULERS: [(&str, &str); 6] = [
    ("direct", "none"),
    ("watched", "none"),
    ("default-scheduler", "none"),
    ("default-scheduler", "native"),
    ("muster", "label"),
    ("muster", "native"),
];

/// Choice of workloads and schedulers on the command line.
#[derive(Default)]
pub struct BenchOptions {
    /// Only a few hundred pods.
    is_quick: bool,
    /// Schedulers of other projects, which are measured, too.
    peers: Vec<&'static Peer>,
}

impl BenchOptions {
    /// Parses the words that are options; fails with the first unknown one.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        for word in words {
            match word.split_once('=') {
                None if *word == "--quick" => options.is_quick = true,
                None if *word == "--peers" => options.peers = peers::schedulers().collect(),
                Some(("--peers", names)) => {
                    options.peers =
                        names.split(',').map(peers::scheduler_named).collect::<Result<_>>()?;
                }
                _ => bail!("unknown option: {word}\nhint: cargo xtask kubernetes help"),
            }
        }
        Ok(options)
    }
}

/// Runs every workload with every scheduler. `dir` is a running cluster; without one, a cluster is
/// started, and stopped afterwards.
pub fn run(root: &Path, dir: Option<&Path>, options: &BenchOptions) -> Result<ExitCode> {
    if let Some(obstacle) = probe::obstacle(root) {
        bail!("no Kubernetes cluster can run here: {obstacle}");
    }
    let Programs { muster, bench } = Programs::build(root)?;
    let own = temporary::dir("kubernetes", 0);
    let running = match dir {
        None => Some(TemporaryCluster::start("kubernetes", &own, &OPTIONS)?),
        Some(_) => None,
    };
    let cluster = KubernetesTestCluster::at(dir.unwrap_or(&own))?;
    cluster.require_up()?;
    // Elsewhere, kubelets have machines of their own. Pods are bound, and stay as they are.
    for daemon in [KubernetesDaemon::Scheduler, KubernetesDaemon::FakeKubelet] {
        if daemon.pid(&cluster).is_some() {
            daemon.end(&cluster, Signal::Term)?;
        }
    }
    let mut contenders = Contender::own(&cluster, &muster)?;
    contenders.extend(options.peers.iter().map(|peer| Contender::of_peer(root, &cluster, peer)));
    println!("| pods | gangs of | scheduler | pods/s | first, s | last, s | CPU s | MiB | load |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut has_failed = false;
    for (pods, size) in if options.is_quick { &QUICK[..] } else { &WORKLOADS[..] } {
        for contender in contenders.iter().filter(|one| *size > 1 || one.gangs != "native") {
            let cells = measure(&cluster, &bench, *pods, *size, contender);
            has_failed |= cells.is_err();
            let cells = cells.unwrap_or_else(|error| format!("failed: {}", first_line(&error)));
            println!("| {pods} | {size} | {} | {cells} |", contender.title);
        }
    }
    drop(running);
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A row of each workload.
struct Contender {
    title: String,
    /// Name in `schedulerName` of the pods.
    scheduler: &'static str,
    /// Way in which its gangs say that they are gangs.
    gangs: &'static str,
    /// Command lines, each after a `--`; empty where bindings are posted directly. An error where
    /// the scheduler cannot be built or installed.
    words: Result<Vec<String>>,
}

impl Contender {
    /// Returns the rows that need no other project's programs.
    fn own(cluster: &KubernetesTestCluster, muster: &Path) -> Result<Vec<Self>> {
        let options = cluster.options()?;
        let has_native = options.gates.iter().any(|gate| gate == "GenericWorkload");
        let possible = SCHEDULERS.iter().filter(|(_, gangs)| has_native || *gangs != "native");
        let contender = |&(scheduler, gangs): &(&'static str, &'static str)| {
            let mut words = vec!["--".to_owned()];
            match scheduler {
                "default-scheduler" => {
                    words.extend(KubernetesDaemon::Scheduler.words(cluster, &options));
                }
                "muster" => {
                    words.push(muster.display().to_string());
                    words.extend(["scheduler", "--no-lease"].map(str::to_owned));
                }
                _ => words.clear(),
            }
            let title = match (scheduler, gangs) {
                ("direct", _) => "none: bindings posted directly".to_owned(),
                ("watched", _) => {
                    "none: the same, beside a list and a watch of all pods".to_owned()
                }
                (name, "native") => format!("{name}, PodGroups"),
                (name, _) => name.to_owned(),
            };
            Self { title, scheduler, gangs, words: Ok(words) }
        };
        Ok(possible.map(contender).collect())
    }

    fn of_peer(root: &Path, cluster: &KubernetesTestCluster, peer: &Peer) -> Self {
        let words = peer.install(root, cluster);
        if let Err(error) = &words {
            eprintln!("{}: {error:#}", peer.name);
        }
        Self { title: peer.title(), scheduler: peer.scheduler, gangs: peer.name, words }
    }
}

/// Measures one workload with one scheduler; returns the other cells of its row.
fn measure(
    cluster: &KubernetesTestCluster,
    bench: &Path,
    pods: u32,
    size: u32,
    contender: &Contender,
) -> Result<String> {
    let words = contender.words.as_ref().map_err(|error| anyhow!("{}", first_line(error)))?;
    let gangs = if size == 1 && contender.gangs == "label" { "none" } else { contender.gangs };
    let (pods, size) = (pods.to_string(), size.to_string());
    let mut command = cluster.inside();
    command.arg(bench).args(["--pods", &pods, "--size", &size]);
    command.args(["--scheduler", contender.scheduler, "--gangs", gangs]).args(words);
    command.env("MUSTER_BENCH_LOG", cluster.log("bench"));
    let output = command.stdin(Stdio::null()).output()?;
    let load = fs::read_to_string("/proc/loadavg")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let result: Value = serde_json::from_slice(&output.stdout)?;
    let cell = |name: &str, digits: usize| {
        result[name].as_f64().map_or("–".to_owned(), |number| format!("{number:.digits$}"))
    };
    let mebibytes = result["peak_memory_bytes"].as_f64().map(|bytes| bytes / f64::from(1 << 20));
    Ok(format!(
        "{} | {} | {} | {} | {} | {}",
        cell("pods_per_sec", 0),
        cell("first_binding_secs", 2),
        cell("last_binding_secs", 2),
        cell("cpu_secs", 1),
        mebibytes.map_or("–".to_owned(), |number| format!("{number:.0}")),
        load.split(' ').next().unwrap_or_default(),
    ))
}

/// Returns the first line of an error, for a cell of the table.
fn first_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_owned()
}

/// Optimised programs of a measurement.
struct Programs {
    muster: PathBuf,
    /// Bench of the crate that talks to the cluster.
    bench: PathBuf,
}

impl Programs {
    /// Builds both at once: for each alone, cargo would choose other features of third-party crates
    /// and build much twice.
    fn build(root: &Path) -> Result<Self> {
        let mut command = Command::new(cargo());
        command.args(["build", "--release", "--quiet", "--message-format=json-render-diagnostics"]);
        command.args(["--package", "muster", "--package", "muster-operator"]);
        command.args(["--bin", "muster", "--bench", "placement"]);
        let output = command.current_dir(root).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            bail!("cargo build ended with {}", output.status);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let find = |name: &str| {
            let of_target = messages.iter().filter(|message| message["target"]["name"] == name);
            let mut paths = of_target.filter_map(|message| message["executable"].as_str());
            paths.next().map(PathBuf::from).with_context(|| format!("cargo built no {name}"))
        };
        Ok(Self { muster: find("muster")?, bench: find("placement")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order() {
        let names = |words: &[&str]| {
            let options = BenchOptions::parse(words).unwrap();
            let names: Vec<&str> = options.peers.iter().map(|peer| peer.name).collect();
            (options.is_quick, names)
        };
        assert_eq!(names(&[]), (false, vec![]));
        assert_eq!(names(&["--peers", "--quick"]), (true, vec!["volcano", "kueue", "kai"]));
        assert_eq!(names(&["--peers=kai,volcano"]), (false, vec!["kai", "volcano"]));
        for word in ["--peer", "--peers=slurm", "--peers=kuberay", "--quick=yes"] {
            assert!(BenchOptions::parse(&[word]).is_err(), "{word}");
        }
    }
}

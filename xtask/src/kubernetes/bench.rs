//! `cargo xtask kubernetes bench`: how fast pods get their nodes, with several schedulers one after
//! the other on one control plane of 1,000 fake nodes. What is measured, and what was: docs/PERFORMANCE.md.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::cluster::KubernetesTestCluster;
use super::daemon::KubernetesDaemon;
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

/// Programs under measurement: the scheduler's name, and how its gangs say that they are gangs.
const CONTENDERS: [(&str, &str); 5] = [
    ("direct", "none"),
    ("default-scheduler", "none"),
    ("default-scheduler", "native"),
    ("muster", "label"),
    ("muster", "native"),
];

/// Runs every workload with every scheduler. `dir` is a running cluster; without one, a cluster is
/// started, and stopped afterwards.
pub fn run(root: &Path, dir: Option<&Path>, is_quick: bool) -> Result<ExitCode> {
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
    println!("| pods | gangs of | scheduler | pods/s | first, s | last, s | CPU s | MiB |");
    println!("|---|---|---|---|---|---|---|---|");
    let has_native = cluster.options()?.gates.iter().any(|gate| gate == "GenericWorkload");
    for (pods, size) in if is_quick { &QUICK[..] } else { &WORKLOADS[..] } {
        for (scheduler, gangs) in CONTENDERS {
            if gangs == "native" && (!has_native || *size == 1) {
                continue;
            }
            let words = words_of(&cluster, &muster, scheduler)?;
            let gangs = if *size == 1 { "none" } else { gangs };
            let row = measure(&cluster, &bench, *pods, *size, scheduler, gangs, &words)?;
            println!("{row}");
        }
    }
    drop(running);
    Ok(ExitCode::SUCCESS)
}

/// Returns the command line of a scheduler; an empty one where bindings are posted directly.
fn words_of(
    cluster: &KubernetesTestCluster,
    muster: &Path,
    scheduler: &str,
) -> Result<Vec<String>> {
    Ok(match scheduler {
        "default-scheduler" => KubernetesDaemon::Scheduler.words(cluster, &cluster.options()?),
        "muster" => {
            vec![muster.display().to_string(), "scheduler".to_owned(), "--no-lease".to_owned()]
        }
        _ => Vec::new(),
    })
}

/// Measures one workload with one scheduler; returns a row of the table.
fn measure(
    cluster: &KubernetesTestCluster,
    bench: &Path,
    pods: u32,
    size: u32,
    scheduler: &str,
    gangs: &str,
    words: &[String],
) -> Result<String> {
    let (pods, size) = (pods.to_string(), size.to_string());
    let mut command = cluster.inside();
    command.arg(bench).args(["--pods", &pods, "--size", &size]);
    command.args(["--scheduler", scheduler, "--gangs", gangs, "--"]).args(words);
    command.env("MUSTER_BENCH_LOG", cluster.log("bench"));
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{scheduler}, {pods} pods in gangs of {size} ({gangs}): {said}");
    }
    let result: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| result[name].as_f64();
    let or_none = |number: Option<f64>, digits: usize| {
        number.map_or("–".to_owned(), |number| format!("{number:.digits$}"))
    };
    let name = match (scheduler, gangs) {
        ("direct", _) => "none: bindings posted directly".to_owned(),
        (name, "native") => format!("{name}, PodGroups"),
        (name, _) => name.to_owned(),
    };
    Ok(format!(
        "| {pods} | {size} | {name} | {} | {} | {} | {} | {} |",
        or_none(number("pods_per_sec"), 0),
        or_none(number("first_binding_secs"), 2),
        or_none(number("last_binding_secs"), 2),
        or_none(number("cpu_secs"), 1),
        or_none(number("peak_memory_bytes").map(|bytes| bytes / f64::from(1 << 20)), 0),
    ))
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

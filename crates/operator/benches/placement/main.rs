//! Measures how fast pods get their nodes on a Kubernetes cluster: all pods exist, then a scheduler
//! starts, and the time until the last binding counts. `cargo xtask kubernetes bench` runs it beside
//! other schedulers on the same control plane, and docs/PERFORMANCE.md has the figures.
//!
//! Arguments: `--pods N --size N --gangs STYLE --scheduler NAME [-- COMMAND…]…`; without a command
//! the bindings are posted from here, to the nodes in turn, which no scheduler can beat. With the scheduler `watched`
//! they are posted from here after a list of all pods and beside a watch of them, which every scheduler needs.

mod cluster;
mod pods;
mod process;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cluster::Cluster;
use crate::pods::{GangStyle, Workload};
use crate::process::SchedulerProcesses;

/// Scheduler name for bindings that are posted from here beside a list and a watch of all pods.
const WATCHED: &str = "watched";
/// Longest wait for the last binding.
const PATIENCE: Duration = Duration::from_secs(600);
/// GPUs of a node: the most pods of one GPU each that fit on it.
const GPUS: usize = 8;

fn main() -> ExitCode {
    // `cargo bench` and `cargo test` call every bench with options of their own; this one needs a
    // cluster, and says so.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.is_empty() {
        println!("skipped: needs a Kubernetes cluster, see `cargo xtask kubernetes bench`");
        return ExitCode::SUCCESS;
    }
    let result = parse(&words).and_then(|(workload, command)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(measure(&workload, &command))
    });
    match result {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn parse(words: &[String]) -> Result<(Workload, Vec<String>), Failure> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (options, command) = words.split_at(end);
    let pairs = options.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str()));
    let options: BTreeMap<&str, &str> = pairs.collect();
    let option = |name: &str| {
        options.get(name).copied().ok_or_else(|| Failure::from(format!("{name} is missing")))
    };
    let gangs = option("--gangs")?;
    let gangs = GangStyle::named(gangs).ok_or_else(|| format!("--gangs {gangs}: unknown"))?;
    let workload = Workload {
        pods: option("--pods")?.parse()?,
        size: option("--size")?.parse()?,
        gangs,
        scheduler: option("--scheduler")?.to_owned(),
    };
    Ok((workload, command.to_vec()))
}

/// Measures one workload; returns the result as a line of JSON.
async fn measure(workload: &Workload, command: &[String]) -> Result<serde_json::Value, Failure> {
    let cluster = Cluster::connect().await?;
    cluster.clear().await?;
    let created = Instant::now();
    cluster.create(workload).await?;
    let create_secs = created.elapsed().as_secs_f64();
    cluster.calm().await?;

    let mut bindings = cluster.bindings().await?;
    let start = Instant::now();
    let mut processes = SchedulerProcesses::start(command)?;
    let posting = async {
        if !command.is_empty() {
            return Ok(());
        }
        if workload.scheduler != WATCHED {
            return cluster.post_bindings(workload).await;
        }
        let mut changes = cluster.follow_all_pods().await?;
        tokio::select! {
            posted = cluster.post_bindings(workload) => posted,
            failure = changes.until_end() => failure,
        }
    };
    let counting = async {
        let mut first = None;
        for _ in 0..workload.pods {
            bindings.next().await?;
            first.get_or_insert_with(|| start.elapsed());
        }
        Ok::<_, Failure>((first.unwrap_or_default(), start.elapsed()))
    };
    let watching = async {
        loop {
            cluster::pause().await;
            processes.check()?;
        }
    };
    let all = async {
        tokio::select! {
            result = async { tokio::try_join!(posting, counting) } => result,
            failure = watching => failure,
        }
    };
    let ((), (first, last)) = tokio::time::timeout(PATIENCE, all)
        .await
        .map_err(|_| format!("not all pods have a node after {} s", PATIENCE.as_secs()))??;
    let used = processes.end()?;
    let fullest = cluster.fullest_node().await?;
    if fullest > GPUS {
        return Err(format!("{fullest} pods on a node with {GPUS} GPUs").into());
    }
    cluster.clear().await?;
    Ok(json!({
        "scheduler": workload.scheduler,
        "gangs": workload.gangs.name(),
        "pods": workload.pods,
        "size": workload.size,
        "create_secs": create_secs,
        "first_binding_secs": first.as_secs_f64(),
        "last_binding_secs": last.as_secs_f64(),
        "pods_per_sec": f64::from(workload.pods) / last.as_secs_f64(),
        "most_pods_on_a_node": fullest,
        "cpu_secs": used.map(|used| used.cpu_secs),
        "peak_memory_bytes": used.map(|used| used.peak_memory_bytes),
    }))
}

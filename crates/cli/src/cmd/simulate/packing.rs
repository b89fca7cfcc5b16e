//! `muster simulate --no-departures`: a cluster is filled pod by pod until nothing more fits.
//! Decided in `muster-sim`, written in `muster-report`; here are files and the thread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use muster_model::simulation::{PackingComparison, PackingFigures};
use muster_sim::packing::{Experiment, PackingError, Scheduler};
use muster_spec::{TraceJob, openb};

use super::cluster::{self, Given};
use super::watch;
use crate::app::App;
use crate::exit::{Failure, INTERRUPTED};
use crate::trace_file;

/// Arrivals between two looks at whether to go on.
const STRIDE: usize = 64;

/// Options of other simulations.
const ELSEWHERE: [&str; 15] = [
    "procs",
    "estimates",
    "load",
    "schedule_out",
    "queues",
    "seeds",
    "node_mtbf",
    "gpu_mtbf",
    "repair",
    "checkpoint_every",
    "checkpoint_on_signal",
    "restart",
    "report_out",
    "events_out",
    "at",
];

/// What is asked of a cluster that is filled.
#[derive(Debug, clap::Args)]
pub struct Packing {
    /// Fill the cluster with the pods of the trace one by one; none leaves, and one that fits
    /// nowhere is turned away
    #[arg(long, requires = "cluster", conflicts_with_all = ELSEWHERE)]
    pub no_departures: bool,
    /// Names of pods in the order in which they arrive, one a line, NAME-tuned-N for a copy;
    /// without it, as in the trace
    #[arg(long, value_name = "FILE", requires = "no_departures")]
    arrival_order: Option<PathBuf>,
}

/// Runs it.
pub async fn run(app: &App, args: &super::Args) -> Result<u8> {
    let hint = format!(
        "with `--no-departures` it takes {}",
        Scheduler::names().collect::<Vec<_>>().join(", ")
    );
    let schedulers =
        super::named(&args.scheduler, "best-fit,fragmentation", &hint, Scheduler::named)?;
    // 1. Nodes, pods, and their order.
    let Packing { arrival_order, .. } = &args.packing;
    let seed = args.seed;
    let cluster_path = args.cluster.as_deref().unwrap_or(Path::new("-"));
    let Given { nodes, bad: bad_nodes, .. } = cluster::read(cluster_path, args.strict)?;
    let read = trace_file::read(&args.trace, args.format, args.strict)?;
    let order = match arrival_order {
        Some(path) => order(path, &read.jobs)?,
        None => (0..read.jobs.len()).collect(),
    };
    for bad in bad_nodes.iter().chain(&read.bad).take(1) {
        app.ui.warning(&format!("rows that cannot be read are left out; the first is {bad}"));
    }
    let comparison = PackingComparison {
        cluster: cluster_path.display().to_string(),
        trace: args.trace.display().to_string(),
        nodes: nodes.len() as u64,
        gpus: nodes.iter().map(|node| node.devices.len() as u64).sum(),
        arrivals: order.len() as u64,
        bad_rows: bad_nodes.len() as u64 + read.bad_count,
        seed,
        runs: Vec::new(),
    };
    let tasks: Vec<_> = read.jobs.into_iter().map(|job| job.task).collect();
    let experiment = Experiment::new(nodes, &tasks, order).map_err(wrong)?;

    // 2. The runs.
    let runs = played(app, experiment, schedulers, seed).await?;

    // 3. What they come to.
    let is_partial = runs.iter().any(|run| run.is_partial);
    let comparison = PackingComparison { runs, ..comparison };
    match args.output.json() {
        true => app.ui.json(&comparison)?,
        false => app.ui.data(&muster_report::packing::packing(&comparison, &app.ui.style()))?,
    }
    Ok(if is_partial { INTERRUPTED } else { 0 })
}

/// Arrivals as indices of pods.
fn order(path: &Path, pods: &[TraceJob]) -> Result<Vec<usize>, Failure> {
    let index: BTreeMap<&str, usize> = (0..).zip(pods).map(|(at, pod)| (&*pod.id, at)).collect();
    let mut order = Vec::new();
    trace_file::lines(path, &mut |line| {
        let Some(name) = openb::arriving_pod(line) else { return Ok(()) };
        let known = index.get(name).ok_or_else(|| {
            Failure::usage(format!(
                "{}: `{}` is no pod of the trace",
                path.display(),
                name.escape_debug()
            ))
            .hint(
                "each line is the name of a pod, or that of a pod, -tuned- and a number for a copy",
            )
        })?;
        order.push(*known);
        Ok(())
    })?;
    Ok(order)
}

fn wrong(error: PackingError) -> Failure {
    Failure::usage(error.to_string())
        .hint("nodes are called differently, and have GPUs of one model")
}

/// What runs and who watches share.
#[derive(Debug, Default)]
struct Watch {
    stop: AtomicBool,
    /// Pods that have arrived, in all runs together.
    arrived: AtomicU64,
}

/// One run after the other, until Ctrl-C.
async fn played(
    app: &App,
    experiment: Experiment,
    schedulers: Vec<Scheduler>,
    seed: u64,
) -> Result<Vec<PackingFigures>> {
    let total = (experiment.arrivals() * schedulers.len()) as u64;
    let watch = Arc::new(Watch::default());
    let runs = {
        let watch = Arc::clone(&watch);
        tokio::task::spawn_blocking(move || {
            schedulers
                .into_iter()
                .map(|scheduler| one(&watch, &experiment, scheduler, seed))
                .collect()
        })
    };
    let line = || {
        format!("{} % of the arrivals", watch.arrived.load(Ordering::Relaxed) * 100 / total.max(1))
    };
    let ended: Result<_, PackingError> = watch::until_ended(app, &watch.stop, line, runs).await?;
    Ok(ended?)
}

fn one(
    watch: &Watch,
    experiment: &Experiment,
    scheduler: Scheduler,
    seed: u64,
) -> Result<PackingFigures, PackingError> {
    let mut run = experiment.begin(scheduler, seed)?;
    let mut goes_on = true;
    while goes_on && !watch.stop.load(Ordering::Relaxed) {
        for _ in 0..STRIDE {
            goes_on = run.step()?;
            if !goes_on {
                break;
            }
            watch.arrived.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(run.finish().figures(scheduler, goes_on))
}

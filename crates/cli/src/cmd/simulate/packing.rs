//! `muster simulate --no-departures`: fills a cluster pod by pod until nothing more fits.
//! `muster-sim` simulates, `muster-report` renders the results; here are files and the thread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use muster_model::simulation::{PackingComparison, PackingFigures};
use muster_sim::packing::{Experiment, PackingError, PackingScheduler};
use muster_spec::{TraceJob, openb};

use super::cluster::{self, ClusterInput};
use super::watch;
use crate::app::App;
use crate::exit::{Failure, INTERRUPTED};
use crate::trace_file;

/// Number of arrivals between two checks whether to stop.
const STRIDE: usize = 64;

/// Options that apply to other kinds of simulation only.
const OTHER_OPTIONS: [&str; 19] = [
    "procs",
    "estimates",
    "load",
    "schedule_out",
    "queues",
    "add_nodes",
    "slurm_conf",
    "exec_timeout",
    "calibrate",
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

/// Options for filling a cluster.
#[derive(Debug, clap::Args)]
pub struct PackingArgs {
    /// Fill the cluster with the pods of the trace one by one; no pod ends, and pods that do not
    /// fit are rejected
    #[arg(long, requires = "cluster", conflicts_with_all = OTHER_OPTIONS)]
    pub no_departures: bool,
    /// File with the names of pods in order of arrival, one per line, NAME-tuned-N for a copy; by
    /// default the order of the trace
    #[arg(long, value_name = "FILE", requires = "no_departures")]
    arrival_order: Option<PathBuf>,
}

/// Runs `muster simulate --no-departures`; returns its exit code.
pub async fn run(app: &App, args: &super::SimulateArgs, cluster_path: &Path) -> Result<u8> {
    let hint = format!(
        "with `--no-departures` the policies are {}",
        PackingScheduler::names().collect::<Vec<_>>().join(", ")
    );
    let schedulers = super::select_schedulers(
        &args.scheduler,
        "best-fit,fragmentation",
        &hint,
        PackingScheduler::named,
    )?;
    // 1. Read nodes, pods and their order.
    let PackingArgs { arrival_order, .. } = &args.packing;
    let seed = args.seed;
    let ClusterInput { nodes, bad: bad_nodes, .. } = cluster::read(cluster_path, args.strict)?;
    let read = trace_file::read(&args.trace, args.format, args.strict)?;
    let order = match arrival_order {
        Some(path) => read_order(path, &read.jobs)?,
        None => (0..read.jobs.len()).collect(),
    };
    for bad in bad_nodes.iter().chain(&read.bad).take(1) {
        app.ui.warning(&format!("skipped rows that cannot be parsed; the first is {bad}"));
    }
    trace_file::warn_of_duplicate_ids(app, read.duplicate_ids);
    let comparison = PackingComparison {
        cluster: cluster_path.display().to_string(),
        trace: args.trace.display().to_string(),
        nodes: nodes.len() as u64,
        gpus: nodes.iter().map(|node| node.devices.len() as u64).sum(),
        arrivals: order.len() as u64,
        bad_rows: bad_nodes.len() as u64 + read.bad_count,
        duplicate_ids: read.duplicate_ids.jobs,
        seed,
        runs: Vec::new(),
    };
    let tasks: Vec<_> = read.jobs.into_iter().map(|job| job.task).collect();
    let experiment = Experiment::new(nodes, &tasks, order).map_err(packing_failure)?;

    // 2. Run the policies.
    let runs = run_all(app, experiment, schedulers, seed).await?;

    // 3. Print the results.
    let is_partial = runs.iter().any(|run| run.is_partial);
    let comparison = PackingComparison { runs, ..comparison };
    if args.output.json() {
        app.ui.json(&comparison)?
    } else {
        app.ui.data(&muster_report::packing::packing(&comparison, app.ui.context()))?
    }
    Ok(if is_partial { INTERRUPTED } else { 0 })
}

/// Reads the order of arrivals, as indices of pods.
fn read_order(path: &Path, pods: &[TraceJob]) -> Result<Vec<usize>, Failure> {
    let index: BTreeMap<&str, usize> = (0..).zip(pods).map(|(at, pod)| (&*pod.id, at)).collect();
    let mut order = Vec::new();
    trace_file::lines(path, &mut |line| {
        let Some(name) = openb::arriving_pod(line) else { return Ok(()) };
        let known = index.get(name).ok_or_else(|| {
            Failure::usage(format!(
                "{}: `{}` is not a pod of the trace",
                path.display(),
                name.escape_debug()
            ))
            .hint("each line is the name of a pod, or NAME-tuned-N for a copy of one")
        })?;
        order.push(*known);
        Ok(())
    })?;
    Ok(order)
}

fn packing_failure(error: PackingError) -> Failure {
    Failure::usage(error.to_string())
        .hint("nodes must have different names, and each node GPUs of one model")
}

/// Progress shared by the running simulation and its display.
#[derive(Debug, Default)]
struct PackingProgress {
    stop: AtomicBool,
    /// Number of pods that have arrived, in all runs together.
    arrived: AtomicU64,
}

/// Runs the policies one after the other, until Ctrl-C.
async fn run_all(
    app: &App,
    experiment: Experiment,
    schedulers: Vec<PackingScheduler>,
    seed: u64,
) -> Result<Vec<PackingFigures>> {
    let total = (experiment.arrivals() * schedulers.len()) as u64;
    let watch = Arc::new(PackingProgress::default());
    let runs = {
        let watch = Arc::clone(&watch);
        tokio::task::spawn_blocking(move || {
            schedulers
                .into_iter()
                .map(|scheduler| run_one(&watch, &experiment, scheduler, seed))
                .collect()
        })
    };
    let line = || {
        format!("{} % of the arrivals", watch.arrived.load(Ordering::Relaxed) * 100 / total.max(1))
    };
    let ended: Result<_, PackingError> = watch::until_ended(app, &watch.stop, line, runs).await?;
    Ok(ended?)
}

fn run_one(
    watch: &PackingProgress,
    experiment: &Experiment,
    scheduler: PackingScheduler,
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

//! `muster simulate`: replays a trace on a simulated machine or cluster, under one scheduler or
//! several. `muster-sim` simulates, `muster-report` renders the results; here are files and
//! threads.

pub mod cluster;
mod fleet;
mod packing;
mod play;
pub mod watch;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use muster_model::simulation::FlatComparison;
use muster_report::amount::count;
use muster_report::simulate;
use muster_sim::flat::{Estimates, FlatLoad, FlatScheduler, rows};
use muster_sim::packing::PackingScheduler;
use muster_spec::{RowError, TraceFormat, TraceJob};

use crate::app::App;
use crate::args::{OutputArgs, whole_number};
use crate::exit::{Failure, INTERRUPTED};
use crate::trace_file;
pub use fleet::warn_of_nodes_beyond_quotas;
use play::SimulatedRun;

const EXAMPLES: &str = "\
Examples:
  muster simulate --trace KTH-SP2.swf.gz --procs 100 --scheduler fcfs,easy,easy-sjf
  muster simulate --trace KTH-SP2.swf.gz --procs 100 --scheduler easy --estimates actual --schedule-out waits.csv --json
  muster simulate --trace philly.csv.gz --procs 640 --load 1.3
  muster simulate --cluster cluster.yaml --queues queues.yaml --trace jobs.csv --scheduler muster,kube-default
  muster simulate --cluster cluster.yaml --add-nodes 4 --queues old.yaml --queues new.yaml --trace jobs.csv --scheduler muster
  muster simulate --cluster cluster.yaml --trace jobs.csv --load 0.8,1,1.2 --estimates requested,predicted --table-out sweep.csv
  muster simulate --cluster nodes.csv --trace pods.csv.gz --no-departures --scheduler random,best-fit,fragmentation";

/// Replay a trace under one or several schedulers, and compare them
///
/// Jobs have the arrival times and runtimes of the trace; when each starts is decided anew. No
/// daemon is needed and nothing is run.
///
/// With --cluster the jobs run on nodes with GPUs, optionally under queues and quotas, and control
/// planes are compared: `muster` is Muster's own scheduler, with any queue file; the others are
/// models of a version that their row names. docs/models.md describes what each models and what
/// not. Several --cluster, --queues and --add-nodes are variants: the jobs that all of them can host
/// run on each, and the differences to the first are shown. Several --load and --estimates are a
/// sweep: everything is run at each of them, into one table.
///
/// Without --cluster the machine has a number of identical processors; for a trace with GPUs, GPUs
/// are counted. fcfs, easy, conservative and sjf are Muster's scheduler with that policy; easy-sjf
/// and srtf are models. docs/simulate.md has the rules of each, and comparisons with published
/// schedules.
///
/// With --no-departures a cluster is filled pod by pod, and placement policies are compared: pack,
/// spread, best-fit and fragmentation are Muster's; random, dot-product, gpu-packing and
/// gpu-clustering are models.
///
/// JSON: a `FleetComparison`, a `FlatComparison`, with --no-departures a `PackingComparison`.
/// Ctrl-C stops the runs and shows the results so far.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct SimulateArgs {
    /// Trace file, plain or compressed with gzip; `-` is stdin
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Format of the trace; by default detected from its first lines
    #[arg(long, value_name = "FORMAT", value_parser = super::trace::formats())]
    format: Option<TraceFormat>,
    /// Fail on a row that cannot be parsed; by default such rows are skipped with a warning
    #[arg(long)]
    strict: bool,
    /// Number of processors, or GPUs, of the machine; by default that of the trace
    #[arg(long, value_name = "N", value_parser = whole_number(1, MOST_PROCS), conflicts_with = "cluster")]
    procs: Option<u32>,
    /// Cluster file, or a node list in openb format with the columns
    /// sn,cpu_milli,memory_mib,gpu,model. May be given several times: the clusters are compared
    #[arg(long, value_name = "FILE")]
    cluster: Vec<PathBuf>,
    /// Schedulers, separated by commas; by default muster,kube-default with --cluster, fcfs,easy
    /// without, best-fit,fragmentation with --no-departures. With --cluster also exec:COMMAND, a
    /// policy of your own: docs/simulate.md has the protocol
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = schedulers())]
    scheduler: Vec<String>,
    /// Time limits that the schedulers see: those requested by users, the actual runtimes, or
    /// random overestimates. With --cluster several, separated by commas: a sweep
    #[arg(
        long,
        value_name = "WHOSE,...",
        value_enum,
        value_delimiter = ',',
        default_value = "requested"
    )]
    estimates: Vec<EstimatesArg>,
    /// End jobs at the time limits that their users requested, also with --estimates actual or noisy
    #[arg(long, conflicts_with = "no_departures")]
    end_at_limit: bool,
    /// Factor on the arrival rate: 1.3 is 30 % more load. With --cluster several, separated by
    /// commas: a sweep
    #[arg(long, value_name = "FACTOR,...", value_delimiter = ',', default_value = "1", value_parser = factor)]
    load: Vec<f64>,
    /// Write the schedule as CSV: job_id,submit,wait,start,runtime,procs, in seconds. For a single
    /// scheduler
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    schedule_out: Option<PathBuf>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    fleet: fleet::FleetArgs,
    #[command(flatten)]
    packing: packing::PackingArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Load and time limits of one comparison.
#[derive(Clone, Copy, Debug)]
struct SweepPoint {
    /// Factor on the arrival rate.
    load: f64,
    estimates: EstimatesArg,
}

impl SimulateArgs {
    /// Returns every load with every kind of time limits.
    fn points(&self) -> Vec<SweepPoint> {
        let with =
            |estimates| self.load.iter().map(move |load| SweepPoint { load: *load, estimates });
        self.estimates.iter().copied().flat_map(with).collect()
    }

    /// Returns the only load with the only kind of time limits.
    fn only_point(&self) -> Result<SweepPoint, Failure> {
        match self.points().as_slice() {
            [point] => Ok(*point),
            _ => {
                Err(Failure::usage("several values of `--load` or `--estimates` need `--cluster`")
                    .hint("run it once per value"))
            }
        }
    }

    /// Returns a job of the trace as it is replayed.
    fn replayed(&self, mut job: TraceJob) -> TraceJob {
        if let (true, Some(limit)) = (self.end_at_limit, job.requested) {
            job.runtime = job.runtime.map(|runtime| runtime.min(limit));
        }
        job
    }
}

/// Largest number of processors: thousandths of CPUs are counted in 32 bits.
const MOST_PROCS: u32 = 4_000_000;

/// Source of the time limits that schedulers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum EstimatesArg {
    /// Limits requested by users; without one, the actual runtime, or no limit with --cluster
    Requested,
    /// Actual runtimes of the trace
    Actual,
    /// Predictions from the last jobs of each user, where the engine schedules; limits requested by
    /// users stay the end
    Predicted,
    /// Random overestimates: between one and five times the actual runtime, drawn from the seed
    Noisy,
}

impl From<EstimatesArg> for Estimates {
    fn from(arg: EstimatesArg) -> Self {
        match arg {
            EstimatesArg::Requested => Estimates::Requested,
            EstimatesArg::Predicted => Estimates::Predicted,
            EstimatesArg::Actual | EstimatesArg::Noisy => Estimates::Actual,
        }
    }
}

/// Returns a parser of the schedulers of all kinds of simulation; each kind accepts some of them.
fn schedulers() -> fleet::NameParser {
    let fleets = muster_sim::fleet::SchedulerKind::ALL.map(|(name, _)| name);
    let flat = FlatScheduler::ALL.map(|(name, _)| name);
    let names = fleets.into_iter().chain(flat).chain(PackingScheduler::names());
    fleet::NameParser(PossibleValuesParser::new(names))
}

/// Returns the named schedulers, or the default ones, and rejects those of other kinds of
/// simulation.
fn select_schedulers<T>(
    names: &[String],
    usual: &str,
    hint: &str,
    known: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Failure> {
    let names: Vec<&str> = if names.is_empty() {
        usual.split(',').collect()
    } else {
        names.iter().map(String::as_str).collect()
    };
    let find = |name: &str| {
        known(name).ok_or_else(|| {
            Failure::usage(format!("`--scheduler {name}` is for another kind of simulation"))
                .hint(hint)
        })
    };
    names.into_iter().map(find).collect()
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.01..=100.0).contains(&factor) => Ok(factor),
        _ => Err("expected a number from 0.01 to 100, such as 1.3".to_owned()),
    }
}

/// Runs `muster simulate`; returns its exit code.
pub async fn run(app: &App, args: &SimulateArgs) -> Result<u8> {
    // A run may take minutes: what could not be written after it is noticed before.
    args.schedule_out
        .iter()
        .map(PathBuf::as_path)
        .chain(args.fleet.outputs())
        .try_for_each(require_writable)?;
    match args.cluster.as_slice() {
        [] => replay_flat(app, args).await,
        [cluster] if args.packing.no_departures => packing::run(app, args, cluster).await,
        [_, ..] if args.packing.no_departures => {
            Err(Failure::usage("`--no-departures` takes one `--cluster`")
                .hint("run it once per cluster")
                .into())
        }
        [_, ..] => fleet::run(app, args).await,
    }
}

/// Replays the trace on a machine of identical processors.
async fn replay_flat(app: &App, args: &SimulateArgs) -> Result<u8> {
    let by_name = |name: &str| FlatScheduler::ALL.into_iter().find(|(known, _)| *known == name);
    let takes = FlatScheduler::ALL.map(|(name, _)| name).join(", ");
    let hint = format!("without `--cluster` the schedulers are {takes}");
    let schedulers = select_schedulers(&args.scheduler, "fcfs,easy", &hint, |name| {
        by_name(name).map(|(_, known)| known)
    })?;
    if args.schedule_out.is_some() && schedulers.len() > 1 {
        return Err(Failure::usage("`--schedule-out` takes one scheduler")
            .hint("run it once per scheduler")
            .into());
    }
    let point = args.only_point()?;
    // 1. Read the load.
    let read = trace_file::read(&args.trace, args.format, args.strict)?;
    let jobs: Vec<TraceJob> = read.jobs.into_iter().map(|job| args.replayed(job)).collect();
    let procs = args.procs.or(read.procs).ok_or_else(|| {
        Failure::usage("the trace does not say how many processors the machine has")
            .hint("add `--procs N`")
    })?;
    let load = FlatLoad::of(&jobs, procs, point.estimates.into()).at(point.load);
    let load =
        if point.estimates == EstimatesArg::Noisy { load.with_noise(args.seed) } else { load };
    if load.jobs.is_empty() {
        return Err(no_jobs(&load, procs).into());
    }

    // 2. Run the schedulers.
    let played = play::run_all(app, procs, &load.jobs, &schedulers).await?;

    // 3. Write and print the results.
    if let Some(path) = &args.schedule_out {
        write(path, rows(&load.jobs, &played[0].ran).to_string())?;
    }
    let comparison = FlatComparison {
        trace: args.trace.display().to_string(),
        procs,
        jobs: load.jobs.len() as u64,
        never_ran: load.never_ran,
        too_wide: load.too_wide,
        bad_rows: read.bad_count,
        duplicate_ids: read.duplicate_ids.jobs,
        runs: played.iter().map(|played| played.figures(procs, &load.jobs)).collect(),
    };
    warn_of_bad_rows(app, &read.bad, read.bad_count);
    trace_file::warn_of_duplicate_ids(app, read.duplicate_ids);
    if args.output.json() {
        app.ui.json(&comparison)?
    } else {
        app.ui.data(&simulate::comparison(&comparison, app.ui.context()))?
    }
    Ok(if played.iter().any(SimulatedRun::is_partial) { INTERRUPTED } else { 0 })
}

/// Warns that rows were skipped.
pub fn warn_of_bad_rows(app: &App, bad: &[RowError], bad_count: u64) {
    if let Some(first) = bad.first() {
        let rows = count(bad_count, "row");
        app.ui.warning(&format!("skipped {rows} that cannot be parsed; the first is {first}"));
    }
}

fn no_jobs(load: &FlatLoad, procs: u32) -> Failure {
    let FlatLoad { never_ran, too_wide, .. } = load;
    Failure::usage("no job of the trace can run").hint(format!(
        "{never_ran} have no known runtime, {too_wide} need more than {procs} processors"
    ))
}

/// Fails if a file cannot be written; leaves it as it is.
fn require_writable(path: &Path) -> Result<()> {
    let existed = path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))?;
    if !existed {
        std::fs::remove_file(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

//! `muster simulate`: a trace replayed on a machine that exists only for the question, under one
//! scheduler or several. Decided in `muster-sim`, written in `muster-report`; here are files and
//! threads.

pub mod cluster;
mod fleet;
mod packing;
mod play;
pub mod watch;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use muster_model::simulation::FlatComparison;
use muster_report::amount::count;
use muster_report::simulate;
use muster_sim::flat::{Estimates, FlatLoad, FlatScheduler, rows};
use muster_sim::packing::Scheduler;
use muster_spec::{RowError, TraceFormat};

use crate::app::App;
use crate::args::{Output, whole};
use crate::exit::{Failure, INTERRUPTED};
use crate::trace_file;
use play::Played;

const EXAMPLES: &str = "\
Examples:
  muster simulate --trace KTH-SP2.swf.gz --procs 100 --scheduler fcfs,easy,easy-sjf
  muster simulate --trace KTH-SP2.swf.gz --procs 100 --scheduler easy --estimates actual --schedule-out waits.csv --json
  muster simulate --trace philly.csv.gz --procs 640 --load 1.3
  muster simulate --cluster cluster.yaml --queues queues.yaml --trace jobs.csv --scheduler muster,kube-default
  muster simulate --cluster nodes.csv --trace pods.csv.gz --no-departures --scheduler random,best-fit,fragmentation";

/// Replay a trace under one scheduler or several, and show the difference
///
/// Jobs arrive when they did and run as long as they did; who starts when is decided anew. No
/// daemon is needed and nothing is run.
///
/// With --cluster the jobs run on nodes with GPUs, under queues and quotas if there are any, and
/// control planes are compared: muster is the engine that schedules jobs, under any queue file; the
/// others are models. docs/models.md says of each what is modelled, and what is not.
///
/// Without --cluster the machine has so many processors, all alike and in one place; of a trace
/// with GPUs, these are counted. fcfs, easy, conservative and sjf are the engine under that policy;
/// easy-sjf and srtf are models. docs/simulate.md has the rules of each, and how they compare with
/// published schedules.
///
/// With --no-departures a cluster is filled pod by pod instead, and placement policies are
/// compared: pack, spread, best-fit and fragmentation are the engine's, random, dot-product,
/// gpu-packing and gpu-clustering are models.
///
/// JSON: a `FleetComparison`, a `FlatComparison`, with --no-departures a `PackingComparison`.
/// Ctrl-C ends the runs and shows what had begun by then.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The trace, plain or packed with gzip; `-` is stdin
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// How it is written, where the first lines do not tell
    #[arg(long, value_name = "FORMAT", value_parser = super::trace::formats())]
    format: Option<TraceFormat>,
    /// Refuse a trace with a row that cannot be read, in place of counting it and leaving it out
    #[arg(long)]
    strict: bool,
    /// Processors, or GPUs, of the machine; without it, as many as the trace says
    #[arg(long, value_name = "N", value_parser = whole(1, MOST_PROCS), conflicts_with = "cluster")]
    procs: Option<u32>,
    /// The cluster: a cluster file, or a node list of openb with the columns
    /// sn,cpu_milli,memory_mib,gpu,model
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Who decides, one or several with commas between them; without it muster,kube-default on a
    /// cluster, fcfs,easy on a machine, best-fit,fragmentation with --no-departures
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = schedulers())]
    scheduler: Vec<String>,
    /// How long jobs are believed to run: as their users asked, as they really did, or too long
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = EstimatesArg::Requested)]
    estimates: EstimatesArg,
    /// Let jobs arrive so many times as fast: 1.3 is 30 % more load
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    load: f64,
    /// Write the schedule as CSV: job_id,submit,wait,start,runtime,procs, in seconds. Takes one
    /// scheduler
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    schedule_out: Option<PathBuf>,
    /// What chance is drawn from, where something is left to it
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    fleet: fleet::FleetArgs,
    #[command(flatten)]
    packing: packing::Packing,
    #[command(flatten)]
    output: Output,
}

/// Thousandths of CPUs are counted in 32 bits.
const MOST_PROCS: u32 = 4_000_000;

/// Whose word is taken for how long a job will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum EstimatesArg {
    /// The user's; where there is none, the true runtime, and with --cluster nobody knows
    Requested,
    /// Nobody's: it is known
    Actual,
    /// That of users who promise too much: any time from the runtime to five times that, drawn from
    /// the seed
    Noisy,
}

impl From<EstimatesArg> for Estimates {
    fn from(arg: EstimatesArg) -> Self {
        match arg {
            EstimatesArg::Requested => Estimates::Requested,
            EstimatesArg::Actual | EstimatesArg::Noisy => Estimates::Actual,
        }
    }
}

/// All that any simulation knows; each says itself which it takes.
fn schedulers() -> PossibleValuesParser {
    let fleets = muster_sim::fleet::Scheduler::ALL.map(|(name, _)| name);
    let flat = FlatScheduler::ALL.map(|(name, _)| name);
    PossibleValuesParser::new(fleets.into_iter().chain(flat).chain(Scheduler::names()))
}

/// Those that were named, or the usual ones, as one kind of simulation knows them.
fn named<T>(
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
            Failure::usage(format!("`--scheduler {name}` is for another simulation")).hint(hint)
        })
    };
    names.into_iter().map(find).collect()
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.01..=100.0).contains(&factor) => Ok(factor),
        _ => Err("a factor is a number from 0.01 to 100, such as 1.3".to_owned()),
    }
}

/// Runs the verb.
pub async fn run(app: &App, args: &Args) -> Result<u8> {
    match args.cluster {
        Some(_) if args.packing.no_departures => packing::run(app, args).await,
        Some(_) => fleet::run(app, args).await,
        None => replayed(app, args).await,
    }
}

/// Jobs come and go on a machine that is all alike.
async fn replayed(app: &App, args: &Args) -> Result<u8> {
    let by_name = |name: &str| FlatScheduler::ALL.into_iter().find(|(known, _)| *known == name);
    let takes = FlatScheduler::ALL.map(|(name, _)| name).join(", ");
    let hint = format!("without `--cluster` it takes {takes}");
    let schedulers =
        named(&args.scheduler, "fcfs,easy", &hint, |name| by_name(name).map(|(_, known)| known))?;
    if args.schedule_out.is_some() && schedulers.len() > 1 {
        return Err(Failure::usage("`--schedule-out` takes one scheduler")
            .hint("run it once per scheduler")
            .into());
    }
    // 1. The load.
    let read = trace_file::read(&args.trace, args.format, args.strict)?;
    let procs = args.procs.or(read.procs).ok_or_else(|| {
        Failure::usage("how large the machine is does not stand in the trace")
            .hint("add `--procs N`")
    })?;
    let load = FlatLoad::of(&read.jobs, procs, args.estimates.into()).at(args.load);
    let load =
        if args.estimates == EstimatesArg::Noisy { load.with_noise(args.seed) } else { load };
    if load.jobs.is_empty() {
        return Err(nothing(&load, procs).into());
    }

    // 2. The runs.
    let played = play::all(app, procs, &load.jobs, &schedulers).await?;

    // 3. What they come to.
    if let Some(path) = &args.schedule_out {
        write(path, &rows(&load.jobs, &played[0].ran).to_string())?;
    }
    let comparison = FlatComparison {
        trace: args.trace.display().to_string(),
        procs,
        jobs: load.jobs.len() as u64,
        never_ran: load.never_ran,
        too_wide: load.too_wide,
        bad_rows: read.bad_count,
        runs: played.iter().map(|played| played.figures(procs, &load.jobs)).collect(),
    };
    warn_of_bad_rows(app, &read.bad, read.bad_count);
    match args.output.json() {
        true => app.ui.json(&comparison)?,
        false => app.ui.data(&simulate::comparison(&comparison, &app.ui.style()))?,
    }
    Ok(if played.iter().any(Played::is_partial) { INTERRUPTED } else { 0 })
}

/// Says that rows are left out.
pub fn warn_of_bad_rows(app: &App, bad: &[RowError], bad_count: u64) {
    if let Some(first) = bad.first() {
        let rows = count(bad_count, "row");
        let are = if bad_count == 1 { "is" } else { "are" };
        app.ui.warning(&format!("{rows} cannot be read and {are} left out; the first is {first}"));
    }
}

fn nothing(load: &FlatLoad, procs: u32) -> Failure {
    let FlatLoad { never_ran, too_wide, .. } = load;
    Failure::usage("no job of the trace can run").hint(format!(
        "{never_ran} never ran where they come from, {too_wide} are wider than {procs} processors"
    ))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

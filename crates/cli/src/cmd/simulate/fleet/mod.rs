//! `muster simulate --cluster`: replays a trace on nodes with GPUs under several control planes.
//!
//! * `chosen.rs`, `child_policy.rs`: schedulers by name, and policies of users
//! * `compare.rs`: complete runs and their comparison
//! * `instant.rs`: runs up to an instant and the state there
//! * `output.rs`: one comparison, or the table of several, on the terminal and in files
//! * `slurm_conf.rs`: settings of the model of Slurm from a site's slurm.conf
//! * `variants.rs`: several clusters and queue files

mod child_policy;
mod chosen;
mod compare;
mod instant;
mod output;
mod slurm_conf;
mod variants;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use muster_model::Span;
use muster_model::queue::PlannedRuntimes;
use muster_model::simulation::{Resampled, TimeLimits};
use muster_report::amount::count;
use muster_sim::fleet::{
    Failures, Fleet, FleetLoad, Loading, SchedulerKind, SharedLoading, StopCosts, event,
};
use muster_sim::peers::slurm::SlurmSettings;
use muster_spec::TraceFormat;
use muster_spec::quantity::parse_span;

use super::watch::SimulationProgress;
use super::{EstimatesArg, SweepPoint, cluster, select_schedulers, warn_of_bad_rows};
use crate::app::App;
use crate::args::whole_number;
use crate::exit::Failure;
use crate::trace_file::{self, Opened, Streamed};
use chosen::ChosenScheduler;
pub use chosen::NameParser;
use slurm_conf::SlurmConf;
pub use variants::warn_of_nodes_beyond_quotas;
use variants::{AddNodes, VariantSetup, Variants};

/// Options for a cluster.
#[derive(Debug, clap::Args)]
pub struct FleetArgs {
    /// Queue file with queues, quotas and policies; by default one queue without limits. May be
    /// given several times: the files are compared
    #[arg(long, value_name = "FILE", requires = "cluster")]
    queues: Vec<PathBuf>,
    /// Compare with the cluster plus nodes like its last one, or like its last one with these GPUs:
    /// 4, 4xh100, 4xh100:8. May be given several times
    #[arg(long, value_name = "N[xMODEL[:GPUS]]", requires = "cluster")]
    add_nodes: Vec<AddNodes>,
    /// slurm.conf of the site, for the models slurm and slurm-preempt: weights, intervals, depths;
    /// the defaults are in docs/models.md
    #[arg(long, value_name = "FILE", requires = "cluster")]
    slurm_conf: Option<PathBuf>,
    /// Time that a policy of --scheduler exec:COMMAND has for each answer
    #[arg(long, value_name = "SPAN", value_parser = nonzero_span, default_value = "10s", requires = "cluster")]
    exec_timeout: Span,
    /// Number of runs of each control plane, each with its own seed, for confidence intervals
    #[arg(long, value_name = "N", value_parser = whole_number(1, 100), default_value = "1", requires = "cluster")]
    seeds: u32,
    /// Draw the weeks of the trace, or its users, anew for each seed, with replacement: the
    /// confidence intervals then also cover other weeks, or other users, of the same kind
    #[arg(long, value_name = "PARTS", value_enum, requires = "cluster", conflicts_with_all = ["at", "calibrate"])]
    resample: Option<ResampleArg>,
    /// Mean time between failures of a node
    #[arg(long, value_name = "SPAN", value_parser = nonzero_span, requires = "cluster")]
    node_mtbf: Option<Span>,
    /// Mean time between failures of a GPU
    #[arg(long, value_name = "SPAN", value_parser = nonzero_span, requires = "cluster")]
    gpu_mtbf: Option<Span>,
    /// Time to repair a node or GPU
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "4h", requires = "cluster")]
    repair: Span,
    /// Checkpoint interval of jobs; by default jobs that are stopped start from the beginning
    #[arg(long, value_name = "SPAN", value_parser = nonzero_span, requires = "cluster")]
    checkpoint_every: Option<Span>,
    /// Preempted jobs write a checkpoint before they stop
    #[arg(long, requires = "cluster")]
    checkpoint_on_signal: bool,
    /// Start-up time of a job that is restarted
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "0s", requires = "cluster")]
    restart: Span,
    /// Write an HTML page with plots: running and pending jobs over time, waiting times by job
    /// size, a timeline of each GPU, and figures per user
    #[arg(long, value_name = "FILE", requires = "cluster", conflicts_with = "at")]
    report_out: Option<PathBuf>,
    /// Write a table: a row per load, time limits, variant and control plane, with all figures,
    /// times in seconds, and the half-widths of their confidence intervals. It is Parquet if the name
    /// ends in .parquet, and CSV otherwise
    #[arg(long, value_name = "FILE", requires = "cluster", conflicts_with = "at")]
    table_out: Option<PathBuf>,
    /// First compare the simulated times from submission to start with those that the trace records,
    /// overall and by size of job, and judge the difference. For a single cluster and queue file:
    /// the site as it was
    #[arg(long, requires = "cluster", conflicts_with_all = ["at", "load"])]
    calibrate: bool,
    /// Write events, one `FleetEvent` in JSON per line. For a single scheduler, seed and variant
    #[arg(long, value_name = "FILE", requires = "cluster")]
    events_out: Option<PathBuf>,
    /// In place of the figures, show the state at this time after the first submission: running
    /// jobs, pending jobs, and why they are pending
    #[arg(long, value_name = "SPAN", value_parser = span, requires = "cluster", conflicts_with = "seeds")]
    at: Option<Span>,
    /// With --at, also explain these jobs, by their ids in the trace
    #[arg(long, value_name = "JOB,...", value_delimiter = ',', requires = "at")]
    explain: Vec<String>,
}

impl FleetArgs {
    /// Returns the files that a run writes.
    pub fn outputs(&self) -> impl Iterator<Item = &Path> {
        [&self.report_out, &self.events_out, &self.table_out]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }
}

/// Parts of the trace that are drawn anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ResampleArg {
    /// Weeks from the first submission on
    Weeks,
    /// Users with all their jobs
    Users,
}

impl From<ResampleArg> for Resampled {
    fn from(arg: ResampleArg) -> Self {
        match arg {
            ResampleArg::Weeks => Resampled::Weeks,
            ResampleArg::Users => Resampled::Users,
        }
    }
}

fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|malformed| malformed.label)
}

/// Parses a duration that is not zero.
fn nonzero_span(text: &str) -> Result<Span, String> {
    match span(text)? {
        Span(0) => Err("expected a duration above zero, such as 30m".to_owned()),
        span => Ok(span),
    }
}

/// Input that all runs share.
struct FleetSetup {
    /// Variants of the site with the same jobs; at least one.
    variants: Vec<VariantSetup>,
    /// Number of jobs that at least one variant cannot host.
    unhosted: u64,
    /// Number of jobs that started in the trace and are not replayed.
    not_replayed: u64,
    schedulers: Vec<ChosenScheduler>,
    /// Time that a policy has for each answer.
    exec_timeout: Span,
    slurm: SlurmSettings,
    terms: StopCosts,
    failures: Failures,
    limits: TimeLimits,
    /// Factor on the arrival rate.
    load: f64,
    /// Parts of the trace that each seed draws anew.
    resampled: Option<Resampled>,
    /// True if time limits are random overestimates, drawn anew for each seed.
    has_noise: bool,
    /// Number of rows that could not be parsed.
    bad_rows: u64,
    /// Number of jobs with the id of an earlier one.
    duplicate_ids: u64,
}

impl FleetSetup {
    /// Returns a run that has not started.
    fn fleet(
        &self,
        variant: &VariantSetup,
        scheduler: &ChosenScheduler,
        seed: u64,
        watch: &SimulationProgress,
    ) -> Result<Fleet> {
        let VariantSetup { site, load, .. } = variant;
        let load = match self.resampled {
            Some(by) => &load.resampled(by, seed),
            None => load,
        };
        let load = if self.has_noise { &load.clone().with_noise(seed) } else { load };
        let jobs = if scheduler.kind.gives_shares() {
            Arc::clone(&load.jobs)
        } else {
            load.in_whole_gpus()
        };
        let failures = Failures { seed, ..self.failures };
        let waits = (self.exec_timeout, watch.stop_flag());
        let plane = scheduler.begin(site, seed, self.slurm, waits)?;
        Ok(Fleet::new(site, plane, jobs, self.terms, failures))
    }
}

/// Runs `muster simulate --cluster`; returns its exit code.
pub async fn run(app: &App, args: &super::SimulateArgs) -> Result<u8> {
    let takes = SchedulerKind::ALL.map(|(name, _)| name).join(", ");
    let hint = format!("with `--cluster` the schedulers are {takes}, and `exec:COMMAND`");
    let schedulers =
        select_schedulers(&args.scheduler, "muster,kube-default", &hint, ChosenScheduler::named)?;
    if args.fleet.events_out.is_some() && (schedulers.len() > 1 || args.fleet.seeds > 1) {
        return Err(Failure::usage("`--events-out` takes one scheduler and one seed")
            .hint("run it once per scheduler")
            .into());
    }
    if args.fleet.resample.is_some() && args.fleet.seeds < 2 {
        return Err(Failure::usage("`--resample` draws for each seed, and there is one seed")
            .hint("add `--seeds 20`")
            .into());
    }
    let points = args.points();
    let takes_one = args.fleet.events_out.is_some() || args.fleet.at.is_some();
    if points.len() > 1 && (takes_one || args.fleet.calibrate) {
        let what = "`--events-out`, `--at` and `--calibrate` take one load and one kind of limits";
        return Err(Failure::usage(what).hint("run it once per value").into());
    }
    // Every point reads the same files.
    let warned = App { global: app.global.clone(), ui: app.ui.once_warned() };
    let mut all = Vec::new();
    for point in points {
        let reader = if all.is_empty() { app } else { &warned };
        let given = setup(reader, args, schedulers.clone(), point)?;
        if given.variants.len() > 1 && takes_one {
            return Err(Failure::usage(
                "`--events-out` and `--at` take one cluster and one queue file",
            )
            .hint("run it once per variant")
            .into());
        }
        if let Some(after) = args.fleet.at {
            return instant::run(app, args, given, after).await;
        }
        all.push(compare::compare(app, args, given).await?);
        // What is left is not begun.
        if all.last().is_some_and(compare::Compared::is_partial) {
            break;
        }
    }
    output::deliver(app, args, all)
}

/// Reads the site, the load and the costs of stopping a job.
fn setup(
    app: &App,
    args: &super::SimulateArgs,
    schedulers: Vec<ChosenScheduler>,
    point: SweepPoint,
) -> Result<FleetSetup> {
    let FleetArgs { queues, add_nodes, .. } = &args.fleet;
    let Variants { mut all, bad } =
        variants::read(app, &args.cluster, queues, add_nodes, args.strict)?;
    if args.fleet.calibrate && all.len() > 1 {
        return Err(Failure::usage("`--calibrate` takes one cluster and one queue file")
            .hint("run it on the site as it was, alone; then compare the variants without it")
            .into());
    }
    let slurm = slurm_settings(app, args.fleet.slurm_conf.as_deref(), &schedulers)?;
    let (read, unhosted, not_replayed) = read_load(args, point, &mut all)?;
    if all[0].load.jobs.is_empty() {
        return Err(no_jobs(&all, unhosted).into());
    }
    let resampled = args.fleet.resample.map(Resampled::from);
    if let Some(by) = resampled {
        check_parts(&all[0].load, by)?;
    }
    if args.fleet.calibrate && all[0].load.jobs.iter().all(|job| job.recorded_start.is_none()) {
        return Err(no_starts(&args.trace, read.format).into());
    }
    warn_of_bad_rows(app, &read.bad, read.bad_count);
    trace_file::warn_of_duplicate_ids(app, read.duplicate_ids);
    cluster::warn_of_bad_nodes(app, &bad);
    let FleetArgs {
        checkpoint_every,
        checkpoint_on_signal,
        restart,
        node_mtbf,
        gpu_mtbf,
        repair,
        ..
    } = args.fleet;
    Ok(FleetSetup {
        variants: all,
        unhosted,
        not_replayed,
        schedulers,
        exec_timeout: args.fleet.exec_timeout,
        slurm,
        terms: StopCosts {
            checkpoint_every,
            saves_when_told: checkpoint_on_signal,
            restart,
            ..StopCosts::default()
        },
        failures: Failures { node_mtbf, gpu_mtbf, repair, seed: args.seed },
        load: point.load,
        resampled,
        limits: match point.estimates {
            EstimatesArg::Requested => TimeLimits::Requested,
            EstimatesArg::Predicted => TimeLimits::Predicted,
            EstimatesArg::Actual => TimeLimits::Actual,
            EstimatesArg::Noisy => TimeLimits::Noisy,
        },
        has_noise: point.estimates == EstimatesArg::Noisy,
        bad_rows: read.bad_count + bad.len() as u64,
        duplicate_ids: read.duplicate_ids.jobs,
    })
}

/// Reads the trace into the load of every variant. Returns its summary, the number of jobs that at
/// least one variant cannot host, and of those that started in the trace and are not replayed.
fn read_load(
    args: &super::SimulateArgs,
    point: SweepPoint,
    all: &mut [VariantSetup],
) -> Result<(Streamed, u64, u64)> {
    let trace = Opened::at(&args.trace, args.format)?;
    let as_tasks = trace.format().names_tasks();
    if point.estimates == EstimatesArg::Predicted {
        for variant in all.iter_mut() {
            variant.site.tree.estimates = PlannedRuntimes::Predicted;
        }
    }
    let loadings =
        all.iter().map(|variant| Loading::new(&variant.site, point.estimates.into(), as_tasks));
    let mut loading = SharedLoading::new(loadings.collect());
    let read = trace.stream(args.strict, &mut |job| loading.add(&args.replayed(job)))?;
    let mut unhosted = 0;
    let mut not_replayed = 0;
    let loads = loading.done();
    for (variant, shared) in all.iter_mut().zip(loads) {
        unhosted = shared.unhosted;
        not_replayed = shared.not_replayed;
        variant.load = shared.load.at(point.load);
        variant.view.too_large = variant.load.too_large;
        (variant.view.left_out, variant.view.left_out_share) =
            (shared.left_out, shared.left_out_share);
        // Without a queue file, queues of the trace cannot be unknown.
        variant.view.strangers =
            if args.fleet.queues.is_empty() { 0 } else { variant.load.strangers };
    }
    Ok((read, unhosted, not_replayed))
}

/// Checks that there is a choice of parts to draw from.
fn check_parts(load: &FleetLoad, by: Resampled) -> Result<(), Failure> {
    let (word, parts) = match by {
        Resampled::Weeks => ("week", load.parts(by)),
        Resampled::Users => ("user", load.parts(by)),
    };
    if parts > 1 {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`--resample {word}s` draws from {}, which leaves no choice",
        count(parts as u64, word)
    ))
    .hint("use a longer trace, or seeds without it"))
}

/// Returns the settings of a slurm.conf, or the defaults.
fn slurm_settings(
    app: &App,
    path: Option<&Path>,
    schedulers: &[ChosenScheduler],
) -> Result<SlurmSettings> {
    let Some(path) = path else { return Ok(SlurmSettings::default()) };
    let SlurmConf { settings, mut not_modelled } = slurm_conf::read(path)?;
    if schedulers.iter().all(|scheduler| scheduler.kind != SchedulerKind::Slurm) {
        not_modelled.retain(|setting| !setting.eq_ignore_ascii_case("PreemptType=preempt/qos"));
    }
    if !not_modelled.is_empty() {
        let all = not_modelled.join(", ");
        app.ui.warning(&format!("{}: the model of Slurm ignores {all}", path.display()));
    }
    Ok(settings)
}

fn no_jobs(all: &[VariantSetup], too_large: u64) -> Failure {
    let FleetLoad { never_ran, .. } = &all[0].load;
    if all.iter().any(|variant| variant.view.left_out > 0) {
        let hosted = all.iter().map(|variant| {
            format!("{} of {too_large} fit `{}`", variant.view.left_out, variant.view.name)
        });
        let hosted = hosted.collect::<Vec<_>>().join(", ");
        return Failure::usage("no job fits every variant")
            .hint(format!("{hosted}; compare clusters that can host the same jobs"));
    }
    let counted = format!(
        "{} without a known runtime, {} that would not fit on the idle cluster",
        count(*never_ran, "job"),
        count(too_large, "job")
    );
    let hint = if *never_ran > 0 {
        format!("{counted}; `--no-departures` fills the cluster with jobs of unknown runtime")
    } else {
        counted
    };
    Failure::usage("no job of the trace can run").hint(hint)
}

fn no_starts(trace: &Path, format: TraceFormat) -> Failure {
    let trace = trace.display();
    Failure::usage(format!(
        "`--calibrate` compares with recorded starts, but {trace} ({}) records none",
        format.name()
    ))
    .hint(
        "starts are in sacct (column Start), sacct-json, swf (field 3), helios, acme (start_time), philly-json, openb \
         (scheduled_time), pods of kubernetes, and csv with the column started",
    )
}

/// Output file of events, one per line; `None` without `--events-out`.
struct Events(Option<BufWriter<File>>);

impl Events {
    /// Opens the file and makes the fleet record events.
    fn of(path: Option<&Path>, fleet: &mut Fleet) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        fleet.record_events();
        Ok(Self(Some(BufWriter::new(file))))
    }

    /// Writes the events since the last call.
    fn write(&mut self, fleet: &mut Fleet) -> Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        for (at, happening) in fleet.take_events() {
            serde_json::to_writer(&mut *file, &event(fleet, at, &happening))?;
            file.write_all(b"\n")?;
        }
        Ok(file.flush()?)
    }
}

//! `muster simulate --cluster`: a trace on nodes with GPUs, under control planes that are compared.
//! Decided in `muster-sim`, written in `muster-report`; here are files and threads.
//!
//! * `compare.rs`: whole runs, and what they come to
//! * `instant.rs`: runs up to an instant, and how things stand there
//! * `slurm_conf.rs`: what the model of Slurm goes by, from a site's own file

mod compare;
mod instant;
mod slurm_conf;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use muster_model::simulation::TimeLimits;
use muster_model::{QueueTree, Span};
use muster_report::amount::count;
use muster_sim::fleet::{
    Failures, Fleet, FleetLoad, Loading, PlaneError, Scheduler, Site, Terms, event,
};
use muster_sim::peers::slurm::Settings;
use muster_spec::quantity::parse_span;

use super::{EstimatesArg, cluster, named, warn_of_bad_rows};
use crate::app::App;
use crate::args::whole;
use crate::exit::Failure;
use crate::trace_file::Opened;
use slurm_conf::SlurmConf;

/// What is asked of a fleet.
#[derive(Debug, clap::Args)]
pub struct FleetArgs {
    /// Queues, quotas and policies; without it, one queue without limits
    #[arg(long, value_name = "FILE", requires = "cluster")]
    queues: Option<PathBuf>,
    /// How the site has set Slurm up, for the model slurm: weights, intervals, depths; without it,
    /// as docs/models.md says
    #[arg(long, value_name = "FILE", requires = "cluster")]
    slurm_conf: Option<PathBuf>,
    /// So many runs of each, with as many seeds, and confidence intervals
    #[arg(long, value_name = "N", value_parser = whole(1, 100), default_value = "1", requires = "cluster")]
    seeds: u32,
    /// Nodes break, each after so long on average
    #[arg(long, value_name = "SPAN", value_parser = some_span, requires = "cluster")]
    node_mtbf: Option<Span>,
    /// GPUs break, each after so long on average
    #[arg(long, value_name = "SPAN", value_parser = some_span, requires = "cluster")]
    gpu_mtbf: Option<Span>,
    /// What breaks is there again after so long
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "4h", requires = "cluster")]
    repair: Span,
    /// Jobs save their progress each time they have worked for so long; without it, what is stopped
    /// begins anew
    #[arg(long, value_name = "SPAN", value_parser = some_span, requires = "cluster")]
    checkpoint_every: Option<Span>,
    /// Jobs that are made to go save their progress first
    #[arg(long, requires = "cluster")]
    checkpoint_on_signal: bool,
    /// A job that runs again needs so long until it works
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "0s", requires = "cluster")]
    restart: Span,
    /// Write a page with plots: what ran and waited over time, waits by size of job, who held which
    /// GPU, how users fared
    #[arg(long, value_name = "FILE", requires = "cluster", conflicts_with = "at")]
    report_out: Option<PathBuf>,
    /// Write what happens, a `FleetEvent` in JSON a line. Takes one scheduler and one seed
    #[arg(long, value_name = "FILE", requires = "cluster")]
    events_out: Option<PathBuf>,
    /// Show how things stand so long after the first submission, in place of the figures: what
    /// runs, who waits, and why
    #[arg(long, value_name = "SPAN", value_parser = span, requires = "cluster", conflicts_with = "seeds")]
    at: Option<Span>,
    /// There, show these jobs too, by their ids in the trace
    #[arg(long, value_name = "JOB,...", value_delimiter = ',', requires = "at")]
    explain: Vec<String>,
}

fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|malformed| malformed.label)
}

/// A span that is not nothing.
fn some_span(text: &str) -> Result<Span, String> {
    match span(text)? {
        Span(0) => Err("expected a length of time above zero, such as 30m".to_owned()),
        span => Ok(span),
    }
}

/// What all runs have in common.
struct Given {
    site: Site,
    load: FleetLoad,
    schedulers: Vec<Scheduler>,
    slurm: Settings,
    terms: Terms,
    failures: Failures,
    limits: TimeLimits,
    /// Users promise too much, each run with its own seed.
    has_noise: bool,
    /// Rows that could not be read.
    bad_rows: u64,
}

impl Given {
    /// A run that has not begun.
    fn fleet(&self, scheduler: Scheduler, seed: u64) -> Result<Fleet, PlaneError> {
        let load = if self.has_noise { &self.load.clone().with_noise(seed) } else { &self.load };
        let jobs =
            if scheduler.gives_shares() { Arc::clone(&load.jobs) } else { load.in_whole_gpus() };
        let failures = Failures { seed, ..self.failures };
        let plane = scheduler.begin_as(&self.site, seed, self.slurm)?;
        Ok(Fleet::new(&self.site, plane, jobs, self.terms, failures))
    }
}

/// Runs it.
pub async fn run(app: &App, args: &super::Args) -> Result<u8> {
    let takes = Scheduler::ALL.map(|(name, _)| name).join(", ");
    let hint = format!("with `--cluster` it takes {takes}");
    let schedulers = named(&args.scheduler, "muster,kube-default", &hint, Scheduler::named)?;
    if args.fleet.events_out.is_some() && (schedulers.len() > 1 || args.fleet.seeds > 1) {
        return Err(Failure::usage("`--events-out` takes one scheduler and one seed")
            .hint("run it once per scheduler")
            .into());
    }
    let given = given(app, args, schedulers)?;
    match args.fleet.at {
        Some(after) => instant::run(app, args, given, after).await,
        None => compare::run(app, args, given).await,
    }
}

/// The site, the load, and what a stop costs.
fn given(app: &App, args: &super::Args, schedulers: Vec<Scheduler>) -> Result<Given> {
    let path = args.cluster.as_deref().unwrap_or(Path::new("-"));
    let cluster = cluster::read(path, args.strict)?;
    let tree =
        args.fleet.queues.as_deref().map_or_else(|| Ok(QueueTree::single()), cluster::queues)?;
    let site = Site { nodes: cluster.nodes, levels: cluster.levels, tree };
    let slurm = slurm(app, args.fleet.slurm_conf.as_deref())?;
    let trace = Opened::at(&args.trace, args.format)?;
    let mut loading = Loading::new(&site, args.estimates.into(), trace.format().names_tasks());
    let read = trace.stream(args.strict, &mut |job| loading.add(&job))?;
    let mut load = loading.done().at(args.load);
    if load.jobs.is_empty() {
        return Err(nothing(&load).into());
    }
    if args.fleet.queues.is_none() {
        // Who names no queues has nothing for those of the trace to be strangers to.
        load.strangers = 0;
    }
    warn_of_bad_rows(app, &read.bad, read.bad_count);
    cluster::warn_of_bad_nodes(app, &cluster.bad);
    let FleetArgs {
        checkpoint_every,
        checkpoint_on_signal,
        restart,
        node_mtbf,
        gpu_mtbf,
        repair,
        ..
    } = args.fleet;
    Ok(Given {
        site,
        load,
        schedulers,
        slurm,
        terms: Terms {
            checkpoint_every,
            saves_when_told: checkpoint_on_signal,
            restart,
            ..Terms::default()
        },
        failures: Failures { node_mtbf, gpu_mtbf, repair, seed: args.seed },
        limits: match args.estimates {
            EstimatesArg::Requested => TimeLimits::Requested,
            EstimatesArg::Actual => TimeLimits::Actual,
            EstimatesArg::Noisy => TimeLimits::Noisy,
        },
        has_noise: args.estimates == EstimatesArg::Noisy,
        bad_rows: read.bad_count + cluster.bad.len() as u64,
    })
}

/// As the site has set Slurm up, where it says so.
fn slurm(app: &App, path: Option<&Path>) -> Result<Settings> {
    let Some(path) = path else { return Ok(Settings::default()) };
    let SlurmConf { settings, not_modelled } = slurm_conf::read(path)?;
    if !not_modelled.is_empty() {
        let all = not_modelled.join(", ");
        app.ui.warning(&format!("of {} the model of Slurm does not know {all}", path.display()));
    }
    Ok(settings)
}

fn nothing(load: &FleetLoad) -> Failure {
    let FleetLoad { never_ran, too_large, .. } = load;
    let counted = format!(
        "{} never ran where they come from, {} not even the idle cluster could host",
        count(*never_ran, "job"),
        count(*too_large, "job")
    );
    let hint = if *never_ran > 0 {
        format!(
            "{counted}; `--no-departures` fills the cluster with jobs whose runtimes nobody knows"
        )
    } else {
        counted
    };
    Failure::usage("no job of the trace can run").hint(hint)
}

/// Where events go, line by line; nowhere unless that was asked for.
struct Events(Option<BufWriter<File>>);

impl Events {
    /// Opens the file, and has the run keep what happens.
    fn of(path: Option<&Path>, fleet: &mut Fleet) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        fleet.follow();
        Ok(Self(Some(BufWriter::new(file))))
    }

    /// Writes what has happened since the last time.
    fn write(&mut self, fleet: &mut Fleet) -> Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        for (at, happening) in fleet.take_happenings() {
            serde_json::to_writer(&mut *file, &event(fleet, at, &happening))?;
            file.write_all(b"\n")?;
        }
        Ok(file.flush()?)
    }
}

//! `muster simulate --cluster`: a trace on nodes with GPUs, under control planes that are compared. Decided in `muster-sim`,
//! written in `muster-report`; here are files and threads.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use muster_model::simulation::{FleetComparison, FleetFigures, FleetUnit};
use muster_model::{QueueTree, Span};
use muster_report::amount::count;
use muster_sim::fleet::{
    Failures, Fleet, FleetLoad, PlaneError, Scheduler, Site, Terms, figures, over_seeds,
};
use muster_spec::parse_queues;
use muster_spec::quantity::parse_span;

use super::watch::{self, Watch};
use super::{cluster, named, warn_of_bad_rows};
use crate::app::App;
use crate::args::whole;
use crate::exit::{Failure, INTERRUPTED};
use crate::source;
use crate::trace_file;

/// What is asked of a fleet.
#[derive(Debug, clap::Args)]
pub struct FleetArgs {
    /// Queues, quotas and policies; without it, one queue without limits
    #[arg(long, value_name = "FILE", requires = "cluster")]
    queues: Option<PathBuf>,
    /// So many runs of each, with as many seeds, and confidence intervals
    #[arg(long, value_name = "N", value_parser = whole(1, 100), default_value = "1", requires = "cluster")]
    seeds: u32,
    /// Nodes break, each after so long on average
    #[arg(long, value_name = "SPAN", value_parser = span, requires = "cluster")]
    node_mtbf: Option<Span>,
    /// GPUs break, each after so long on average
    #[arg(long, value_name = "SPAN", value_parser = span, requires = "cluster")]
    gpu_mtbf: Option<Span>,
    /// What breaks is there again after so long
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "4h", requires = "cluster")]
    repair: Span,
    /// Jobs save their progress each time they have worked for so long; without it, what is stopped begins anew
    #[arg(long, value_name = "SPAN", value_parser = span, requires = "cluster")]
    checkpoint_every: Option<Span>,
    /// Jobs that are made to go save their progress first
    #[arg(long, requires = "cluster")]
    checkpoint_on_signal: bool,
    /// A job that runs again needs so long until it works
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "0s", requires = "cluster")]
    restart: Span,
}

fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|malformed| malformed.label)
}

/// One run of one control plane.
struct Task {
    scheduler: Scheduler,
    seed: u64,
}

/// Runs it.
pub async fn run(app: &App, args: &super::Args) -> Result<u8> {
    let takes = Scheduler::ALL.map(|(name, _)| name).join(", ");
    let hint = format!("with `--cluster` it takes {takes}");
    let schedulers = named(&args.scheduler, "muster,kube-default", &hint, Scheduler::named)?;
    // 1. The site and the load.
    let path = args.cluster.as_deref().unwrap_or(Path::new("-"));
    let given = cluster::read(path, args.strict)?;
    let bad_nodes = given.bad.len() as u64;
    let tree = args.fleet.queues.as_deref().map_or_else(|| Ok(QueueTree::single()), queues)?;
    let site = Site { nodes: given.nodes, levels: given.levels, tree };
    let read = trace_file::read(&args.trace, args.format, args.strict)?;
    let load =
        FleetLoad::of(&read.jobs, &site, args.estimates.into(), read.format.names_tasks()).at(args.load);
    if load.jobs.is_empty() {
        return Err(nothing(&load).into());
    }
    warn_of_bad_rows(app, &read);
    let seeds: Vec<u64> = (args.seed..).take(args.fleet.seeds as usize).collect();
    let comparison = FleetComparison {
        trace: args.trace.display().to_string(),
        cluster: path.display().to_string(),
        queues: args.fleet.queues.as_ref().map(|path| path.display().to_string()),
        command: command(),
        nodes: site.nodes.len() as u64,
        size: site.size_milli() as f64 / 1000.0,
        unit: if site.has_gpus() { FleetUnit::Gpu } else { FleetUnit::Cpu },
        jobs: load.jobs.len() as u64,
        never_ran: load.never_ran,
        too_large: load.too_large,
        strangers: load.strangers,
        bad_rows: read.bad_count + bad_nodes,
        seeds: seeds.clone(),
        runs: Vec::new(),
    };

    // 2. The runs.
    let runs = played(app, site, load, schedulers, seeds, &args.fleet).await?;

    // 3. What they come to.
    let is_partial = runs.iter().any(|run| run.is_partial);
    let comparison = FleetComparison { runs, ..comparison };
    match args.output.json() {
        true => app.ui.json(&comparison)?,
        false => app.ui.data(&muster_report::fleet::comparison(&comparison, &app.ui.style()))?,
    }
    Ok(if is_partial { INTERRUPTED } else { 0 })
}

/// Each control plane with each seed, as many at once as there are cores.
async fn played(
    app: &App,
    site: Site,
    load: FleetLoad,
    schedulers: Vec<Scheduler>,
    seeds: Vec<u64>,
    args: &FleetArgs,
) -> Result<Vec<FleetFigures>> {
    let terms = Terms {
        checkpoint_every: args.checkpoint_every,
        saves_when_told: args.checkpoint_on_signal,
        restart: args.restart,
    };
    let failures =
        Failures { node_mtbf: args.node_mtbf, gpu_mtbf: args.gpu_mtbf, repair: args.repair, seed: 0 };
    let total = (load.jobs.len() * schedulers.len() * seeds.len()) as u64;
    let per_plane = seeds.len();
    let runs = move |watch: &Watch| {
        let both = |scheduler: &Scheduler| {
            let scheduler = *scheduler;
            seeds.iter().map(move |seed| Task { scheduler, seed: *seed }).collect::<Vec<_>>()
        };
        let tasks: Vec<Task> = schedulers.iter().flat_map(both).collect();
        watch::on_all_cores(&tasks, |task| {
            one(watch, &site, &load, terms, Failures { seed: task.seed, ..failures }, task)
        })
    };
    let runs: Vec<FleetFigures> =
        watch::jobs(app, total, runs).await?.into_iter().collect::<Result<_, _>>()?;
    Ok(runs.chunks(per_plane).map(over_seeds).collect())
}

fn one(
    watch: &Watch,
    site: &Site,
    load: &FleetLoad,
    terms: Terms,
    failures: Failures,
    task: &Task,
) -> Result<FleetFigures, PlaneError> {
    let Task { scheduler, seed } = *task;
    let jobs = if scheduler.gives_shares() { load.jobs.clone() } else { load.in_whole_gpus() };
    let count = jobs.len();
    let mut fleet = Fleet::new(site, scheduler.begin(site, seed)?, jobs, terms, failures);
    let is_over = watch::play(watch, &mut fleet, None, |_| ())?;
    watch.count(count - fleet.desk().jobs().len());
    Ok(figures(scheduler, fleet.desk(), !is_over))
}

fn queues(path: &Path) -> Result<QueueTree> {
    let text = source::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(parse_queues(&text.source, text.file.as_deref()).map_err(Failure::from)?)
}

fn nothing(load: &FleetLoad) -> Failure {
    let FleetLoad { never_ran, too_large, .. } = load;
    Failure::usage("no job of the trace can run").hint(format!(
        "{} never ran where they come from, {} not even the idle cluster could host",
        count(*never_ran, "job"),
        count(*too_large, "job")
    ))
}

/// This command, as it is typed in a shell.
fn command() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+%@".contains(c);
    let quoted = |word: String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("muster".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

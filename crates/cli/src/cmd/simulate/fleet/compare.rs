//! Complete runs: each control plane with each seed, as many at once as there are cores, and their
//! comparison.

use std::path::Path;

use anyhow::Result;
use muster_model::payload::shell_word;
use muster_model::simulation::{FleetComparison, FleetUnit, Gantt};
use muster_sim::fleet::{Finished, SchedulerKind, gantt, over_seeds, to_common_horizon};

use super::{Events, FleetSetup};
use crate::app::App;
use crate::cmd::simulate::watch::{self, SimulationProgress};
use crate::cmd::simulate::write;
use crate::exit::INTERRUPTED;

/// Run to do: a control plane and a seed.
#[derive(Clone, Copy)]
struct FleetRun {
    scheduler: SchedulerKind,
    seed: u64,
    /// True if the data of its plot is recorded.
    is_drawn: bool,
}

/// Result of a run.
struct FleetRunResult {
    finished: Finished,
    gantt: Option<Gantt>,
}

/// Runs every scheduler with every seed and compares them; returns the exit code.
pub async fn run(app: &App, args: &super::super::SimulateArgs, given: FleetSetup) -> Result<u8> {
    let fleet = &args.fleet;
    let seeds: Vec<u64> = (args.seed..).take(fleet.seeds as usize).collect();
    let comparison = FleetComparison {
        trace: args.trace.display().to_string(),
        cluster: args.cluster.as_deref().unwrap_or(Path::new("-")).display().to_string(),
        queues: fleet.queues.as_ref().map(|path| path.display().to_string()),
        command: command_line(),
        nodes: given.site.nodes.len() as u64,
        size: given.site.size_milli() as f64 / 1000.0,
        unit: if given.site.has_gpus() { FleetUnit::Gpu } else { FleetUnit::Cpu },
        jobs: given.load.jobs.len() as u64,
        never_ran: given.load.never_ran,
        too_large: given.load.too_large,
        strangers: given.load.strangers,
        bad_rows: given.bad_rows,
        limits: given.limits,
        without_limit: given.load.jobs.iter().filter(|job| job.estimate.is_none()).count() as u64,
        seeds: seeds.clone(),
        runs: Vec::new(),
    };

    // 1. Run the control planes.
    let mut tasks = Vec::new();
    for scheduler in &given.schedulers {
        let drawn = |at: usize| at == 0 && fleet.report_out.is_some();
        let of_seed = |(at, seed): (usize, &u64)| FleetRun {
            scheduler: *scheduler,
            seed: *seed,
            is_drawn: drawn(at),
        };
        tasks.extend(seeds.iter().enumerate().map(of_seed));
    }
    let total = (given.load.jobs.len() * tasks.len()) as u64;
    let events_out = fleet.events_out.clone();
    let runs = move |watch: &SimulationProgress| {
        watch::on_all_cores(&tasks, |task| run_one(watch, &given, *task, events_out.as_deref()))
    };
    let mut played: Vec<FleetRunResult> =
        watch::with_progress(app, total, runs).await?.into_iter().collect::<Result<_>>()?;

    // 2. Compare and print the results.
    to_common_horizon(played.iter_mut().map(|run| &mut run.finished));
    let of_planes = played.chunks(seeds.len());
    let runs = of_planes.map(|runs| {
        over_seeds(&runs.iter().map(|run| run.finished.figures().clone()).collect::<Vec<_>>())
    });
    let comparison = FleetComparison { runs: runs.collect(), ..comparison };
    if let Some(path) = &fleet.report_out {
        let gantts: Vec<Gantt> = played.into_iter().filter_map(|run| run.gantt).collect();
        write(path, &muster_report::html::page(&comparison, &gantts))?;
        app.ui.status(&format!("wrote the plots to {}", path.display()));
    }
    if args.output.json() {
        app.ui.json(&comparison)?
    } else {
        app.ui.data(&muster_report::fleet::comparison(&comparison, app.ui.context()))?
    }
    Ok(if comparison.runs.iter().any(|run| run.is_partial) { INTERRUPTED } else { 0 })
}

fn run_one(
    watch: &SimulationProgress,
    given: &FleetSetup,
    task: FleetRun,
    events_out: Option<&Path>,
) -> Result<FleetRunResult> {
    let FleetRun { scheduler, seed, is_drawn } = task;
    let mut fleet = given.fleet(scheduler, seed)?;
    if is_drawn {
        fleet.record_bars();
    }
    let mut events = Events::of(events_out, &mut fleet)?;
    let is_over = watch::play(watch, &mut fleet, None, |fleet| events.write(fleet))?;
    watch.count(given.load.jobs.len() - fleet.cluster().jobs().len());
    let gantt = is_drawn.then(|| gantt(scheduler, &given.site, &fleet));
    Ok(FleetRunResult { finished: Finished::of(scheduler, fleet, !is_over), gantt })
}

/// Returns this command line, quoted for a shell.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("muster".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

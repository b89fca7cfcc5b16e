//! Complete runs: each control plane on each variant of the site with each seed, as many at once as
//! there are cores, and their comparison.

use std::path::Path;

use anyhow::Result;
use muster_model::payload::shell_word;
use muster_model::simulation::{
    Calibration, FleetComparison, FleetFigures, FleetUnit, Gantt, SiteVariant,
};
use muster_sim::fleet::{Finished, calibration, differences, gantt, over_seeds, to_common_horizon};

use super::{Events, FleetSetup, VariantSetup};
use crate::app::App;
use crate::cmd::simulate::watch::{self, SimulationProgress};
use crate::cmd::simulate::write;
use crate::exit::INTERRUPTED;

/// Run to do: a control plane, a variant of the site and a seed.
#[derive(Clone, Copy)]
struct FleetRun {
    /// Index of the scheduler.
    scheduler: usize,
    /// Index of the variant.
    variant: usize,
    seed: u64,
    /// True if the data of its plot is recorded.
    is_drawn: bool,
    /// True if its waits are compared with the recorded ones.
    calibrates: bool,
}

/// Result of a run.
struct FleetRunResult {
    finished: Finished,
    gantt: Option<Gantt>,
    calibration: Option<Calibration>,
}

/// Runs every scheduler on every variant with every seed and compares them; returns the exit code.
pub async fn run(app: &App, args: &super::super::SimulateArgs, given: FleetSetup) -> Result<u8> {
    let fleet = &args.fleet;
    let seeds: Vec<u64> = (args.seed..).take(fleet.seeds as usize).collect();
    let comparison = comparison_without_runs(args, &given, seeds.clone());
    let views: Vec<SiteVariant> =
        given.variants.iter().map(|variant| variant.view.clone()).collect();

    // 1. Run the control planes.
    let mut tasks = Vec::new();
    for scheduler in 0..given.schedulers.len() {
        for variant in 0..views.len() {
            let of_seed = |(at, seed): (usize, &u64)| FleetRun {
                scheduler,
                variant,
                seed: *seed,
                is_drawn: at == 0 && fleet.report_out.is_some(),
                calibrates: at == 0 && variant == 0 && fleet.calibrate,
            };
            tasks.extend(seeds.iter().enumerate().map(of_seed));
        }
    }
    let names: Vec<String> =
        given.schedulers.iter().map(|scheduler| scheduler.name.clone()).collect();
    let total = comparison.jobs * tasks.len() as u64;
    let events_out = fleet.events_out.clone();
    let runs = move |watch: &SimulationProgress| {
        watch::on_all_cores(&tasks, |task| run_one(watch, &given, *task, events_out.as_deref()))
    };
    let mut played: Vec<FleetRunResult> =
        watch::with_progress(app, total, runs).await?.into_iter().collect::<Result<_>>()?;

    // 2. Compare and print the results.
    to_common_horizon(played.iter_mut().map(|run| &mut run.finished));
    let of_planes = played.chunks(seeds.len());
    // The runs of a scheduler are together, those of each variant.
    let of_each = names.iter().flat_map(|name| std::iter::repeat_n(name, views.len()));
    let runs = of_planes.zip(of_each).map(|(runs, name)| FleetFigures {
        scheduler: name.clone(),
        ..over_seeds(&runs.iter().map(|run| run.finished.figures().clone()).collect::<Vec<_>>())
    });
    let calibration = played.iter().filter_map(|run| run.calibration.clone()).collect();
    let comparison = FleetComparison { runs: runs.collect(), calibration, ..comparison };
    let comparison = if views.len() > 1 {
        let finished = played.iter().map(|run| run.finished.figures());
        with_variants(comparison, views, common_horizon_secs(finished))
    } else {
        comparison
    };
    if let Some(path) = &fleet.report_out {
        let mut gantts: Vec<Gantt> = played.into_iter().filter_map(|run| run.gantt).collect();
        for (gantt, run) in gantts.iter_mut().zip(&comparison.runs) {
            gantt.scheduler = muster_report::fleet::label(run);
        }
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

/// Describes the load and the site; for several variants, the site is the first.
fn comparison_without_runs(
    args: &super::super::SimulateArgs,
    given: &FleetSetup,
    seeds: Vec<u64>,
) -> FleetComparison {
    let VariantSetup { view, site, load } = &given.variants[0];
    FleetComparison {
        trace: args.trace.display().to_string(),
        cluster: view.cluster.clone(),
        queues: view.queues.clone(),
        command: command_line(),
        nodes: view.nodes,
        size: view.size,
        unit: if site.has_gpus() { FleetUnit::Gpu } else { FleetUnit::Cpu },
        jobs: load.jobs.len() as u64,
        never_ran: load.never_ran,
        too_large: given.unhosted,
        strangers: view.strangers,
        bad_rows: given.bad_rows,
        limits: given.limits,
        without_limit: load.jobs.iter().filter(|job| job.estimate.is_none()).count() as u64,
        seeds,
        variants: Vec::new(),
        differences: Vec::new(),
        calibration: Vec::new(),
        runs: Vec::new(),
    }
}

/// Returns the seconds until the last instant of any run that was not interrupted.
fn common_horizon_secs<'f>(runs: impl Iterator<Item = &'f FleetFigures>) -> f64 {
    runs.filter(|run| !run.is_partial).map(|run| run.horizon_secs).fold(0.0, f64::max)
}

/// Names the variant of each run, and adds the differences.
fn with_variants(
    mut comparison: FleetComparison,
    mut variants: Vec<SiteVariant>,
    horizon_secs: f64,
) -> FleetComparison {
    for variant in &mut variants {
        variant.capacity_hours = variant.size * horizon_secs / 3600.0;
    }
    for (run, variant) in comparison.runs.iter_mut().zip(variants.iter().cycle()) {
        run.variant.clone_from(&variant.name);
    }
    comparison.differences = differences(&variants, &comparison.runs);
    comparison.variants = variants;
    comparison
}

fn run_one(
    watch: &SimulationProgress,
    given: &FleetSetup,
    task: FleetRun,
    events_out: Option<&Path>,
) -> Result<FleetRunResult> {
    let FleetRun { scheduler, variant, seed, is_drawn, calibrates } = task;
    let scheduler = &given.schedulers[scheduler];
    let variant = &given.variants[variant];
    let mut fleet = given.fleet(variant, scheduler, seed, watch)?;
    if is_drawn {
        fleet.record_bars();
    }
    let mut events = Events::of(events_out, &mut fleet)?;
    let is_over = watch::play(watch, &mut fleet, None, |fleet| events.write(fleet))?;
    watch.count(variant.load.jobs.len() - fleet.cluster().jobs().len());
    let gantt = is_drawn.then(|| Gantt {
        scheduler: scheduler.name.clone(),
        ..gantt(scheduler.kind, &variant.site, &fleet)
    });
    let calibration = calibrates.then(|| Calibration {
        scheduler: scheduler.name.clone(),
        ..calibration(scheduler.kind, fleet.cluster(), given.not_replayed, !is_over)
    });
    let finished = Finished::of(scheduler.kind, fleet, !is_over);
    Ok(FleetRunResult { finished, gantt, calibration })
}

/// Returns this command line, quoted for a shell.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("muster".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

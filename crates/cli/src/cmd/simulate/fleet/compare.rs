//! Complete runs: each control plane on each variant of the site with each seed, as many at once as
//! there are cores, and their comparison.

use std::path::Path;

use anyhow::{Error, Result};
use muster_model::payload::shell_word;
use muster_model::simulation::{
    Calibration, FleetComparison, FleetFigures, FleetUnit, Gantt, SiteVariant,
};
use muster_sim::fleet::{Finished, calibration, differences, gantt, over_seeds, to_common_horizon};

use super::{Events, FleetSetup, VariantSetup};
use crate::app::App;
use crate::cmd::simulate::watch::{self, SimulationProgress};

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
    /// Name of the scheduler.
    scheduler: String,
    /// Name of the variant; empty if there is only one.
    variant: String,
    finished: Finished,
    gantt: Option<Gantt>,
    calibration: Option<Calibration>,
}

impl FleetRunResult {
    /// Returns the figures, with the names of scheduler and variant.
    fn figures(&self) -> FleetFigures {
        FleetFigures {
            scheduler: self.scheduler.clone(),
            variant: self.variant.clone(),
            ..self.finished.figures().clone()
        }
    }
}

/// Comparison of control planes at one load, with one kind of time limits.
pub struct Compared {
    /// Figures of all control planes and variants.
    pub comparison: FleetComparison,
    /// Plots of the runs with the first seed, in the order of the figures; empty unless a page was asked for.
    pub gantts: Vec<Gantt>,
    /// First error of a run; the comparison then lacks that control plane.
    pub failed: Option<Error>,
}

impl Compared {
    /// Returns true if runs were interrupted or failed.
    pub fn is_partial(&self) -> bool {
        self.failed.is_some() || self.comparison.runs.iter().any(|run| run.is_partial)
    }
}

/// Runs every scheduler on every variant with every seed and compares them.
pub async fn compare(
    app: &App,
    args: &super::super::SimulateArgs,
    given: FleetSetup,
) -> Result<Compared> {
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
                calibrates: at == 0 && fleet.calibrate,
            };
            tasks.extend(seeds.iter().enumerate().map(of_seed));
        }
    }
    let total = comparison.jobs * tasks.len() as u64;
    let events_out = fleet.events_out.clone();
    let runs = move |watch: &SimulationProgress| {
        watch::on_all_cores(&tasks, |task| {
            let result = run_one(watch, &given, *task, events_out.as_deref());
            // The others stop, and show how far they came.
            result.inspect_err(|_| watch.stop())
        })
    };
    let played = watch::with_progress(app, total, runs).await?;

    // 2. Compare them.
    let (mut played, failed) = by_seed(played, seeds.len());
    if played.is_empty()
        && let Some(error) = failed
    {
        return Err(error);
    }
    to_common_horizon(played.iter_mut().flatten().map(|run| &mut run.finished));
    let runs: Vec<Vec<FleetFigures>> =
        played.iter().map(|seeds| seeds.iter().map(FleetRunResult::figures).collect()).collect();
    let calibration = played.iter().flatten().filter_map(|run| run.calibration.clone()).collect();
    let means = runs.iter().map(|seeds| over_seeds(seeds)).collect();
    let comparison = FleetComparison { runs: means, calibration, ..comparison };
    let comparison =
        if views.len() > 1 { with_variants(comparison, views, &runs) } else { comparison };
    let mut gantts: Vec<Gantt> = played.into_iter().flatten().filter_map(|run| run.gantt).collect();
    for (gantt, run) in gantts.iter_mut().zip(&comparison.runs) {
        gantt.scheduler = muster_report::fleet::label(run);
    }
    Ok(Compared { comparison, gantts, failed })
}

/// Groups the runs by scheduler and variant, of each one for every seed. Returns the groups in which
/// no run failed, and the first error.
fn by_seed(
    played: Vec<Result<FleetRunResult>>,
    seeds: usize,
) -> (Vec<Vec<FleetRunResult>>, Option<Error>) {
    let mut whole = Vec::new();
    let mut failed = None;
    let mut played = played.into_iter().peekable();
    while played.peek().is_some() {
        let group: Vec<Result<FleetRunResult>> = played.by_ref().take(seeds).collect();
        match group.into_iter().collect() {
            Ok(group) => whole.push(group),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    (whole, failed)
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
        duplicate_ids: given.duplicate_ids,
        limits: given.limits,
        load: given.load,
        resampled: given.resampled,
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

/// Adds the variants and their differences, from the runs by scheduler and variant, and by seed.
fn with_variants(
    mut comparison: FleetComparison,
    mut variants: Vec<SiteVariant>,
    runs: &[Vec<FleetFigures>],
) -> FleetComparison {
    let horizon_secs = common_horizon_secs(runs.iter().flatten());
    for variant in &mut variants {
        variant.capacity_hours = variant.size * horizon_secs / 3600.0;
    }
    comparison.differences = differences(&variants, runs);
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
    // A load that was drawn anew may have more jobs.
    watch.count(variant.load.jobs.len().saturating_sub(fleet.cluster().jobs().len()));
    let gantt = is_drawn.then(|| Gantt {
        scheduler: scheduler.name.clone(),
        ..gantt(scheduler.kind, &variant.site, &fleet)
    });
    let calibration = calibrates.then(|| Calibration {
        scheduler: scheduler.name.clone(),
        ..calibration(scheduler.kind, fleet.cluster(), given.not_replayed, !is_over)
    });
    let is_one = given.variants.len() == 1;
    Ok(FleetRunResult {
        scheduler: scheduler.name.clone(),
        variant: if is_one { String::new() } else { variant.view.name.clone() },
        finished: Finished::of(scheduler.kind, fleet, !is_over),
        gantt,
        calibration,
    })
}

/// Returns this command line, quoted for a shell.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("muster".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

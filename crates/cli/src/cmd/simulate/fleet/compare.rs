//! Whole runs: each control plane with each seed, as many at once as there are cores, and what they
//! come to.

use std::path::Path;

use anyhow::Result;
use muster_model::simulation::{FleetComparison, FleetUnit, Gantt};
use muster_sim::fleet::{Finished, Scheduler, gantt, over_seeds, to_common_horizon};

use super::{Events, Given};
use crate::app::App;
use crate::cmd::simulate::watch::{self, Watch};
use crate::cmd::simulate::write;
use crate::exit::INTERRUPTED;

/// One run of one control plane.
#[derive(Clone, Copy)]
struct Task {
    scheduler: Scheduler,
    seed: u64,
    /// It is to be drawn.
    is_drawn: bool,
}

/// What a run came to.
struct Played {
    finished: Finished,
    gantt: Option<Gantt>,
}

/// Runs it.
pub async fn run(app: &App, args: &super::super::Args, given: Given) -> Result<u8> {
    let fleet = &args.fleet;
    let seeds: Vec<u64> = (args.seed..).take(fleet.seeds as usize).collect();
    let comparison = FleetComparison {
        trace: args.trace.display().to_string(),
        cluster: args.cluster.as_deref().unwrap_or(Path::new("-")).display().to_string(),
        queues: fleet.queues.as_ref().map(|path| path.display().to_string()),
        command: command(),
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

    // 1. The runs.
    let mut tasks = Vec::new();
    for scheduler in &given.schedulers {
        let drawn = |at: usize| at == 0 && fleet.report_out.is_some();
        let of_seed = |(at, seed): (usize, &u64)| Task {
            scheduler: *scheduler,
            seed: *seed,
            is_drawn: drawn(at),
        };
        tasks.extend(seeds.iter().enumerate().map(of_seed));
    }
    let total = (given.load.jobs.len() * tasks.len()) as u64;
    let events_out = fleet.events_out.clone();
    let runs = move |watch: &Watch| {
        watch::on_all_cores(&tasks, |task| one(watch, &given, *task, events_out.as_deref()))
    };
    let mut played: Vec<Played> =
        watch::jobs(app, total, runs).await?.into_iter().collect::<Result<_>>()?;

    // 2. What they come to.
    to_common_horizon(played.iter_mut().map(|run| &mut run.finished));
    let of_planes = played.chunks(seeds.len());
    let runs = of_planes.map(|runs| {
        over_seeds(&runs.iter().map(|run| run.finished.figures().clone()).collect::<Vec<_>>())
    });
    let comparison = FleetComparison { runs: runs.collect(), ..comparison };
    if let Some(path) = &fleet.report_out {
        let gantts: Vec<Gantt> = played.into_iter().filter_map(|run| run.gantt).collect();
        write(path, &muster_report::html::page(&comparison, &gantts))?;
        app.ui.status(&format!("{} has the plots", path.display()));
    }
    match args.output.json() {
        true => app.ui.json(&comparison)?,
        false => app.ui.data(&muster_report::fleet::comparison(&comparison, &app.ui.style()))?,
    }
    Ok(if comparison.runs.iter().any(|run| run.is_partial) { INTERRUPTED } else { 0 })
}

fn one(watch: &Watch, given: &Given, task: Task, events_out: Option<&Path>) -> Result<Played> {
    let Task { scheduler, seed, is_drawn } = task;
    let mut fleet = given.fleet(scheduler, seed)?;
    if is_drawn {
        fleet.keep_bars();
    }
    let mut events = Events::of(events_out, &mut fleet)?;
    let is_over = watch::play(watch, &mut fleet, None, |fleet| events.write(fleet))?;
    watch.count(given.load.jobs.len() - fleet.desk().jobs().len());
    let gantt = is_drawn.then(|| gantt(scheduler, &given.site, &fleet));
    Ok(Played { finished: Finished::of(scheduler, fleet, !is_over), gantt })
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

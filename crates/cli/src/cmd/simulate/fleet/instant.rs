//! Runs up to an instant, and shows the state there: running jobs, pending jobs, and why they are
//! pending.

use std::sync::Arc;

use anyhow::Result;
use muster_model::simulation::FleetInstant;
use muster_model::{Span, Time};
use muster_sim::fleet::{FleetJob, JobNo, instant};

use super::chosen::ChosenScheduler;
use super::{Events, FleetSetup};
use crate::app::App;
use crate::cmd::simulate::watch::{self, SimulationProgress};
use crate::exit::{Failure, INTERRUPTED};

/// Runs every scheduler up to an instant and shows the state; returns the exit code.
pub async fn run(
    app: &App,
    args: &super::super::SimulateArgs,
    given: FleetSetup,
    after: Span,
) -> Result<u8> {
    let jobs = Arc::clone(&given.variants[0].load.jobs);
    let asked = find_jobs(&jobs, &args.fleet.explain)?;
    for job in asked.iter().map(|job| &jobs[job.at()]) {
        let later = job.submit.since(jobs[0].submit);
        if later > after {
            app.ui.warning(&format!(
                "job {} arrives {later} after the first submission, so it is not shown",
                job.id
            ));
        }
    }
    let total = (jobs.len() * given.schedulers.len()) as u64;
    let seed = args.seed;
    let events_out = args.fleet.events_out.clone();
    let first = jobs[0].submit;
    let until = first + after;
    let runs = move |watch: &SimulationProgress| {
        let one = |scheduler: &ChosenScheduler| -> Result<(FleetInstant, bool)> {
            let mut fleet = given.fleet(&given.variants[0], scheduler, seed, watch)?;
            let mut events = Events::of(events_out.as_deref(), &mut fleet)?;
            let is_there =
                watch::play(watch, &mut fleet, Some(until), |fleet| events.write(fleet))?;
            if is_there {
                fleet.rest_until(until);
            }
            let arrived = fleet.cluster().jobs().len();
            let asked: Vec<JobNo> =
                asked.iter().copied().filter(|job| job.at() < arrived).collect();
            let shown = instant(scheduler.kind, &mut fleet, &asked);
            Ok((FleetInstant { scheduler: scheduler.name.clone(), ..shown }, is_there))
        };
        watch::on_all_cores(&given.schedulers, one)
    };
    let shown: Vec<(FleetInstant, bool)> =
        watch::with_progress(app, total, runs).await?.into_iter().collect::<Result<_>>()?;
    let (shown, are_there): (Vec<FleetInstant>, Vec<bool>) = shown.into_iter().unzip();
    let is_partial = are_there.contains(&false);
    if is_partial {
        app.ui.warning("interrupted: the state is that of an earlier instant than requested");
    }
    if args.output.json() {
        app.ui.json(&shown)?
    } else {
        let texts = shown.iter().map(|shown| {
            muster_report::fleet::instant(shown, Time(shown.at_ms).since(first), app.ui.context())
        });
        app.ui.data(&texts.collect::<Vec<_>>().join("\n"))?;
    }
    Ok(if is_partial { INTERRUPTED } else { 0 })
}

/// Returns the requested jobs.
fn find_jobs(jobs: &[FleetJob], ids: &[String]) -> Result<Vec<JobNo>, Failure> {
    let of = |id: &String| {
        let at = jobs.iter().position(|job| *job.id == **id);
        at.map(|at| JobNo(at as u32)).ok_or_else(|| {
            Failure::not_found(format!("no job `{}` of the trace can run here", id.escape_debug()))
                .hint("a job is named by its id in the trace; in a trace without ids, by its row number, from 1")
        })
    };
    ids.iter().map(of).collect()
}

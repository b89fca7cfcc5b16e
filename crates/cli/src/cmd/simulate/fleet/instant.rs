//! Runs up to an instant, and how things stand there: what runs, who waits, and why.

use anyhow::Result;
use muster_model::simulation::FleetInstant;
use muster_model::{Span, Time};
use muster_sim::fleet::{JobNo, Scheduler, instant};

use super::{Events, Given};
use crate::app::App;
use crate::cmd::simulate::watch::{self, Watch};
use crate::exit::{Failure, INTERRUPTED};

/// Runs it.
pub async fn run(app: &App, args: &super::super::Args, given: Given, after: Span) -> Result<u8> {
    let asked = asked(&given, &args.fleet.explain)?;
    for job in asked.iter().map(|job| &given.load.jobs[job.at()]) {
        let later = job.submit.since(given.load.jobs[0].submit);
        if later > after {
            app.ui.warning(&format!(
                "job {} arrives {later} after the first submission, and is not shown",
                job.id
            ));
        }
    }
    let total = (given.load.jobs.len() * given.schedulers.len()) as u64;
    let (seed, events_out) = (args.seed, args.fleet.events_out.clone());
    let first = given.load.jobs[0].submit;
    let until = first + after;
    let runs = move |watch: &Watch| {
        let one = |scheduler: &Scheduler| -> Result<(FleetInstant, bool)> {
            let mut fleet = given.fleet(*scheduler, seed)?;
            let mut events = Events::of(events_out.as_deref(), &mut fleet)?;
            let is_there =
                watch::play(watch, &mut fleet, Some(until), |fleet| events.write(fleet))?;
            if is_there {
                fleet.rest_until(until);
            }
            let arrived = fleet.desk().jobs().len();
            let asked: Vec<JobNo> =
                asked.iter().copied().filter(|job| job.at() < arrived).collect();
            Ok((instant(*scheduler, &mut fleet, &asked), is_there))
        };
        watch::on_all_cores(&given.schedulers, one)
    };
    let shown: Vec<(FleetInstant, bool)> =
        watch::jobs(app, total, runs).await?.into_iter().collect::<Result<_>>()?;
    let (shown, are_there): (Vec<FleetInstant>, Vec<bool>) = shown.into_iter().unzip();
    let is_partial = are_there.contains(&false);
    if is_partial {
        app.ui.warning(
            "interrupted: this is how things stood by then, before the instant that was asked for",
        );
    }
    match args.output.json() {
        true => app.ui.json(&shown)?,
        false => {
            let texts = shown.iter().map(|shown| {
                muster_report::fleet::instant(
                    shown,
                    Time(shown.at_ms).since(first),
                    &app.ui.style(),
                )
            });
            app.ui.data(&texts.collect::<Vec<_>>().join("\n"))?;
        }
    }
    Ok(if is_partial { INTERRUPTED } else { 0 })
}

/// The jobs that were asked for.
fn asked(given: &Given, ids: &[String]) -> Result<Vec<JobNo>, Failure> {
    let of = |id: &String| {
        let at = given.load.jobs.iter().position(|job| *job.id == **id);
        at.map(|at| JobNo(at as u32)).ok_or_else(|| {
            Failure::not_found(format!("no job `{}` of the trace can run here", id.escape_debug()))
                .hint("ids are those of the trace; where it has none, the number of the row from 1")
        })
    };
    ids.iter().map(of).collect()
}

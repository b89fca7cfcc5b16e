//! Runs up to an instant, and how things stand there: what runs, who waits, and why.

use anyhow::Result;
use muster_model::Span;
use muster_model::simulation::FleetInstant;
use muster_sim::fleet::{JobNo, Scheduler, instant};

use super::{Events, Given};
use crate::app::App;
use crate::cmd::simulate::watch::{self, Watch};
use crate::exit::Failure;

/// Runs it.
pub async fn run(app: &App, args: &super::super::Args, given: Given, after: Span) -> Result<u8> {
    let asked = asked(&given, &args.fleet.explain)?;
    let total = (given.load.jobs.len() * given.schedulers.len()) as u64;
    let (seed, events_out) = (args.seed, args.fleet.events_out.clone());
    let until = given.load.jobs[0].submit + after;
    let runs = move |watch: &Watch| {
        let one = |scheduler: &Scheduler| -> Result<FleetInstant> {
            let mut fleet = given.fleet(*scheduler, seed)?;
            let mut events = Events::of(events_out.as_deref(), &mut fleet)?;
            watch::play(watch, &mut fleet, Some(until), |fleet| events.write(fleet))?;
            let arrived = fleet.desk().jobs().len();
            let asked: Vec<JobNo> = asked.iter().copied().filter(|job| job.at() < arrived).collect();
            Ok(instant(*scheduler, &mut fleet, &asked))
        };
        watch::on_all_cores(&given.schedulers, one)
    };
    let shown: Vec<FleetInstant> = watch::jobs(app, total, runs).await?.into_iter().collect::<Result<_>>()?;
    match args.output.json() {
        true => app.ui.json(&shown)?,
        false => {
            let texts =
                shown.iter().map(|shown| muster_report::fleet::instant(shown, after, &app.ui.style()));
            app.ui.data(&texts.collect::<Vec<_>>().join("\n"))?;
        }
    }
    Ok(0)
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

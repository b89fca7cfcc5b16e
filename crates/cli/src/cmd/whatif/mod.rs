//! `muster whatif`: what would become of a site if something about it were different. Decided in
//! `muster-sim`, written in `muster-report`; here are the snapshot, files and threads.

mod change;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use muster_api::query::{JobFilter, SnapshotQuery};
use muster_model::simulation::{FleetUnit, Past, Starts, Waiting, WhatIf};
use muster_model::view::JobView;
use muster_model::{JobId, Reason, SiteSnapshot, Span};
use muster_sim::fleet::{
    Failures, Finished, Fleet, FleetJob, Scheduler, Site, Terms, to_common_horizon,
};
use muster_sim::whatif::{Forecast, Replays, Situation, Usual, WhatIfError};
use muster_spec::quantity::parse_span;
use serde_json::Value;

use super::simulate::watch::{self, Watch};
use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::{Failure, INTERRUPTED};
use change::ChangeArgs;

/// Say what would become of this site with more nodes, another quota or another policy
///
/// Takes the state of the daemon and what has run, and asks the engine twice: as it is, and with
/// the change. What waits now is told when it starts, if nobody submits anything more; what has run
/// is run once more from an idle site. JSON: a `WhatIf`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
    /// Ask a snapshot that was written before, in place of the daemon
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Write the snapshot: no names of people, hosts or jobs are in it, so that it can be given to
    /// others
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    snapshot_out: Option<PathBuf>,
    /// What was submitted so long ago, and since, is what has run
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "30d")]
    since: Span,
    /// How long jobs are taken to run that wait or run now: as those of their users usually did, or
    /// up to their limits
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = Runtimes::Usual)]
    runtimes: Runtimes,
    #[command(flatten)]
    output: Output,
}

/// Whose word is taken for how long a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Runtimes {
    /// Nobody's: as much of its limit as its user's jobs use
    Usual,
    /// The user's
    Limit,
}

fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|malformed| malformed.label)
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    if args.change.is_none() && args.snapshot_out.is_none() {
        return Err(Failure::usage("what is to be different?")
            .hint(
                "for example `--add-nodes 2`, `--quota research=16` or `--queues new-queues.yaml`",
            )
            .into());
    }
    // 1. The site. Names stay here.
    let mut snapshot = match &args.snapshot {
        Some(path) => read(path)?,
        None => taken(app, &args).await?,
    };
    let names = std::mem::take(&mut snapshot.names);
    if let Some(path) = &args.snapshot_out {
        let text = serde_json::to_vec(&snapshot)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        app.ui.status(&format!(
            "{} has the state and {} runs, without names",
            path.display(),
            snapshot.past.len()
        ));
    }
    if args.change.is_none() {
        return Ok(0);
    }
    let as_it_is = Situation::read(snapshot).map_err(unanswered)?;
    let as_it_is = as_it_is.since(args.since);
    // 2. The change.
    let (change, words) = args.change.to(&as_it_is)?;
    let changed = as_it_is.with(&change).map_err(unanswered)?;
    // 3. Both answers.
    let answer =
        Question { as_it_is, changed, words, runtimes: args.runtimes }.answered(app).await?;
    let answer = if args.snapshot.is_none() { named(app, answer, &names).await? } else { answer };
    match args.output.json() {
        true => app.ui.json(&answer)?,
        false => app.ui.data(&muster_report::whatif::whatif(&answer, &app.ui.style()))?,
    }
    Ok(if answer.is_partial { INTERRUPTED } else { 0 })
}

/// The state of the daemon now.
async fn taken(app: &App, args: &Args) -> Result<SiteSnapshot> {
    let client = connect::find(&app.global)?;
    let query = SnapshotQuery { past_secs: Some(args.since.0.div_ceil(1000)), names: true };
    Ok(client.snapshot(query).await.map_err(Failure::from)?)
}

fn read(path: &Path) -> Result<SiteSnapshot> {
    let text = std::fs::read(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    let snapshot = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(format!("{} is no snapshot: {error}", path.display()))
            .hint("`muster whatif --snapshot-out FILE` writes one")
    })?;
    Ok(snapshot)
}

fn unanswered(error: WhatIfError) -> Failure {
    match error {
        WhatIfError::Newer { .. } | WhatIfError::Malformed(_) | WhatIfError::Contradicts(_) => {
            Failure::usage(format!("the snapshot cannot be used: {error}"))
        }
        WhatIfError::Refused { .. } => Failure::usage(error.to_string()),
        WhatIfError::BadPlan(_) => Failure::new(error.to_string()),
    }
}

/// A question to a site.
struct Question {
    as_it_is: Situation,
    changed: Situation,
    words: Vec<String>,
    runtimes: Runtimes,
}

/// What comes next, and what the past would have been, of one of the two.
#[derive(Debug)]
struct Answer {
    starts: BTreeMap<JobId, Starts>,
    /// Why what does not start at once waits.
    reasons: BTreeMap<JobId, Reason>,
    past: Finished,
    is_partial: bool,
}

impl Question {
    async fn answered(self, app: &App) -> Result<WhatIf> {
        let waits: u64 = self.waiting().map(|(_, elements)| u64::from(elements)).sum();
        let total = 2 * (self.as_it_is.past.len() as u64 + waits);
        watch::jobs(app, total, move |watch| self.asked(watch)).await?
    }

    /// Jobs that wait for something else than a person, and how many of their elements do.
    fn waiting(&self) -> impl Iterator<Item = (JobView, u32)> {
        let engine = self.as_it_is.engine();
        let jobs = engine.jobs(self.as_it_is.taken).into_iter();
        let waits =
            |job: JobView| Some((engine.waiting(job.job), job)).filter(|(count, _)| *count > 0);
        jobs.filter_map(waits).map(|(count, job)| (job, count))
    }

    fn asked(&self, watch: &Watch) -> Result<WhatIf> {
        let Self { as_it_is, changed, .. } = self;
        let usual = match self.runtimes {
            Runtimes::Usual => Usual::of(&as_it_is.past),
            Runtimes::Limit => Usual::by_limit(),
        };
        let replays = Replays::of(as_it_is, changed);
        let both = [(as_it_is, &replays.as_it_is), (changed, &replays.changed)];
        let asked = watch::on_all_cores(&both, |(one, past)| answer(watch, one, past, &usual));
        let [one, other] = <[Result<Answer>; 2]>::try_from(asked).expect("two were asked");
        let (mut one, mut other) = (one?, other?);
        to_common_horizon([&mut one.past, &mut other.past]);
        let waiting = self.waiting().filter_map(|(job, elements)| {
            let (as_it_is, changed) = (*one.starts.get(&job.job)?, *other.starts.get(&job.job)?);
            let still = other.reasons.remove(&job.job);
            let JobView { job, name, user, queue, gpus, submitted, .. } = job;
            Some(Waiting {
                job,
                name,
                user,
                queue,
                gpus,
                submitted,
                elements,
                as_it_is,
                changed,
                still,
            })
        });
        let waiting = waiting.collect();
        let Replays { never_ran, too_large, no_longer_fit, first_start_secs, .. } = replays;
        let past = as_it_is.past.first().map(|first| Past {
            since: first.submitted,
            runs: as_it_is.past.len() as u64,
            replayed: replays.as_it_is.1.len() as u64,
            never_ran,
            too_large,
            no_longer_fit,
            unit: if as_it_is.site().has_gpus() { FleetUnit::Gpu } else { FleetUnit::Cpu },
            first_start_secs,
            as_it_is: one.past.figures().clone(),
            changed: other.past.figures().clone(),
        });
        Ok(WhatIf {
            taken: as_it_is.taken,
            changes: self.words.clone(),
            waiting,
            past,
            is_partial: one.is_partial || other.is_partial,
        })
    }
}

fn answer(
    watch: &Watch,
    situation: &Situation,
    (site, jobs): &(Site, Arc<Vec<FleetJob>>),
    usual: &Usual,
) -> Result<Answer> {
    // 1. What waits.
    let mut forecast = Forecast::of(situation, usual);
    let mut left = forecast.left();
    forecast.begin()?;
    let mut reasons = forecast.reasons();
    reasons.retain(|job, _| forecast.starts().get(job).is_some_and(|starts| starts.begun == 0));
    while !watch.is_stopped() && forecast.step()? {
        watch.count((left - forecast.left()) as usize);
        left = forecast.left();
    }
    let starts = forecast.starts().clone();
    // 2. What has run.
    let plane = Scheduler::Muster.begin(site, 0)?;
    let mut fleet =
        Fleet::new(site, plane, Arc::clone(jobs), Terms::default(), Failures::default());
    let is_over = watch::play(watch, &mut fleet, None, |_| Ok(()))?;
    let past = Finished::of(Scheduler::Muster, fleet, !is_over);
    Ok(Answer { starts, reasons, past, is_partial: !is_over })
}

/// The same with names in place of numbers.
async fn named(app: &App, answer: WhatIf, names: &BTreeMap<String, String>) -> Result<WhatIf> {
    let mut value = serde_json::to_value(answer)?;
    rename(&mut value, names);
    let mut answer: WhatIf = serde_json::from_value(value)?;
    let client = connect::find(&app.global)?;
    let jobs = client.jobs(JobFilter::default()).await.map_err(Failure::from)?.jobs;
    let jobs: BTreeMap<JobId, String> = jobs.into_iter().map(|job| (job.job, job.name)).collect();
    for waiting in &mut answer.waiting {
        waiting.name = jobs.get(&waiting.job).cloned().unwrap_or_default();
    }
    Ok(answer)
}

/// Texts that are wholly a number that stands for a name.
fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(name) = names.get(text) {
                text.clone_from(name);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, names)),
        Value::Object(fields) => fields.values_mut().for_each(|value| rename(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

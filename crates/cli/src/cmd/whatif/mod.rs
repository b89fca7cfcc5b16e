//! `muster whatif`: predicts the effect of a change to the site. `muster-sim` simulates,
//! `muster-report` renders the answer; here are the snapshot, files and threads.

mod change;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use muster_api::query::{JobFilter, SnapshotQuery};
use muster_model::simulation::{FleetUnit, PastReplay, PendingJob, StartTimes, WhatIf};
use muster_model::view::JobView;
use muster_model::{JobId, Reason, SiteSnapshot, Span};
use muster_sim::fleet::{
    Failures, Finished, Fleet, FleetJob, FleetSite, SchedulerKind, StopCosts, to_common_horizon,
};
use muster_sim::whatif::{Replays, RuntimeEstimates, Situation, StartForecast, WhatIfError};
use muster_spec::quantity::parse_span;
use serde_json::Value;

use super::simulate::watch::{self, SimulationProgress};
use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::{Failure, INTERRUPTED};
use change::ChangeArgs;

/// Predict the effect of more nodes, another quota or another policy on this site
///
/// Takes the state and history of the daemon and runs the scheduler twice: without and with the
/// change. Shows when each pending job would start if no more jobs were submitted, and replays past
/// jobs from an idle site. JSON: a `WhatIf`.
#[derive(Debug, clap::Args)]
pub struct WhatIfArgs {
    #[command(flatten)]
    change: ChangeArgs,
    /// Read a snapshot written by --snapshot-out, in place of the daemon's state
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Write the snapshot to a file; it contains no names of users, hosts or jobs, so it can be
    /// shared
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    snapshot_out: Option<PathBuf>,
    /// Replay the jobs that were submitted within this time
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "30d")]
    since: Span,
    /// Assumed runtimes of pending and running jobs: the usual fraction of the time limit, or the
    /// whole time limit
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = Runtimes::Usual)]
    runtimes: Runtimes,
    #[command(flatten)]
    output: OutputArgs,
}

/// Assumed runtime of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Runtimes {
    /// Time limit × the fraction that this user's past jobs used
    Usual,
    /// The whole time limit
    Limit,
}

fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|malformed| malformed.label)
}

/// Runs `muster whatif`; returns its exit code.
pub async fn run(app: &App, args: WhatIfArgs) -> Result<u8> {
    if args.change.is_none() && args.snapshot_out.is_none() {
        return Err(Failure::usage("no change is given")
            .hint(
                "for example `--add-nodes 2`, `--quota research=16` or `--queues new-queues.yaml`",
            )
            .into());
    }
    // 1. Get the snapshot. The names are removed from it, so that they are not written to a file.
    let mut snapshot = match &args.snapshot {
        Some(path) => read(path)?,
        None => take_snapshot(app, &args).await?,
    };
    let names = std::mem::take(&mut snapshot.names);
    if let Some(path) = &args.snapshot_out {
        let text = serde_json::to_vec(&snapshot)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        app.ui.status(&format!(
            "wrote {}: the state and {} past runs, without names",
            path.display(),
            snapshot.past.len()
        ));
    }
    if args.change.is_none() {
        return Ok(0);
    }
    let as_it_is = Situation::read(snapshot).map_err(whatif_failure)?;
    let as_it_is = as_it_is.since(args.since);
    // 2. Apply the change.
    let (change, words) = args.change.apply_to(&as_it_is)?;
    let changed = as_it_is.with(&change).map_err(whatif_failure)?;
    // 3. Simulate both.
    let answer = WhatIfQuestion { as_it_is, changed, words, runtimes: args.runtimes }
        .answer_with_progress(app)
        .await?;
    let answer =
        if args.snapshot.is_none() { with_names(app, answer, &names).await? } else { answer };
    if args.output.json() {
        app.ui.json(&answer)?
    } else {
        app.ui.data(&muster_report::whatif::whatif(&answer, app.ui.context()))?
    }
    Ok(if answer.is_partial { INTERRUPTED } else { 0 })
}

/// Requests the present state of the daemon.
async fn take_snapshot(app: &App, args: &WhatIfArgs) -> Result<SiteSnapshot> {
    let client = connect::find(&app.global)?;
    let query = SnapshotQuery { past_secs: Some(args.since.0.div_ceil(1000)), names: true };
    Ok(client.snapshot(query).await.map_err(Failure::from)?)
}

fn read(path: &Path) -> Result<SiteSnapshot> {
    let text = std::fs::read(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    let snapshot = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(format!("{} is not a snapshot: {error}", path.display()))
            .hint("`muster whatif --snapshot-out FILE` writes one")
    })?;
    Ok(snapshot)
}

fn whatif_failure(error: WhatIfError) -> Failure {
    match error {
        WhatIfError::Newer { .. } | WhatIfError::Malformed(_) | WhatIfError::Contradicts(_) => {
            Failure::usage(format!("the snapshot cannot be used: {error}"))
        }
        WhatIfError::Refused { .. } => Failure::usage(error.to_string()),
        WhatIfError::BadPlan(_) => Failure::new(error.to_string()),
    }
}

/// Site without and with a change, and how to simulate them.
struct WhatIfQuestion {
    as_it_is: Situation,
    changed: Situation,
    words: Vec<String>,
    runtimes: Runtimes,
}

/// Result of one of the two simulations: start times of pending jobs, and the replay.
#[derive(Debug)]
struct WhatIfOutcome {
    starts: BTreeMap<JobId, StartTimes>,
    /// Reasons of the jobs that do not start at once.
    reasons: BTreeMap<JobId, Reason>,
    past: Finished,
    is_partial: bool,
}

impl WhatIfQuestion {
    async fn answer_with_progress(self, app: &App) -> Result<WhatIf> {
        let waits: u64 = self.pending().map(|(_, elements)| u64::from(elements)).sum();
        let total = 2 * (self.as_it_is.past.len() as u64 + waits);
        watch::with_progress(app, total, move |watch| self.simulate_both(watch)).await?
    }

    /// Returns the pending jobs that are not held, and their numbers of pending elements.
    fn pending(&self) -> impl Iterator<Item = (JobView, u32)> {
        let engine = self.as_it_is.engine();
        let jobs = engine.jobs(self.as_it_is.taken).into_iter();
        let waits = |job: JobView| {
            Some((engine.pending_unheld(job.job), job)).filter(|(count, _)| *count > 0)
        };
        jobs.filter_map(waits).map(|(count, job)| (job, count))
    }

    fn simulate_both(&self, watch: &SimulationProgress) -> Result<WhatIf> {
        let Self { as_it_is, changed, .. } = self;
        let usual = match self.runtimes {
            Runtimes::Usual => RuntimeEstimates::of(&as_it_is.past),
            Runtimes::Limit => RuntimeEstimates::by_limit(),
        };
        let replays = Replays::of(as_it_is, changed);
        let both = [(as_it_is, &replays.as_it_is), (changed, &replays.changed)];
        let asked = watch::on_all_cores(&both, |(one, past)| simulate(watch, one, past, &usual));
        let [one, other] = <[Result<WhatIfOutcome>; 2]>::try_from(asked).expect("two were asked");
        let mut one = one?;
        let mut other = other?;
        to_common_horizon([&mut one.past, &mut other.past]);
        let waiting = self.pending().filter_map(|(job, elements)| {
            let as_it_is = *one.starts.get(&job.job)?;
            let changed = *other.starts.get(&job.job)?;
            let still = other.reasons.remove(&job.job);
            let JobView { job, name, user, queue, gpus, submitted, .. } = job;
            Some(PendingJob {
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
        let past = as_it_is.past.first().map(|first| PastReplay {
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

fn simulate(
    watch: &SimulationProgress,
    situation: &Situation,
    (site, jobs): &(FleetSite, Arc<Vec<FleetJob>>),
    usual: &RuntimeEstimates,
) -> Result<WhatIfOutcome> {
    // 1. Forecast the starts of pending jobs.
    let mut forecast = StartForecast::of(situation, usual);
    let mut left = forecast.left();
    forecast.begin()?;
    let mut reasons = forecast.reasons();
    reasons.retain(|job, _| forecast.starts().get(job).is_some_and(|starts| starts.begun == 0));
    while !watch.is_stopped() && forecast.step()? {
        watch.count((left - forecast.left()) as usize);
        left = forecast.left();
    }
    let starts = forecast.starts().clone();
    // 2. Replay past jobs.
    let plane = SchedulerKind::Muster.begin(site, 0)?;
    let mut fleet =
        Fleet::new(site, plane, Arc::clone(jobs), StopCosts::default(), Failures::default());
    let is_over = watch::play(watch, &mut fleet, None, |_| Ok(()))?;
    let past = Finished::of(SchedulerKind::Muster, fleet, !is_over);
    Ok(WhatIfOutcome { starts, reasons, past, is_partial: !is_over })
}

/// Replaces the numbers in an answer by names.
async fn with_names(app: &App, answer: WhatIf, names: &BTreeMap<String, String>) -> Result<WhatIf> {
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

/// Replaces every string that is the number of a name.
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

//! The two simulations of a what-if question and their answer, for the command and the page. Reads no file and
//! shows nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use muster_model::simulation::{FleetUnit, PastReplay, PendingJob, StartTimes, WhatIf};
use muster_model::view::JobView;
use muster_model::{JobId, Reason, SiteSnapshot, Span, Time};
use muster_sim::fleet::{
    Failures, Finished, Fleet, FleetJob, FleetSite, SchedulerKind, StopCosts, to_common_horizon,
};
use muster_sim::whatif::{Replays, RuntimeEstimates, Situation, StartForecast, WhatIfError};
use muster_spec::TraceJob;

use super::Runtimes;
use super::change::ChangeArgs;
use crate::cmd::simulate::watch::{self, SimulationProgress};
use crate::exit::Failure;

/// Site without and with a change, and how to simulate them.
pub struct WhatIfQuestion {
    as_it_is: Situation,
    changed: Situation,
    words: Vec<String>,
    runtimes: Runtimes,
    /// Trace that is replayed; `None`: the past of the snapshot.
    trace: Option<PastTrace>,
}

/// Past jobs of a site without a daemon; at least one.
pub struct PastTrace {
    /// Path of the trace as the user gave it.
    pub name: String,
    /// True if its jobs name their tasks, see [`muster_spec::TraceFormat::names_tasks`].
    pub names_tasks: bool,
    /// Jobs in the order of the file.
    pub jobs: Vec<TraceJob>,
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
    /// Reads a snapshot and applies a change to it. `since` is how long ago past jobs were submitted.
    ///
    /// # Errors
    /// The snapshot cannot be used, or the change is not possible on its site.
    pub fn new(
        snapshot: SiteSnapshot,
        since: Span,
        change: &ChangeArgs,
        runtimes: Runtimes,
    ) -> Result<Self> {
        let as_it_is = Situation::read(snapshot).map_err(whatif_failure)?.since(since);
        Self::between(as_it_is, change, runtimes, None)
    }

    /// Applies a change to a site without pending jobs, whose past jobs are those of a trace.
    ///
    /// # Errors
    /// The engine rejects the site, or the change is not possible on it.
    pub fn of_trace(site: &FleetSite, trace: PastTrace, change: &ChangeArgs) -> Result<Self> {
        Self::between(Situation::idle(site)?, change, Runtimes::Usual, Some(trace))
    }

    fn between(
        as_it_is: Situation,
        change: &ChangeArgs,
        runtimes: Runtimes,
        trace: Option<PastTrace>,
    ) -> Result<Self> {
        let (change, words) = change.apply_to(&as_it_is)?;
        let changed = as_it_is.with(&change).map_err(whatif_failure)?;
        Ok(Self { as_it_is, changed, words, runtimes, trace })
    }

    /// Returns the changed site.
    pub fn changed_site(&self) -> FleetSite {
        self.changed.site()
    }

    /// Returns the number of past jobs, and the first submission; `None` without any.
    fn past(&self) -> Option<(u64, Time)> {
        match &self.trace {
            Some(trace) => {
                let first = trace.jobs.iter().map(|job| job.submit).min()?;
                Some((trace.jobs.len() as u64, first))
            }
            None => {
                let past = &self.as_it_is.past;
                Some((past.len() as u64, past.first()?.submitted))
            }
        }
    }

    /// Returns the number of steps of both simulations, for a progress line.
    pub fn total(&self) -> u64 {
        let waits: u64 = self.pending().map(|(_, elements)| u64::from(elements)).sum();
        2 * (self.past().map_or(0, |(runs, _)| runs) + waits)
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

    /// Runs both simulations. When they are stopped, the answer covers what was reached by then.
    ///
    /// # Errors
    /// A defect of the engine.
    pub fn simulate_both(&self, watch: &SimulationProgress) -> Result<WhatIf> {
        let Self { as_it_is, changed, trace, .. } = self;
        let usual = match self.runtimes {
            Runtimes::Usual => RuntimeEstimates::of(&as_it_is.past),
            Runtimes::Limit => RuntimeEstimates::by_limit(),
        };
        let replays = match trace {
            Some(trace) => {
                Replays::of_trace(&trace.jobs, trace.names_tasks, as_it_is.site(), changed.site())
            }
            None => Replays::of(as_it_is, changed),
        };
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
        let Replays {
            never_ran,
            too_large,
            no_longer_fit,
            strangers,
            first_start_secs,
            first_starts,
            ..
        } = replays;
        let past = self.past().map(|(runs, since)| PastReplay {
            trace: trace.as_ref().map(|trace| trace.name.clone()),
            since,
            runs,
            replayed: replays.as_it_is.1.len() as u64,
            never_ran,
            too_large,
            no_longer_fit,
            strangers,
            unit: if as_it_is.site().has_gpus() { FleetUnit::Gpu } else { FleetUnit::Cpu },
            first_start_secs,
            first_starts,
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

fn whatif_failure(error: WhatIfError) -> Failure {
    match error {
        WhatIfError::Newer { .. } | WhatIfError::Malformed(_) | WhatIfError::Contradicts(_) => {
            Failure::usage(format!("the snapshot cannot be used: {error}"))
        }
        WhatIfError::Refused { .. } => Failure::usage(error.to_string()),
        WhatIfError::BadPlan(_) => Failure::new(error.to_string()),
    }
}

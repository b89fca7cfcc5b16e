//! Flat pool: identical processors (or GPUs) in one place, the machine on which the literature
//! defines backfilling, and on which published schedules can be compared wait by wait.
//!
//! * `mod.rs`: jobs of a trace on the pool
//! * `scheduler.rs`: the engine under a policy, or a textbook algorithm
//! * `figures.rs`: figures of a schedule

mod figures;
mod scheduler;

use std::sync::Arc;

use muster_model::{Span, Time, UserName};
use muster_spec::TraceJob;

use crate::arrivals;
use crate::rng::Rng;
pub use figures::{ScheduleRows, figures, rows};
pub use scheduler::{FlatRun, FlatScheduler, run_intervals};

/// Source of runtime estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimates {
    /// The user's time limit; the true runtime if there is none.
    Requested,
    /// The true runtime of the job.
    Actual,
    /// A prediction from the user's earlier jobs, for schedulers that can; the user's time limit
    /// stays the end.
    Predicted,
}

/// A job on a flat pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatJob {
    /// Identifier in the trace.
    pub id: Arc<str>,
    /// Time at which the job is submitted.
    pub submit: Time,
    /// Runtime, at most the estimate: a job that would run longer is ended there.
    pub runtime: Span,
    /// Estimated runtime of the job.
    pub estimate: Span,
    /// Number of processors or GPUs.
    pub width: u32,
    /// User whose earlier jobs predict its runtime; `None` if the estimate is all that is known.
    pub predicted_by: Option<UserName>,
}

/// Interval in which a job ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunInterval {
    /// Time at which it starts.
    pub start: Time,
    /// Time at which it ends.
    pub end: Time,
}

/// Jobs of a trace that can run on a pool, in order of arrival, and counts of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlatLoad {
    /// Jobs that can run.
    pub jobs: Vec<FlatJob>,
    /// Jobs that never ran in the trace.
    pub never_ran: u64,
    /// Jobs wider than the pool.
    pub too_wide: u64,
}

impl FlatLoad {
    /// Returns the load of a trace on `procs` processors. Jobs that arrive at one instant stay in
    /// the order of the trace.
    #[must_use]
    pub fn of(trace: &[TraceJob], procs: u32, estimates: Estimates) -> Self {
        let mut load = Self::default();
        for job in trace {
            let Some(runtime) = job.runtime else {
                load.never_ran += 1;
                continue;
            };
            let Some(width) = u32::try_from(width(job)).ok().filter(|width| *width <= procs) else {
                load.too_wide += 1;
                continue;
            };
            let estimate = match estimates {
                Estimates::Requested | Estimates::Predicted => job.requested.unwrap_or(runtime),
                Estimates::Actual => runtime,
            };
            load.jobs.push(FlatJob {
                id: Arc::clone(&job.id),
                submit: job.submit,
                runtime: runtime.min(estimate),
                estimate,
                width,
                predicted_by: (estimates == Estimates::Predicted)
                    .then(|| UserName(job.user.clone().unwrap_or_else(|| "all".into()))),
            });
        }
        load.jobs.sort_by_key(|job| job.submit);
        load
    }

    /// Replaces estimates by overestimates: each drawn from the runtime up to five times that, in
    /// order.
    #[must_use]
    pub fn with_noise(mut self, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        for job in &mut self.jobs {
            job.estimate = arrivals::overestimated(job.runtime, &mut rng);
        }
        self
    }

    /// Makes arrivals `factor` times as fast.
    #[must_use]
    pub fn at(mut self, factor: f64) -> Self {
        arrivals::shorten_intervals(self.jobs.iter_mut().map(|job| &mut job.submit), factor);
        self
    }
}

/// Returns the width of a job: its GPUs, rounded up, else the CPUs of its tasks.
fn width(job: &TraceJob) -> u64 {
    let all = |milli: u32| u64::from(job.tasks) * u64::from(milli);
    let gpus = all(job.task.gpu.milli().0);
    let cpus = all(job.task.cpus.0);
    let milli = if gpus > 0 { gpus } else { cpus };
    milli.div_ceil(1000).max(1)
}

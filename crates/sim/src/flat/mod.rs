//! So many processors (or GPUs) that are all alike and in one place: the machine on which
//! backfilling is defined in the literature, and on which published schedules can be compared wait
//! by wait.
//!
//! * `mod.rs`: what a row of a trace becomes there
//! * `scheduler.rs`: who decides, the engine under a policy or a textbook
//! * `figures.rs`: what a schedule comes to

mod figures;
mod scheduler;

use std::sync::Arc;

use muster_model::{Span, Time};
use muster_spec::TraceJob;

use crate::arrivals;
use crate::dice::Dice;
pub use figures::{Rows, figures, rows};
pub use scheduler::{FlatScheduler, Run, ran};

/// Whose word is taken for how long a job will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimates {
    /// The user's. Where there is none, the true runtime.
    Requested,
    /// Nobody's: it is known.
    Actual,
}

/// A job on a flat pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatJob {
    /// As the trace calls it.
    pub id: Arc<str>,
    /// When it arrives.
    pub submit: Time,
    /// How long it runs. Never longer than it is believed to: who promised less is ended at the
    /// limit.
    pub runtime: Span,
    /// How long it is believed to run.
    pub estimate: Span,
    /// Processors, or GPUs.
    pub width: u32,
}

/// When a job ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// From when.
    pub start: Time,
    /// Until when.
    pub end: Time,
}

/// What of a trace can run on a pool, in order of arrival, and what cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlatLoad {
    /// Jobs that run.
    pub jobs: Vec<FlatJob>,
    /// Jobs that never ran where they come from.
    pub never_ran: u64,
    /// Jobs wider than the pool.
    pub too_wide: u64,
}

impl FlatLoad {
    /// The load that a trace is on so many processors. Jobs that arrive at one instant stay in the
    /// order of the trace.
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
                Estimates::Requested => job.requested.unwrap_or(runtime),
                Estimates::Actual => runtime,
            };
            load.jobs.push(FlatJob {
                id: Arc::clone(&job.id),
                submit: job.submit,
                runtime: runtime.min(estimate),
                estimate,
                width,
            });
        }
        load.jobs.sort_by_key(|job| job.submit);
        load
    }

    /// The same where users promise too much: each says any time from its runtime to five times
    /// that, drawn in order.
    #[must_use]
    pub fn with_noise(mut self, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        for job in &mut self.jobs {
            job.estimate = arrivals::noisy(job.runtime, &mut dice);
        }
        self
    }

    /// The same with arrivals `factor` times as fast.
    #[must_use]
    pub fn at(mut self, factor: f64) -> Self {
        arrivals::hasten(self.jobs.iter_mut().map(|job| &mut job.submit), factor);
        self
    }
}

/// How many processors a job takes: its GPUs where it has any, in whole ones, else the CPUs of its
/// tasks.
fn width(job: &TraceJob) -> u64 {
    let all = |milli: u32| u64::from(job.tasks) * u64::from(milli);
    let (gpus, cpus) = (all(job.task.gpu.milli().0), all(job.task.cpus.0));
    let milli = if gpus > 0 { gpus } else { cpus };
    milli.div_ceil(1000).max(1)
}

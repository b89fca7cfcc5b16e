//! Runs one load under several schedulers of identical processors, in parallel.

use anyhow::Result;
use muster_model::simulation::ScheduleFigures;
use muster_sim::flat::{FlatJob, FlatRun, FlatScheduler, RunInterval, figures, run_intervals};

use super::watch::{self, SimulationProgress};
use crate::app::App;

/// Finished or interrupted run of one scheduler.
#[derive(Debug)]
pub struct SimulatedRun {
    scheduler: FlatScheduler,
    /// Interval in which each job ran, in order of arrival; `None` if it never ran.
    pub ran: Vec<Option<RunInterval>>,
}

impl SimulatedRun {
    /// Returns whether the run was interrupted.
    pub fn is_partial(&self) -> bool {
        self.ran.iter().any(Option::is_none)
    }

    /// Returns the figures of the run.
    pub fn figures(&self, procs: u32, jobs: &[FlatJob]) -> ScheduleFigures {
        figures(self.scheduler, procs, jobs, &self.ran, self.is_partial())
    }
}

/// Runs all schedulers, as many at once as there are cores.
pub async fn run_all(
    app: &App,
    procs: u32,
    jobs: &[FlatJob],
    schedulers: &[FlatScheduler],
) -> Result<Vec<SimulatedRun>> {
    let total = (jobs.len() * schedulers.len()) as u64;
    let jobs = jobs.to_vec();
    let schedulers = schedulers.to_vec();
    let runs = move |watch: &SimulationProgress| {
        watch::on_all_cores(&schedulers, |scheduler| run_one(watch, procs, &jobs, *scheduler))
    };
    watch::with_progress(app, total, runs).await?.into_iter().collect()
}

fn run_one(
    watch: &SimulationProgress,
    procs: u32,
    jobs: &[FlatJob],
    scheduler: FlatScheduler,
) -> Result<SimulatedRun> {
    let ran = match scheduler.begin(procs, jobs)? {
        FlatRun::Model(ran) => {
            watch.count(jobs.len());
            ran
        }
        FlatRun::Engine(mut fleet) => {
            watch::play(watch, &mut fleet, None, |_| Ok(()))?;
            run_intervals(&fleet, jobs)
        }
    };
    Ok(SimulatedRun { scheduler, ran })
}

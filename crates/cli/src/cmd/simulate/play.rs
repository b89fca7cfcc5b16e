//! Runs of one load under several schedulers of a flat pool, side by side.

use anyhow::Result;
use muster_model::simulation::ScheduleFigures;
use muster_sim::flat::{FlatJob, FlatScheduler, Ran, Run, figures, ran};

use super::watch::{self, Watch};
use crate::app::App;

/// A run that has ended.
#[derive(Debug)]
pub struct Played {
    scheduler: FlatScheduler,
    /// When each job ran, in order of arrival.
    pub ran: Vec<Option<Ran>>,
}

impl Played {
    /// It was interrupted.
    pub fn is_partial(&self) -> bool {
        self.ran.iter().any(Option::is_none)
    }

    /// What it came to.
    pub fn figures(&self, procs: u32, jobs: &[FlatJob]) -> ScheduleFigures {
        figures(self.scheduler, procs, jobs, &self.ran, self.is_partial())
    }
}

/// Runs them all, as many at once as there are cores.
pub async fn all(
    app: &App,
    procs: u32,
    jobs: &[FlatJob],
    schedulers: &[FlatScheduler],
) -> Result<Vec<Played>> {
    let total = (jobs.len() * schedulers.len()) as u64;
    let (jobs, schedulers) = (jobs.to_vec(), schedulers.to_vec());
    let runs = move |watch: &Watch| {
        watch::on_all_cores(&schedulers, |scheduler| one(watch, procs, &jobs, *scheduler))
    };
    watch::jobs(app, total, runs).await?.into_iter().collect()
}

fn one(watch: &Watch, procs: u32, jobs: &[FlatJob], scheduler: FlatScheduler) -> Result<Played> {
    let ran = match scheduler.begin(procs, jobs)? {
        Run::Model(ran) => {
            watch.count(jobs.len());
            ran
        }
        Run::Engine(mut fleet) => {
            watch::play(watch, &mut fleet, None, |_| Ok(()))?;
            ran(&fleet, jobs)
        }
    };
    Ok(Played { scheduler, ran })
}

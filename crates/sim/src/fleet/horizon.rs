//! Until when jobs are counted that never end: the last instant of any of the runs that are
//! compared. With an instant of its own for each run, a scheduler under which all jobs wait for
//! ever from the start on would have the shortest waits.

use muster_model::Time;
use muster_model::simulation::FleetFigures;

use super::figures::figures;
use super::plane::Scheduler;
use super::run::Fleet;

/// A run that is over, or was interrupted, and its figures.
#[derive(Debug)]
pub struct Finished {
    scheduler: Scheduler,
    figures: FleetFigures,
    until: Time,
    /// The run itself, where jobs are left in it that wait for ever.
    stuck: Option<Box<Fleet>>,
}

impl Finished {
    /// The figures of a run; its unfinished jobs are counted until its last instant so far.
    #[must_use]
    pub fn of(scheduler: Scheduler, fleet: Fleet, is_partial: bool) -> Self {
        let figures = figures(scheduler, fleet.desk(), is_partial);
        let is_stuck = !is_partial && figures.left > 0;
        let until = fleet.desk().now();
        Self { scheduler, figures, until, stuck: is_stuck.then(|| Box::new(fleet)) }
    }

    /// The figures.
    #[must_use]
    pub fn figures(&self) -> &FleetFigures {
        &self.figures
    }
}

/// Counts the unfinished jobs of all runs on one load until the same instant, the last of any of
/// them. Runs that were interrupted stay as they are.
pub fn to_common_horizon<'f>(runs: impl IntoIterator<Item = &'f mut Finished>) {
    let mut runs: Vec<&mut Finished> =
        runs.into_iter().filter(|finished| !finished.figures.is_partial).collect();
    let Some(horizon) = runs.iter().map(|finished| finished.until).max() else { return };
    for finished in &mut runs {
        if let Some(mut fleet) = finished.stuck.take() {
            fleet.rest_until(horizon);
            finished.figures = figures(finished.scheduler, fleet.desk(), false);
            finished.until = horizon;
        }
    }
}

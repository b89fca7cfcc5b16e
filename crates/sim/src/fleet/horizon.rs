//! Common horizon of runs that are compared: unfinished jobs count until the last instant of any
//! run. With a separate horizon for each run, a scheduler under which all jobs are pending for ever
//! from the start would have the shortest waits.

use muster_model::Time;
use muster_model::simulation::FleetFigures;

use super::figures::figures;
use super::load::JobNo;
use super::run::Fleet;
use super::scheduler::SchedulerKind;

/// A run that has ended or was interrupted, and its figures.
#[derive(Debug)]
pub struct Finished {
    scheduler: SchedulerKind,
    figures: FleetFigures,
    until: Time,
    /// The run itself, if jobs are left in it that never start.
    stuck: Option<Box<Fleet>>,
}

impl Finished {
    /// Computes the figures of a run; its unfinished jobs count until its last instant.
    #[must_use]
    pub fn of(scheduler: SchedulerKind, mut fleet: Fleet, is_partial: bool) -> Self {
        let mut figures = figures(scheduler, fleet.cluster(), is_partial);
        let is_stuck = !is_partial && figures.left > 0;
        if is_stuck {
            figures.left_why = left_why(&mut fleet);
        }
        let until = fleet.cluster().now();
        Self { scheduler, figures, until, stuck: is_stuck.then(|| Box::new(fleet)) }
    }

    /// Returns the figures of the run.
    #[must_use]
    pub fn figures(&self) -> &FleetFigures {
        &self.figures
    }
}

/// Returns why the first job that has not ended is pending, in the words of its scheduler.
fn left_why(fleet: &mut Fleet) -> Option<String> {
    let cluster = fleet.cluster();
    let is_left = |job: &JobNo| !cluster.has_ended(*job) && !cluster.status(*job).is_refused;
    let first = (0..cluster.jobs().len() as u32).map(JobNo).find(is_left)?;
    let id = cluster.job(first).id.clone();
    let why = fleet.why(first);
    (!why.is_empty()).then(|| format!("job {id}: {why}"))
}

/// Counts the unfinished jobs of all runs on one load until the last instant of any of them.
/// Interrupted runs stay as they are.
pub fn to_common_horizon<'f>(runs: impl IntoIterator<Item = &'f mut Finished>) {
    let mut runs: Vec<&mut Finished> =
        runs.into_iter().filter(|finished| !finished.figures.is_partial).collect();
    let Some(horizon) = runs.iter().map(|finished| finished.until).max() else { return };
    for finished in &mut runs {
        if let Some(mut fleet) = finished.stuck.take() {
            fleet.rest_until(horizon);
            let left_why = finished.figures.left_why.take();
            let figures = figures(finished.scheduler, fleet.cluster(), false);
            finished.figures = FleetFigures { left_why, ..figures };
            finished.until = horizon;
        }
    }
}

//! Which task of a job a request is about.

use muster_model::view::State as JobState;
use muster_model::{Attempt, AttemptId, ElementId, JobId, Rank};

use super::App;
use crate::failure::Failure;

/// What is asked for.
pub(crate) struct Which<'s> {
    /// The element.
    pub(crate) index: u32,
    /// Rank; `None` is 0.
    pub(crate) rank: Option<u32>,
    /// States in which there is somebody to talk to.
    pub(crate) states: &'s [JobState],
}

/// The task that is meant, when its element is in one of the states.
pub(crate) async fn find(
    app: &App,
    job: JobId,
    which: Which<'_>,
) -> Result<(AttemptId, Rank), Failure> {
    let element = ElementId { job, index: which.index };
    let rank = Rank(which.rank.unwrap_or(0));
    let live = app.handle.element(element).await?;
    let live = live.filter(|live| which.states.contains(&live.state)).ok_or_else(|| idle(job))?;
    if !live.tasks.iter().any(|task| task.rank == rank) {
        let last = live.tasks.len().saturating_sub(1);
        return Err(Failure::NotFound(format!("job {job} has ranks 0 to {last}")));
    }
    Ok((AttemptId { element, attempt: Attempt(live.attempt) }, rank))
}

/// Nobody is there.
pub(crate) fn idle(job: JobId) -> Failure {
    Failure::conflict(format!("job {job} does not run"), format!("see muster show {job}"))
}

//! Lookup of the task that a request applies to.

use muster_model::view::JobState;
use muster_model::{Attempt, AttemptId, ElementId, JobId, Rank};

use super::ApiState;
use crate::failure::ApiFailure;

/// Task of a job in a request.
pub(crate) struct TaskSelector<'s> {
    /// Index of the element.
    pub(crate) index: u32,
    /// Rank of the task; `None` means 0.
    pub(crate) rank: Option<u32>,
    /// States in which the task has a supervisor to talk to.
    pub(crate) states: &'s [JobState],
}

/// Returns the task, when its element is in one of the states.
pub(crate) async fn find(
    app: &ApiState,
    job: JobId,
    which: TaskSelector<'_>,
) -> Result<(AttemptId, Rank), ApiFailure> {
    let element = ElementId { job, index: which.index };
    let rank = Rank(which.rank.unwrap_or(0));
    let live = app.handle.element(element).await?;
    let live = live.filter(|live| which.states.contains(&live.state)).ok_or_else(|| idle(job))?;
    if !live.tasks.iter().any(|task| task.rank == rank) {
        let last = live.tasks.len().saturating_sub(1);
        return Err(ApiFailure::NotFound(format!("job {job} has ranks 0 to {last}")));
    }
    Ok((AttemptId { element, attempt: Attempt(live.attempt) }, rank))
}

/// Makes the error for a job that does not run.
pub(crate) fn idle(job: JobId) -> ApiFailure {
    ApiFailure::conflict(format!("job {job} is not running"), format!("see muster show {job}"))
}

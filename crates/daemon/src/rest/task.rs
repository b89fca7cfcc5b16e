//! Which running task a request is about.

use muster_model::view::State as JobState;
use muster_model::{Attempt, AttemptId, ElementId, JobId, Rank};

use super::{App, jobs};
use crate::failure::Failure;

/// The running task that is meant: of the first element that runs where no index is given, rank 0 where no rank is.
pub(crate) async fn running(
    app: &App,
    job: JobId,
    index: Option<u32>,
    rank: Option<u32>,
) -> Result<(AttemptId, Rank), Failure> {
    let index = match index {
        Some(index) => index,
        None => running_index(app, job).await?,
    };
    let element = ElementId { job, index };
    let rank = Rank(rank.unwrap_or(0));
    let live = app.handle.element(element).await?;
    let Some(live) = live.filter(|live| matches!(live.state, JobState::Starting | JobState::Running)) else {
        return Err(Failure::conflict(format!("job {job} does not run"), format!("see muster show {job}")));
    };
    if !live.tasks.iter().any(|task| task.rank == rank) {
        let last = live.tasks.len().saturating_sub(1);
        return Err(Failure::NotFound(format!("job {job} has ranks 0 to {last}")));
    }
    Ok((AttemptId { element, attempt: Attempt(live.attempt) }, rank))
}

/// The first element that runs, or the one that started first.
async fn running_index(app: &App, job: JobId) -> Result<u32, Failure> {
    let live = app.handle.job(job).await?;
    let running = live.and_then(|live| {
        let mut elements = live.view.elements.into_iter();
        elements.find(|element| matches!(element.state, JobState::Starting | JobState::Running))
    });
    match running {
        Some(element) => Ok(element.element.index),
        None => Ok(jobs::read(&app.reader, move |reader| reader.first_started(job)).await?.unwrap_or(0)),
    }
}

//! A job that says over the API that its progress is saved. It is told to the supervisor of its
//! task, as a write to the task's pipe would, so that both are one word: noted on disk beside the
//! task, then reported like any other.

use axum::Json;
use axum::extract::State;
use muster_api::types::{ActionResponse, SavedRequest};
use muster_backends::local::saved;
use muster_model::JobId;
use muster_model::view::State as JobState;

use super::task::Which;
use super::{App, Body, JobPath, owner, task};
use crate::auth::Caller;
use crate::failure::Failure;

/// What can still save something: a task that is being stopped has its grace for that.
const SPEAKS: &[JobState] = &[JobState::Running, JobState::Stopping];

/// `POST /v1/jobs/{id}/saved`
pub(super) async fn saved(
    State(app): State<App>,
    JobPath(job): JobPath,
    caller: Caller,
    Body(request): Body<SavedRequest>,
) -> Result<Json<ActionResponse>, Failure> {
    // 1. May they, and who is meant?
    if !caller.may_touch(&owner(&app, job).await?) {
        return Err(Failure::not_yours(job));
    }
    let index = match request.index {
        Some(index) => index,
        None => only_index(&app, job).await?,
    };
    let (id, rank) =
        task::find(&app, job, Which { index, rank: request.rank, states: SPEAKS }).await?;
    let path = app.backend.task_socket(id, rank).ok_or_else(|| {
        Failure::conflict(
            "this backend is not told of checkpoints over the API",
            "the job writes to $MUSTER_CHECKPOINT_FILE",
        )
    })?;

    // 2. Told, and noted when it is answered.
    let told = tokio::task::spawn_blocking(move || saved::say(&path, &request.label)).await;
    let noted =
        told.map_err(|error| Failure::Internal(error.to_string()))?.unwrap_or_else(|error| {
            tracing::debug!(%error, "a supervisor did not answer to a checkpoint");
            None
        });
    match noted {
        Some(noted) if noted.label.is_empty() => {
            Ok(Json(ActionResponse { message: "noted".to_owned() }))
        }
        Some(noted) => Ok(Json(ActionResponse { message: format!("noted ({})", noted.label) })),
        None => Err(Failure::conflict(
            format!("rank {rank} of job {job} did not note it on disk"),
            format!("it may have ended, or its disk may be full: muster show {job}"),
        )),
    }
}

/// The one element that runs. Of several, one must be named: the word would count for the wrong
/// one.
async fn only_index(app: &App, job: JobId) -> Result<u32, Failure> {
    let live = app.handle.job(job).await?;
    let elements = live.into_iter().flat_map(|live| live.view.elements);
    let mut speak =
        elements.filter(|element| SPEAKS.contains(&element.state)).map(|one| one.element.index);
    match (speak.next(), speak.next()) {
        (Some(_), Some(_)) => Err(Failure::conflict(
            format!("several elements of job {job} run"),
            "name the one that has saved, by `index` or as 3[7]: $MUSTER_ARRAY_INDEX or $MUSTER_REPLICA",
        )),
        (Some(index), None) => Ok(index),
        (None, _) => Err(task::idle(job)),
    }
}

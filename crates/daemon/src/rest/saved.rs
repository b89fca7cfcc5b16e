//! A job that says over the API that its progress is saved. It is told to the supervisor of its task, as a write to the task's
//! pipe would, so that both are one word: noted on disk beside the task, then reported like any other.

use axum::Json;
use axum::extract::State;
use muster_api::types::{ActionResponse, SavedRequest};
use muster_backends::local::saved;

use super::{App, Body, JobPath, owner, task};
use crate::auth::Caller;
use crate::failure::Failure;

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
    let (id, rank) = task::running(&app, job, request.index, request.rank).await?;
    let path = app.backend.task_socket(id, rank).ok_or_else(|| {
        Failure::conflict(
            "this backend is not told of checkpoints over the API",
            "the job writes to $MUSTER_CHECKPOINT_FILE",
        )
    })?;

    // 2. Told, and noted when it is answered.
    let told = tokio::task::spawn_blocking(move || saved::say(&path, &request.label)).await;
    let noted = told.map_err(|error| Failure::Internal(error.to_string()))?.unwrap_or_else(|error| {
        tracing::debug!(%error, "no supervisor to tell of a checkpoint");
        None
    });
    match noted {
        Some(noted) if noted.label.is_empty() => Ok(Json(ActionResponse { message: "noted".to_owned() })),
        Some(noted) => Ok(Json(ActionResponse { message: format!("noted ({})", noted.label) })),
        None => {
            Err(Failure::conflict(format!("rank {rank} of job {job} does not run now"), "see muster show"))
        }
    }
}

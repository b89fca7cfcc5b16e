//! Handler for checkpoint acknowledgements over the API. They are forwarded to the supervisor of
//! the task, with the same effect as a write to the task's pipe: recorded on disk beside the task,
//! then reported.

use axum::Json;
use axum::extract::State;
use muster_api::types::{ActionResponse, SavedRequest};
use muster_backends::local::checkpoint;
use muster_model::JobId;
use muster_model::view::JobState;

use super::task::TaskSelector;
use super::{ApiState, JobPath, JsonBody, owner, task};
use crate::auth::Caller;
use crate::failure::ApiFailure;

/// States in which a task can still save: one that is being stopped has its grace for that.
const CAN_SAVE: &[JobState] = &[JobState::Running, JobState::Stopping];

/// Serves `POST /v1/jobs/{id}/saved`: a checkpoint acknowledgement over the API.
pub(super) async fn saved(
    State(app): State<ApiState>,
    JobPath(job): JobPath,
    caller: Caller,
    JsonBody(request): JsonBody<SavedRequest>,
) -> Result<Json<ActionResponse>, ApiFailure> {
    // 1. Check permissions and find the task.
    if !caller.may_touch(&owner(&app, job).await?) {
        return Err(ApiFailure::not_yours(job));
    }
    let index = match request.index {
        Some(index) => index,
        None => only_index(&app, job).await?,
    };
    let (id, rank) =
        task::find(&app, job, TaskSelector { index, rank: request.rank, states: CAN_SAVE }).await?;
    let path = app.backend.task_socket(id, rank).ok_or_else(|| {
        ApiFailure::conflict(
            "this backend does not support checkpoint acknowledgements over the API",
            "the job writes to $MUSTER_CHECKPOINT_FILE",
        )
    })?;

    // 2. Forward; the response follows when the acknowledgement is recorded.
    let reported =
        tokio::task::spawn_blocking(move || checkpoint::acknowledge(&path, &request.label)).await;
    let noted = reported.map_err(|error| ApiFailure::Internal(error.to_string()))?.unwrap_or_else(
        |error| {
            tracing::debug!(%error, "a supervisor did not answer to a checkpoint");
            None
        },
    );
    match noted {
        Some(noted) if noted.label.is_empty() => {
            Ok(Json(ActionResponse { message: "recorded".to_owned() }))
        }
        Some(noted) => Ok(Json(ActionResponse { message: format!("recorded ({})", noted.label) })),
        None => Err(ApiFailure::conflict(
            format!("rank {rank} of job {job} did not record it on disk"),
            format!("it may have ended, or its disk may be full: muster show {job}"),
        )),
    }
}

/// Returns the only element that runs. With several, the request must name one, or the
/// acknowledgement could count for the wrong one.
async fn only_index(app: &ApiState, job: JobId) -> Result<u32, ApiFailure> {
    let live = app.handle.job(job).await?;
    let elements = live.into_iter().flat_map(|live| live.view.elements);
    let mut speak =
        elements.filter(|element| CAN_SAVE.contains(&element.state)).map(|one| one.element.index);
    match (speak.next(), speak.next()) {
        (Some(_), Some(_)) => Err(ApiFailure::conflict(
            format!("several elements of job {job} run"),
            "name the one that has saved, by `index` or as 3[7]: $MUSTER_ARRAY_INDEX or $MUSTER_REPLICA",
        )),
        (Some(index), None) => Ok(index),
        (None, _) => Err(task::idle(job)),
    }
}

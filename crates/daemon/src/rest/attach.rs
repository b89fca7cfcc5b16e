//! Terminal sessions: after the HTTP upgrade the daemon copies bytes between client and supervisor
//! without parsing them.

use std::io;
use std::path::PathBuf;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use muster_api::client::SESSION_PROTOCOL;
use muster_api::query::AttachQuery;
use muster_backends::local::session;
use muster_model::JobId;
use muster_model::view::JobState;
use tokio::net::UnixStream;

use crate::auth::Caller;
use crate::failure::ApiFailure;
use crate::listen::HeldSlot;
use crate::rest::task::{self, TaskSelector};
use crate::rest::{ApiState, JobPath, Params, owner, read_store};

/// States in which an element has processes that a terminal can run beside.
const LIVE: &[JobState] = &[JobState::Starting, JobState::Running];

/// Serves `POST /v1/jobs/{id}/attach`: a terminal or a command beside a running task.
pub(crate) async fn attach(
    State(app): State<ApiState>,
    caller: Caller,
    JobPath(job): JobPath,
    Params(query): Params<AttachQuery>,
    request: Request,
) -> Result<Response, ApiFailure> {
    // 1. Check permissions and the element.
    if !caller.may_touch(&owner(&app, job).await?) {
        return Err(ApiFailure::not_yours(job));
    }
    let asked =
        request.headers().get(header::UPGRADE).is_some_and(|value| value == SESSION_PROTOCOL);
    let mut extensions = request.into_parts().0.extensions;
    let upgrade = extensions.remove::<OnUpgrade>();
    let slot = extensions.remove::<HeldSlot>();
    let Some(upgrade) = upgrade.filter(|_| asked) else {
        return Err(ApiFailure::bad_request(format!(
            "attaching needs `Upgrade: {SESSION_PROTOCOL}`"
        )));
    };
    let index = match query.index {
        Some(index) => index,
        None => running_index(&app, job).await?,
    };
    let (id, rank) =
        task::find(&app, job, TaskSelector { index, rank: query.rank, states: LIVE }).await?;

    // 2. Connect to the supervisor's socket.
    let path = app.backend.task_socket(id, rank);
    let path = path.ok_or_else(|| {
        ApiFailure::conflict("this backend does not support terminal sessions", "use muster logs")
    })?;
    let mut supervisor = connect(path).await.map_err(|error| {
        tracing::debug!(%error, "no supervisor to attach to");
        ApiFailure::conflict(
            format!("rank {rank} of job {job} does not accept sessions now"),
            "see muster show",
        )
    })?;

    // 3. Copy bytes. The connection counts towards the user's limit until it is closed.
    tokio::spawn(async move {
        let _slot = slot;
        match upgrade.await {
            Ok(upgraded) => {
                // Either side may close the connection at any time; sessions end that way.
                let _ended =
                    tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut supervisor)
                        .await;
            }
            Err(error) => {
                tracing::debug!(%error, "a client closed the connection before its session began")
            }
        }
    });
    let head = [(header::CONNECTION, "upgrade"), (header::UPGRADE, SESSION_PROTOCOL)];
    Ok((StatusCode::SWITCHING_PROTOCOLS, head, Body::empty()).into_response())
}

/// Connects as a client, so that the supervisor does not take the forwarded bytes for orders of the
/// daemon.
async fn connect(path: PathBuf) -> io::Result<UnixStream> {
    let connected = tokio::task::spawn_blocking(move || session::connect(&path)).await;
    let stream = connected.map_err(io::Error::other)??;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Returns the first running element, or the one that started first.
async fn running_index(app: &ApiState, job: JobId) -> Result<u32, ApiFailure> {
    let live = app.handle.job(job).await?;
    let running = live.and_then(|live| {
        live.view.elements.into_iter().find(|element| LIVE.contains(&element.state))
    });
    match running {
        Some(element) => Ok(element.element.index),
        None => {
            Ok(read_store(&app.reader, move |reader| reader.first_started(job)).await?.unwrap_or(0))
        }
    }
}

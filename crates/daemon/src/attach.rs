//! Terminal sessions: after the upgrade the daemon passes bytes between client and supervisor and
//! understands none of them.

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
use muster_model::view::State as JobState;
use tokio::net::UnixStream;

use crate::auth::Caller;
use crate::failure::Failure;
use crate::listen::HeldSeat;
use crate::rest::task::{self, Which};
use crate::rest::{App, JobPath, Params, owner, read_store};

/// What has processes beside which a terminal can be.
const LIVE: &[JobState] = &[JobState::Starting, JobState::Running];

/// `POST /v1/jobs/{id}/attach`
pub(crate) async fn attach(
    State(app): State<App>,
    caller: Caller,
    JobPath(job): JobPath,
    Params(query): Params<AttachQuery>,
    request: Request,
) -> Result<Response, Failure> {
    // 1. May they, and is there something to attach to?
    if !caller.may_touch(&owner(&app, job).await?) {
        return Err(Failure::not_yours(job));
    }
    let asked =
        request.headers().get(header::UPGRADE).is_some_and(|value| value == SESSION_PROTOCOL);
    let mut extensions = request.into_parts().0.extensions;
    let (upgrade, seat) = (extensions.remove::<OnUpgrade>(), extensions.remove::<HeldSeat>());
    let Some(upgrade) = upgrade.filter(|_| asked) else {
        return Err(Failure::bad_request(format!("attaching needs `Upgrade: {SESSION_PROTOCOL}`")));
    };
    let index = match query.index {
        Some(index) => index,
        None => running_index(&app, job).await?,
    };
    let (id, rank) = task::find(&app, job, Which { index, rank: query.rank, states: LIVE }).await?;

    // 2. The supervisor's socket.
    let path = app.backend.task_socket(id, rank);
    let path = path.ok_or_else(|| {
        Failure::conflict("this backend has no terminal sessions", "use muster logs")
    })?;
    let mut supervisor = connect(path).await.map_err(|error| {
        tracing::debug!(%error, "no supervisor to attach to");
        Failure::conflict(
            format!("rank {rank} of job {job} takes no session now"),
            "see muster show",
        )
    })?;

    // 3. From here on the connection is theirs. It counts among its user's as long as it is open.
    tokio::spawn(async move {
        let _seat = seat;
        match upgrade.await {
            Ok(upgraded) => {
                // Either side may hang up at any time; that is how sessions end.
                let _ended =
                    tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut supervisor)
                        .await;
            }
            Err(error) => tracing::debug!(%error, "a client left before its session began"),
        }
    });
    let head = [(header::CONNECTION, "upgrade"), (header::UPGRADE, SESSION_PROTOCOL)];
    Ok((StatusCode::SWITCHING_PROTOCOLS, head, Body::empty()).into_response())
}

/// Announced as a client's: what is passed on must not be taken for the daemon's own orders.
async fn connect(path: PathBuf) -> io::Result<UnixStream> {
    let connected = tokio::task::spawn_blocking(move || session::connect(&path)).await;
    let stream = connected.map_err(io::Error::other)??;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// The first element that runs, or the one that started first.
async fn running_index(app: &App, job: JobId) -> Result<u32, Failure> {
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

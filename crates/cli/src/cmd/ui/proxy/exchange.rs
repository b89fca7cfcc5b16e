//! One exchange with a job: a request and its response, both as streams, or a websocket. Each has a connection of its
//! own, so that an answer cannot reach another request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, Uri, Version};
use axum::response::Response;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use muster_backends::listening::belongs_to;
use rustix::process::geteuid;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::headers;
use crate::cmd::ui::job_origins::JobPort;
use crate::cmd::ui::refusal::Refusal;
use crate::cmd::ui::state::PageState;

/// Longest wait for a connection on this machine: a listener whose queue is full does not answer.
const MAX_CONNECT: Duration = Duration::from_secs(5);

/// Passes a request of an origin on to its job, and returns the job's response.
///
/// # Errors
/// The job does not answer, or too many connections are open.
pub(super) async fn pass_on(
    state: &PageState,
    of: JobPort,
    address: SocketAddr,
    origin: &str,
    mut request: Request,
) -> Result<Response, Refusal> {
    let permit = state.connections.clone().try_acquire_owned();
    let permit = permit.map_err(|_| Refusal::busy("too many connections to jobs are open"))?;
    let permit = Arc::new(permit);
    let mut sender = connect(of, address, Arc::clone(&permit)).await?;

    let browser =
        headers::is_websocket(request.headers()).then(|| hyper::upgrade::on(&mut request));
    headers::to_job(request.headers_mut(), origin, address);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|_| Refusal::invalid("no such path"))?;
    *request.version_mut() = Version::HTTP_11;
    let answered = sender.send_request(request).await;
    let mut response = answered.map_err(|error| no_answer(of, &error))?;

    let is_upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    headers::to_browser(response.headers_mut(), address, is_upgraded);
    match browser {
        Some(browser) if is_upgraded => {
            let job = hyper::upgrade::on(&mut response);
            tokio::spawn(join(browser, job, permit));
        }
        None if is_upgraded => return Err(no_answer(of, &"it changed the protocol unasked")),
        _ => {}
    }
    Ok(response.map(Body::new))
}

/// Connects to a job, and makes sure that it is a process of this user: another user's could have taken the port since.
async fn connect(
    of: JobPort,
    address: SocketAddr,
    permit: Arc<OwnedSemaphorePermit>,
) -> Result<SendRequest<Body>, Refusal> {
    let connected = timeout(MAX_CONNECT, TcpStream::connect(address)).await;
    let stream = match connected {
        Ok(stream) => stream.map_err(|error| no_answer(of, &error))?,
        Err(late) => return Err(no_answer(of, &late)),
    };
    let uid = geteuid().as_raw();
    let look = tokio::task::spawn_blocking(move || belongs_to(address, uid));
    if !look.await.map_err(anyhow::Error::from)?.map_err(anyhow::Error::from)? {
        return Err(no_answer(of, &"another process has its port"));
    }
    let (sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| no_answer(of, &error))?;
    tokio::spawn(async move {
        // An error of the connection is one of its request, which says so.
        let _ = connection.with_upgrades().await;
        drop(permit);
    });
    Ok(sender)
}

/// Passes the bytes of a websocket on in both directions, until both sides have ended or one fails.
async fn join(browser: OnUpgrade, job: OnUpgrade, permit: Arc<OwnedSemaphorePermit>) {
    if let Ok((browser, job)) = tokio::try_join!(browser, job) {
        // The end of one side is the end of the other, which then says so.
        let _ = copy_bidirectional(&mut TokioIo::new(browser), &mut TokioIo::new(job)).await;
    }
    drop(permit);
}

fn no_answer(of: JobPort, error: &dyn std::fmt::Display) -> Refusal {
    let JobPort { job, port, .. } = of;
    let message = format!("job {job} does not answer on port {port}: {error}");
    Refusal::new(StatusCode::BAD_GATEWAY, "unavailable", message)
        .hint("reload this page in a moment; the page of the job says whether it still runs")
}

//! Client of the API: HTTP/1.1 over a unix socket with one connection per request, or a responder
//! in this process. The client is stateless and retries only when it is made with
//! [`Client::with_retries`]: a caller that retries a submission sends the same key again.

mod wire;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use hyper_util::rt::TokioIo;
use muster_model::{JobId, Replicas, SiteSnapshot};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::query::{
    AttachQuery, ChangesQuery, ElementQuery, JobFilter, LogQuery, SnapshotQuery, TimelineQuery,
    UsageQuery,
};
use crate::responder::{Call, Responder, RouteResponse, WaitMode};
use crate::routes::{self, BodyKind, Method, RouteId};
use crate::types::{
    ActionRequest, ActionResponse, AdvanceReservationList, BulkRequest, BulkResponse,
    ChangesResponse, DaemonInfo, DrainRequest, DropReservationRequest, ElementList, ErrorBody,
    ExplainResponse, GpuLoadList, JobDetail, JobList, NodeList, QueueList, QueuesRequest,
    ReserveRequest, ResumeRequest, SavedRequest, ScaleRequest, SubmitRequest, SubmitResponse,
    Timeline, UsageList, UsageReport,
};

/// Value of the `Upgrade` header of an attach request.
pub const SESSION_PROTOCOL: &str = "muster-session";

/// Interval between two attempts to reach a daemon that may be restarting.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Connection that has left HTTP and speaks the session protocol.
pub type AttachStream = TokioIo<hyper::upgrade::Upgraded>;

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens on the socket.
    #[error("no daemon listens on {}", .0.display())]
    NoDaemon(PathBuf),
    /// The user may not use the socket.
    #[error("permission denied on the socket {}", .0.display())]
    NotAllowed(PathBuf),
    /// The daemon rejected the request.
    #[error("{}", .0.message)]
    Api(ErrorBody),
    /// The connection failed; the request may or may not have been carried out.
    #[error("the connection to the daemon failed")]
    Io(#[source] std::io::Error),
    /// The response does not conform to API version 1.
    #[error("the daemon's response does not conform to API version 1: {0}")]
    Protocol(String),
}

/// Action on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobAction {
    /// End the job in any state.
    Cancel,
    /// Keep the job from starting.
    Hold,
    /// Undo a hold of the job.
    Release,
    /// Run the job again.
    Requeue,
    /// Ask the job to save its progress.
    Checkpoint,
    /// Set the number of replicas.
    Scale(Replicas),
}

impl JobAction {
    fn route(self) -> RouteId {
        match self {
            JobAction::Cancel => RouteId::Cancel,
            JobAction::Hold => RouteId::Hold,
            JobAction::Release => RouteId::Release,
            JobAction::Requeue => RouteId::Requeue,
            JobAction::Checkpoint => RouteId::Checkpoint,
            JobAction::Scale(_) => RouteId::Scale,
        }
    }
}

/// Client of the daemon that listens on a socket, or of a responder in this process.
#[derive(Clone, Debug)]
pub struct Client {
    server: ClientPeer,
}

/// Peer that answers the requests.
#[derive(Clone, Debug)]
enum ClientPeer {
    Socket { path: PathBuf, retry_for: Duration },
    InProcess(Arc<dyn Responder>),
}

impl Client {
    /// Makes a client without connecting.
    #[must_use]
    pub fn new(socket: PathBuf) -> Self {
        Self { server: ClientPeer::Socket { path: socket, retry_for: Duration::ZERO } }
    }

    /// Makes a client of a daemon that may be restarting: for this long, requests that it did not
    /// receive are sent again, and read requests are repeated.
    #[must_use]
    pub fn with_retries(socket: PathBuf, retry_for: Duration) -> Self {
        Self { server: ClientPeer::Socket { path: socket, retry_for } }
    }

    /// Makes a client of a responder in this process.
    #[must_use]
    pub fn in_process(responder: Arc<dyn Responder>) -> Self {
        Self { server: ClientPeer::InProcess(responder) }
    }

    /// Returns the daemon's socket; `None` for a responder in this process.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match &self.server {
            ClientPeer::Socket { path, .. } => Some(path),
            ClientPeer::InProcess(_) => None,
        }
    }

    /// Sets how the caller uses a responder; a daemon ignores it.
    pub fn set_wait_mode(&self, mode: WaitMode) {
        if let ClientPeer::InProcess(responder) = &self.server {
            responder.set_wait_mode(mode);
        }
    }

    /// Binds a job number to an id of the external scheduler; numbers of a daemon are unique by
    /// themselves.
    pub fn bind_job_id(&self, job: JobId, id: &str) {
        if let ClientPeer::InProcess(responder) = &self.server {
            responder.bind_job_id(job, id);
        }
    }

    /// Returns the text by which commands take a job: its number, or its name where the external
    /// scheduler has no numbers.
    #[must_use]
    pub fn label(&self, job: JobId) -> String {
        let label = match &self.server {
            ClientPeer::InProcess(responder) => responder.label(job),
            ClientPeer::Socket { .. } => None,
        };
        label.unwrap_or_else(|| job.to_string())
    }

    /// Withdraws the request in progress; a daemon ignores it.
    pub fn withdraw(&self) {
        if let ClientPeer::InProcess(responder) = &self.server {
            responder.withdraw();
        }
    }

    /// Returns information about the daemon.
    pub async fn info(&self) -> Result<DaemonInfo, ClientError> {
        self.read(RouteId::Daemon, None, None).await
    }

    /// Submits every document of a text, or none.
    pub async fn submit(&self, request: &SubmitRequest) -> Result<SubmitResponse, ClientError> {
        self.call(RouteId::Submit, None, None, Some(to_value(request)?)).await
    }

    /// Lists the jobs that match a filter.
    pub async fn jobs(&self, filter: JobFilter) -> Result<JobList, ClientError> {
        self.read(RouteId::Jobs, None, Some(to_value(&filter)?)).await
    }

    /// Returns one job with all details; logs are those of the element at `index`.
    pub async fn job(&self, job: JobId, index: Option<u32>) -> Result<JobDetail, ClientError> {
        self.read(RouteId::Job, Some(&job.to_string()), Some(to_value(&ElementQuery { index })?))
            .await
    }

    /// Lists the elements of an array or sweep.
    pub async fn elements(&self, job: JobId) -> Result<ElementList, ClientError> {
        self.read(RouteId::Elements, Some(&job.to_string()), None).await
    }

    /// Explains why a job is pending.
    pub async fn explain(
        &self,
        job: JobId,
        index: Option<u32>,
    ) -> Result<ExplainResponse, ClientError> {
        self.read(
            RouteId::Explain,
            Some(&job.to_string()),
            Some(to_value(&ElementQuery { index })?),
        )
        .await
    }

    /// Cancels, holds, releases or requeues a job.
    pub async fn act(
        &self,
        job: JobId,
        action: JobAction,
        request: ActionRequest,
    ) -> Result<ActionResponse, ClientError> {
        self.call(action.route(), Some(&job.to_string()), None, Some(to_value(&request)?)).await
    }

    /// Cancels, holds, releases or requeues many jobs, each independently.
    pub async fn act_on_many(&self, request: &BulkRequest) -> Result<BulkResponse, ClientError> {
        self.call(RouteId::Bulk, None, None, Some(to_value(request)?)).await
    }

    /// Acknowledges a checkpoint of a running task; returns when that is stored on disk.
    pub async fn saved(
        &self,
        job: JobId,
        request: &SavedRequest,
    ) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::Saved, Some(&job.to_string()), None, Some(to_value(request)?)).await
    }

    /// Waits until the revision differs from `after`, or `timeout_secs` have passed.
    pub async fn changes(
        &self,
        after: Option<u64>,
        timeout_secs: u64,
    ) -> Result<ChangesResponse, ClientError> {
        let query = ChangesQuery { after, timeout_secs: Some(timeout_secs) };
        self.read(RouteId::Changes, None, Some(to_value(&query)?)).await
    }

    /// Lists the queues, parents before children.
    pub async fn queues(&self) -> Result<QueueList, ClientError> {
        self.read(RouteId::Queues, None, None).await
    }

    /// Changes the number of replicas of a service.
    pub async fn scale(
        &self,
        job: JobId,
        request: &ScaleRequest,
    ) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::Scale, Some(&job.to_string()), None, Some(to_value(request)?)).await
    }

    /// Replaces the queue tree.
    pub async fn set_queues(&self, request: &QueuesRequest) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::SetQueues, None, None, Some(to_value(request)?)).await
    }

    /// Lists usage per user and queue.
    pub async fn usage(&self) -> Result<UsageList, ClientError> {
        self.read(RouteId::Usage, None, None).await
    }

    /// Lists the GPUs with their loads.
    pub async fn gpu_loads(&self) -> Result<GpuLoadList, ClientError> {
        self.read(RouteId::GpuLoads, None, None).await
    }

    /// Sums the usage of a period.
    pub async fn usage_report(&self, query: &UsageQuery) -> Result<UsageReport, ClientError> {
        self.read(RouteId::UsageReport, None, Some(to_value(query)?)).await
    }

    /// Lists the nodes and their devices.
    pub async fn nodes(&self) -> Result<NodeList, ClientError> {
        self.read(RouteId::Nodes, None, None).await
    }

    /// Takes a node, or some of its GPUs, out of service for new work.
    pub async fn drain(
        &self,
        node: &str,
        request: &DrainRequest,
    ) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::Drain, Some(node), None, Some(to_value(request)?)).await
    }

    /// Ends the drain of a node, or of some of its GPUs.
    pub async fn resume(
        &self,
        node: &str,
        request: &ResumeRequest,
    ) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::Resume, Some(node), None, Some(to_value(request)?)).await
    }

    /// Lists the advance reservations by name.
    pub async fn reservations(&self) -> Result<AdvanceReservationList, ClientError> {
        self.read(RouteId::Reservations, None, None).await
    }

    /// Creates an advance reservation.
    pub async fn reserve(
        &self,
        name: &str,
        request: &ReserveRequest,
    ) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::Reserve, Some(name), None, Some(to_value(request)?)).await
    }

    /// Deletes an advance reservation.
    pub async fn drop_reservation(&self, name: &str) -> Result<ActionResponse, ClientError> {
        let request = to_value(&DropReservationRequest {})?;
        self.call(RouteId::DropReservation, Some(name), None, Some(request)).await
    }

    /// Returns an anonymised snapshot of the state and past runs.
    pub async fn snapshot(&self, query: SnapshotQuery) -> Result<SiteSnapshot, ClientError> {
        self.read(RouteId::Snapshot, None, Some(to_value(&query)?)).await
    }

    /// Returns allocations of devices over time, and planned starts.
    pub async fn timeline(&self, query: TimelineQuery) -> Result<Timeline, ClientError> {
        self.read(RouteId::Timeline, None, Some(to_value(&query)?)).await
    }

    /// Reads the output of one task. With `follow`, the stream ends when the task has ended; it
    /// fails with [`ClientError::Io`] when the daemon stops, and a new call with `offset` continues
    /// it.
    pub async fn logs(
        &self,
        job: JobId,
        query: LogQuery,
    ) -> Result<BoxStream<'static, Result<Bytes, ClientError>>, ClientError> {
        let name = job.to_string();
        let query = Some(to_value(&query)?);
        match self.exchange(RouteId::Logs, Some(&name), query, None).await? {
            CallResponse::Http(response) => Ok(wire::byte_stream(response)),
            CallResponse::InProcess(RouteResponse::Bytes(stream)) => {
                Ok(stream.map_err(ClientError::Io).boxed())
            }
            CallResponse::InProcess(_) => Err(unexpected("expected a stream of bytes")),
        }
    }

    /// Opens a terminal session beside a task; the stream speaks the backend's session protocol.
    pub async fn attach(
        &self,
        job: JobId,
        query: AttachQuery,
    ) -> Result<AttachStream, ClientError> {
        match self
            .exchange(RouteId::Attach, Some(&job.to_string()), Some(to_value(&query)?), None)
            .await?
        {
            CallResponse::Http(response) => {
                let upgraded = hyper::upgrade::on(response).await.map_err(wire::hyper_error)?;
                Ok(TokioIo::new(upgraded))
            }
            CallResponse::InProcess(_) => Err(unexpected("expected a terminal session")),
        }
    }

    /// Returns the command prefix for a terminal beside a task: the caller appends a program and
    /// runs it on its own terminal. `None` when a daemon hosts the session instead.
    pub async fn terminal(
        &self,
        job: JobId,
        query: AttachQuery,
    ) -> Result<Option<Vec<String>>, ClientError> {
        if self.socket().is_some() {
            return Ok(None);
        }
        match self
            .exchange(RouteId::Attach, Some(&job.to_string()), Some(to_value(&query)?), None)
            .await?
        {
            CallResponse::InProcess(RouteResponse::Terminal(words)) => Ok(Some(words)),
            _ => Err(unexpected("expected a terminal command")),
        }
    }

    /// Returns command lines that together run the probe of a running job, which `program` is
    /// ([`Responder::probe_commands`]). A daemon runs jobs on this machine only, so there it is the
    /// program itself.
    pub async fn probe_commands(
        &self,
        job: JobId,
        index: Option<u32>,
        program: Vec<String>,
    ) -> Result<Vec<Vec<String>>, ClientError> {
        match &self.server {
            ClientPeer::Socket { .. } => Ok(vec![program]),
            ClientPeer::InProcess(responder) => {
                responder.probe_commands(job, index, program).await.map_err(ClientError::Api)
            }
        }
    }

    /// Stops the daemon; tasks keep running.
    pub async fn stop_daemon(&self) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::StopDaemon, None, None, None).await
    }

    /// Returns the OpenAPI document of the daemon.
    pub async fn openapi(&self) -> Result<Value, ClientError> {
        self.read(RouteId::OpenApi, None, None).await
    }

    /// Sends the request of another client of this API, such as a browser, and returns the response
    /// as it is. Nothing is sent again.
    pub async fn forward(&self, call: Call) -> Result<RouteResponse, ClientError> {
        let Call { route, name, query, body } = call;
        let some = |value: Value| Some(value).filter(|value| !value.is_null());
        match self.exchange(route, name.as_deref(), some(query), some(body)).await? {
            CallResponse::InProcess(response) => Ok(response),
            CallResponse::Http(response) => match routes::route(route).response {
                BodyKind::Bytes => {
                    let bytes = wire::byte_stream(response).map_err(std::io::Error::other);
                    Ok(RouteResponse::Bytes(bytes.boxed()))
                }
                _ => Ok(RouteResponse::Json(wire::whole_body(response).await?.to_vec())),
            },
        }
    }

    async fn read<T: DeserializeOwned + 'static>(
        &self,
        id: RouteId,
        name: Option<&str>,
        query: Option<Value>,
    ) -> Result<T, ClientError> {
        self.call(id, name, query, None).await
    }

    async fn call<T: DeserializeOwned + 'static>(
        &self,
        id: RouteId,
        name: Option<&str>,
        query: Option<Value>,
        body: Option<Value>,
    ) -> Result<T, ClientError> {
        let retry_for = match &self.server {
            ClientPeer::Socket { retry_for, .. } => *retry_for,
            ClientPeer::InProcess(_) => Duration::ZERO,
        };
        let mut failed: Option<Instant> = None;
        loop {
            let error = match self.call_once(id, name, query.clone(), body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let since = *failed.get_or_insert_with(Instant::now);
            if !may_retry(id, &error) || since.elapsed() >= retry_for {
                return Err(error);
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    async fn call_once<T: DeserializeOwned + 'static>(
        &self,
        id: RouteId,
        name: Option<&str>,
        query: Option<Value>,
        body: Option<Value>,
    ) -> Result<T, ClientError> {
        let read = |error: serde_json::Error| unexpected(&error.to_string());
        match self.exchange(id, name, query, body).await? {
            CallResponse::Http(response) => {
                serde_json::from_slice(&wire::whole_body(response).await?).map_err(read)
            }
            CallResponse::InProcess(RouteResponse::Value(value)) => match value.take() {
                Ok(answer) => Ok(answer),
                // The caller reads a part of what the route answers.
                Err(other) => {
                    other.to_json().and_then(|text| serde_json::from_slice(&text)).map_err(read)
                }
            },
            CallResponse::InProcess(RouteResponse::Json(text)) => {
                serde_json::from_slice(&text).map_err(read)
            }
            CallResponse::InProcess(_) => Err(unexpected("expected JSON")),
        }
    }

    /// Sends one request and reads the head of its response; rejections become
    /// [`ClientError::Api`].
    async fn exchange(
        &self,
        id: RouteId,
        name: Option<&str>,
        query: Option<Value>,
        body: Option<Value>,
    ) -> Result<CallResponse, ClientError> {
        let socket = match &self.server {
            ClientPeer::Socket { path, .. } => path,
            ClientPeer::InProcess(responder) => {
                let query = query.unwrap_or(Value::Null);
                let body = body.unwrap_or(Value::Null);
                let call = Call { route: id, name: name.map(str::to_owned), query, body };
                return responder
                    .answer(call)
                    .await
                    .map(CallResponse::InProcess)
                    .map_err(ClientError::Api);
            }
        };
        let route = routes::route(id);
        let request = wire::request(route, name, query.as_ref(), body.as_ref())?;
        let response = wire::send(socket, request).await?;
        match response.status().as_u16() {
            status if status == route.success() => Ok(CallResponse::Http(response)),
            status => Err(wire::refusal(status, response).await),
        }
    }
}

/// Response of which only the head was read, or a complete one.
enum CallResponse {
    Http(wire::HttpResponse),
    InProcess(RouteResponse),
}

/// Returns true when a request can be sent again: it was not received, or it changes nothing.
fn may_retry(id: RouteId, error: &ClientError) -> bool {
    match error {
        ClientError::NoDaemon(_) => true,
        ClientError::Io(_) => routes::route(id).method == Method::Get,
        ClientError::NotAllowed(_) | ClientError::Api(_) | ClientError::Protocol(_) => false,
    }
}

fn unexpected(what: &str) -> ClientError {
    ClientError::Protocol(what.to_owned())
}

fn to_value<T: Serialize>(value: &T) -> Result<Value, ClientError> {
    serde_json::to_value(value).map_err(|error| ClientError::Protocol(error.to_string()))
}

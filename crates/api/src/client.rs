//! The client of the API: HTTP/1.1 over a unix socket, one connection per request, or a responder
//! of this process. It holds no state and makes no choices. Unless it is told to be patient it
//! retries nothing: a caller that retries a submission sends the same key again.

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
};
use crate::responder::{Answer, Call, Responder, Stay};
use crate::routes::{self, Method, RouteId};
use crate::types::{
    ActionRequest, ActionResponse, BulkRequest, BulkResponse, Changes, DaemonInfo, DrainRequest,
    DropReservationRequest, ErrorBody, Explained, JobDetail, JobList, NodeList, QueueList,
    QueuesRequest, ReserveRequest, ResumeRequest, SavedRequest, ScaleRequest, SubmitRequest,
    SubmitResponse, Timeline, UsageList, WindowList,
};

/// What the `Upgrade` header of an attach request says.
pub const SESSION_PROTOCOL: &str = "muster-session";

/// Between two tries to reach a daemon that may be restarting.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A connection that has left HTTP and speaks the session protocol.
pub type AttachStream = TokioIo<hyper::upgrade::Upgraded>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens on the socket.
    #[error("no daemon listens on {}", .0.display())]
    NoDaemon(PathBuf),
    /// The socket is not ours to use.
    #[error("the socket {} may not be used by this user", .0.display())]
    NotAllowed(PathBuf),
    /// The daemon refused.
    #[error("{}", .0.message)]
    Api(ErrorBody),
    /// The connection broke; whether the request was carried out is not known.
    #[error("the connection to the daemon broke")]
    Io(#[source] std::io::Error),
    /// The answer was not what API version 1 says.
    #[error("the daemon answered something unexpected: {0}")]
    Protocol(String),
}

/// What can be done to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// End it.
    Cancel,
    /// Keep it from starting.
    Hold,
    /// Undo a hold.
    Release,
    /// Run it again.
    Requeue,
    /// Ask it to save its progress.
    Checkpoint,
    /// Have so many replicas.
    Scale(Replicas),
}

impl Action {
    fn route(self) -> RouteId {
        match self {
            Action::Cancel => RouteId::Cancel,
            Action::Hold => RouteId::Hold,
            Action::Release => RouteId::Release,
            Action::Requeue => RouteId::Requeue,
            Action::Checkpoint => RouteId::Checkpoint,
            Action::Scale(_) => RouteId::Scale,
        }
    }
}

/// A client of the daemon that listens on one socket, or of a responder in its place.
#[derive(Clone, Debug)]
pub struct Client {
    server: Server,
}

/// Who answers.
#[derive(Clone, Debug)]
enum Server {
    Socket { path: PathBuf, patience: Duration },
    Here(Arc<dyn Responder>),
}

impl Client {
    /// Opens nothing yet.
    #[must_use]
    pub fn new(socket: PathBuf) -> Self {
        Self { server: Server::Socket { path: socket, patience: Duration::ZERO } }
    }

    /// Of a daemon that may be restarting: what it did not take is sent again, and questions are
    /// asked again, for so long.
    #[must_use]
    pub fn patient(socket: PathBuf, patience: Duration) -> Self {
        Self { server: Server::Socket { path: socket, patience } }
    }

    /// Of what answers in this process.
    #[must_use]
    pub fn here(responder: Arc<dyn Responder>) -> Self {
        Self { server: Server::Here(responder) }
    }

    /// The daemon's socket; `None` where no daemon answers.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match &self.server {
            Server::Socket { path, .. } => Some(path),
            Server::Here(_) => None,
        }
    }

    /// Tells how long the caller stays; a daemon needs not to know.
    pub fn stay(&self, stay: Stay) {
        if let Server::Here(responder) = &self.server {
            responder.stay(stay);
        }
    }

    /// Tells that a number means the job with this id; numbers of a daemon mean one job for ever.
    pub fn mean(&self, job: JobId, id: &str) {
        if let Server::Here(responder) = &self.server {
            responder.mean(job, id);
        }
    }

    /// Withdraws the submission that is under way, where that is done in this process.
    pub fn withdraw(&self) {
        if let Server::Here(responder) = &self.server {
            responder.withdraw();
        }
    }

    /// Who answers.
    pub async fn info(&self) -> Result<DaemonInfo, ClientError> {
        self.read(RouteId::Daemon, None, None).await
    }

    /// Submits every document of a text, or none.
    pub async fn submit(&self, request: &SubmitRequest) -> Result<SubmitResponse, ClientError> {
        self.call(RouteId::Submit, None, None, Some(to_value(request)?)).await
    }

    /// Lists jobs.
    pub async fn jobs(&self, filter: JobFilter) -> Result<JobList, ClientError> {
        self.read(RouteId::Jobs, None, Some(to_value(&filter)?)).await
    }

    /// One job in full; logs are those of the element at `index`.
    pub async fn job(&self, job: JobId, index: Option<u32>) -> Result<JobDetail, ClientError> {
        self.read(RouteId::Job, Some(&job.to_string()), Some(to_value(&ElementQuery { index })?))
            .await
    }

    /// Why it waits.
    pub async fn explain(&self, job: JobId, index: Option<u32>) -> Result<Explained, ClientError> {
        self.read(
            RouteId::Explain,
            Some(&job.to_string()),
            Some(to_value(&ElementQuery { index })?),
        )
        .await
    }

    /// Cancels, holds, releases or requeues.
    pub async fn act(
        &self,
        job: JobId,
        action: Action,
        request: ActionRequest,
    ) -> Result<ActionResponse, ClientError> {
        self.call(action.route(), Some(&job.to_string()), None, Some(to_value(&request)?)).await
    }

    /// Cancels, holds, releases or requeues many jobs; what is refused for one is done for the
    /// others.
    pub async fn act_on_many(&self, request: &BulkRequest) -> Result<BulkResponse, ClientError> {
        self.call(RouteId::Bulk, None, None, Some(to_value(request)?)).await
    }

    /// Says that the progress of a running task is saved; answered once that is noted on disk.
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
    ) -> Result<Changes, ClientError> {
        let query = ChangesQuery { after, timeout_secs: Some(timeout_secs) };
        self.read(RouteId::Changes, None, Some(to_value(&query)?)).await
    }

    /// Lists queues.
    pub async fn queues(&self) -> Result<QueueList, ClientError> {
        self.read(RouteId::Queues, None, None).await
    }

    /// Changes how many replicas a service has.
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

    /// Consumption.
    pub async fn usage(&self) -> Result<UsageList, ClientError> {
        self.read(RouteId::Usage, None, None).await
    }

    /// Lists nodes.
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

    /// Takes a node, or some of its GPUs, back.
    pub async fn resume(
        &self,
        node: &str,
        request: &ResumeRequest,
    ) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::Resume, Some(node), None, Some(to_value(request)?)).await
    }

    /// Lists advance reservations.
    pub async fn reservations(&self) -> Result<WindowList, ClientError> {
        self.read(RouteId::Reservations, None, None).await
    }

    /// Sets nodes or GPUs aside.
    pub async fn reserve(
        &self,
        name: &str,
        request: &ReserveRequest,
    ) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::Reserve, Some(name), None, Some(to_value(request)?)).await
    }

    /// Takes an advance reservation back.
    pub async fn drop_reservation(&self, name: &str) -> Result<ActionResponse, ClientError> {
        let request = to_value(&DropReservationRequest {})?;
        self.call(RouteId::DropReservation, Some(name), None, Some(request)).await
    }

    /// The state and what has run, without names.
    pub async fn snapshot(&self, query: SnapshotQuery) -> Result<SiteSnapshot, ClientError> {
        self.read(RouteId::Snapshot, None, Some(to_value(&query)?)).await
    }

    /// Who held what when.
    pub async fn timeline(&self, query: TimelineQuery) -> Result<Timeline, ClientError> {
        self.read(RouteId::Timeline, None, Some(to_value(&query)?)).await
    }

    /// Output of one task. With `follow`, the stream ends when the task has ended; it breaks with
    /// [`ClientError::Io`] when the daemon goes away, and `offset` takes it up again.
    pub async fn logs(
        &self,
        job: JobId,
        query: LogQuery,
    ) -> Result<BoxStream<'static, Result<Bytes, ClientError>>, ClientError> {
        let (name, query) = (job.to_string(), Some(to_value(&query)?));
        match self.exchange(RouteId::Logs, Some(&name), query, None).await? {
            Response::Http(response) => Ok(wire::byte_stream(response)),
            Response::Here(Answer::Bytes(stream)) => Ok(stream.map_err(ClientError::Io).boxed()),
            Response::Here(_) => Err(unexpected("something else in place of output")),
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
            Response::Http(response) => {
                let upgraded = hyper::upgrade::on(response).await.map_err(wire::hyper_error)?;
                Ok(TokioIo::new(upgraded))
            }
            Response::Here(_) => Err(unexpected("no session")),
        }
    }

    /// What a terminal beside a task is, where no daemon keeps sessions: words that run the program
    /// that is appended to them on the caller's own terminal. `None` before a daemon.
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
            Response::Here(Answer::Terminal(words)) => Ok(Some(words)),
            _ => Err(unexpected("no terminal")),
        }
    }

    /// Command lines that together run a program once on every node of a running job; before a
    /// daemon, whose jobs run on this machine, the program itself.
    pub async fn on_each_node(
        &self,
        job: JobId,
        index: Option<u32>,
        program: Vec<String>,
    ) -> Result<Vec<Vec<String>>, ClientError> {
        match &self.server {
            Server::Socket { .. } => Ok(vec![program]),
            Server::Here(responder) => {
                responder.on_each_node(job, index, program).await.map_err(ClientError::Api)
            }
        }
    }

    /// Ends the daemon; tasks keep running.
    pub async fn stop_daemon(&self) -> Result<ActionResponse, ClientError> {
        self.call(RouteId::StopDaemon, None, None, None).await
    }

    /// The OpenAPI document of the running daemon.
    pub async fn openapi(&self) -> Result<Value, ClientError> {
        self.read(RouteId::OpenApi, None, None).await
    }

    async fn read<T: DeserializeOwned>(
        &self,
        id: RouteId,
        name: Option<&str>,
        query: Option<Value>,
    ) -> Result<T, ClientError> {
        self.call(id, name, query, None).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        id: RouteId,
        name: Option<&str>,
        query: Option<Value>,
        body: Option<Value>,
    ) -> Result<T, ClientError> {
        let patience = match &self.server {
            Server::Socket { patience, .. } => *patience,
            Server::Here(_) => Duration::ZERO,
        };
        let mut failed: Option<Instant> = None;
        loop {
            let error = match self.call_once(id, name, query.clone(), body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let since = *failed.get_or_insert_with(Instant::now);
            if !may_ask_again(id, &error) || since.elapsed() >= patience {
                return Err(error);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn call_once<T: DeserializeOwned>(
        &self,
        id: RouteId,
        name: Option<&str>,
        query: Option<Value>,
        body: Option<Value>,
    ) -> Result<T, ClientError> {
        let read = |error: serde_json::Error| unexpected(&error.to_string());
        match self.exchange(id, name, query, body).await? {
            Response::Http(response) => {
                serde_json::from_slice(&wire::whole_body(response).await?).map_err(read)
            }
            Response::Here(Answer::Json(text)) => serde_json::from_slice(&text).map_err(read),
            Response::Here(_) => Err(unexpected("something else in place of JSON")),
        }
    }

    /// Sends one request and reads the head of its answer; refusals become [`ClientError::Api`].
    async fn exchange(
        &self,
        id: RouteId,
        name: Option<&str>,
        query: Option<Value>,
        body: Option<Value>,
    ) -> Result<Response, ClientError> {
        let socket = match &self.server {
            Server::Socket { path, .. } => path,
            Server::Here(responder) => {
                let (query, body) = (query.unwrap_or(Value::Null), body.unwrap_or(Value::Null));
                let call = Call { route: id, name: name.map(str::to_owned), query, body };
                return responder.answer(call).await.map(Response::Here).map_err(ClientError::Api);
            }
        };
        let route = routes::route(id);
        let request = wire::request(route, name, query.as_ref(), body.as_ref())?;
        let response = wire::send(socket, request).await?;
        match response.status().as_u16() {
            status if status == route.success() => Ok(Response::Http(response)),
            status => Err(wire::refusal(status, response).await),
        }
    }
}

/// The head of an answer, or all of it.
enum Response {
    Http(wire::Response),
    Here(Answer),
}

/// Whether a request can be sent again: it was not taken, or it changes nothing.
fn may_ask_again(id: RouteId, error: &ClientError) -> bool {
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

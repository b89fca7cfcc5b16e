//! Responder: answers the routes in this process, without a daemon, for an external scheduler such
//! as Slurm. Routes, types and errors are those of the daemon, so commands work with both alike.

use std::fmt;
use std::io;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use muster_model::JobId;
use serde_json::Value;

use crate::routes::RouteId;
use crate::types::ErrorBody;

/// Request to a route.
#[derive(Clone, Debug)]
pub struct Call {
    /// Id of the route.
    pub route: RouteId,
    /// Path parameter: the number of a job or the name of a node; `None` when the path has none.
    pub name: Option<String>,
    /// Query as JSON of its type; null when there is none.
    pub query: Value,
    /// Body as JSON of its type; null when there is none.
    pub body: Value,
}

/// Use of a connection by the caller, which decides how outages of the external scheduler are
/// handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// One request and its response.
    #[default]
    Once,
    /// Repeated display until the user quits. During an outage requests are repeated.
    Watch,
    /// Wait for jobs. During an outage requests are repeated, and jobs that the external scheduler
    /// loses are submitted again.
    WaitForJobs,
}

/// Response of a responder on success.
pub enum RouteResponse {
    /// JSON of the route's type as text: building and reading a tree of a thousand jobs takes
    /// several times as long.
    Json(Vec<u8>),
    /// Stream of bytes, for output.
    Bytes(BoxStream<'static, io::Result<Bytes>>),
    /// Command prefix: the caller appends a program and runs it on its own terminal.
    Terminal(Vec<String>),
}

impl fmt::Debug for RouteResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteResponse::Json(text) => {
                f.debug_tuple("Json").field(&String::from_utf8_lossy(text)).finish()
            }
            RouteResponse::Bytes(_) => f.write_str("Bytes"),
            RouteResponse::Terminal(words) => f.debug_tuple("Terminal").field(words).finish(),
        }
    }
}

/// Responder that answers routes like the daemon.
pub trait Responder: Send + Sync + fmt::Debug {
    /// Returns the response, or an error with the codes of [`ErrorBody`].
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<RouteResponse, ErrorBody>>;

    /// Sets how the caller uses the responder.
    fn set_wait_mode(&self, _: WaitMode) {}

    /// Binds a job number to the external scheduler's id of a job, even if another job gets the
    /// same number later.
    fn bind_job_id(&self, _: JobId, _: &str) {}

    /// Returns the text by which commands take a job that this responder has shown; `None` means its
    /// number.
    fn label(&self, _: JobId) -> Option<String> {
        None
    }

    /// Withdraws the request in progress: its response follows soon, and nothing that it created remains.
    fn withdraw(&self) {}

    /// Returns command lines that run the probe of a running job: once on every node beside its ranks,
    /// one line per component; on Kubernetes once for each running task on this machine, with
    /// `--rank`, `--gpus`, `--node` and the command that runs a program in the task's container
    /// appended. The stdin of a command goes to each probe that it runs, and their output arrives
    /// line by line.
    fn probe_commands(
        &self,
        job: JobId,
        index: Option<u32>,
        program: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<Vec<String>>, ErrorBody>>;
}

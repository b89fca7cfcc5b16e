//! Responder: answers the routes in this process, without a daemon, for an external scheduler such
//! as Slurm. Routes, types and errors are those of the daemon, so commands work with both alike.

use std::any::Any;
use std::fmt;
use std::io;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use muster_model::JobId;
use serde::Serialize;
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
    /// JSON of the route's type as text.
    Json(Vec<u8>),
    /// Value of the route's type, for a caller in this process: JSON of a thousand jobs takes longer than making their list.
    Value(RouteValue),
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
            RouteResponse::Value(value) => value.fmt(f),
            RouteResponse::Bytes(_) => f.write_str("Bytes"),
            RouteResponse::Terminal(words) => f.debug_tuple("Terminal").field(words).finish(),
        }
    }
}

/// Value of a route's type, which a caller in this process takes as it is.
pub struct RouteValue(Box<dyn RouteType>);

/// Type with which a route answers.
trait RouteType: Any + Send {
    fn to_json(&self) -> serde_json::Result<Vec<u8>>;
}

impl<T: Serialize + Any + Send> RouteType for T {
    fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

impl RouteValue {
    /// Holds a value of a route's type.
    pub fn new<T: Serialize + Any + Send>(value: T) -> Self {
        Self(Box::new(value))
    }

    /// Returns the value as this type.
    ///
    /// # Errors
    /// Returns itself if the value has another type.
    pub fn take<T: 'static>(self) -> Result<T, Self> {
        if !(&*self.0 as &dyn Any).is::<T>() {
            return Err(self);
        }
        let value: Box<dyn Any> = self.0;
        Ok(*value.downcast().expect("the type was just looked at"))
    }

    /// Writes the value as JSON.
    ///
    /// # Errors
    /// If the type cannot be written as JSON, such as a map whose keys are not text.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        self.0.to_json()
    }
}

impl fmt::Debug for RouteValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_json().unwrap_or_default();
        f.debug_tuple("Value").field(&String::from_utf8_lossy(&text)).finish()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_by_its_type_and_written_for_others() {
        let names = || RouteValue::new(vec!["a".to_owned()]);
        assert_eq!(names().take::<Vec<String>>().unwrap(), ["a"]);
        let other = names().take::<String>().unwrap_err();
        assert_eq!(other.to_json().unwrap(), br#"["a"]"#);
    }
}

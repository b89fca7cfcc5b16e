//! Whoever answers the routes in this process, without a socket: what stands before a queue that
//! decides by itself. The routes, their types and refusals are those of the daemon, so that a verb
//! does not know who answered it.

use std::fmt;
use std::io;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use muster_model::JobId;
use serde_json::Value;

use crate::routes::RouteId;
use crate::types::ErrorBody;

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is asked for.
    pub route: RouteId,
    /// What stands in the path: a job's number, a node's name.
    pub name: Option<String>,
    /// The query, as the JSON of its type; null without one.
    pub query: Value,
    /// The body, as the JSON of its type; null without one.
    pub body: Value,
}

/// How long a caller stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stay {
    /// For one answer.
    #[default]
    No,
    /// It shows what there is until its user has seen enough. While the place to run does not
    /// answer it is asked again.
    Watches,
    /// It waits for jobs. While the place to run does not answer it is asked again, and what that
    /// lost of them it is given again.
    Waits,
}

/// A success.
pub enum Answer {
    /// The JSON of the route's type, as text: a tree of a thousand jobs takes several times as long
    /// to make and to read.
    Json(Vec<u8>),
    /// Bytes as they come.
    Bytes(BoxStream<'static, io::Result<Bytes>>),
    /// Words that run the program that is appended to them on the caller's own terminal, which is
    /// the session.
    Terminal(Vec<String>),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Json(text) => {
                f.debug_tuple("Json").field(&String::from_utf8_lossy(text)).finish()
            }
            Answer::Bytes(_) => f.write_str("Bytes"),
            Answer::Terminal(words) => f.debug_tuple("Terminal").field(words).finish(),
        }
    }
}

/// Answers routes as the daemon does.
pub trait Responder: Send + Sync + fmt::Debug {
    /// The answer, or a refusal with the codes of [`ErrorBody`].
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<Answer, ErrorBody>>;

    /// Tells how long the caller stays with what it asks for.
    fn stay(&self, _: Stay) {}

    /// Tells that a number means the job with this id from now on, whatever else is given that
    /// number.
    fn mean(&self, _: JobId, _: &str) {}

    /// Withdraws the submission that is under way: it is answered soon, and nothing of it runs.
    fn withdraw(&self) {}

    /// Command lines that together run a program once on every node of a running job, beside its
    /// ranks; one for each component. The stdin of one goes to each program that it runs, and what
    /// they print comes back by lines.
    fn on_each_node(
        &self,
        job: JobId,
        index: Option<u32>,
        program: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<Vec<String>>, ErrorBody>>;
}

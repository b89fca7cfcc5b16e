//! An API server for tests that answers from a script, and fails where the script says so.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::stream;
use kube::Client;
use serde_json::{Value, json};

/// Answer to the next request.
pub(crate) struct Answer {
    /// Beginning of the request: method and path.
    expected: &'static str,
    status: u16,
    body: String,
    end: AnswerEnd,
}

/// End of an answer.
enum AnswerEnd {
    Whole,
    /// The connection breaks after the body.
    Cut,
    /// Nothing follows, and the connection stays.
    Silent,
}

impl Answer {
    /// Answers with an object.
    pub(crate) fn object(expected: &'static str, body: &Value) -> Self {
        Self { expected, status: 200, body: body.to_string(), end: AnswerEnd::Whole }
    }

    /// Answers with events of a watch, after which the watch ends in good order.
    pub(crate) fn events(expected: &'static str, events: &[Value]) -> Self {
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        Self { expected, status: 200, body: lines, end: AnswerEnd::Whole }
    }

    /// Refuses with a status of the API.
    pub(crate) fn refusal(expected: &'static str, status: u16) -> Self {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": "Scripted", "message": format!("refused with {status}"), "code": status,
        });
        Self { expected, status, body: body.to_string(), end: AnswerEnd::Whole }
    }

    /// Breaks the connection after what is there of the answer.
    pub(crate) fn cut(self) -> Self {
        Self { end: AnswerEnd::Cut, ..self }
    }

    /// Breaks the connection in the middle of the answer.
    pub(crate) fn torn(self) -> Self {
        let half = self.body.len() / 2;
        Self { body: self.body[..half].to_owned(), end: AnswerEnd::Cut, ..self }
    }

    /// Sends nothing more, for ever.
    pub(crate) fn silent(self) -> Self {
        Self { end: AnswerEnd::Silent, ..self }
    }
}

/// The rest of the script, and what was requested.
#[derive(Default)]
pub(crate) struct ServerScript {
    answers: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<(String, Value)>>,
}

impl ServerScript {
    /// Returns a client of a server that answers from this script.
    pub(crate) fn client(answers: impl IntoIterator<Item = Answer>) -> (Client, Arc<Self>) {
        let answers = Mutex::new(answers.into_iter().collect());
        let script = Arc::new(Self { answers, ..Self::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        (Client::new(router, "default"), script)
    }

    /// Returns the requests so far, each as method and path.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(line, _)| line.clone()).collect()
    }

    /// Returns the body of the last request.
    pub(crate) fn last_body(&self) -> Value {
        self.requests.lock().unwrap().last().unwrap().1.clone()
    }
}

async fn answer(State(script): State<Arc<ServerScript>>, request: Request) -> Response {
    let line = format!("{} {}", request.method(), request.uri());
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    script.requests.lock().unwrap().push((line.clone(), body));
    let next = script.answers.lock().unwrap().pop_front();
    let Some(next) = next else { return pending().await };
    assert!(line.starts_with(next.expected), "{line} instead of {}", next.expected);
    let start = stream::iter([Ok::<_, std::io::Error>(Bytes::from(next.body))]);
    let body =
        match next.end {
            AnswerEnd::Whole => Body::from_stream(start),
            AnswerEnd::Cut => Body::from_stream(start.chain(stream::iter([Err(
                std::io::Error::from(std::io::ErrorKind::ConnectionReset),
            )]))),
            AnswerEnd::Silent => Body::from_stream(start.chain(stream::pending())),
        };
    Response::builder().status(next.status).body(body).unwrap()
}

//! Watches of an API server that refuses, forgets, breaks off or falls silent.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::fake_server::{Answer, ServerScript};

/// Object of the tests: metadata only.
#[derive(Clone, Debug, Deserialize)]
struct Thing {
    metadata: Metadata,
}

impl Watched for Thing {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

const LIST: &str = "GET /things?limit=500";
const WATCH: &str = "GET /things?watch=1";

fn thing(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version}})
}

fn list(names: &[&str], version: &str) -> Answer {
    let items: Vec<Value> = names.iter().map(|name| thing(name, version)).collect();
    Answer::object(LIST, &json!({"metadata": {"resourceVersion": version}, "items": items}))
}

fn event(kind: &str, name: &str, version: &str) -> Value {
    json!({"type": kind, "object": thing(name, version)})
}

fn too_old() -> Value {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": 410, "reason": "Expired", "message": "too old resource version",
    });
    json!({"type": "ERROR", "object": status})
}

/// Follows things on a server with these answers until so many changes are reported.
async fn changes(count: usize, answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    let (client, script) = ServerScript::client(answers);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    follow::<Thing>(client, "/things".to_owned(), move |change| {
        let mut log = log.lock().unwrap();
        log.push(match change {
            Change::Present(thing) => format!("+{}", thing.metadata.name),
            Change::Gone(key) => format!("-{}", key.name),
            Change::Listed => "listed".to_owned(),
            Change::Failed(error) => format!("failed: {error}"),
        });
        log.len() < count
    })
    .await;
    let seen = seen.lock().unwrap().clone();
    (seen, script.requests())
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_the_last_version() {
    let answers = vec![
        list(&["a"], "5"),
        Answer::events(WATCH, &[event("ADDED", "b", "6")]),
        Answer::events(WATCH, &[event("DELETED", "a", "7")]),
    ];
    let (seen, requests) = changes(4, answers).await;
    assert_eq!(seen, ["+a", "listed", "+b", "-a"]);
    assert!(requests[1].ends_with("resourceVersion=5"), "{requests:?}");
    assert!(requests[2].ends_with("resourceVersion=6"), "{requests:?}");
}

/// Objects that went away while nobody watched are reported as gone, whichever way the server says
/// that the version is too old.
#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_lists_again() {
    for forgotten in [
        Answer::refusal(WATCH, 410),
        Answer::events(WATCH, &[too_old()]),
        // The kind is no longer served, and is served again.
        Answer::refusal(WATCH, 404),
    ] {
        let answers = vec![list(&["a", "b"], "5"), forgotten, list(&["b", "c"], "9")];
        let (seen, _) = changes(6, answers).await;
        assert_eq!(seen, ["+a", "+b", "listed", "-a", "+b", "+c"]);
    }
}

/// Another object of the same name is not the one that was reported.
#[tokio::test(start_paused = true)]
async fn an_object_that_was_replaced_unseen_is_gone_first() {
    let list = |uid: &str, version: &str| {
        let mut thing = thing("a", version);
        thing["metadata"]["uid"] = uid.into();
        Answer::object(LIST, &json!({"metadata": {"resourceVersion": version}, "items": [thing]}))
    };
    let answers = vec![
        list("1", "5"),
        Answer::refusal(WATCH, 410),
        list("1", "6"),
        Answer::refusal(WATCH, 410),
        list("2", "7"),
    ];
    let (seen, _) = changes(5, answers).await;
    assert_eq!(seen, ["+a", "listed", "+a", "-a", "+a"]);
}

/// A server that is overloaded or broken is asked again; nothing counts as gone meanwhile.
#[tokio::test(start_paused = true)]
async fn errors_are_tried_again() {
    for status in [429, 500, 503] {
        let answers = vec![
            Answer::refusal(LIST, status),
            list(&["a"], "5"),
            Answer::refusal(WATCH, status),
            Answer::events(WATCH, &[event("ADDED", "b", "6")]),
        ];
        let (seen, requests) = changes(3, answers).await;
        assert_eq!(seen, ["+a", "listed", "+b"], "{status}");
        assert!(requests[3].ends_with("resourceVersion=5"), "{requests:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_or_is_silent_goes_on() {
    let first = || Answer::events(WATCH, &[event("ADDED", "b", "6")]);
    for (broken, from) in [(first().cut(), "6"), (first().torn(), "5"), (first().silent(), "6")] {
        let answers = vec![
            list(&["a"], "5"),
            broken,
            Answer::events(WATCH, &[event("ADDED", "b", "6"), event("ADDED", "c", "7")]),
        ];
        let (seen, requests) = changes(if from == "5" { 4 } else { 5 }, answers).await;
        assert_eq!(seen.last().unwrap(), "+c", "{seen:?}");
        assert!(requests[2].ends_with(&format!("resourceVersion={from}")), "{requests:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_torn_is_asked_for_again() {
    let answers = vec![list(&["a"], "5").torn(), list(&["a", "b"], "6")];
    let (seen, _) = changes(3, answers).await;
    assert_eq!(seen, ["+a", "+b", "listed"]);
}

/// A kind that may not be read holds up nothing, and is tried again.
#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_counts_as_listed() {
    let answers = vec![Answer::refusal(LIST, 403), list(&["a"], "5")];
    let (seen, _) = changes(2, answers).await;
    assert_eq!(seen, ["listed", "+a"]);
}

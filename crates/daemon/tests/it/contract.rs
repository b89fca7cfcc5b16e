//! The OpenAPI document describes the daemon: it has every route, and every response has the
//! documented schema.

use std::path::Path;

use axum::body::{Body as HttpBody, to_bytes};
use hyper::Request;
use hyper_util::rt::TokioIo;
use muster_api::routes::{BodyKind, ROUTES, Route, RouteId};
use muster_model::view::JobState;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::site::{ANN, TestSite, request};

/// Sends a request that the client would not send; returns status and body of the response.
pub async fn raw(
    socket: &Path,
    method: &str,
    target: &str,
    body: Option<Vec<u8>>,
) -> (u16, Vec<u8>) {
    let stream = UnixStream::connect(socket).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(target).header("host", "x");
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let request = request.body(HttpBody::from(body.unwrap_or_default())).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    // A stream that ends in an error is a response, too: its head was sent.
    let body = to_bytes(HttpBody::new(response.into_body()), usize::MAX).await;
    (status, body.map(Vec::from).unwrap_or_default())
}

/// Checks a response against the document; errors must be listed and have an error body.
pub fn check(document: &Value, route: &Route, status: u16, body: &[u8]) {
    let pointer = format!(
        "/paths/{}/{}/responses/{status}",
        route.path.replace('/', "~1"),
        route.method.as_str().to_lowercase()
    );
    let response = document.pointer(&pointer).unwrap_or_else(|| {
        panic!("{pointer} is not in the document: {}", String::from_utf8_lossy(body))
    });
    let Some(schema) = response.pointer("/content/application~1json/schema") else { return };
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let value: Value =
        serde_json::from_slice(body).unwrap_or_else(|_| panic!("{pointer}: not JSON"));
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(&value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{pointer}: {errors:?} in {value}");
}

/// Returns a valid body for a route.
fn sample(id: RouteId) -> Option<Value> {
    match id {
        RouteId::Submit => {
            Some(serde_json::to_value(request("{name: x, gpus: 1, run: exit 0}")).unwrap())
        }
        RouteId::SetQueues => Some(json!({ "source": "queues: [{name: default}]" })),
        RouteId::Cancel
        | RouteId::Hold
        | RouteId::Release
        | RouteId::Requeue
        | RouteId::Checkpoint => Some(json!({ "index": null })),
        // In the far future, when running jobs have ended.
        RouteId::Reserve => {
            Some(json!({ "gpus": 1, "after": 360_000_000, "length": 1000, "users": ["ann"] }))
        }
        RouteId::DropReservation => Some(json!({})),
        RouteId::Bulk => {
            Some(json!({ "action": "hold", "targets": [{ "job": 1 }, { "job": 99 }] }))
        }
        RouteId::Scale => Some(json!({ "floor": 1, "ceiling": 2 })),
        RouteId::Saved => Some(json!({ "label": "step 1" })),
        RouteId::Drain => Some(json!({ "reason": "cleaning" })),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_as_the_document_says() {
    let site = TestSite::stepped().await;
    let document = muster_api::openapi::document();
    let socket = site.dir.path().join(format!("{ANN}.sock"));
    // 1 runs, 2 waits, 3 has ended, an array is half done.
    let jobs = site
        .submit("{name: a, gpus: 6, time: 1h, run: run}\n---\n{name: b, gpus: 8, run: run}\n---\n{name: c, gpus: 1, time: 5s, run: exit 0}\n---\n{name: d, gpus: 1, array: 0-9%2, run: run}")
        .await;
    site.reach(jobs[0], JobState::Running).await;
    site.reach(jobs[2], JobState::Done).await;
    for id in ["1", "2", "3", "4", "99", "x"] {
        for route in ROUTES.iter().filter(|route| route.id != RouteId::StopDaemon) {
            let target = route.path.replace("{id}", id).replace("{name}", "n1");
            let body = sample(route.id).map(|body| body.to_string().into_bytes());
            let (status, body) = raw(&socket, route.method.as_str(), &target, body).await;
            assert!(status != 405 && status != 500, "{} {target}: {status}", route.method.as_str());
            check(&document, route, status, &body);
            if id == "1"
                && !matches!(route.response, BodyKind::Upgrade)
                && !matches!(
                    route.id,
                    RouteId::Hold
                        | RouteId::Release
                        | RouteId::Checkpoint
                        | RouteId::Saved
                        | RouteId::Scale
                )
            {
                assert_eq!(
                    status,
                    200,
                    "{} {target}: {}",
                    route.method.as_str(),
                    String::from_utf8_lossy(&body)
                );
            }
        }
    }
    let (status, body) = raw(&socket, "GET", "/v1/nothing", None).await;
    assert_eq!(
        (status, serde_json::from_slice::<Value>(&body).unwrap()["code"].as_str()),
        (404, Some("not_found"))
    );
    let (status, _) = raw(&socket, "DELETE", "/v1/jobs", None).await;
    assert_eq!(status, 405);
    let (status, _) = raw(&socket, "POST", "/v1/daemon/stop", None).await;
    assert_eq!(status, 200);
}

//! A body that is too large, sent without the client (which would not send it): the daemon responds
//! with an error and keeps running.

use std::path::Path;
use std::time::Duration;

use muster_api::MAX_BODY_BYTES;
use muster_api::query::JobFilter;
use muster_api::routes::{ROUTES, RouteId};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::contract::{check, raw};
use crate::site::{ANN, TestSite, request};

/// The daemon waits 30 s for a slow body. A later response waited for something unnecessary.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Writes `parts` for as long as the daemon reads them, then reads status and body of the response.
async fn tell(socket: &Path, parts: &[&[u8]]) -> (u16, Value) {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    for part in parts {
        // The daemon responds and closes before it has read everything; the response can still be
        // read.
        if stream.write_all(part).await.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let read = tokio::time::timeout(AT_ONCE, async {
        let mut chunk = [0; 4096];
        while !is_whole(&answer)
            && let Ok(count @ 1..) = stream.read(&mut chunk).await
        {
            answer.extend_from_slice(&chunk[..count]);
        }
    });
    read.await.expect("the daemon neither answered nor hung up");
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("not JSON: {body:?}")))
}

/// Returns true once the body is as long as the head says.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_some_and(|length| body.len() >= length.parse().unwrap())
}

fn head(length: &str) -> Vec<u8> {
    format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
    )
    .into_bytes()
}

/// Checks the complete error response.
fn check_refusal((status, body): (u16, Value)) {
    assert_eq!(status, 413, "{body}");
    assert_eq!(
        (&body["code"], &body["message"]),
        (&json!("invalid_request"), &json!("the body is larger than 2 MiB"))
    );
    assert!(body["hints"][0].as_str().unwrap().contains("fewer jobs"), "{body}");
    let submit = ROUTES.iter().find(|route| route.id == RouteId::Submit).unwrap();
    check(&muster_api::openapi::document(), submit, status, body.to_string().as_bytes());
}

/// Makes a valid submission of exactly this many bytes: white space after JSON is allowed.
fn submission(bytes: usize) -> Vec<u8> {
    let mut body = serde_json::to_vec(&request("{name: x, gpus: 1, run: exit 0}")).unwrap();
    assert!(body.len() < bytes);
    body.resize(bytes, b' ');
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused_in_words() {
    let site = TestSite::start().await;
    let socket = site.dir.path().join(format!("{ANN}.sock"));
    let over = submission(MAX_BODY_BYTES + 1);
    // 1. A declared length is sufficient: nothing of the body is sent or waited for.
    let declared = head(&format!("content-length: {}", over.len()));
    check_refusal(tell(&socket, &[&declared]).await);
    // 2. One byte too many, all of it sent.
    check_refusal(tell(&socket, &[&declared, &over]).await);
    // 3. Far too much.
    let huge = vec![b' '; 8 * MAX_BODY_BYTES];
    check_refusal(tell(&socket, &[&head(&format!("content-length: {}", huge.len())), &huge]).await);
    // 4. Without a declared length, bytes are counted as they arrive.
    let chunk = [format!("{:x}\r\n", over.len()).as_bytes(), &over, b"\r\n0\r\n\r\n"].concat();
    check_refusal(tell(&socket, &[&head("transfer-encoding: chunked"), &chunk]).await);
    // 5. None of these became a job, but the largest permitted body does.
    let (status, body) = raw(&socket, "POST", "/v1/jobs", Some(submission(MAX_BODY_BYTES))).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let all = JobFilter { all: true, ..JobFilter::default() };
    assert_eq!(site.client().jobs(all).await.unwrap().jobs.len(), 1);
}

//! A body that is too large, sent past our own client (which would not send it): the daemon says so
//! and stays up.

use std::path::Path;
use std::time::Duration;

use muster_api::MAX_BODY_BYTES;
use muster_api::query::JobFilter;
use muster_api::routes::{ROUTES, RouteId};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::contract::{check, raw};
use crate::site::{ANN, Site, request};

/// The daemon waits 30 s for a slow body. An answer later than this waited for something it does
/// not need.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Writes `parts` for as long as the daemon takes them, then reads what it answered: status and
/// body.
async fn tell(socket: &Path, parts: &[&[u8]]) -> (u16, Value) {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    for part in parts {
        // The daemon answers and hangs up before it has read everything; what it said can still be
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

/// True once the body is as long as the head says.
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

/// A refusal with everything that helps whoever gets it.
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

/// A valid submission of exactly so many bytes: white space after JSON is allowed.
fn submission(bytes: usize) -> Vec<u8> {
    let mut body = serde_json::to_vec(&request("{name: x, gpus: 1, run: exit 0}")).unwrap();
    assert!(body.len() < bytes);
    body.resize(bytes, b' ');
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused_in_words() {
    let site = Site::start().await;
    let socket = site.dir.path().join(format!("{ANN}.sock"));
    let over = submission(MAX_BODY_BYTES + 1);
    // 1. A declared length is enough: nothing of the body is sent, and nothing is waited for.
    let declared = head(&format!("content-length: {}", over.len()));
    check_refusal(tell(&socket, &[&declared]).await);
    // 2. One byte too many, all of it sent.
    check_refusal(tell(&socket, &[&declared, &over]).await);
    // 3. Far too much.
    let huge = vec![b' '; 8 * MAX_BODY_BYTES];
    check_refusal(tell(&socket, &[&head(&format!("content-length: {}", huge.len())), &huge]).await);
    // 4. A length that nobody declared: counted as it comes.
    let chunk = [format!("{:x}\r\n", over.len()).as_bytes(), &over, b"\r\n0\r\n\r\n"].concat();
    check_refusal(tell(&socket, &[&head("transfer-encoding: chunked"), &chunk]).await);
    // 5. Nothing of all that became a job, and the largest body that is allowed does.
    let (status, body) = raw(&socket, "POST", "/v1/jobs", Some(submission(MAX_BODY_BYTES))).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let all = JobFilter { all: true, ..JobFilter::default() };
    assert_eq!(site.client().jobs(all).await.unwrap().jobs.len(), 1);
}

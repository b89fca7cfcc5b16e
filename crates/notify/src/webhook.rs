//! POST requests to webhooks, in the shapes that chat services take.

use std::sync::Arc;
use std::time::Duration;

use muster_model::NoticeOrder;
use muster_model::notice::WebhookFormat;
use serde_json::{Value, json};
use ureq::tls::{RootCerts, TlsConfig};

use crate::{SendError, message};

/// Longest time for one request, with its connection and its answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Most bytes that are read of an answer.
const ANSWER_BYTES: u64 = 4096;
/// Longest part of an answer that is told, in characters.
const ANSWER_CHARS: usize = 200;

/// Sends the notice to a URL.
pub(crate) fn send(order: &NoticeOrder, url: &str, format: WebhookFormat) -> Result<(), SendError> {
    // The certificates that the machine trusts, those of the site included.
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        // A POST that is redirected becomes a GET, which these services would accept and drop.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent("muster")
        .tls_config(tls)
        .build()
        .into();
    let answer = agent
        .post(url)
        .content_type("application/json")
        .send(body(order, format).to_string())
        .map_err(|error| SendError::Unreachable(error.to_string()))?;
    let status = answer.status().as_u16();
    if (200..300).contains(&status) {
        return Ok(());
    }
    let mut body = answer.into_body();
    let text = body.with_config().limit(ANSWER_BYTES).lossy_utf8(true).read_to_string();
    let text = text.unwrap_or_default();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let words = line.chars().filter(|c| !c.is_control()).take(ANSWER_CHARS).collect();
    Err(SendError::Refused { status, words })
}

fn body(order: &NoticeOrder, format: WebhookFormat) -> Value {
    let sentence = message::sentence(order);
    match format {
        WebhookFormat::Json => message::as_json(order),
        // https://api.slack.com/reference/surfaces/formatting#escaping
        WebhookFormat::Slack => json!({
            "text": sentence.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"),
        }),
        // No word of a job calls anybody: https://discord.com/developers/docs/resources/message
        WebhookFormat::Discord => {
            json!({ "content": sentence, "allowed_mentions": { "parse": [] } })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use muster_model::notice::NoticeAddress;

    use super::*;
    use crate::message::tests::order;

    fn sent_to(answer: &'static str) -> (Result<(), SendError>, String, Value) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).unwrap() > 0);
            }
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
            });
            let mut body = vec![0; length.unwrap()];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            (head, serde_json::from_slice(&body).unwrap())
        });
        let url = format!("http://127.0.0.1:{port}/hook");
        let order =
            order(NoticeAddress::Webhook { url: url.clone(), format: WebhookFormat::Slack });
        let result = send(&order, &url, WebhookFormat::Slack);
        let (head, body) = server.join().unwrap();
        (result, head, body)
    }

    #[test]
    fn a_chat_gets_its_shape_with_nothing_that_it_takes_for_markup() {
        let (result, head, body) =
            sent_to("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        result.unwrap();
        assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
        assert_eq!(
            body["text"],
            "job 12 (train) on node1: failed after 2h: rank 0 lost: &lt;!channel&gt; &amp; @everyone"
        );
        let discord =
            super::body(&order(NoticeAddress::Mail("a@b".to_owned())), WebhookFormat::Discord);
        assert_eq!(discord["allowed_mentions"]["parse"], json!([]));
    }

    #[test]
    fn an_answer_that_is_no_success_is_told() {
        for (answer, expected) in [
            (
                "HTTP/1.1 404 Not Found\r\ncontent-length: 10\r\nconnection: close\r\n\r\nno_service",
                "it answered 404: no_service",
            ),
            (
                "HTTP/1.1 301 Moved Permanently\r\nlocation: /other\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                "it answered 301",
            ),
        ] {
            let error = sent_to(answer).0.unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let order = order(NoticeAddress::Webhook { url: url.clone(), format: WebhookFormat::Json });
        let error = send(&order, &url, WebhookFormat::Json).unwrap_err().to_string();
        assert!(error.starts_with("no answer: "), "{error}");
    }
}

//! HTTP for the client: request lines, bodies, errors. Independent of the single routes and types
//! of the API.

use std::io;
use std::path::Path;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body_util::{BodyExt, BodyStream, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;
use tokio::net::UnixStream;

use super::{ClientError, SESSION_PROTOCOL};
use crate::routes::{BodyKind, Route};
use crate::types::ErrorBody;

/// Response whose body has not been read yet.
pub(super) type HttpResponse = hyper::Response<Incoming>;

/// Builds the request of a route. `name` fills the path's only parameter.
pub(super) fn request(
    route: &Route,
    name: Option<&str>,
    query: Option<&Value>,
    body: Option<&Value>,
) -> Result<Request<Full<Bytes>>, ClientError> {
    let mut target = fill_path(route.path, name.unwrap_or_default());
    if let Some(query) = query.map(query_string).filter(|query| !query.is_empty()) {
        target.push('?');
        target.push_str(&query);
    }
    let mut builder = Request::builder()
        .method(route.method.as_str())
        .uri(target)
        .header(header::HOST, "muster")
        .header(header::ACCEPT, "application/json");
    if let BodyKind::Upgrade = route.response {
        builder =
            builder.header(header::CONNECTION, "upgrade").header(header::UPGRADE, SESSION_PROTOCOL);
    }
    let bytes = match body {
        Some(body) => {
            builder = builder.header(header::CONTENT_TYPE, "application/json");
            Bytes::from(body.to_string())
        }
        None => Bytes::new(),
    };
    // The daemon would reject it and close the connection, and the rejection could be lost.
    if bytes.len() > crate::MAX_BODY_BYTES {
        return Err(ClientError::Api(ErrorBody::too_large()));
    }
    builder.body(Full::new(bytes)).map_err(|error| ClientError::Protocol(error.to_string()))
}

/// Sends a request on a connection of its own.
pub(super) async fn send(
    socket: &Path,
    request: Request<Full<Bytes>>,
) -> Result<HttpResponse, ClientError> {
    let stream = UnixStream::connect(socket).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ClientError::NoDaemon(socket.to_owned())
        }
        io::ErrorKind::PermissionDenied => ClientError::NotAllowed(socket.to_owned()),
        _ => ClientError::Io(error),
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(hyper_error)?;
    // The connection ends with the body of the response, or when the caller drops the response.
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request).await.map_err(hyper_error)
}

pub(super) async fn whole_body(response: HttpResponse) -> Result<Bytes, ClientError> {
    Ok(response.into_body().collect().await.map_err(hyper_error)?.to_bytes())
}

pub(super) fn byte_stream(
    response: HttpResponse,
) -> BoxStream<'static, Result<Bytes, ClientError>> {
    let frames = BodyStream::new(response.into_body());
    let bytes = frames.filter_map(|frame| async {
        match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(hyper_error(error))),
        }
    });
    bytes.boxed()
}

/// Turns an error response into an error.
pub(super) async fn refusal(status: u16, response: HttpResponse) -> ClientError {
    let bytes = match whole_body(response).await {
        Ok(bytes) => bytes,
        Err(error) => return error,
    };
    match serde_json::from_slice::<ErrorBody>(&bytes) {
        Ok(body) => ClientError::Api(body),
        Err(_) => ClientError::Protocol(format!("status {status} without an error body")),
    }
}

pub(super) fn hyper_error(error: hyper::Error) -> ClientError {
    if error.is_parse() {
        ClientError::Protocol(error.to_string())
    } else {
        ClientError::Io(io::Error::other(error))
    }
}

/// Replaces the path's `{parameter}` by `name`.
fn fill_path(path: &str, name: &str) -> String {
    let parts = path
        .split('/')
        .map(|part| if part.starts_with('{') { encode(name).to_string() } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("/")
}

/// Serialises a flat JSON object as `a=1&b=x`.
fn query_string(fields: &Value) -> String {
    let fields = fields.as_object().into_iter().flatten();
    let pairs = fields.filter_map(|(key, value)| match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::String(text) => Some(format!("{key}={}", encode(text))),
        Value::Bool(_) | Value::Number(_) => Some(format!("{key}={value}")),
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
fn encode(text: &str) -> PercentEncode<'_> {
    const RESERVED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::JobFilter;

    #[test]
    fn names_and_queries_are_encoded() {
        assert_eq!(fill_path("/v1/nodes/{name}/drain", "a b/ü"), "/v1/nodes/a%20b%2F%C3%BC/drain");
        let filter =
            JobFilter { all: true, queue: Some("research/vision".into()), ..JobFilter::default() };
        let query = query_string(&serde_json::to_value(filter).unwrap());
        assert_eq!(query, "all=true&queue=research%2Fvision");
        assert_eq!(query_string(&serde_json::to_value(JobFilter::default()).unwrap()), "");
    }

    #[tokio::test]
    async fn a_socket_without_a_daemon_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let client = crate::Client::new(dir.path().join("none.sock"));
        assert!(matches!(client.info().await, Err(ClientError::NoDaemon(_))));
    }
}

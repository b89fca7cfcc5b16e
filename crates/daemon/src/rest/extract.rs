//! What handlers take out of a request, with refusals in the API's own form.

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use muster_model::{JobId, NodeName, WindowName};
use serde::de::DeserializeOwned;

use super::{App, MAX_BODY_BYTES};
use crate::auth::Caller;
use crate::failure::Failure;

/// A body must have arrived whole after this long; the socket is local.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

impl FromRequestParts<App> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Failure> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| Failure::Internal("a request without a caller".to_owned()))
    }
}

/// The job that a path names.
pub(crate) struct JobPath(pub(crate) JobId);

impl FromRequestParts<App> for JobPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        match Path::<u64>::from_request_parts(parts, app).await {
            Ok(Path(number)) => Ok(Self(JobId(number))),
            Err(_) => Err(Failure::NotFound("a job is named by its number".to_owned())),
        }
    }
}

/// The node that a path names.
pub(crate) struct NodePath(pub(crate) NodeName);

impl FromRequestParts<App> for NodePath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        match Path::<String>::from_request_parts(parts, app).await {
            Ok(Path(name)) => Ok(Self(name.into())),
            Err(_) => Err(Failure::NotFound("a node's name is UTF-8".to_owned())),
        }
    }
}

/// The advance reservation that a path names.
pub(crate) struct WindowPath(pub(crate) WindowName);

impl FromRequestParts<App> for WindowPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let Ok(Path(name)) = Path::<String>::from_request_parts(parts, app).await else {
            return Err(Failure::NotFound("a reservation's name is UTF-8".to_owned()));
        };
        match muster_spec::check_name(&name) {
            Ok(name) => Ok(Self(name.into())),
            Err(wrong) => {
                Err(Failure::bad_request(format!("no name of a reservation: {}", wrong.label)))
            }
        }
    }
}

/// The query string.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(Failure::bad_request(rejection.body_text().to_lowercase())),
        }
    }
}

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &App) -> Result<Self, Failure> {
        let bytes = read(request).await?;
        parse(&bytes).map(Self)
    }
}

/// A JSON body, or its default when there is none.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &App) -> Result<Self, Failure> {
        let bytes = read(request).await?;
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(&bytes).map(Self) }
    }
}

/// The whole body, within its limits. A web page cannot send JSON to a unix socket, but a proxy in
/// between might be fooled: the content type is insisted on.
async fn read(request: Request) -> Result<Bytes, Failure> {
    let invalid = |status, message: String| Failure::InvalidRequest { status, message };
    let content_type = request.headers().get(header::CONTENT_TYPE).cloned();
    // A length that is declared is refused before anything is read.
    if request.body().size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(Failure::TooLarge);
    }
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES);
    let bytes = match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(unreadable(&error)),
        Err(_) => {
            return Err(invalid(
                StatusCode::BAD_REQUEST,
                "the body did not arrive in time".to_owned(),
            ));
        }
    };
    let is_json =
        content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    match bytes.is_empty() || is_json {
        true => Ok(bytes),
        false => Err(invalid(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be application/json".to_owned(),
        )),
    }
}

fn unreadable(error: &axum::Error) -> Failure {
    let text = error.to_string();
    match text.contains("length limit") {
        true => Failure::TooLarge,
        false => Failure::bad_request(format!("the body cannot be read: {text}")),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::bad_request(format!("the body does not fit: {error}")))
}

//! Extractors for handlers, with errors in the API's format.

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use muster_model::{AdvanceReservationName, JobId, NodeName};
use serde::de::DeserializeOwned;

use super::{ApiState, MAX_BODY_BYTES};
use crate::auth::Caller;
use crate::failure::ApiFailure;

/// Longest time for a whole body to arrive; the socket is local.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

impl FromRequestParts<ApiState> for Caller {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, _: &ApiState) -> Result<Self, ApiFailure> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| ApiFailure::Internal("a request without a caller".to_owned()))
    }
}

/// Job number in a path.
pub(crate) struct JobPath(pub(crate) JobId);

impl FromRequestParts<ApiState> for JobPath {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &ApiState) -> Result<Self, ApiFailure> {
        match Path::<u64>::from_request_parts(parts, app).await {
            Ok(Path(number)) => Ok(Self(JobId(number))),
            Err(_) => Err(ApiFailure::NotFound("a job is identified by its number".to_owned())),
        }
    }
}

/// Node name in a path.
pub(crate) struct NodePath(pub(crate) NodeName);

impl FromRequestParts<ApiState> for NodePath {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &ApiState) -> Result<Self, ApiFailure> {
        match Path::<String>::from_request_parts(parts, app).await {
            Ok(Path(name)) => Ok(Self(name.into())),
            Err(_) => Err(ApiFailure::NotFound("a node's name must be UTF-8".to_owned())),
        }
    }
}

/// Name of an advance reservation in a path.
pub(crate) struct AdvanceReservationPath(pub(crate) AdvanceReservationName);

impl FromRequestParts<ApiState> for AdvanceReservationPath {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &ApiState) -> Result<Self, ApiFailure> {
        let Ok(Path(name)) = Path::<String>::from_request_parts(parts, app).await else {
            return Err(ApiFailure::NotFound("a reservation's name must be UTF-8".to_owned()));
        };
        match muster_spec::check_name(&name) {
            Ok(name) => Ok(Self(name.into())),
            Err(wrong) => {
                Err(ApiFailure::bad_request(format!("invalid reservation name: {}", wrong.label)))
            }
        }
    }
}

/// Parameters of the query string.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<ApiState> for Params<T> {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &ApiState) -> Result<Self, ApiFailure> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(ApiFailure::bad_request(rejection.body_text().to_lowercase())),
        }
    }
}

/// Body of a request in JSON.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<ApiState> for JsonBody<T> {
    type Rejection = ApiFailure;

    async fn from_request(request: Request, _: &ApiState) -> Result<Self, ApiFailure> {
        let bytes = read(request).await?;
        parse(&bytes).map(Self)
    }
}

/// Body in JSON, or the default of its type when there is none.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<ApiState> for OptionalBody<T> {
    type Rejection = ApiFailure;

    async fn from_request(request: Request, _: &ApiState) -> Result<Self, ApiFailure> {
        let bytes = read(request).await?;
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(&bytes).map(Self) }
    }
}

/// Reads the whole body, within its limits. A web page cannot send JSON to a unix socket, but a
/// proxy in between could be misused: the content type is required.
async fn read(request: Request) -> Result<Bytes, ApiFailure> {
    let invalid = |status, message: String| ApiFailure::InvalidRequest { status, message };
    let content_type = request.headers().get(header::CONTENT_TYPE).cloned();
    // A declared length is checked before anything is read.
    if request.body().size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(ApiFailure::TooLarge);
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
    if !bytes.is_empty() && !is_json {
        return Err(invalid(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be application/json".to_owned(),
        ));
    }
    Ok(bytes)
}

fn unreadable(error: &axum::Error) -> ApiFailure {
    let text = error.to_string();
    if text.contains("length limit") {
        ApiFailure::TooLarge
    } else {
        ApiFailure::bad_request(format!("the body cannot be read: {text}"))
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiFailure> {
    serde_json::from_slice(bytes)
        .map_err(|error| ApiFailure::bad_request(format!("invalid body: {error}")))
}

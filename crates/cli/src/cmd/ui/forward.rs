//! Routes of the API that the page may use, passed on to the client that all commands use. The list is
//! closed: no route is passed on because it exists.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use muster_api::query::{
    ChangesQuery, ElementQuery, JobFilter, LogQuery, TimelineQuery, UsageQuery,
};
use muster_api::routes::{Method, ROUTES, RouteId};
use muster_api::types::ActionRequest;
use muster_api::{Call, RouteResponse};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::refusal::Refusal;
use super::state::PageState;

/// Returns whether the page may use a route: those that only read, and the actions that it has
/// buttons for.
fn is_forwarded(route: RouteId) -> bool {
    route.only_reads()
        || matches!(route, RouteId::Cancel | RouteId::Hold | RouteId::Release | RouteId::Requeue)
}

/// Returns the router of these routes.
pub(super) fn router() -> Router<PageState> {
    let forwarded = ROUTES.iter().filter(|route| is_forwarded(route.id));
    forwarded.fold(Router::new(), |router, route| {
        let id = route.id;
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
        };
        // Their only parameter is the number of a job.
        let handler = if route.path.contains('{') {
            on(filter, move |state: State<PageState>, Path(job): Path<String>, uri: Uri, body| {
                forward(state, id, Some(job), uri, body)
            })
        } else {
            on(filter, move |state: State<PageState>, uri: Uri, body| {
                forward(state, id, None, uri, body)
            })
        };
        router.route(route.path, handler)
    })
}

async fn forward(
    State(state): State<PageState>,
    route: RouteId,
    job: Option<String>,
    uri: Uri,
    body: Bytes,
) -> Result<Response, Refusal> {
    // A number, and nothing that could be another path.
    let name = job.map(|job| job_number(&job)).transpose()?.map(|job| job.to_string());
    let body = if route.only_reads() {
        Value::Null
    } else {
        let action: ActionRequest = serde_json::from_slice(&body)
            .map_err(|error| Refusal::invalid(format!("the body is not an action: {error}")))?;
        to_value(&action)?
    };
    let call = Call { route, name, query: query(route, &uri)?, body };
    let json = |text: Vec<u8>| ([(header::CONTENT_TYPE, "application/json")], text).into_response();
    match state.client.forward(call).await? {
        RouteResponse::Json(text) => Ok(json(text)),
        RouteResponse::Value(value) => {
            let text = value.to_json();
            text.map(json).map_err(|error| {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
            })
        }
        RouteResponse::Bytes(stream) => {
            // Output of a task may be anything; a browser must not guess.
            let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
            Ok((kind, Body::from_stream(stream)).into_response())
        }
        RouteResponse::Terminal(_) => {
            Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "internal", "the page has no terminals"))
        }
    }
}

/// Reads the number of a job in a path.
///
/// # Errors
/// Returns a response when it is not a number.
pub(super) fn job_number(text: &str) -> Result<u64, Refusal> {
    text.parse().map_err(|_| Refusal::not_found("a job is identified by its number"))
}

/// Reads the query of a route as its type; what the type does not have is left out.
fn query(route: RouteId, uri: &Uri) -> Result<Value, Refusal> {
    match route {
        RouteId::Jobs => checked::<JobFilter>(uri),
        RouteId::Job | RouteId::Explain => checked::<ElementQuery>(uri),
        RouteId::Logs => checked::<LogQuery>(uri),
        RouteId::Timeline => checked::<TimelineQuery>(uri),
        RouteId::UsageReport => checked::<UsageQuery>(uri),
        RouteId::Changes => checked::<ChangesQuery>(uri),
        _ => Ok(Value::Null),
    }
}

fn checked<T: DeserializeOwned + Serialize>(uri: &Uri) -> Result<Value, Refusal> {
    let Query(query) = Query::<T>::try_from_uri(uri)
        .map_err(|error| Refusal::invalid(error.body_text().to_lowercase()))?;
    to_value(&query)
}

fn to_value(value: &impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::invalid(error.to_string()))
}

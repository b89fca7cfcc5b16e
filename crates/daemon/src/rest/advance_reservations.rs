//! Handlers for advance reservations: list, create, delete. Requests are parsed here and judged by
//! the engine.

use axum::Json;
use axum::extract::State;
use muster_api::types::{
    ActionResponse, AdvanceReservationList, DropReservationRequest, ReserveRequest,
};
use muster_model::unit::{Span, Time};
use muster_model::{
    AdvanceReservation, AdvanceReservationName, AdvanceReservationTimes, Event, NodeName,
    ReservedResources,
};
use muster_report::clock;

use super::extract::AdvanceReservationPath;
use super::{ApiState, JsonBody, OptionalBody};
use crate::auth::Caller;
use crate::failure::ApiFailure;

/// Longest reason of an advance reservation in bytes.
const MAX_REASON_BYTES: usize = 1000;
/// Most nodes in one request.
const MAX_NODES: usize = 100_000;
/// Most users and queues in one request.
const MAX_NAMED: usize = 1000;

pub(super) async fn list(
    State(app): State<ApiState>,
) -> Result<Json<AdvanceReservationList>, ApiFailure> {
    let now = app.handle.status().await?.now;
    Ok(Json(AdvanceReservationList { now, reservations: app.handle.advance_reservations().await? }))
}

pub(super) async fn reserve(
    State(app): State<ApiState>,
    caller: Caller,
    AdvanceReservationPath(name): AdvanceReservationPath,
    JsonBody(request): JsonBody<ReserveRequest>,
) -> Result<Json<ActionResponse>, ApiFailure> {
    caller.require_admin("reserve nodes and GPUs")?;
    let now = app.handle.status().await?.now;
    let times = times(&request, now)?;
    let advance_reservation = AdvanceReservation {
        resources: resources(&app, &request).await?,
        times,
        stop: request.stop,
        by: Some(caller.identity.user.clone()),
        reason: text(&request.reason)?.into(),
        users: named(&request.users, "users")?.into_iter().map(Into::into).collect(),
        queues: named(&request.queues, "queues")?.into_iter().map(Into::into).collect(),
        name: name.clone(),
    };
    let word = message(&name, &times, now);
    let event = Event::AdvanceReservationSet(Box::new(advance_reservation));
    app.handle.change_node(event, word).await.map(Json)
}

pub(super) async fn delete(
    State(app): State<ApiState>,
    caller: Caller,
    AdvanceReservationPath(name): AdvanceReservationPath,
    OptionalBody(DropReservationRequest {}): OptionalBody<DropReservationRequest>,
) -> Result<Json<ActionResponse>, ApiFailure> {
    caller.require_admin("delete reservations")?;
    let known = app.handle.advance_reservations().await?;
    if !known.iter().any(|one| one.name == name) {
        let near = muster_spec::nearest(name.as_str(), known.iter().map(|one| one.name.as_str()));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Err(ApiFailure::NotFound(format!("there is no reservation {name}{near}")));
    }
    let word = format!("{name}: deleted; jobs that run in it continue");
    let event = Event::AdvanceReservationRemoved {
        advance_reservation: name,
        by: Some(caller.identity.user.clone()),
    };
    app.handle.change_node(event, word).await.map(Json)
}

/// Returns the requested resources: nodes by name, or a number of GPUs.
async fn resources(
    app: &ApiState,
    request: &ReserveRequest,
) -> Result<ReservedResources, ApiFailure> {
    let model = request.gpu.as_deref().map(|model| model.to_lowercase().as_str().into());
    match (&request.nodes[..], request.gpus) {
        ([], Some(count)) => Ok(ReservedResources::Gpus { count, model }),
        ([], None) => Err(ApiFailure::bad_request("give `nodes`, or a number of `gpus`")),
        (_, Some(_)) => {
            Err(ApiFailure::bad_request("`nodes` and `gpus` exclude each other; give one of them"))
        }
        (_, None) if model.is_some() => {
            Err(ApiFailure::bad_request("`gpu` goes with `gpus`; nodes are reserved whole"))
        }
        (nodes, None) => {
            let mut names = Vec::new();
            for text in nodes {
                let more = muster_spec::expand_names(text).map_err(|error| {
                    ApiFailure::bad_request(format!(
                        "`{text}` is not a list of nodes: {}",
                        error.label
                    ))
                })?;
                names.extend(more);
                if names.len() > MAX_NODES {
                    return Err(ApiFailure::bad_request(format!(
                        "at most {MAX_NODES} nodes can be named"
                    )));
                }
            }
            let known = app.handle.nodes().await?;
            let unknown =
                names.iter().find(|name| !known.iter().any(|node| node.name.as_str() == **name));
            if let Some(name) = unknown {
                let near = muster_spec::nearest(name, known.iter().map(|node| node.name.as_str()));
                let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                return Err(ApiFailure::NotFound(format!("there is no node {name}{near}")));
            }
            Ok(ReservedResources::Nodes(names.into_iter().map(NodeName::from).collect()))
        }
    }
}

fn times(request: &ReserveRequest, now: Time) -> Result<AdvanceReservationTimes, ApiFailure> {
    let start = match (request.at, request.after) {
        (Some(_), Some(_)) => {
            return Err(ApiFailure::bad_request(
                "`at` and `after` exclude each other; give one of them",
            ));
        }
        (Some(at), None) if at < now => {
            let ago = clock::elapsed(now.since(at));
            return Err(ApiFailure::bad_request(format!(
                "`at` lies in the past, {ago} ago; leave it out to begin now"
            )));
        }
        (Some(at), None) => at,
        (None, after) => now + after.unwrap_or(Span(0)),
    };
    let count = match (request.every, request.times, request.until) {
        (None, None, None) => None,
        (None, ..) => return Err(ApiFailure::bad_request("`times` and `until` need `every`")),
        (Some(_), Some(_), Some(_)) => {
            return Err(ApiFailure::bad_request(
                "`times` and `until` exclude each other; give one of them",
            ));
        }
        (Some(_), Some(0), None) => {
            return Err(ApiFailure::bad_request("`times` must be at least 1"));
        }
        (Some(_), times, None) => times,
        (Some(every), None, Some(until)) => {
            if until <= start {
                return Err(ApiFailure::bad_request("`until` is before the first start"));
            }
            Some(AdvanceReservationTimes::count_until(start, every, until))
        }
    };
    Ok(AdvanceReservationTimes { start, length: request.length, every: request.every, count })
}

fn text(reason: &str) -> Result<&str, ApiFailure> {
    if reason.len() > MAX_REASON_BYTES {
        return Err(ApiFailure::bad_request(format!(
            "`reason` takes at most {MAX_REASON_BYTES} bytes"
        )));
    }
    Ok(reason.trim())
}

fn named<'a>(names: &'a [String], what: &str) -> Result<Vec<&'a str>, ApiFailure> {
    if names.len() > MAX_NAMED {
        return Err(ApiFailure::bad_request(format!("at most {MAX_NAMED} {what} can be named")));
    }
    match names.iter().find(|name| name.is_empty() || name.len() > MAX_REASON_BYTES) {
        Some(_) => Err(ApiFailure::bad_request(format!("`{what}` contains an invalid name"))),
        None => Ok(names.iter().map(String::as_str).collect()),
    }
}

/// Returns the message after a reservation.
fn message(name: &AdvanceReservationName, times: &AdvanceReservationTimes, now: Time) -> String {
    let is_later = times.start > now;
    let when = if is_later {
        format!("in {}", clock::remaining(times.start.since(now)))
    } else {
        "now".to_owned()
    };
    let again = times.every.map(|every| format!(", and again every {every}")).unwrap_or_default();
    let until = if is_later { "; until then, jobs that end in time still start there" } else { "" };
    format!("{name}: reserved {when} for {}{again}{until}", times.length)
}

//! Advance reservations: listing, setting aside, taking back. What is asked for is read here and
//! judged by the engine.

use axum::Json;
use axum::extract::State;
use muster_api::types::{ActionResponse, DropReservationRequest, ReserveRequest, WindowList};
use muster_model::unit::{Span, Time};
use muster_model::{Event, NodeName, Window, WindowName, WindowTimes, WindowWhat};
use muster_report::clock;

use super::extract::WindowPath;
use super::{App, Body, OptionalBody};
use crate::auth::Caller;
use crate::failure::Failure;

/// Longest text that is kept beside it.
const MAX_REASON_BYTES: usize = 1000;
/// Most nodes that are named.
const MAX_NODES: usize = 100_000;
/// Most users and queues that are named.
const MAX_NAMED: usize = 1000;

pub(super) async fn list(State(app): State<App>) -> Result<Json<WindowList>, Failure> {
    let now = app.handle.status().await?.now;
    Ok(Json(WindowList { now, reservations: app.handle.windows().await? }))
}

pub(super) async fn reserve(
    State(app): State<App>,
    caller: Caller,
    WindowPath(name): WindowPath,
    Body(request): Body<ReserveRequest>,
) -> Result<Json<ActionResponse>, Failure> {
    caller.require_admin("reserve nodes and GPUs")?;
    let now = app.handle.status().await?.now;
    let times = times(&request, now)?;
    let window = Window {
        what: what(&app, &request).await?,
        times,
        stop: request.stop,
        by: Some(caller.identity.user.clone()),
        reason: text(&request.reason)?.into(),
        users: named(&request.users, "users")?.into_iter().map(Into::into).collect(),
        queues: named(&request.queues, "queues")?.into_iter().map(Into::into).collect(),
        name: name.clone(),
    };
    let word = word(&name, &times, now);
    let event = Event::WindowSet(Box::new(window));
    app.handle.change_node(event, word).await.map(Json)
}

pub(super) async fn take_back(
    State(app): State<App>,
    caller: Caller,
    WindowPath(window): WindowPath,
    OptionalBody(DropReservationRequest {}): OptionalBody<DropReservationRequest>,
) -> Result<Json<ActionResponse>, Failure> {
    caller.require_admin("take reservations back")?;
    let known = app.handle.windows().await?;
    if !known.iter().any(|one| one.name == window) {
        let near = muster_spec::nearest(window.as_str(), known.iter().map(|one| one.name.as_str()));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Err(Failure::NotFound(format!("there is no reservation {window}{near}")));
    }
    let word = format!("{window}: taken back; what runs in it goes on");
    let event = Event::WindowDropped { window, by: Some(caller.identity.user.clone()) };
    app.handle.change_node(event, word).await.map(Json)
}

/// Nodes by name, or GPUs by number.
async fn what(app: &App, request: &ReserveRequest) -> Result<WindowWhat, Failure> {
    let model = request.gpu.as_deref().map(|model| model.to_lowercase().as_str().into());
    match (&request.nodes[..], request.gpus) {
        ([], Some(count)) => Ok(WindowWhat::Gpus { count, model }),
        ([], None) => Err(Failure::bad_request("say what: `nodes`, or a number of `gpus`")),
        (_, Some(_)) => {
            Err(Failure::bad_request("`nodes` and `gpus` both say what; give one of them"))
        }
        (_, None) if model.is_some() => {
            Err(Failure::bad_request("`gpu` goes with `gpus`; nodes are reserved whole"))
        }
        (nodes, None) => {
            let mut names = Vec::new();
            for text in nodes {
                let more = muster_spec::expand_names(text).map_err(|error| {
                    Failure::bad_request(format!("`{text}` names no node: {}", error.label))
                })?;
                names.extend(more);
                if names.len() > MAX_NODES {
                    return Err(Failure::bad_request(format!(
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
                return Err(Failure::NotFound(format!("there is no node {name}{near}")));
            }
            Ok(WindowWhat::Nodes(names.into_iter().map(NodeName::from).collect()))
        }
    }
}

fn times(request: &ReserveRequest, now: Time) -> Result<WindowTimes, Failure> {
    let start = match (request.at, request.after) {
        (Some(_), Some(_)) => {
            return Err(Failure::bad_request("`at` and `after` both say when; give one of them"));
        }
        (Some(at), None) if at < now => {
            let ago = clock::elapsed(now.since(at));
            return Err(Failure::bad_request(format!(
                "`at` lies in the past, {ago} ago; leave it out to begin now"
            )));
        }
        (Some(at), None) => at,
        (None, after) => now + after.unwrap_or(Span(0)),
    };
    let count = match (request.every, request.times, request.until) {
        (None, None, None) => None,
        (None, ..) => return Err(Failure::bad_request("`times` and `until` go with `every`")),
        (Some(_), Some(_), Some(_)) => {
            return Err(Failure::bad_request(
                "`times` and `until` both say how often; give one of them",
            ));
        }
        (Some(_), Some(0), None) => return Err(Failure::bad_request("`times` is at least 1")),
        (Some(_), times, None) => times,
        (Some(every), None, Some(until)) => {
            if until <= start {
                return Err(Failure::bad_request("`until` lies before it begins"));
            }
            let more = until.since(start).0.saturating_sub(1) / every.0.max(1);
            Some(u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1))
        }
    };
    Ok(WindowTimes { start, length: request.length, every: request.every, count })
}

fn text(reason: &str) -> Result<&str, Failure> {
    match reason.len() > MAX_REASON_BYTES {
        true => {
            Err(Failure::bad_request(format!("`reason` takes at most {MAX_REASON_BYTES} bytes")))
        }
        false => Ok(reason.trim()),
    }
}

fn named<'a>(names: &'a [String], what: &str) -> Result<Vec<&'a str>, Failure> {
    if names.len() > MAX_NAMED {
        return Err(Failure::bad_request(format!("at most {MAX_NAMED} {what} can be named")));
    }
    match names.iter().find(|name| name.is_empty() || name.len() > MAX_REASON_BYTES) {
        Some(_) => Err(Failure::bad_request(format!("`{what}` holds what is no name"))),
        None => Ok(names.iter().map(String::as_str).collect()),
    }
}

/// What the caller is told.
fn word(name: &WindowName, times: &WindowTimes, now: Time) -> String {
    let when = match times.start > now {
        true => format!("in {}", clock::ahead(times.start.since(now))),
        false => "now".to_owned(),
    };
    let again = times.every.map(|every| format!(", and again every {every}")).unwrap_or_default();
    let until = match times.start > now {
        true => "; until then, what ends in time still starts there",
        false => "",
    };
    format!("{name}: reserved {when} for {}{again}{until}", times.length)
}

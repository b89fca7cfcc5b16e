//! Nodes: listing, taking them out of service and back.

use axum::Json;
use axum::extract::State;
use muster_api::types::{ActionResponse, DrainRequest, NodeList};

use super::extract::NodePath;
use super::{App, OptionalBody};
use crate::auth::Caller;
use crate::failure::Failure;

/// Longest reason that is kept.
const MAX_REASON_BYTES: usize = 1000;

pub(super) async fn list(State(app): State<App>) -> Result<Json<NodeList>, Failure> {
    let now = app.handle.status().await?.now;
    Ok(Json(NodeList { now, nodes: app.handle.nodes().await? }))
}

pub(super) async fn drain(
    State(app): State<App>,
    caller: Caller,
    NodePath(name): NodePath,
    OptionalBody(request): OptionalBody<DrainRequest>,
) -> Result<Json<ActionResponse>, Failure> {
    caller.require_admin("drain nodes")?;
    if request.reason.len() > MAX_REASON_BYTES {
        return Err(Failure::bad_request(format!("`reason` takes at most {MAX_REASON_BYTES} bytes")));
    }
    let reason = match request.reason.trim() {
        "" => format!("drained by {}", caller.identity.user),
        reason => reason.to_owned(),
    };
    app.handle.set_drained(name, true, reason).await.map(Json)
}

pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    NodePath(name): NodePath,
) -> Result<Json<ActionResponse>, Failure> {
    caller.require_admin("resume nodes")?;
    app.handle.set_drained(name, false, String::new()).await.map(Json)
}

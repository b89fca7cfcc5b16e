//! Handlers for advance reservations: list, create, delete. Requests are parsed here and judged by
//! the engine.

use axum::Json;
use axum::extract::State;
use muster_api::reserve::confirmation;
use muster_api::types::{
    ActionResponse, AdvanceReservationList, DropReservationRequest, ReserveRequest,
};
use muster_model::{Event, ReservedResources};

use super::extract::AdvanceReservationPath;
use super::{ApiState, JsonBody, OptionalBody};
use crate::auth::Caller;
use crate::failure::ApiFailure;

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
    if !request.node_selector.is_empty() {
        return Err(ApiFailure::bad_request(
            "`node_selector` works only on Kubernetes; name the nodes in `nodes`, such as `node[01-04]`",
        ));
    }
    let now = app.handle.status().await?.now;
    let asked = request
        .reservation(&name, &caller.identity.user, now)
        .map_err(|defect| ApiFailure::bad_request(defect.to_string()))?;
    check_nodes(&app, &asked.resources).await?;
    let message = confirmation(&asked, now);
    app.handle.change_node(Event::AdvanceReservationSet(Box::new(asked)), message).await.map(Json)
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
        let known = known.iter().map(|one| one.name.as_str());
        let near = muster_spec::did_you_mean(name.as_str(), known);
        return Err(ApiFailure::NotFound(format!("there is no reservation {name}{near}")));
    }
    let word = format!("{name}: deleted; jobs that run in it continue");
    let event = Event::AdvanceReservationRemoved {
        advance_reservation: name,
        by: Some(caller.identity.user.clone()),
    };
    app.handle.change_node(event, word).await.map(Json)
}

/// Refuses nodes that are not known.
async fn check_nodes(app: &ApiState, resources: &ReservedResources) -> Result<(), ApiFailure> {
    let ReservedResources::Nodes(names) = resources else { return Ok(()) };
    let known = app.handle.nodes().await?;
    let unknown = names.iter().find(|name| !known.iter().any(|node| node.name == **name));
    let Some(name) = unknown else { return Ok(()) };
    let known = known.iter().map(|node| node.name.as_str());
    let near = muster_spec::did_you_mean(name.as_str(), known);
    Err(ApiFailure::NotFound(format!("there is no node {name}{near}")))
}

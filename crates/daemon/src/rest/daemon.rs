//! Handlers for the daemon itself: information, and stopping it.

use axum::Json;
use axum::extract::State;
use muster_api::types::{ActionResponse, DaemonInfo};
use muster_model::view::DaemonCounters;

use super::enforcement::enforcement;
use super::{ApiState, read_store};
use crate::auth::{Caller, DaemonMode};
use crate::failure::ApiFailure;
use crate::store::HistoryReader;

pub(super) async fn info(State(app): State<ApiState>) -> Result<Json<DaemonInfo>, ApiFailure> {
    let status = app.handle.status().await?;
    let notices = read_store(&app.reader, HistoryReader::waiting_notices).await?;
    Ok(Json(DaemonInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        mode: app.about.mode.word().to_owned(),
        host: app.about.host.clone(),
        started: app.about.started,
        now: status.now,
        state_dir: app.about.state_dir.display().to_string(),
        virtual_gpus: app.about.virtual_gpus,
        enforcement: enforcement(&app.backend.capabilities(), None),
        warnings: status.warnings,
        counters: DaemonCounters { notices_waiting: notices, ..status.counters },
    }))
}

pub(super) async fn stop(
    State(app): State<ApiState>,
    caller: Caller,
) -> Result<Json<ActionResponse>, ApiFailure> {
    if app.about.mode == DaemonMode::System {
        caller.require_admin("stop the daemon of this machine")?;
    }
    app.stop.send_replace(true);
    Ok(Json(ActionResponse {
        message: "stopping; running tasks continue, and the next daemon adopts them".to_owned(),
    }))
}

pub(super) async fn openapi() -> Json<serde_json::Value> {
    Json(muster_api::openapi::document())
}

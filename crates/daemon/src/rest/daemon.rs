//! The daemon itself: who answers, and ending it.

use axum::Json;
use axum::extract::State;
use muster_api::types::{ActionResponse, DaemonInfo};
use muster_backends::driver::Capabilities;

use super::App;
use crate::auth::{Caller, Mode};
use crate::failure::Failure;

pub(super) async fn info(State(app): State<App>) -> Result<Json<DaemonInfo>, Failure> {
    let status = app.handle.status().await?;
    Ok(Json(DaemonInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        mode: app.about.mode.word().to_owned(),
        host: app.about.host.clone(),
        started: app.about.started,
        now: status.now,
        state_dir: app.about.state_dir.display().to_string(),
        virtual_gpus: app.about.virtual_gpus,
        enforcement: enforcement(&app.backend.capabilities()),
        warnings: status.warnings,
    }))
}

pub(super) async fn stop(State(app): State<App>, caller: Caller) -> Result<Json<ActionResponse>, Failure> {
    if app.about.mode == Mode::System {
        caller.require_admin("stop the daemon of this machine")?;
    }
    app.stop.send_replace(true);
    Ok(Json(ActionResponse { message: "stopping; running tasks go on and are found again".to_owned() }))
}

pub(super) async fn openapi() -> Json<serde_json::Value> {
    Json(muster_api::openapi::document())
}

/// What is isolation and what is convention, a sentence each.
pub(super) fn enforcement(capabilities: &Capabilities) -> Vec<String> {
    let limit = |what: &str, by: &Option<String>| match by {
        Some(by) => format!("{what}: enforced by {by}"),
        None => format!("{what}: a convention, nothing stops a task from using more"),
    };
    vec![
        limit("memory", &capabilities.memory_enforced_by),
        limit("cpus", &capabilities.cpu_enforced_by),
        match &capabilities.devices_enforced_by {
            Some(by) => format!("gpus: others are closed to a task by {by}"),
            None => "gpus: a convention, by visible-devices variables; a task can ignore them".to_owned(),
        },
        format!("kill: everything that a task started, found by {}", capabilities.kill_by),
    ]
}

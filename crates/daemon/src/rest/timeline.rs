//! Handlers for the timeline and the long poll.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use muster_api::query::{ChangesQuery, TimelineQuery};
use muster_api::types::{ChangesResponse, Timeline};
use muster_model::unit::Span;
use muster_model::view::DeviceBar;

use super::jobs::read;
use super::{ApiState, Params};
use crate::dispatch::{PlannedTimeline, on_node};
use crate::failure::ApiFailure;
use crate::store::AttemptRow;

/// Most attempts that are drawn; a screen has fewer columns.
const MAX_ATTEMPTS: u32 = 5000;

/// Default period of the timeline.
const DEFAULT_PAST: Span = Span::from_secs(3600);

/// Default and longest wait of a long poll, in seconds.
const POLL_SECS: (u64, u64) = (30, 60);

pub(super) async fn timeline(
    State(app): State<ApiState>,
    Params(query): Params<TimelineQuery>,
) -> Result<Json<Timeline>, ApiFailure> {
    let now = app.handle.status().await?.now;
    let since = query.since.unwrap_or(now - DEFAULT_PAST);
    let attempts =
        read(&app.reader, move |reader| reader.attempts_since(since, MAX_ATTEMPTS)).await?;
    let planned = app.handle.planned().await?;
    let bars = attempts.iter().rev().flat_map(|attempt| bars(&planned, attempt)).collect();
    Ok(Json(Timeline { now, bars, devices: planned.devices, reservations: planned.starts }))
}

pub(super) async fn changes(
    State(app): State<ApiState>,
    Params(query): Params<ChangesQuery>,
) -> Result<Json<ChangesResponse>, ApiFailure> {
    let mut revision = app.revision.clone();
    if let Some(after) = query.after {
        let wait = Duration::from_secs(query.timeout_secs.unwrap_or(POLL_SECS.0).min(POLL_SECS.1));
        // On a time-out, or when the dispatcher has ended, the response has the present state.
        let _unchanged =
            tokio::time::timeout(wait, revision.wait_for(|revision| *revision != after)).await;
    }
    let status = app.handle.status().await?;
    Ok(Json(ChangesResponse { revision: status.revision, now: status.now }))
}

/// Returns a bar per device that an attempt held.
fn bars(planned: &PlannedTimeline, attempt: &AttemptRow) -> Vec<DeviceBar> {
    let devices = attempt.placement.iter().flat_map(|task| {
        let node = on_node(&planned.nodes, task);
        task.devices.iter().map(move |device| (node.clone(), device as u16))
    });
    devices
        .map(|(node, device)| DeviceBar {
            node,
            device,
            element: attempt.id.element,
            from: attempt.held_from,
            to: attempt.ended,
        })
        .collect()
}

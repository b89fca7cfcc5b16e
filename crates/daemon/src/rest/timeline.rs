//! Time: who held what when, what is planned, and waiting for something to change.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use muster_api::query::{ChangesQuery, TimelineQuery};
use muster_api::types::{Changes, Timeline};
use muster_model::unit::Span;
use muster_model::view::Bar;

use super::jobs::read;
use super::{App, Params};
use crate::dispatch::{Planned, on_node};
use crate::failure::Failure;
use crate::store::AttemptRow;

/// Attempts drawn at most; a screen has fewer columns.
const MAX_ATTEMPTS: u32 = 5000;

/// How far back the timeline reaches when the client does not say.
const DEFAULT_PAST: Span = Span::from_secs(3600);

/// Default and longest wait of a long poll, in seconds.
const POLL_SECS: (u64, u64) = (30, 60);

pub(super) async fn timeline(
    State(app): State<App>,
    Params(query): Params<TimelineQuery>,
) -> Result<Json<Timeline>, Failure> {
    let now = app.handle.status().await?.now;
    let since = query.since.unwrap_or(now - DEFAULT_PAST);
    let attempts =
        read(&app.reader, move |reader| reader.attempts_since(since, MAX_ATTEMPTS)).await?;
    let planned = app.handle.planned().await?;
    let bars = attempts.iter().rev().flat_map(|attempt| bars(&planned, attempt)).collect();
    Ok(Json(Timeline { now, bars, devices: planned.devices, reservations: planned.starts }))
}

pub(super) async fn changes(
    State(app): State<App>,
    Params(query): Params<ChangesQuery>,
) -> Result<Json<Changes>, Failure> {
    let mut revision = app.revision.clone();
    if let Some(after) = query.after {
        let wait = Duration::from_secs(query.timeout_secs.unwrap_or(POLL_SECS.0).min(POLL_SECS.1));
        // Time over or dispatcher gone: the answer is what holds now.
        let _unchanged =
            tokio::time::timeout(wait, revision.wait_for(|revision| *revision != after)).await;
    }
    let status = app.handle.status().await?;
    Ok(Json(Changes { revision: status.revision, now: status.now }))
}

/// A bar per device that an attempt held.
fn bars(planned: &Planned, attempt: &AttemptRow) -> Vec<Bar> {
    let devices = attempt.placement.iter().flat_map(|task| {
        let node = on_node(&planned.nodes, task);
        task.devices.iter().map(move |device| (node.clone(), device as u16))
    });
    devices
        .map(|(node, device)| Bar {
            node,
            device,
            element: attempt.id.element,
            from: attempt.held_from,
            to: attempt.ended,
        })
        .collect()
}

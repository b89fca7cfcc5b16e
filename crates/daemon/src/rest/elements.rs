//! Handler for the elements of an array or sweep: what runs, from memory; what has ended, from the store.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use muster_api::types::ElementList;
use muster_model::sweep::MetricReport;
use muster_model::view::ElementRow;

use super::{ApiState, JobPath, jobs};
use crate::auth::{Caller, OwnerAccount};
use crate::failure::ApiFailure;

/// Serves `GET /v1/jobs/{id}/elements`. Values and reports are private to the owner.
pub(super) async fn list(
    State(app): State<ApiState>,
    caller: Caller,
    JobPath(job): JobPath,
) -> Result<Json<ElementList>, ApiFailure> {
    // 1. Memory first: an element that ends in between is then found in the store.
    let live = app.handle.elements(job).await?;
    let (view, stored) = match app.handle.job(job).await? {
        Some(live) => (live.view, live.stored),
        None => {
            let ended = jobs::read(&app.reader, move |reader| reader.ended(job)).await?;
            let ended = ended.ok_or_else(|| ApiFailure::no_job(job))?;
            (ended.view, ended.stored)
        }
    };
    let ended = jobs::read(&app.reader, move |reader| reader.ended_elements(job)).await?;
    let mut rows: BTreeMap<u32, ElementRow> =
        live.iter().map(|view| (view.element.index, ElementRow::of(view))).collect();
    for view in ended.iter().chain(&view.elements) {
        let index = view.element.index;
        rows.entry(index).or_insert_with(|| ElementRow::of(view));
    }

    // 2. What the owner sees besides.
    let may_touch = caller.may_touch(&OwnerAccount::of_view(&view));
    let mut elements: Vec<ElementRow> = rows.into_values().collect();
    if !may_touch {
        elements.iter_mut().filter_map(|row| row.outcome.as_mut()).for_each(jobs::hide_reason);
    }
    let sweep = stored.and_then(|stored| stored.sweep).filter(|_| may_touch);
    if sweep.is_some() {
        let reports = jobs::read(&app.reader, move |reader| reader.reports(job)).await?;
        let reports: BTreeMap<u32, MetricReport> = reports.into_iter().collect();
        for row in &mut elements {
            row.report = reports.get(&row.index).copied();
        }
    }
    let now = app.handle.status().await?.now;
    Ok(Json(ElementList::new(now, sweep.as_deref(), elements)))
}

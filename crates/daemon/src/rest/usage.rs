//! Handlers for usage: in total, and of a period.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::query::UsageQuery;
use muster_api::types::{UsageList, UsageReport};
use muster_model::view::{UsageSum, UsageView};
use muster_model::{JobId, QueueName, UserName};

use super::jobs::read;
use super::{ApiState, Params};
use crate::failure::ApiFailure;

/// Thousandths of GPUs × milliseconds per GPU-second.
const MILLI_MS_PER_GPU_SEC: u64 = 1_000_000;

/// Serves `GET /v1/usage`: all that was ever used, and what fair share counts of it.
pub(super) async fn list(State(app): State<ApiState>) -> Result<Json<UsageList>, ApiFailure> {
    let now = app.handle.status().await?.now;
    let decayed = app.handle.usage().await?;
    let sums = read(&app.reader, move |reader| reader.usage(now)).await?;

    let mut rows: BTreeMap<(UserName, QueueName), UsageView> = BTreeMap::new();
    for (user, queue, jobs, milli_ms) in sums {
        row(&mut rows, user, queue, |view| {
            view.jobs = jobs;
            view.gpu_secs = milli_ms / MILLI_MS_PER_GPU_SEC;
        });
    }
    for ((user, queue), secs) in decayed {
        row(&mut rows, user, queue, |view| view.decayed_gpu_secs = secs);
    }
    Ok(Json(UsageList { now, rows: rows.into_values().collect() }))
}

fn row(
    rows: &mut BTreeMap<(UserName, QueueName), UsageView>,
    user: UserName,
    queue: QueueName,
    fill: impl FnOnce(&mut UsageView),
) {
    let empty = UsageView {
        user: user.clone(),
        queue: queue.clone(),
        jobs: 0,
        gpu_secs: 0,
        decayed_gpu_secs: 0,
    };
    fill(rows.entry((user, queue)).or_insert(empty));
}

/// Serves `GET /v1/usage/report`: what was held in a period.
pub(super) async fn report(
    State(app): State<ApiState>,
    Params(query): Params<UsageQuery>,
) -> Result<Json<UsageReport>, ApiFailure> {
    let by = query.keys().map_err(|message| ApiFailure::InvalidRequest {
        status: StatusCode::BAD_REQUEST,
        message: format!("`by`: {message}"),
    })?;
    let now = app.handle.status().await?.now;
    let (since, until) = query.period(now);
    // On a separate connection, since the read is long.
    let reader = app.reader.reopen().map_err(ApiFailure::Store)?;
    let sum = read(&reader, move |reader| {
        let mut sum = UsageSum::new(since, until, &by);
        reader.each_held(since, until, now, |held| sum.add(held))?;
        Ok(sum)
    });
    let mut rows = sum.await?.rows();
    // The history has the names of ended jobs only. Jobs that were deleted from it stay without a name.
    let unnamed = rows.iter().filter(|row| row.name.is_none()).filter_map(|row| row.job).collect();
    let live = app.handle.jobs(unnamed).await?;
    let names: BTreeMap<JobId, String> = live.into_iter().map(|job| (job.job, job.name)).collect();
    for row in rows.iter_mut().filter(|row| row.name.is_none()) {
        row.name = row.job.and_then(|job| names.get(&job).cloned());
    }
    Ok(Json(UsageReport { now, since, until, rows }))
}

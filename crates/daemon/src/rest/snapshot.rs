//! The state and what has run, without names: what what-if questions are asked of. Anybody who may ask may have it, since it
//! says of nobody what he runs; names, where they are asked for, are those that lists show.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use muster_api::query::SnapshotQuery;
use muster_model::redact::role;
use muster_model::unit::{Span, Time};
use muster_model::view::{JobView, RoleView};
use muster_model::{Bytes, CpuMilli, GpuMilli, JobId, PastRun, Redaction, SiteSnapshot};
use muster_runtime::JOURNAL_VERSION;
use muster_runtime::engine::Snapshot;

use super::jobs::read;
use super::{App, Params};
use crate::failure::Failure;
use crate::store::Stint;

/// How far back a snapshot reaches when the client does not say.
const DEFAULT_PAST: Span = Span::from_secs(30 * 86_400);

pub(super) async fn snapshot(
    State(app): State<App>,
    Params(query): Params<SnapshotQuery>,
) -> Result<Json<SiteSnapshot>, Failure> {
    let (taken, state) = app.handle.state().await?;
    let since = taken - query.past_secs.map_or(DEFAULT_PAST, Span::from_secs);
    // Live jobs first: one that ends in between is then in history too, never in neither.
    let live = app.handle.jobs(None).await?;
    let answer = read(&app.reader, move |reader| {
        let mut jobs = reader.ended_of(since)?;
        jobs.extend(live.into_iter().filter(|job| job.submitted >= since));
        Ok(redacted(taken, since, *state, &jobs, reader.stints(since)?))
    });
    let (mut snapshot, names) = answer.await??;
    if query.names {
        snapshot.names = names.names();
    }
    Ok(Json(snapshot))
}

fn redacted(
    taken: Time,
    since: Time,
    state: Snapshot,
    jobs: &[JobView],
    stints: Vec<Stint>,
) -> Result<(SiteSnapshot, Redaction), Failure> {
    let (state, mut names) = state.redacted();
    let state = serde_json::to_value(state)
        .map_err(|error| Failure::Internal(format!("the state cannot be written down: {error}")))?;
    let jobs: BTreeMap<JobId, &JobView> = jobs.iter().map(|job| (job.job, job)).collect();
    let mut past: Vec<PastRun> = stints
        .into_iter()
        .filter_map(|stint| Some(run(&stint, jobs.get(&stint.element.job)?, taken, &mut names)))
        .collect();
    past.sort_by_key(|run| (run.submitted, run.element));
    let snapshot =
        SiteSnapshot { version: JOURNAL_VERSION, taken, since, state, past, names: BTreeMap::new() };
    Ok((snapshot, names))
}

fn run(stint: &Stint, job: &JobView, taken: Time, names: &mut Redaction) -> PastRun {
    let until = stint.ended.unwrap_or(taken);
    // What has ended has run, be it for less than can be told.
    let least = Span(u64::from(stint.is_over));
    PastRun {
        element: stint.element,
        user: names.user(&job.user),
        queue: job.queue.clone(),
        priority: job.priority,
        submitted: job.submitted,
        began: stint.began,
        ran: stint.running_from.map_or(Span(0), |from| until.since(from).max(least)),
        is_over: stint.is_over,
        limit: job.time_limit,
        is_open_ended: job.service.is_some() || job.is_notebook || job.idle.is_some(),
        tasks: stint.tasks,
        roles: roles(job),
    }
}

/// What each role asked for. Of jobs that ended under a version that did not write it down, all tasks are taken to be alike.
fn roles(job: &JobView) -> Vec<RoleView> {
    if job.roles.is_empty() {
        let gpus = GpuMilli(job.gpus.0.div_ceil(job.tasks.max(1)));
        return vec![RoleView {
            name: role(1),
            tasks: job.tasks,
            gpus,
            models: Vec::new(),
            cpus: CpuMilli(0),
            memory: Bytes(0),
        }];
    }
    let numbered = job.roles.iter().zip(1..);
    let alias = |(known, nth): (&RoleView, u32)| {
        let RoleView { name: _, tasks, gpus, models, cpus, memory } = known.clone();
        RoleView { name: role(nth), tasks, gpus, models, cpus, memory }
    };
    numbered.map(alias).collect()
}

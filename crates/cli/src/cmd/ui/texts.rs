//! Data of the page that the API has as types only: jobs with the notes of `muster ps`, and explanations
//! as `muster explain` words them. Made here so that page and commands say the same.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::extract::{Path, Query, State};
use axum::routing::get;
use axum::{Json, Router};
use jiff::tz::TimeZone;
use muster_api::query::JobFilter;
use muster_api::types::{DaemonInfo, ElementList, JobDetail};
use muster_daemon::host_name;
use muster_model::view::{ArrayView, ElementView, JobState, JobView, MetricView, ServiceView};
use muster_model::{JobId, Outcome, Time};
use muster_report::explain::{explain, gang};
use muster_report::ps::{OtherJobs, gpus_held, note};
use muster_report::{RenderContext, Words, show};
use serde::{Deserialize, Serialize};

use super::forward::job_number;
use super::proxy::is_own;
use super::refusal::Refusal;
use super::state::PageState;
use crate::jobref;

/// Most ended jobs of a list.
const MAX_ENDED: u32 = 10_000;
/// Most time zones that are kept for contexts; browsers in further ones get UTC.
const MAX_ZONES: usize = 16;

/// Returns the router of these texts.
pub(super) fn router() -> Router<PageState> {
    Router::new()
        .route("/page/about", get(about))
        .route("/page/jobs", get(jobs))
        .route("/page/jobs/{id}", get(job))
        .route("/page/jobs/{id}/elements", get(elements))
        .route("/page/jobs/{id}/explain", get(explanation))
}

/// Place that the page shows.
#[derive(Serialize)]
struct About {
    cluster: String,
    host: String,
    user: String,
    version: &'static str,
    virtual_gpus: u32,
    warnings: Vec<String>,
}

async fn about(State(state): State<PageState>) -> Json<About> {
    // Other schedulers have no daemon to describe.
    let info = state.client.info().await.ok();
    let (host, virtual_gpus, warnings) = match info {
        Some(DaemonInfo { host, virtual_gpus, warnings, .. }) => (host, virtual_gpus, warnings),
        None => (host_name(), 0, Vec::new()),
    };
    let user = jobref::own_name().to_string();
    let version = env!("CARGO_PKG_VERSION");
    Json(About { cluster: state.cluster, host, user, version, virtual_gpus, warnings })
}

#[derive(Deserialize)]
struct JobsQuery {
    /// True to include ended jobs.
    #[serde(default)]
    all: bool,
}

#[derive(Serialize)]
struct JobRows {
    now: Time,
    revision: u64,
    jobs: Vec<JobRow>,
}

/// Job as the row of a table.
#[derive(Serialize)]
struct JobRow {
    /// Number, as text: scripts of a browser have no integers of 64 bits.
    id: String,
    /// Text by which commands take it.
    label: String,
    name: String,
    user: String,
    queue: String,
    priority: i32,
    state: JobState,
    /// GPUs that it asks for, in thousandths.
    gpus: u32,
    /// Devices that it holds, or how many of those that it needs.
    held: String,
    note: String,
    submitted: Time,
    started: Option<Time>,
    ended: Option<Time>,
    eta: Option<Time>,
    eta_predicted: bool,
    /// Latest end of its first element to end, while it runs.
    ends_by: Option<Time>,
    array: Option<ArrayView>,
    service: Option<ServiceView>,
    is_notebook: bool,
}

impl JobRow {
    fn new(job: &JobView, others: &OtherJobs<'_>, context: RenderContext) -> Self {
        Self {
            id: job.job.to_string(),
            label: job.label(),
            name: job.name.clone(),
            user: job.user.to_string(),
            queue: job.queue.to_string(),
            priority: job.priority,
            state: job.state,
            gpus: job.gpus.0,
            held: gpus_held(job, false),
            note: note(job, others, context),
            submitted: job.submitted,
            started: job.started,
            ended: job.ended,
            eta: job.eta,
            eta_predicted: job.eta_predicted,
            ends_by: job.elements.iter().filter_map(|element| element.ends_by).min(),
            array: job.array,
            service: job.service,
            is_notebook: job.is_notebook,
        }
    }
}

async fn jobs(
    State(state): State<PageState>,
    Query(query): Query<JobsQuery>,
) -> Result<Json<JobRows>, Refusal> {
    let limit = query.all.then_some(MAX_ENDED);
    let filter = JobFilter { all: query.all, limit, ..JobFilter::default() };
    let list = state.client.jobs(filter).await?;
    let others = OtherJobs::of(&list.jobs, &[]);
    let context = RenderContext::plain().at(list.now);
    let jobs = list.jobs.iter().map(|job| JobRow::new(job, &others, context)).collect();
    Ok(Json(JobRows { now: list.now, revision: list.revision, jobs }))
}

/// Element of a job, and time zone of the reader.
#[derive(Deserialize)]
struct ElementQuery {
    index: Option<u32>,
    /// Name of a time zone, as browsers know it: `Europe/Berlin`.
    #[serde(default)]
    zone: String,
}

/// Job with all details, and words for its ends.
#[derive(Serialize)]
struct JobSheet {
    row: JobRow,
    detail: JobDetail,
    /// Words for each of its elements, in their order.
    ends: Vec<ElementEnds>,
    /// True when the page can open ports of this job.
    can_open: bool,
}

/// Words for the ends of an element.
#[derive(Serialize)]
struct ElementEnds {
    outcome: Option<String>,
    /// End of the attempt before.
    last_end: Option<String>,
    /// Ends of its tasks, in their order.
    exits: Vec<Option<String>>,
}

impl ElementEnds {
    fn of(element: &ElementView) -> Self {
        let exit = |task: &muster_model::view::TaskView| task.exit.as_ref().map(show::exit);
        Self {
            outcome: element.outcome.as_ref().map(Outcome::to_string),
            last_end: element.last_end.as_ref().map(Outcome::to_string),
            exits: element.tasks.iter().map(exit).collect(),
        }
    }
}

async fn job(
    State(state): State<PageState>,
    Path(id): Path<String>,
    Query(query): Query<ElementQuery>,
) -> Result<Json<JobSheet>, Refusal> {
    let detail = state.client.job(JobId(job_number(&id)?), query.index).await?;
    let context = RenderContext::plain().at(detail.now);
    let row = JobRow::new(&detail.job, &OtherJobs::of(&[], &[]), context);
    let ends = detail.job.elements.iter().map(ElementEnds::of).collect();
    let can_open = state.is_local() && is_own(&detail.job);
    Ok(Json(JobSheet { row, detail, ends, can_open }))
}

#[derive(Serialize)]
struct ElementRows {
    now: Time,
    params: Vec<String>,
    metric: Option<MetricView>,
    elements: Vec<ElementRow>,
}

/// Element of an array or sweep as the row of a table.
#[derive(Serialize)]
struct ElementRow {
    index: u32,
    state: JobState,
    attempt: u32,
    started: Option<Time>,
    ended: Option<Time>,
    outcome: Option<String>,
    values: Vec<String>,
    /// Step and value of the newest report of the metric.
    report: Option<(u64, f64)>,
}

async fn elements(
    State(state): State<PageState>,
    Path(id): Path<String>,
) -> Result<Json<ElementRows>, Refusal> {
    let list = state.client.elements(JobId(job_number(&id)?)).await?;
    let ElementList { now, params, metric, elements } = list;
    let row = |element: muster_model::view::ElementRow| ElementRow {
        index: element.index,
        state: element.state,
        attempt: element.attempt,
        started: element.started,
        ended: element.ended,
        outcome: element.outcome.as_ref().map(Outcome::to_string),
        values: element.values,
        report: element.report.map(|report| (report.step, report.value)),
    };
    Ok(Json(ElementRows { now, params, metric, elements: elements.into_iter().map(row).collect() }))
}

#[derive(Serialize)]
struct ExplanationText {
    now: Time,
    text: String,
}

async fn explanation(
    State(state): State<PageState>,
    Path(id): Path<String>,
    Query(query): Query<ElementQuery>,
) -> Result<Json<ExplanationText>, Refusal> {
    let explained = state.client.explain(JobId(job_number(&id)?), query.index).await?;
    let now = explained.now;
    let context =
        RenderContext { zone: zone(&query.zone), words: Words::Jobs, ..RenderContext::plain() };
    let text = match &explained.gang {
        Some(pods) => gang(&explained.explanation, pods, context.at(now)),
        None => explain(&explained.explanation, context.at(now)),
    };
    Ok(Json(ExplanationText { now, text }))
}

/// Returns the time zone of a name; UTC when this machine does not know it.
pub(super) fn zone(name: &str) -> &'static TimeZone {
    static UTC: TimeZone = TimeZone::UTC;
    static ZONES: Mutex<BTreeMap<String, &'static TimeZone>> = Mutex::new(BTreeMap::new());
    let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(zone) = zones.get(name) {
        return zone;
    }
    match TimeZone::get(name) {
        Ok(zone) if zones.len() < MAX_ZONES => {
            // Contexts are copied and outlive this call; their number is bounded.
            let zone: &'static TimeZone = Box::leak(Box::new(zone));
            zones.insert(name.to_owned(), zone);
            zone
        }
        _ => &UTC,
    }
}

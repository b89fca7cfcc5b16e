//! Handlers for jobs: details, explanation, and actions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use muster_api::JobAction;
use muster_api::query::ElementQuery;
use muster_api::types::{
    ActionRequest, ActionResponse, BulkAction, BulkRequest, BulkResponse, BulkResult,
    ExplainResponse, JobDetail, ScaleRequest,
};
use muster_backends::segments;
use muster_model::view::{ElementView, JobView, MissingOutput};
use muster_model::{Attempt, AttemptId, ElementId, JobId, Outcome, Rank, Replicas};

use super::enforcement::enforcement;
use super::{ApiState, JobPath, JsonBody, OptionalBody, Params};
use crate::auth::{Caller, OwnerAccount};
use crate::failure::ApiFailure;
use crate::store::{HistoryReader, StoredCommands};

/// Most jobs in one bulk request.
const MAX_TARGETS: usize = 10_000;

pub(super) async fn one(
    State(app): State<ApiState>,
    caller: Caller,
    JobPath(job): JobPath,
    Params(query): Params<ElementQuery>,
) -> Result<Json<JobDetail>, ApiFailure> {
    let (mut view, what, spec) = match app.handle.job(job).await? {
        Some(live) => (live.view, live.stored, live.spec),
        None => {
            let ended = read(&app.reader, move |reader| reader.ended(job)).await?;
            let ended = ended.ok_or_else(|| ApiFailure::no_job(job))?;
            (ended.view, ended.stored, None)
        }
    };
    if let Some(index) = query.index {
        add_element(&app, &mut view, index).await?;
    }
    let now = app.handle.status().await?.now;
    let may_touch = caller.may_touch(&OwnerAccount::of_view(&view));
    let mut detail = JobDetail {
        commands: None,
        workdir: None,
        files: None,
        environment: None,
        logs: Vec::new(),
        missing_output: Vec::new(),
        has_ray: false,
        is_sweep: false,
        idle_since: app
            .idle
            .marked(now)
            .iter()
            .find(|idle| idle.element.job == job)
            .map(|idle| idle.since),
        gpu_use: read(&app.reader, move |reader| reader.gpu_use(job, now)).await?,
        notices: Vec::new(),
        enforcement: enforcement(&app.backend.capabilities(), spec.as_deref()),
        now,
        job: as_seen_by(&caller, view),
    };
    if may_touch {
        detail.commands = what.as_ref().map(commands);
        detail.notices = read(&app.reader, move |reader| reader.notices(job)).await?;
        detail.is_sweep = what.as_ref().is_some_and(|what| what.sweep.is_some());
        let mut commands = what.iter().flat_map(|what| what.commands.values());
        detail.has_ray = commands.any(muster_ray::begins_cluster);
        let from =
            |what: &StoredCommands, file: &str| what.workdir.join(file).display().to_string();
        let named = what.as_ref().filter(|what| !what.files.is_empty());
        detail.files = named.map(|what| what.files.map(|file| from(what, file)));
        let environment = what.as_ref().map(|what| what.environment.clone());
        detail.environment = environment.filter(|environment| !environment.is_empty());
        detail.workdir = what.map(|what| what.workdir.display().to_string());
        let logs = log_paths(&app, &detail.job, query.index).await?;
        detail.logs = logs.iter().map(|log| log.display().to_string()).collect();
        detail.missing_output = missing_output(logs).await?;
    }
    Ok(Json(detail))
}

/// Adds the requested element when the view does not contain it, because it is pending or has
/// ended.
async fn add_element(app: &ApiState, view: &mut JobView, index: u32) -> Result<(), ApiFailure> {
    let id = ElementId { job: view.job, index };
    if view.elements.iter().any(|element| element.element == id) {
        return Ok(());
    }
    // Memory first: an element that ends in between is then found in the store.
    let element =
        match app.handle.element(id).await? {
            Some(live) => live,
            None => read(&app.reader, move |reader| reader.ended_element(id)).await?.ok_or_else(
                || ApiFailure::NotFound(format!("job {} has no element {index}", id.job)),
            )?,
        };
    let place = view.elements.partition_point(|other| other.element < id);
    view.elements.insert(place, element);
    Ok(())
}

pub(super) async fn explain(
    State(app): State<ApiState>,
    caller: Caller,
    JobPath(job): JobPath,
    Params(query): Params<ElementQuery>,
) -> Result<Json<ExplainResponse>, ApiFailure> {
    let now = app.handle.status().await?.now;
    match app.handle.explain(job, query.index).await {
        Err(ApiFailure::NotFound(message)) => {
            let ended = read(&app.reader, move |reader| reader.ended(job)).await?;
            let mut view = ended.ok_or(ApiFailure::NotFound(message))?.view;
            if let Some(index) = query.index {
                add_element(&app, &mut view, index).await?;
            }
            Ok(Json(ExplainResponse {
                now,
                explanation: nothing_to_explain(&view, query.index),
                gang: None,
            }))
        }
        answer => {
            let mut explanation = answer?;
            for used in &mut explanation.used_outside {
                caller.hide_processes_of_others(&mut used.processes);
            }
            // The label of a checkpoint is private to the owner.
            let preempted = explanation.preempted.as_mut();
            if let Some(saved) = preempted.and_then(|preempted| preempted.checkpoint.as_mut())
                && !caller.may_touch(&owner(&app, job).await?)
            {
                saved.label.clear();
            }
            Ok(Json(ExplainResponse { now, explanation, gang: None }))
        }
    }
}

macro_rules! action {
    ($name:ident, $action:expr) => {
        pub(super) async fn $name(
            state: State<ApiState>,
            caller: Caller,
            job: JobPath,
            body: OptionalBody<ActionRequest>,
        ) -> Result<Json<ActionResponse>, ApiFailure> {
            act(state.0, caller, job.0, body.0, $action).await
        }
    };
}

action!(cancel, JobAction::Cancel);
action!(hold, JobAction::Hold);
action!(release, JobAction::Release);
action!(requeue, JobAction::Requeue);
action!(checkpoint, JobAction::Checkpoint);

pub(super) async fn bulk(
    State(app): State<ApiState>,
    caller: Caller,
    JsonBody(request): JsonBody<BulkRequest>,
) -> Result<Json<BulkResponse>, ApiFailure> {
    let BulkRequest { action, targets } = request;
    if targets.len() > MAX_TARGETS {
        return Err(ApiFailure::bad_request(format!("`targets` takes at most {MAX_TARGETS} jobs")));
    }
    let action = match action {
        BulkAction::Cancel => JobAction::Cancel,
        BulkAction::Hold => JobAction::Hold,
        BulkAction::Release => JobAction::Release,
        BulkAction::Requeue => JobAction::Requeue,
    };
    // All are in the dispatcher's queue before it answers the first: inputs queued at one moment
    // are one step.
    let asked = targets
        .iter()
        .map(|target| app.handle.act(caller.clone(), target.job, target.index, action));
    let answers = futures_util::future::join_all(asked).await;
    let results = targets.into_iter().zip(answers);
    let results =
        results.map(|(target, answer)| BulkResult::of(target, answer.map_err(ApiFailure::body)));
    Ok(Json(BulkResponse { results: results.collect() }))
}

pub(super) async fn scale(
    State(app): State<ApiState>,
    JobPath(job): JobPath,
    caller: Caller,
    JsonBody(request): JsonBody<ScaleRequest>,
) -> Result<Json<ActionResponse>, ApiFailure> {
    let ScaleRequest { guaranteed, max } = request;
    app.handle
        .act(caller, job, None, JobAction::Scale(Replicas { guaranteed, max }))
        .await
        .map(Json)
}

async fn act(
    app: ApiState,
    caller: Caller,
    job: JobId,
    request: ActionRequest,
    action: JobAction,
) -> Result<Json<ActionResponse>, ApiFailure> {
    app.handle.act(caller, job, request.index, action).await.map(Json)
}

/// Runs a query on a blocking thread, since SQLite blocks.
pub(crate) async fn read<T: Send + 'static>(
    reader: &HistoryReader,
    query: impl FnOnce(&HistoryReader) -> Result<T, muster_runtime::StoreError> + Send + 'static,
) -> Result<T, ApiFailure> {
    let reader = reader.clone();
    let answer = tokio::task::spawn_blocking(move || query(&reader)).await;
    Ok(answer.map_err(|error| ApiFailure::Internal(error.to_string()))??)
}

/// Returns the owner of a job, whether ended or not.
pub(crate) async fn owner(app: &ApiState, job: JobId) -> Result<OwnerAccount, ApiFailure> {
    if let Some(owner) = app.handle.owner(job).await? {
        return Ok(owner);
    }
    let ended = read(&app.reader, move |reader| reader.ended(job)).await?;
    ended.map(|ended| OwnerAccount::of_view(&ended.view)).ok_or_else(|| ApiFailure::no_job(job))
}

/// Hides private texts of the owner from users other than the owner and administrators: why a task
/// could not start, which contains directories and programs, and the labels of checkpoints.
pub(super) fn as_seen_by(caller: &Caller, mut view: JobView) -> JobView {
    let owner = OwnerAccount::of_view(&view);
    view.user = caller.name_of(&owner);
    if !caller.may_touch(&owner) {
        for saved in view.elements.iter_mut().filter_map(|element| element.checkpoint.as_mut()) {
            saved.label.clear();
        }
        let ends =
            view.elements.iter_mut().map(|element| [&mut element.outcome, &mut element.last_end]);
        let outcomes = ends.flatten().flatten();
        for outcome in outcomes {
            hide_reason(outcome);
        }
    }
    view
}

/// Removes from an outcome what belongs to the job's user: the error of a start, and metrics.
pub(super) fn hide_reason(outcome: &mut Outcome) {
    if let Outcome::StartFailed { reason: why, .. } | Outcome::StoppedEarly { why, .. } = outcome {
        *why = "the reason is shown to its owner".into();
    }
}

/// Returns the commands as a user would type them.
fn commands(what: &StoredCommands) -> BTreeMap<String, String> {
    what.commands.iter().map(|(group, command)| (group.to_string(), command.text())).collect()
}

/// Returns the log file per rank of the current or last attempt of the shown element.
async fn log_paths(
    app: &ApiState,
    view: &JobView,
    index: Option<u32>,
) -> Result<Vec<PathBuf>, ApiFailure> {
    let shown = view
        .elements
        .iter()
        .find(|element| index.is_none_or(|index| element.element.index == index));
    let Some(&ElementView { element, attempt, ref tasks, .. }) =
        shown.filter(|element| element.attempt > 0)
    else {
        return Ok(Vec::new());
    };
    let id = AttemptId { element, attempt: Attempt(attempt) };
    let ranks = match tasks.len() {
        // Its tasks are no longer in memory; their placement is in the store.
        0 => {
            let attempts = read(&app.reader, move |reader| reader.attempts(element)).await?;
            attempts.iter().find(|row| row.id == id).map_or(0, |row| row.placement.len())
        }
        ranks => ranks,
    };
    Ok((0..ranks).map(|rank| app.backend.log_path(id, Rank(rank as u32))).collect())
}

/// Returns the tasks whose stored output has gaps, by the log file of each rank.
async fn missing_output(logs: Vec<PathBuf>) -> Result<Vec<MissingOutput>, ApiFailure> {
    let look = move || {
        let missing = logs.iter().map(|log| segments::missing(log)).enumerate();
        let missing = missing.filter(|(_, missing)| !missing.is_none()).map(|(rank, missing)| {
            MissingOutput {
                rank: Rank(rank as u32),
                dropped: missing.dropped,
                dropped_after: missing.dropped_after,
                disk_full: missing.disk_full,
            }
        });
        missing.collect()
    };
    tokio::task::spawn_blocking(look).await.map_err(|error| ApiFailure::Internal(error.to_string()))
}

fn nothing_to_explain(view: &JobView, index: Option<u32>) -> muster_model::view::Explanation {
    let element = view.elements.iter().find(|element| Some(element.element.index) == index);
    let id = ElementId { job: view.job, index: index.unwrap_or(0) };
    let state = element.map_or(view.state, |element| element.state);
    muster_model::view::Explanation::blank(id, view.name.clone(), state, view.queue.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_other_users_are_for_administrators() {
        use muster_model::ForeignProcess;
        use muster_model::payload::Identity;
        let process = |user: &str| ForeignProcess {
            device: 0,
            pid: 812,
            program: "python3".to_owned(),
            user: user.to_owned(),
        };
        for (admin, expected) in [(true, vec!["ann", "ben"]), (false, vec!["ann"])] {
            let identity = Identity { user: "ann".into(), uid: 1, gid: 1 };
            let caller = Caller { identity, admin, groups: std::sync::Arc::default() };
            let mut processes = vec![process("ann"), process("ben")];
            caller.hide_processes_of_others(&mut processes);
            let users: Vec<&str> = processes.iter().map(|one| one.user.as_str()).collect();
            assert_eq!(users, expected);
        }
    }

    #[test]
    fn what_a_checkpoint_is_called_is_for_its_owner() {
        use muster_model::payload::Identity;
        use muster_model::view::{CheckpointView, JobState};
        let caller = |user: &str, admin| Caller {
            identity: Identity { user: user.into(), uid: 1, gid: 1 },
            admin,
            groups: std::sync::Arc::default(),
        };
        let mut element =
            ElementView::blank(ElementId { job: JobId(1), index: 0 }, JobState::Running);
        let at = muster_model::Time(0);
        element.checkpoint =
            Some(CheckpointView { at, label: "/home/ann/secret".to_owned(), attempt: 1 });
        let blank = JobView::blank(JobId(1), "x".to_owned(), "ann".into(), JobState::Running, at);
        let view = JobView { elements: vec![element], ..blank };
        for (caller, expected) in [
            (caller("ann", false), "/home/ann/secret"),
            (caller("root", true), "/home/ann/secret"),
            (caller("bob", false), ""),
        ] {
            let seen = as_seen_by(&caller, view.clone());
            assert_eq!(seen.elements[0].checkpoint.as_ref().unwrap().label, expected);
        }
    }
}

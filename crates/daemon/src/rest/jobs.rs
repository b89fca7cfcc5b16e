//! Jobs: one in full, why it waits, and what can be done to it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use muster_api::Action;
use muster_api::query::ElementQuery;
use muster_api::types::{
    ActionRequest, ActionResponse, BulkAction, BulkRequest, BulkResponse, BulkResult, Explained,
    JobDetail, ScaleRequest,
};
use muster_backends::segments;
use muster_model::payload::Command;
use muster_model::view::{ElementView, JobView, MissingOutput};
use muster_model::{Attempt, AttemptId, ElementId, JobId, Outcome, Rank, Replicas};

use super::{App, Body, JobPath, OptionalBody, Params, daemon};
use crate::auth::{Caller, Owner};
use crate::failure::Failure;
use crate::store::{Reader, What};

/// Jobs acted on in one request at most.
const MAX_TARGETS: usize = 10_000;

pub(super) async fn one(
    State(app): State<App>,
    caller: Caller,
    JobPath(job): JobPath,
    Params(query): Params<ElementQuery>,
) -> Result<Json<JobDetail>, Failure> {
    let (mut view, what, spec) = match app.handle.job(job).await? {
        Some(live) => (live.view, live.what, live.spec),
        None => {
            let ended = read(&app.reader, move |reader| reader.ended(job)).await?;
            let ended = ended.ok_or_else(|| Failure::no_job(job))?;
            (ended.view, ended.what, None)
        }
    };
    if let Some(index) = query.index {
        add_element(&app, &mut view, index).await?;
    }
    let now = app.handle.status().await?.now;
    let may_touch = caller.may_touch(&Owner::of_view(&view));
    let mut detail = JobDetail {
        commands: None,
        workdir: None,
        files: None,
        logs: Vec::new(),
        missing_output: Vec::new(),
        enforcement: daemon::enforcement(&app.backend.capabilities(), spec.as_deref()),
        now,
        job: as_seen_by(&caller, view),
    };
    if may_touch {
        detail.commands = what.as_ref().map(commands);
        let from = |what: &What, file: &str| what.workdir.join(file).display().to_string();
        let named = what.as_ref().filter(|what| !what.files.is_empty());
        detail.files = named.map(|what| what.files.map(|file| from(what, file)));
        detail.workdir = what.map(|what| what.workdir.display().to_string());
        let logs = log_paths(&app, &detail.job, query.index).await?;
        detail.logs = logs.iter().map(|log| log.display().to_string()).collect();
        detail.missing_output = missing_output(logs).await?;
    }
    Ok(Json(detail))
}

/// The element that was asked for, when it is not among those of the view: it waits, or it has
/// ended.
async fn add_element(app: &App, view: &mut JobView, index: u32) -> Result<(), Failure> {
    let id = ElementId { job: view.job, index };
    if view.elements.iter().any(|element| element.element == id) {
        return Ok(());
    }
    // Memory first: what ends in between is then found in the store, never in neither.
    let element = match app.handle.element(id).await? {
        Some(live) => live,
        None => read(&app.reader, move |reader| reader.ended_element(id))
            .await?
            .ok_or_else(|| Failure::NotFound(format!("job {} has no element {index}", id.job)))?,
    };
    let place = view.elements.partition_point(|other| other.element < id);
    view.elements.insert(place, element);
    Ok(())
}

pub(super) async fn explain(
    State(app): State<App>,
    caller: Caller,
    JobPath(job): JobPath,
    Params(query): Params<ElementQuery>,
) -> Result<Json<Explained>, Failure> {
    let now = app.handle.status().await?.now;
    match app.handle.explain(job, query.index).await {
        Err(Failure::NotFound(message)) => {
            let ended = read(&app.reader, move |reader| reader.ended(job)).await?;
            let mut view = ended.ok_or(Failure::NotFound(message))?.view;
            if let Some(index) = query.index {
                add_element(&app, &mut view, index).await?;
            }
            Ok(Json(Explained { now, explanation: nothing_to_explain(&view, query.index) }))
        }
        answer => {
            let mut explanation = answer?;
            // What a checkpoint is called is the owner's own word.
            let preempted = explanation.preempted.as_mut();
            if let Some(saved) = preempted.and_then(|preempted| preempted.checkpoint.as_mut())
                && !caller.may_touch(&owner(&app, job).await?)
            {
                saved.label.clear();
            }
            Ok(Json(Explained { now, explanation }))
        }
    }
}

macro_rules! action {
    ($name:ident, $action:expr) => {
        pub(super) async fn $name(
            state: State<App>,
            caller: Caller,
            job: JobPath,
            body: OptionalBody<ActionRequest>,
        ) -> Result<Json<ActionResponse>, Failure> {
            act(state.0, caller, job.0, body.0, $action).await
        }
    };
}

action!(cancel, Action::Cancel);
action!(hold, Action::Hold);
action!(release, Action::Release);
action!(requeue, Action::Requeue);
action!(checkpoint, Action::Checkpoint);

pub(super) async fn bulk(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BulkRequest>,
) -> Result<Json<BulkResponse>, Failure> {
    let BulkRequest { action, targets } = request;
    if targets.len() > MAX_TARGETS {
        return Err(Failure::bad_request(format!("`targets` takes at most {MAX_TARGETS} jobs")));
    }
    let action = match action {
        BulkAction::Cancel => Action::Cancel,
        BulkAction::Hold => Action::Hold,
        BulkAction::Release => Action::Release,
        BulkAction::Requeue => Action::Requeue,
    };
    // All are in the dispatcher's queue before it answers the first: what is queued at one moment
    // is one step.
    let asked = targets
        .iter()
        .map(|target| app.handle.act(caller.clone(), target.job, target.index, action));
    let answers = futures_util::future::join_all(asked).await;
    let results = targets.into_iter().zip(answers);
    let results =
        results.map(|(target, answer)| BulkResult::of(target, answer.map_err(Failure::body)));
    Ok(Json(BulkResponse { results: results.collect() }))
}

pub(super) async fn scale(
    State(app): State<App>,
    JobPath(job): JobPath,
    caller: Caller,
    Body(request): Body<ScaleRequest>,
) -> Result<Json<ActionResponse>, Failure> {
    let ScaleRequest { floor, ceiling } = request;
    app.handle.act(caller, job, None, Action::Scale(Replicas { floor, ceiling })).await.map(Json)
}

async fn act(
    app: App,
    caller: Caller,
    job: JobId,
    request: ActionRequest,
    action: Action,
) -> Result<Json<ActionResponse>, Failure> {
    app.handle.act(caller, job, request.index, action).await.map(Json)
}

/// Runs a query off the async workers: SQLite blocks.
pub(crate) async fn read<T: Send + 'static>(
    reader: &Reader,
    query: impl FnOnce(&Reader) -> Result<T, muster_runtime::StoreError> + Send + 'static,
) -> Result<T, Failure> {
    let reader = reader.clone();
    let answer = tokio::task::spawn_blocking(move || query(&reader)).await;
    Ok(answer.map_err(|error| Failure::Internal(error.to_string()))??)
}

/// Whose a job is, ended or not.
pub(crate) async fn owner(app: &App, job: JobId) -> Result<Owner, Failure> {
    if let Some(owner) = app.handle.owner(job).await? {
        return Ok(owner);
    }
    let ended = read(&app.reader, move |reader| reader.ended(job)).await?;
    ended.map(|ended| Owner::of_view(&ended.view)).ok_or_else(|| Failure::no_job(job))
}

/// Hides from others than the owner and admins what a view holds of the owner's own words: why a
/// task could not start, which names directories and programs, and what a checkpoint is called.
pub(super) fn as_seen_by(caller: &Caller, mut view: JobView) -> JobView {
    let owner = Owner::of_view(&view);
    view.user = caller.name_of(&owner);
    if !caller.may_touch(&owner) {
        for saved in view.elements.iter_mut().filter_map(|element| element.checkpoint.as_mut()) {
            saved.label.clear();
        }
        let ends =
            view.elements.iter_mut().map(|element| [&mut element.outcome, &mut element.last_end]);
        let outcomes = ends.flatten().flatten();
        for outcome in outcomes {
            if let Outcome::StartFailed { reason, .. } = outcome {
                *reason = "its owner is told why".into();
            }
        }
    }
    view
}

/// Commands as one would type them.
fn commands(what: &What) -> BTreeMap<String, String> {
    let text = |command: &Command| match command {
        Command::Argv(words) => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        Command::Script(text) => text.clone(),
    };
    what.commands.iter().map(|(group, command)| (group.to_string(), text(command))).collect()
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Log file per rank of the current or last attempt of the shown element.
async fn log_paths(app: &App, view: &JobView, index: Option<u32>) -> Result<Vec<PathBuf>, Failure> {
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
        // Its tasks left memory with its job; where they were is known.
        0 => {
            let attempts = read(&app.reader, move |reader| reader.attempts(element)).await?;
            attempts.iter().find(|row| row.id == id).map_or(0, |row| row.placement.len())
        }
        ranks => ranks,
    };
    Ok((0..ranks).map(|rank| app.backend.log_path(id, Rank(rank as u32))).collect())
}

/// Lists the tasks whose output is not all there, by the log file of each rank.
async fn missing_output(logs: Vec<PathBuf>) -> Result<Vec<MissingOutput>, Failure> {
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
    tokio::task::spawn_blocking(look).await.map_err(|error| Failure::Internal(error.to_string()))
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
    fn words_read_back_as_they_were() {
        for (word, expected) in [
            ("train.py", "train.py"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn what_a_checkpoint_is_called_is_for_its_owner() {
        use muster_model::payload::Identity;
        use muster_model::view::{CheckpointView, State as JobState};
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

//! Jobs: listing, one in full, why it waits, and what can be done to it.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use muster_api::Action;
use muster_api::query::{ElementQuery, JobFilter};
use muster_api::types::{ActionRequest, ActionResponse, Explained, JobDetail, JobList, ScaleRequest};
use muster_model::payload::Command;
use muster_model::view::{ElementView, JobView, State as JobState};
use muster_model::{Attempt, AttemptId, ElementId, JobId, Outcome, Rank, Replicas, UserName};

use super::{App, Body, JobPath, OptionalBody, Params, daemon};
use crate::auth::Caller;
use crate::failure::Failure;
use crate::store::{HistoryFilter, Reader, What};

/// Ended jobs listed when the client does not say how many, and at most.
const HISTORY: (u32, u32) = (1000, 10_000);

/// Jobs asked for by number in one request at most.
const MAX_IDS: usize = 1000;

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<JobFilter>,
) -> Result<Json<JobList>, Failure> {
    let wanted = filter.ids.as_deref().map(parse_ids).transpose()?;
    let state = filter.state.as_deref().map(parse_state).transpose()?;

    // 1. Live jobs first: one that ends in between is then found in history, never in neither.
    let status = app.handle.status().await?;
    let live = app.handle.jobs(wanted.as_ref().map(|ids| ids.iter().copied().collect())).await?;
    let mut jobs: BTreeMap<JobId, JobView> = live.into_iter().map(|view| (view.job, view)).collect();

    // 2. Ended ones, when they are asked for.
    let missing: Vec<JobId> = wanted.iter().flatten().filter(|id| !jobs.contains_key(id)).copied().collect();
    let want_history = wanted.is_none() && (filter.all || state.is_some_and(JobState::is_final));
    let query = HistoryFilter {
        user: filter.user.clone(),
        queue: filter.queue.clone(),
        state: state.map(|state| state.word().to_owned()),
        limit: filter.limit.unwrap_or(HISTORY.0).min(HISTORY.1),
    };
    let ended = read(&app.reader, move |reader| {
        let mut ended = if want_history { reader.history(&query)? } else { Vec::new() };
        for id in missing {
            ended.extend(reader.ended(id)?.map(|ended| ended.view));
        }
        Ok(ended)
    })
    .await?;
    jobs.extend(ended.into_iter().map(|view| (view.job, view)));

    // 3. What does not match goes.
    let jobs = jobs.into_values().filter(|view| matches(view, &filter, state, wanted.as_ref()));
    let jobs = jobs.map(|view| as_seen_by(&caller, view)).collect();
    Ok(Json(JobList { now: status.now, revision: status.revision, jobs }))
}

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
    let mut detail = JobDetail {
        commands: None,
        workdir: None,
        logs: Vec::new(),
        enforcement: daemon::enforcement(&app.backend.capabilities(), spec.as_deref()),
        now,
        job: as_seen_by(&caller, view),
    };
    if caller.may_touch(&detail.job.user) {
        detail.commands = what.as_ref().map(commands);
        detail.workdir = what.map(|what| what.workdir.display().to_string());
        detail.logs = log_paths(&app, &detail.job, query.index).await?;
    }
    Ok(Json(detail))
}

/// The element that was asked for, when it is not among those of the view: it waits, or it has ended.
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
        answer => answer.map(|explanation| Json(Explained { now, explanation })),
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
pub(crate) async fn owner(app: &App, job: JobId) -> Result<UserName, Failure> {
    if let Some(user) = app.handle.owner(job).await? {
        return Ok(user);
    }
    let ended = read(&app.reader, move |reader| reader.ended(job)).await?;
    ended.map(|ended| ended.view.user).ok_or_else(|| Failure::no_job(job))
}

/// Why a task could not start names directories and programs of its owner; others learn that it could not.
fn as_seen_by(caller: &Caller, mut view: JobView) -> JobView {
    if !caller.may_touch(&view.user) {
        let ends = view.elements.iter_mut().map(|element| [&mut element.outcome, &mut element.last_end]);
        let outcomes = ends.flatten().flatten();
        for outcome in outcomes {
            if let Outcome::StartFailed { reason, .. } = outcome {
                *reason = "its owner is told why".into();
            }
        }
    }
    view
}

fn parse_ids(text: &str) -> Result<BTreeSet<JobId>, Failure> {
    let ids: Result<BTreeSet<_>, _> = text.split(',').map(|id| id.trim().parse().map(JobId)).collect();
    match ids {
        Ok(ids) if ids.len() <= MAX_IDS => Ok(ids),
        Ok(_) => Err(Failure::bad_request(format!("`ids` takes at most {MAX_IDS} numbers"))),
        Err(_) => Err(Failure::bad_request("`ids` takes job numbers with commas between them")),
    }
}

fn parse_state(text: &str) -> Result<JobState, Failure> {
    serde_json::from_value(text.into()).map_err(|_| {
        let message = format!(
            "no state is called `{}`: held, pending, starting, running, stopping, done, failed, cancelled",
            text.escape_debug()
        );
        Failure::bad_request(message)
    })
}

fn matches(
    view: &JobView,
    filter: &JobFilter,
    state: Option<JobState>,
    ids: Option<&BTreeSet<JobId>>,
) -> bool {
    let in_queue = |queue: &String| {
        let own = view.queue.as_str();
        own == queue || own.strip_prefix(queue.as_str()).is_some_and(|rest| rest.starts_with('/'))
    };
    ids.is_none_or(|ids| ids.contains(&view.job))
        && filter.user.as_ref().is_none_or(|user| view.user.as_str() == user)
        && filter.queue.as_ref().is_none_or(in_queue)
        && state.is_none_or(|state| view.state == state)
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
async fn log_paths(app: &App, view: &JobView, index: Option<u32>) -> Result<Vec<String>, Failure> {
    let shown = view.elements.iter().find(|element| index.is_none_or(|index| element.element.index == index));
    let Some(&ElementView { element, attempt, ref tasks, .. }) = shown.filter(|element| element.attempt > 0)
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
    let path = |rank| app.backend.log_path(id, Rank(rank as u32)).display().to_string();
    Ok((0..ranks).map(path).collect())
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
    fn ids_and_states_are_parsed_or_refused_by_name() {
        assert_eq!(parse_ids("3, 7,3").unwrap().into_iter().collect::<Vec<_>>(), [JobId(3), JobId(7)]);
        assert!(parse_ids("3,x").is_err());
        assert_eq!(parse_state("pending").unwrap(), JobState::Pending);
        assert!(parse_state("sleeping").is_err());
    }
}

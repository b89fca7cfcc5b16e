//! Handler for the list of jobs. A long list is written page by page while it is sent, so that
//! memory and the dispatcher's time are bounded by one page and the numbers of the jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use muster_api::query::JobFilter;
use muster_api::types::JobList;
use muster_model::JobId;
use muster_model::view::{JobState, JobView};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::jobs::{as_seen_by, read};
use super::{ApiState, Params};
use crate::auth::Caller;
use crate::dispatch::{ListSelection, ListedJobs, PAGE};
use crate::failure::ApiFailure;
use crate::store::{HistoryFilter, HistoryReader};

/// Default and highest number of ended jobs in a list.
const HISTORY: (u32, u32) = (1000, 10_000);

/// Most job numbers in one request.
const MAX_IDS: usize = 1000;

pub(super) async fn list(
    State(app): State<ApiState>,
    caller: Caller,
    Params(filter): Params<JobFilter>,
) -> Result<Response, ApiFailure> {
    let ids = filter.ids.as_deref().map(parse_ids).transpose()?;
    let state = filter.state.as_deref().map(parse_state).transpose()?;
    let wanted = ListSelection { filter, ids, state };

    // 1. Live jobs first: a job that ends in between is then found in history.
    let status = app.handle.status().await?;
    let ListedJobs { views, rest, matched } = app.handle.listed(wanted.clone()).await?;
    let mut jobs: BTreeMap<JobId, JobView> =
        views.into_iter().map(|view| (view.job, view)).collect();

    // 2. Ended jobs if requested, within the limit on rows.
    let missing: Vec<JobId> =
        wanted.ids.iter().flatten().filter(|id| !jobs.contains_key(id)).copied().collect();
    let space = wanted.first().map_or(usize::MAX, |first| first - jobs.len() - rest.len());
    let asked = wanted.clone();
    let (ended, matched_ended) =
        read(&app.reader, move |reader| ended(reader, &asked, &missing, space)).await?;
    let is_bounded = space != usize::MAX;
    jobs.extend(ended.into_iter().map(|view| (view.job, view)));

    // 3. Only what the caller may see.
    let matched = is_bounded.then_some(matched + matched_ended);
    let mut list =
        JobList { now: status.now, revision: status.revision, jobs: Vec::new(), matched };
    if rest.is_empty() {
        list.jobs = jobs.into_values().map(|view| as_seen_by(&caller, view)).collect();
        return Ok(Json(list).into_response());
    }
    let (pages, stream) = mpsc::channel(1);
    let long = PagedList { app, caller, wanted, ready_rows: jobs, rest };
    tokio::spawn(async move {
        if let Err(failure) = long.write(&list, &pages).await {
            // The head was sent already; an aborted body is the only way left to report an error.
            let _gone = pages.send(Err(io::Error::other(format!("{failure:?}")))).await;
        }
    });
    let body = Body::from_stream(ReceiverStream::new(stream));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// List of more than a page.
struct PagedList {
    app: ApiState,
    caller: Caller,
    wanted: ListSelection,
    /// Rows that are complete already.
    ready_rows: BTreeMap<JobId, JobView>,
    /// Numbers of jobs whose rows are still missing.
    rest: Vec<JobId>,
}

impl PagedList {
    /// Writes the list with its rows, until the client closes the connection.
    async fn write(
        mut self,
        list: &JobList,
        pages: &mpsc::Sender<io::Result<Bytes>>,
    ) -> Result<(), ApiFailure> {
        let around = serde_json::to_string(list).map_err(unwritten)?;
        let (head, tail) = around.split_once("[]").expect("a list without rows has an empty array");
        let mut text = [head.as_bytes(), b"["].concat();
        let mut ids = std::mem::take(&mut self.rest);
        ids.extend(self.ready_rows.keys());
        ids.sort_unstable();
        ids.dedup();
        let mut is_first = true;
        for page in ids.chunks(PAGE) {
            for row in self.rows(page).await? {
                if !std::mem::take(&mut is_first) {
                    text.push(b',');
                }
                serde_json::to_writer(&mut text, &row).map_err(unwritten)?;
            }
            if pages.send(Ok(std::mem::take(&mut text).into())).await.is_err() {
                return Ok(());
            }
        }
        text.extend(b"]");
        text.extend(tail.as_bytes());
        // The client may have closed the connection.
        let _gone = pages.send(Ok(text.into())).await;
        Ok(())
    }

    /// Returns the rows of some jobs, by number. A job that has ended meanwhile is shown as it
    /// ended.
    async fn rows(&mut self, ids: &[JobId]) -> Result<Vec<JobView>, ApiFailure> {
        let asked = ids.iter().filter(|id| !self.ready_rows.contains_key(id)).copied().collect();
        let views = self.app.handle.jobs(asked).await?;
        let mut views: BTreeMap<JobId, JobView> =
            views.into_iter().map(|view| (view.job, view)).collect();
        let mut rows = Vec::with_capacity(ids.len());
        for &id in ids {
            let row = match self.ready_rows.remove(&id).or_else(|| views.remove(&id)) {
                Some(row) => Some(row),
                None => {
                    let ended = read(&self.app.reader, move |reader| reader.ended(id)).await?;
                    ended.map(|ended| ended.view).filter(|view| self.wanted.matches_ended(view))
                }
            };
            rows.extend(row.map(|row| as_seen_by(&self.caller, row)));
        }
        Ok(rows)
    }
}

fn unwritten(error: serde_json::Error) -> ApiFailure {
    ApiFailure::Internal(format!("a list of jobs cannot be serialised: {error}"))
}

/// Returns the newest `room` ended jobs that match, and the number of matches.
fn ended(
    reader: &HistoryReader,
    wanted: &ListSelection,
    missing: &[JobId],
    space: usize,
) -> Result<(Vec<JobView>, u64), muster_runtime::StoreError> {
    let ListSelection { filter, ids, state } = wanted;
    if ids.is_some() {
        let mut found = Vec::new();
        for id in missing.iter().rev() {
            found.extend(
                reader
                    .ended(*id)?
                    .map(|ended| ended.view)
                    .filter(|view| wanted.matches_ended(view)),
            );
        }
        let matched = found.len() as u64;
        found.truncate(space);
        return Ok((found, matched));
    }
    if !filter.all && !state.is_some_and(JobState::is_final) {
        return Ok((Vec::new(), 0));
    }
    let limit = filter.limit.unwrap_or(HISTORY.0).min(HISTORY.1);
    let query = HistoryFilter {
        user: filter.user.clone(),
        queue: filter.queue.clone(),
        state: state.map(|state| state.word().to_owned()),
        name: filter.name.clone(),
        limit: u32::try_from(space).map_or(limit, |space| limit.min(space)),
    };
    let matched = if space == usize::MAX { 0 } else { reader.history_count(&query)? };
    Ok((reader.history(&query)?, matched))
}

fn parse_ids(text: &str) -> Result<BTreeSet<JobId>, ApiFailure> {
    let ids: Result<BTreeSet<_>, _> =
        text.split(',').map(|id| id.trim().parse().map(JobId)).collect();
    match ids {
        Ok(ids) if ids.len() <= MAX_IDS => Ok(ids),
        Ok(_) => Err(ApiFailure::bad_request(format!("`ids` takes at most {MAX_IDS} numbers"))),
        Err(_) => Err(ApiFailure::bad_request("`ids` takes job numbers separated by commas")),
    }
}

fn parse_state(text: &str) -> Result<JobState, ApiFailure> {
    serde_json::from_value(text.into()).map_err(|_| {
        let message = format!(
            "there is no state `{}`: held, pending, starting, running, stopping, done, failed, cancelled",
            text.escape_debug()
        );
        ApiFailure::bad_request(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_states_are_parsed_or_refused_by_name() {
        assert_eq!(
            parse_ids("3, 7,3").unwrap().into_iter().collect::<Vec<_>>(),
            [JobId(3), JobId(7)]
        );
        assert!(parse_ids("3,x").is_err());
        assert_eq!(parse_state("pending").unwrap(), JobState::Pending);
        assert!(parse_state("sleeping").is_err());
    }
}

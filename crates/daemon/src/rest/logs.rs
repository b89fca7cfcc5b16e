//! Output of tasks as a stream: what is stored, and with `follow` new output until the task has
//! ended. Without an attempt in the query, following continues with the next attempt when the gang
//! restarts.

mod file;

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use muster_api::query::LogQuery;
use muster_model::view::{ElementView, JobState, TaskStage};
use muster_model::{Attempt, AttemptId, ElementId, Rank};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::auth::Caller;
use crate::failure::ApiFailure;
use crate::rest::{ApiState, JobPath, Params, owner, read_store};
use file::{LogFile, ReadStart};

/// Number of chunks that are buffered for a slow client.
const CHUNK_BUFFER: usize = 4;

/// Interval between reads of a followed file, which is the longest delay of its output.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// State of a task with respect to its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputState {
    /// The element has not started.
    NotStarted,
    /// The attempt has no task of this rank: an elastic gang has fewer tasks now.
    NoRank {
        /// Number of tasks of the attempt.
        tasks: usize,
        /// True when no other attempt follows.
        last: bool,
    },
    /// The element has an attempt.
    At {
        /// Attempt whose output is read.
        id: AttemptId,
        /// True when the task writes no more output.
        over: bool,
        /// True when no other attempt follows.
        last: bool,
    },
}

/// Serves `GET /v1/jobs/{id}/logs`: a piece of one task's output.
pub(crate) async fn read(
    State(app): State<ApiState>,
    caller: Caller,
    JobPath(job): JobPath,
    Params(query): Params<LogQuery>,
) -> Result<Response, ApiFailure> {
    // 1. Check permissions and find the task.
    if !caller.may_touch(&owner(&app, job).await?) {
        return Err(ApiFailure::not_yours(job));
    }
    let index = match query.index {
        Some(index) => index,
        None => {
            read_store(&app.reader, move |reader| reader.first_started(job)).await?.unwrap_or(0)
        }
    };
    let source = OutputReader { app, element: ElementId { job, index }, query };

    // 2. Report errors before the response begins.
    let standing = source.output_state().await?;
    if !query.follow || matches!(standing, OutputState::NoRank { .. }) {
        source.require_output(standing)?;
    }

    // 3. Stream the output.
    let (chunks, stream) = mpsc::channel(CHUNK_BUFFER);
    tokio::spawn(async move {
        let broken = chunks.clone();
        if let Err(error) = source.run(chunks).await {
            // The head was sent already; an aborted body is the only way left to report an error.
            let _gone = broken.send(Err(error)).await;
        }
    });
    let body = Body::from_stream(ReceiverStream::new(stream));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

type ChunkSender = mpsc::Sender<io::Result<Bytes>>;

/// Reader of one task's output.
struct OutputReader {
    app: ApiState,
    element: ElementId,
    query: LogQuery,
}

impl OutputReader {
    fn rank(&self) -> Rank {
        Rank(self.query.rank.unwrap_or(0))
    }

    /// Streams the output of attempt after attempt, until none can follow.
    async fn run(self, chunks: ChunkSender) -> io::Result<()> {
        let mut revision = self.app.revision.clone();
        let mut shown = None;
        loop {
            // Marked as seen before the check, so that a change in between ends the wait below.
            revision.mark_unchanged();
            match self.output_state().await.map_err(broken)? {
                OutputState::At { id, .. } if shown != Some(id) => {
                    let begin =
                        if shown.is_none() { ReadStart::of(&self.query) } else { ReadStart::Start };
                    self.copy(id, begin, &chunks).await?;
                    shown = Some(id);
                    if !self.query.follow {
                        return Ok(());
                    }
                }
                OutputState::At { last: true, .. } | OutputState::NoRank { last: true, .. } => {
                    return Ok(());
                }
                _ => tokio::select! {
                    changed = revision.changed() => {
                        changed.map_err(|_| io::Error::other("the daemon is stopping"))?;
                    }
                    () = chunks.closed() => return Ok(()),
                },
            }
        }
    }

    /// Streams one attempt's output; with `follow`, until its task writes no more.
    async fn copy(&self, id: AttemptId, begin: ReadStart, chunks: &ChunkSender) -> io::Result<()> {
        let mut file = LogFile::new(self.app.backend.log_path(id, self.rank()), begin);
        let mut revision = self.app.revision.clone();
        revision.mark_changed();
        let mut over = false;
        loop {
            // Checked before reading, so that output written before the end is still read. Only after a change:
            // hundreds of ranks may be followed.
            if revision.has_changed().unwrap_or(true) {
                revision.mark_unchanged();
                over = match self.output_state().await.map_err(broken)? {
                    OutputState::At { id: now, over, .. } => over || now != id,
                    OutputState::NotStarted | OutputState::NoRank { .. } => true,
                };
            }
            while let Some(chunk) = file.read().await? {
                if chunks.send(Ok(chunk)).await.is_err() {
                    return Ok(());
                }
            }
            if over || !self.query.follow {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = chunks.closed() => return Ok(()),
            }
        }
    }

    async fn output_state(&self) -> Result<OutputState, ApiFailure> {
        if let Some(live) = self.app.handle.element(self.element).await? {
            return self.live(&live);
        }
        let element = self.element;
        let attempts = read_store(&self.app.reader, move |reader| reader.attempts(element)).await?;
        let wanted = self.query.attempt;
        let chosen = match wanted {
            Some(wanted) => attempts.iter().find(|attempt| attempt.id.attempt.0 == wanted),
            None => attempts.last(),
        };
        match chosen {
            Some(attempt) if self.rank().0 as usize >= attempt.placement.len() => {
                Ok(OutputState::NoRank { tasks: attempt.placement.len(), last: true })
            }
            Some(attempt) => Ok(OutputState::At { id: attempt.id, over: true, last: true }),
            None => Err(ApiFailure::NotFound(format!("{} has no such attempt", self.name()))),
        }
    }

    fn live(&self, view: &ElementView) -> Result<OutputState, ApiFailure> {
        let current = view.attempt;
        let wanted = self.query.attempt;
        let attempt = wanted.unwrap_or(current);
        if attempt > current || wanted == Some(0) {
            return Err(ApiFailure::NotFound(format!(
                "{} has had {current} attempts so far",
                self.name()
            )));
        }
        if attempt == 0 {
            return if view.state.is_final() {
                Err(ApiFailure::NotFound(format!("{} ended without having started", self.name())))
            } else {
                Ok(OutputState::NotStarted)
            };
        }
        let active =
            matches!(view.state, JobState::Starting | JobState::Running | JobState::Stopping);
        let task = view.tasks.iter().find(|task| task.rank == self.rank());
        if attempt == current && task.is_none() && !view.tasks.is_empty() {
            let last = wanted.is_some() || view.state.is_final();
            return Ok(OutputState::NoRank { tasks: view.tasks.len(), last });
        }
        let over =
            attempt < current || !active || task.is_none_or(|task| task.stage == TaskStage::Ended);
        let id = AttemptId { element: self.element, attempt: Attempt(attempt) };
        Ok(OutputState::At { id, over, last: wanted.is_some() || view.state.is_final() })
    }

    /// Rejects a request without `follow` when there is no output: an empty response would not tell
    /// whether output may still come.
    fn require_output(&self, standing: OutputState) -> Result<(), ApiFailure> {
        match standing {
            OutputState::NotStarted => Err(ApiFailure::conflict(
                format!("{} has not started, so there is no output yet", self.name()),
                format!(
                    "follow it: muster logs -f {0}   see why: muster explain {0}",
                    self.element.job
                ),
            )),
            OutputState::At { id, over: true, .. }
                if !self.app.backend.log_path(id, self.rank()).exists() =>
            {
                Err(ApiFailure::NotFound(format!(
                    "{} left no output, or it is no longer stored",
                    self.name()
                )))
            }
            OutputState::NoRank { tasks, .. } => Err(self.no_rank(tasks)),
            OutputState::At { .. } => Ok(()),
        }
    }

    fn no_rank(&self, tasks: usize) -> ApiFailure {
        ApiFailure::NotFound(format!("{} has ranks 0 to {}", self.name(), tasks.saturating_sub(1)))
    }

    fn name(&self) -> String {
        match self.query.index {
            Some(index) => format!("element {index} of job {}", self.element.job),
            None => format!("job {}", self.element.job),
        }
    }
}

fn broken(failure: ApiFailure) -> io::Error {
    io::Error::other(format!("{failure:?}"))
}

//! Output of tasks, as a stream: what is there, and with `follow` what comes, until the task has
//! ended. With no attempt named, following goes on with the next one when the gang restarts.

mod file;

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use muster_api::query::LogQuery;
use muster_model::view::{ElementView, State as JobState, TaskStage};
use muster_model::{Attempt, AttemptId, ElementId, Rank};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::auth::Caller;
use crate::failure::Failure;
use crate::rest::{App, JobPath, Params, owner, read_store};
use file::{Begin, LogFile};

/// Chunks that wait for a slow client.
const CHUNKS_AHEAD: usize = 4;

/// How often a followed file is looked at: the delay with which output shows, at most.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How far a task is, as far as its output is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its element has not started.
    NotYet,
    /// It has an attempt.
    At {
        /// Which.
        id: AttemptId,
        /// It writes no more.
        over: bool,
        /// No other attempt comes after it.
        last: bool,
    },
}

/// `GET /v1/jobs/{id}/logs`
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    JobPath(job): JobPath,
    Params(query): Params<LogQuery>,
) -> Result<Response, Failure> {
    // 1. Whose, and which task.
    if !caller.may_touch(&owner(&app, job).await?) {
        return Err(Failure::not_yours(job));
    }
    let index = match query.index {
        Some(index) => index,
        None => {
            read_store(&app.reader, move |reader| reader.first_started(job)).await?.unwrap_or(0)
        }
    };
    let source = Source { app, element: ElementId { job, index }, query };

    // 2. What cannot work is said before the answer begins.
    let standing = source.standing().await?;
    if !query.follow {
        source.require_output(standing)?;
    }

    // 3. The rest flows.
    let (chunks, stream) = mpsc::channel(CHUNKS_AHEAD);
    tokio::spawn(async move {
        let broken = chunks.clone();
        if let Err(error) = source.run(chunks).await {
            // The head is gone; a broken body is all that is left to say it with.
            let _gone = broken.send(Err(error)).await;
        }
    });
    let body = Body::from_stream(ReceiverStream::new(stream));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

type Chunks = mpsc::Sender<io::Result<Bytes>>;

/// One reader of one task's output.
struct Source {
    app: App,
    element: ElementId,
    query: LogQuery,
}

impl Source {
    fn rank(&self) -> Rank {
        Rank(self.query.rank.unwrap_or(0))
    }

    /// Attempt after attempt, until none can come.
    async fn run(self, chunks: Chunks) -> io::Result<()> {
        let mut revision = self.app.revision.clone();
        let mut shown = None;
        loop {
            // Marked as seen before it is looked at: what changes in between wakes the wait below.
            revision.mark_unchanged();
            match self.standing().await.map_err(broken)? {
                Standing::At { id, .. } if shown != Some(id) => {
                    let begin = if shown.is_none() { Begin::of(&self.query) } else { Begin::Start };
                    self.copy(id, begin, &chunks).await?;
                    shown = Some(id);
                    if !self.query.follow {
                        return Ok(());
                    }
                }
                Standing::At { last: true, .. } => return Ok(()),
                Standing::At { .. } | Standing::NotYet => tokio::select! {
                    changed = revision.changed() => {
                        changed.map_err(|_| io::Error::other("the daemon is stopping"))?;
                    }
                    () = chunks.closed() => return Ok(()),
                },
            }
        }
    }

    /// One attempt's output; with `follow`, until its task writes no more.
    async fn copy(&self, id: AttemptId, begin: Begin, chunks: &Chunks) -> io::Result<()> {
        let mut file = LogFile::new(self.app.backend.log_path(id, self.rank()), begin);
        loop {
            // Asked before reading: what was written before the end is then read.
            let over = match self.standing().await.map_err(broken)? {
                Standing::At { id: now, over, .. } => over || now != id,
                Standing::NotYet => true,
            };
            while let Some(chunk) = file.read().await? {
                if chunks.send(Ok(chunk)).await.is_err() {
                    return Ok(());
                }
            }
            if over || !self.query.follow {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = chunks.closed() => return Ok(()),
            }
        }
    }

    async fn standing(&self) -> Result<Standing, Failure> {
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
                Err(self.no_rank(attempt.placement.len()))
            }
            Some(attempt) => Ok(Standing::At { id: attempt.id, over: true, last: true }),
            None => Err(Failure::NotFound(format!("{} has no such attempt", self.name()))),
        }
    }

    fn live(&self, view: &ElementView) -> Result<Standing, Failure> {
        let (current, wanted) = (view.attempt, self.query.attempt);
        let attempt = wanted.unwrap_or(current);
        if attempt > current || wanted == Some(0) {
            return Err(Failure::NotFound(format!(
                "{} has had {current} attempts so far",
                self.name()
            )));
        }
        if attempt == 0 {
            return match view.state.is_final() {
                true => {
                    Err(Failure::NotFound(format!("{} ended without having started", self.name())))
                }
                false => Ok(Standing::NotYet),
            };
        }
        let active =
            matches!(view.state, JobState::Starting | JobState::Running | JobState::Stopping);
        let task = view.tasks.iter().find(|task| task.rank == self.rank());
        if attempt == current && task.is_none() && !view.tasks.is_empty() {
            return Err(self.no_rank(view.tasks.len()));
        }
        let over =
            attempt < current || !active || task.is_none_or(|task| task.stage == TaskStage::Ended);
        let id = AttemptId { element: self.element, attempt: Attempt(attempt) };
        Ok(Standing::At { id, over, last: wanted.is_some() || view.state.is_final() })
    }

    /// Without `follow`, an answer without a byte would leave open whether there is nothing or
    /// nothing yet.
    fn require_output(&self, standing: Standing) -> Result<(), Failure> {
        match standing {
            Standing::NotYet => Err(Failure::conflict(
                format!("{} has not started, so there is no output yet", self.name()),
                format!(
                    "follow it: muster logs -f {0}   ask why: muster explain {0}",
                    self.element.job
                ),
            )),
            Standing::At { id, over: true, .. }
                if !self.app.backend.log_path(id, self.rank()).exists() =>
            {
                Err(Failure::NotFound(format!(
                    "{} left no output, or it is no longer kept",
                    self.name()
                )))
            }
            Standing::At { .. } => Ok(()),
        }
    }

    fn no_rank(&self, tasks: usize) -> Failure {
        Failure::NotFound(format!("{} has ranks 0 to {}", self.name(), tasks.saturating_sub(1)))
    }

    fn name(&self) -> String {
        match self.query.index {
            Some(index) => format!("element {index} of job {}", self.element.job),
            None => format!("job {}", self.element.job),
        }
    }
}

fn broken(failure: Failure) -> io::Error {
    io::Error::other(format!("{failure:?}"))
}

//! Handler for anonymised snapshots: the state and past runs, for what-if questions. Every caller
//! may request one, since it does not contain what users run; original names, on request, are those
//! that lists show. It is written while it is sent, so that it needs one copy of the state, however
//! long the text is.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::rc::Rc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use muster_api::query::SnapshotQuery;
use muster_model::redact::role;
use muster_model::unit::{Span, Time};
use muster_model::view::{JobView, RoleView};
use muster_model::{CpuMilli, GpuMilli, JobId, PastRun, QueueName, Redaction, UserName};
use muster_runtime::JOURNAL_VERSION;
use muster_runtime::engine::{RedactingJobs, Snapshot};
use serde::{Serialize, Serializer};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use super::jobs::read;
use super::{ApiState, Params};
use crate::failure::ApiFailure;
use crate::store::HoldingPeriod;

/// Default period of past runs.
const DEFAULT_PAST: Span = Span::from_secs(30 * 86_400);

/// Bytes of the text that are sent together.
const CHUNK_BYTES: usize = 64 << 10;

/// Number of chunks that are buffered for a slow client.
const CHUNKS_AHEAD: usize = 4;

/// Longest time to send a snapshot. A copy of the state is held meanwhile, and the next client
/// waits.
const SEND_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) async fn snapshot(
    State(app): State<ApiState>,
    Params(query): Params<SnapshotQuery>,
) -> Result<Response, ApiFailure> {
    // 1. One at a time: each holds a copy of the state until it is sent.
    let turn = app.snapshots.clone().acquire_owned().await.map_err(|_| ApiFailure::stopping())?;
    let (taken, state) = app.handle.state().await?;
    let since = taken - query.past_secs.map_or(DEFAULT_PAST, Span::from_secs);

    // 2. Past runs, on a separate connection, since the reads are long. Live jobs before ended
    // ones: a job that ends in between is then in history too.
    let reader = app.reader.reopen().map_err(ApiFailure::Store)?;
    let stints = read(&reader, move |reader| reader.holding_periods(since)).await?;
    let ran: BTreeSet<JobId> = stints.iter().map(|stint| stint.element.job).collect();
    let live = app.handle.jobs(ran.into_iter().collect()).await?;
    let jobs = read(&reader, move |reader| {
        let mut jobs: BTreeMap<JobId, PastJob> = BTreeMap::new();
        let mut keep = |view: JobView| {
            jobs.insert(view.job, PastJob::of(view));
        };
        reader.each_ended_of(since, &mut keep)?;
        live.into_iter().filter(|view| view.submitted >= since).for_each(keep);
        Ok(jobs)
    })
    .await?;

    // 3. The text, as fast as the client reads it.
    let (chunks, stream) = mpsc::channel(CHUNKS_AHEAD);
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let until = Instant::now() + SEND_TIMEOUT;
        let mut out = BufWriter::with_capacity(CHUNK_BYTES, ChunkWriter { chunks, runtime, until });
        let state = state.redacting();
        let text = SnapshotText {
            version: JOURNAL_VERSION,
            taken,
            since,
            past: PastRuns::new(stints, &jobs, taken, state.names()),
            names: SnapshotNames { given: state.names(), are_wanted: query.names },
            state,
        };
        let written = serde_json::to_writer(&mut out, &text).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| out.flush()) {
            out.into_parts().0.break_off(error);
        }
    });
    let body = Body::from_stream(ReceiverStream::new(stream));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Body of a response, sent in chunks until a deadline.
struct ChunkWriter {
    chunks: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
    until: Instant,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let send = self.chunks.send(Ok(Bytes::copy_from_slice(bytes)));
        match self.runtime.block_on(async { tokio::time::timeout_at(self.until, send).await }) {
            Ok(Ok(())) => Ok(bytes.len()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ChunkWriter {
    /// Aborts the body with an error, after the chunks that were sent before: a text that merely
    /// ended would look complete.
    fn break_off(self, error: io::Error) {
        let Self { chunks, runtime, .. } = self;
        runtime.spawn(async move {
            let _gone = chunks.send(Err(error)).await;
        });
    }
}

/// `SiteSnapshot` that is made while it is written. The order of the fields matters: names are
/// complete at the end.
#[derive(Serialize)]
struct SnapshotText<'a> {
    version: u32,
    taken: Time,
    since: Time,
    state: Snapshot<RedactingJobs>,
    past: PastRuns<'a>,
    #[serde(skip_serializing_if = "SnapshotNames::are_unwanted")]
    names: SnapshotNames,
}

/// Original names behind the placeholders so far.
struct SnapshotNames {
    given: Rc<RefCell<Redaction>>,
    are_wanted: bool,
}

impl SnapshotNames {
    fn are_unwanted(&self) -> bool {
        !self.are_wanted
    }
}

impl Serialize for SnapshotNames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.given.borrow().names().serialize(serializer)
    }
}

/// Past runs in the order of their submission.
struct PastRuns<'a> {
    runs: Vec<(HoldingPeriod, &'a PastJob)>,
    taken: Time,
    names: Rc<RefCell<Redaction>>,
}

impl<'a> PastRuns<'a> {
    fn new(
        stints: Vec<HoldingPeriod>,
        jobs: &'a BTreeMap<JobId, PastJob>,
        taken: Time,
        names: Rc<RefCell<Redaction>>,
    ) -> Self {
        let runs =
            stints.into_iter().filter_map(|stint| Some((stint, jobs.get(&stint.element.job)?)));
        let mut runs: Vec<_> = runs.collect();
        runs.sort_by_key(|(stint, job)| (job.submitted, stint.element));
        Self { runs, taken, names }
    }
}

impl Serialize for PastRuns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let run = |(stint, job): &(HoldingPeriod, &PastJob)| {
            job.run(stint, self.taken, &mut self.names.borrow_mut())
        };
        serializer.collect_seq(self.runs.iter().map(run))
    }
}

/// Job that has run, with what a snapshot contains of it.
#[derive(Debug)]
struct PastJob {
    user: UserName,
    queue: QueueName,
    priority: i32,
    submitted: Time,
    limit: Option<Span>,
    is_open_ended: bool,
    roles: Vec<RoleView>,
}

impl PastJob {
    fn of(job: JobView) -> Self {
        let roles = roles(&job);
        Self {
            is_open_ended: job.service.is_some() || job.is_notebook || job.idle.is_some(),
            user: job.user,
            queue: job.queue,
            priority: job.priority,
            submitted: job.submitted,
            limit: job.time_limit,
            roles,
        }
    }

    fn run(&self, stint: &HoldingPeriod, taken: Time, names: &mut Redaction) -> PastRun {
        let until = stint.ended.unwrap_or(taken);
        // An ended run lasts at least one millisecond, even if it was shorter.
        let least = Span(u64::from(stint.is_over));
        PastRun {
            element: stint.element,
            user: names.user(&self.user),
            queue: self.queue.clone(),
            priority: self.priority,
            submitted: self.submitted,
            began: stint.began,
            ran: stint.running_from.map_or(Span(0), |from| until.since(from).max(least)),
            is_over: stint.is_over,
            limit: self.limit,
            is_open_ended: self.is_open_ended,
            tasks: stint.tasks,
            roles: self.roles.clone(),
        }
    }
}

/// Returns the resource request of each task group. For jobs that ended under a version that did
/// not store them, all tasks are assumed to be equal.
fn roles(job: &JobView) -> Vec<RoleView> {
    if job.roles.is_empty() {
        let gpus = GpuMilli(job.gpus.0.div_ceil(job.tasks.max(1)));
        return vec![RoleView {
            name: role(1),
            tasks: job.tasks,
            gpus,
            models: Vec::new(),
            cpus: CpuMilli(0),
            memory: muster_model::Bytes(0),
        }];
    }
    let numbered = job.roles.iter().zip(1..);
    let alias = |(known, nth): (&RoleView, u32)| {
        let RoleView { name: _, tasks, gpus, models, cpus, memory } = known.clone();
        RoleView { name: role(nth), tasks, gpus, models, cpus, memory }
    };
    numbered.map(alias).collect()
}

//! Projection of facts to rows of accounting and history, written in the transaction of their
//! batch, so that the projections never disagree with the journal. The engine never reads them
//! back.

use muster_model::view::JobView;
use muster_model::{AttemptId, JobId, Payload, TaskPlacement};
use muster_runtime::StoreError;
use muster_runtime::engine::AccountingFact;
use rusqlite::{OptionalExtension, Transaction, params};

use super::fault::{corrupt, store_error};
use super::read::StoredCommands;
use super::{element, encode, run, sql};

/// Writes the rows of one fact.
pub(super) fn fact(transaction: &Transaction<'_>, fact: &AccountingFact) -> Result<(), StoreError> {
    match fact {
        AccountingFact::Queued { job, user, queue, .. } => run(
            transaction,
            "INSERT INTO live (job, user, queue) VALUES (?1, ?2, ?3)",
            params![sql(job.0), user.as_str(), queue.as_str()],
        ),
        AccountingFact::Started { id, at, placement } => {
            started(transaction, *id, sql(at.0), placement)
        }
        AccountingFact::Running { id, at } => {
            let key = AttemptKey::of(*id);
            run(
                transaction,
                "UPDATE attempts SET running_from = ?4 WHERE job = ?1 AND element = ?2 AND attempt = ?3",
                params![key.job, key.element, key.attempt, sql(at.0)],
            )
        }
        // The journal has it; the attempt's row gets its end.
        AccountingFact::Evicted { .. } => Ok(()),
        AccountingFact::AttemptEnded { id, user, queue, at, gpu_millis, .. } => {
            let key = AttemptKey::of(*id);
            run(
                transaction,
                "UPDATE attempts SET user = ?4, queue = ?5, ended = ?6, gpu_milli_ms = ?7
                 WHERE job = ?1 AND element = ?2 AND attempt = ?3",
                params![
                    key.job,
                    key.element,
                    key.attempt,
                    user.as_str(),
                    queue.as_str(),
                    sql(at.0),
                    sql(*gpu_millis)
                ],
            )?;
            add_usage(transaction, (user.as_str(), queue.as_str()), 0, *gpu_millis)
        }
        AccountingFact::ElementEnded { element, outcome, at, attempts } => {
            element::ended(transaction, *element, *attempts, outcome, *at)?;
            match *attempts {
                0 => Ok(()),
                _ => count_element(transaction, element.job),
            }
        }
        // They never held resources, so accounting does not change.
        AccountingFact::RestEnded { job, first, last, step, outcome, at, .. } => run(
            transaction,
            "INSERT OR REPLACE INTO unstarted (job, first, last, step, ended, outcome)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![sql(job.0), first, last, step, sql(at.0), encode(outcome)?],
        ),
        AccountingFact::JobEnded { job, at, view, .. } => {
            job_ended(transaction, *job, sql(at.0), view)
        }
    }
}

/// Moves a job to history and deletes its environment.
fn job_ended(
    transaction: &Transaction<'_>,
    job: JobId,
    at: i64,
    view: &JobView,
) -> Result<(), StoreError> {
    let what = take_payload(transaction, job)?;
    run(
        transaction,
        "INSERT OR REPLACE INTO history (job, name, user, queue, state, submitted, ended, view, what)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            sql(job.0),
            view.name,
            view.user.as_str(),
            view.queue.as_str(),
            view.state.word(),
            sql(view.submitted.0),
            at,
            encode(view)?,
            what
        ],
    )?;
    if view.array.is_none() {
        element::forget(transaction, job)?;
    }
    run(transaction, "DELETE FROM live WHERE job = ?1", [sql(job.0)])
}

struct AttemptKey {
    job: i64,
    element: u32,
    attempt: u32,
}

impl AttemptKey {
    fn of(id: AttemptId) -> Self {
        Self { job: sql(id.element.job.0), element: id.element.index, attempt: id.attempt.0 }
    }
}

fn started(
    transaction: &Transaction<'_>,
    id: AttemptId,
    at: i64,
    placement: &[TaskPlacement],
) -> Result<(), StoreError> {
    let key = AttemptKey::of(id);
    let milli: u64 =
        placement.iter().map(|task| u64::from(task.devices.len()) * u64::from(task.share.0)).sum();
    run(
        transaction,
        "INSERT INTO attempts (job, element, attempt, user, queue, held_from, gpu_milli, placement)
         SELECT ?1, ?2, ?3, user, queue, ?4, ?5, ?6 FROM live WHERE job = ?1",
        params![key.job, key.element, key.attempt, at, sql(milli), encode(&placement)?],
    )
}

fn count_element(transaction: &Transaction<'_>, job: JobId) -> Result<(), StoreError> {
    let owner: Option<(String, String)> = transaction
        .prepare_cached("SELECT user, queue FROM live WHERE job = ?1")
        .and_then(|mut query| {
            query.query_row([sql(job.0)], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .map_err(store_error)?;
    match owner {
        Some((user, queue)) => add_usage(transaction, (&user, &queue), 1, 0),
        None => Ok(()),
    }
}

fn add_usage(
    transaction: &Transaction<'_>,
    (user, queue): (&str, &str),
    elements: u32,
    gpu_milli_ms: u64,
) -> Result<(), StoreError> {
    run(
        transaction,
        "INSERT INTO usage (user, queue, elements, gpu_milli_ms) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (user, queue) DO UPDATE SET elements = elements + ?3, gpu_milli_ms = gpu_milli_ms + ?4",
        params![user, queue, elements, sql(gpu_milli_ms)],
    )
}

/// Deletes a job's payload; returns what may be stored of it: everything but the environment.
fn take_payload(transaction: &Transaction<'_>, job: JobId) -> Result<Option<String>, StoreError> {
    let body: Option<String> = transaction
        .prepare_cached("DELETE FROM payloads WHERE id = ?1 RETURNING body")
        .and_then(|mut query| query.query_row([sql(job.0)], |row| row.get(0)).optional())
        .map_err(store_error)?;
    let Some(body) = body else { return Ok(None) };
    let payload: Payload =
        serde_json::from_str(&body).map_err(|error| corrupt("a payload", &error))?;
    encode(&StoredCommands::from(payload)).map(Some)
}

//! Retention of ended jobs, and their deletion in small steps.

use muster_model::JobId;
use muster_model::unit::{Span, Time};
use muster_runtime::StoreError;
use rusqlite::{Connection, params};

use super::fault::store_error;
use super::{element, metrics, notices, sql, unsigned};

/// Most jobs that one call deletes, which bounds the time that it blocks the daemon.
const JOBS_PER_CALL: u32 = 50;

/// Most accounting rows that one call deletes, for the same reason.
const ROWS_PER_CALL: u32 = 5000;

/// Retention times and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Retention time of ended jobs and their logs.
    pub history: Span,
    /// Highest number of ended jobs, regardless of their age.
    pub history_jobs: u64,
    /// Retention time of accounting by attempt; sums per user and queue are kept forever.
    pub accounting: Span,
    /// Retention time of idempotency keys: a retry that comes later is a new submission.
    pub keys: Span,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            history: Span::from_secs(30 * 86_400),
            history_jobs: 100_000,
            accounting: Span::from_secs(400 * 86_400),
            keys: Span::from_secs(2 * 86_400),
        }
    }
}

/// Returns a bounded number of ended jobs beyond their retention time, oldest first.
pub(super) fn expired(
    connection: &Connection,
    now: Time,
    retention: &Retention,
) -> Result<Vec<JobId>, StoreError> {
    let mut query = connection
        .prepare_cached(
            "SELECT job FROM history
             WHERE ended < ?1 OR job <= (SELECT job FROM history ORDER BY job DESC LIMIT 1 OFFSET ?2)
             ORDER BY job LIMIT ?3",
        )
        .map_err(store_error)?;
    let cutoff = sql((now - retention.history).0);
    let rows = query
        .query_map(params![cutoff, sql(retention.history_jobs), JOBS_PER_CALL], |row| row.get(0))
        .map_err(store_error)?;
    rows.map(|row| row.map(|job| JobId(unsigned(job))).map_err(store_error)).collect()
}

/// Deletes these jobs, and keys and accounting beyond their retention time.
pub(super) fn prune(
    connection: &mut Connection,
    now: Time,
    retention: &Retention,
    jobs: &[JobId],
) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(store_error)?;
    for job in jobs {
        transaction
            .execute("DELETE FROM history WHERE job = ?1", [sql(job.0)])
            .map_err(store_error)?;
        element::forget(&transaction, *job)?;
        metrics::forget(&transaction, *job)?;
        notices::forget(&transaction, *job)?;
    }
    transaction
        .execute("DELETE FROM keys WHERE at < ?1", [sql((now - retention.keys).0)])
        .map_err(store_error)?;
    // The table has no row id for a limit, so its key is used.
    transaction
        .execute(
            "DELETE FROM attempts WHERE (job, element, attempt) IN
                 (SELECT job, element, attempt FROM attempts WHERE ended < ?1 LIMIT ?2)",
            params![sql((now - retention.accounting).0), ROWS_PER_CALL],
        )
        .map_err(store_error)?;
    transaction.commit().map_err(store_error)
}

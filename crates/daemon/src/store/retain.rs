//! How long what has ended is kept, and letting go of it in small steps.

use muster_model::JobId;
use muster_model::unit::{Span, Time};
use muster_runtime::StoreError;
use rusqlite::{Connection, params};

use super::fault::refused;
use super::{element, sql, unsigned};

/// Jobs let go of per call: a bound on how long one call holds up the daemon.
const JOBS_PER_CALL: u32 = 50;

/// Accounting rows let go of per call, for the same reason.
const ROWS_PER_CALL: u32 = 5000;

/// How long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Ended jobs and their logs.
    pub history: Span,
    /// At most this many ended jobs, whatever their age.
    pub history_jobs: u64,
    /// Accounting by attempt; sums per user and queue are kept for ever.
    pub accounting: Span,
    /// Idempotency keys: a retry that comes later than this is a new submission.
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

/// Ended jobs that retention no longer asks for, oldest first, a bounded number of them.
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
        .map_err(refused)?;
    let cutoff = sql((now - retention.history).0);
    let rows = query
        .query_map(params![cutoff, sql(retention.history_jobs), JOBS_PER_CALL], |row| row.get(0))
        .map_err(refused)?;
    rows.map(|row| row.map(|job| JobId(unsigned(job))).map_err(refused)).collect()
}

/// Lets go of these jobs, and of keys and accounting that are old enough.
pub(super) fn prune(
    connection: &mut Connection,
    now: Time,
    retention: &Retention,
    jobs: &[JobId],
) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(refused)?;
    for job in jobs {
        transaction.execute("DELETE FROM history WHERE job = ?1", [sql(job.0)]).map_err(refused)?;
        element::forget(&transaction, *job)?;
    }
    transaction
        .execute("DELETE FROM keys WHERE at < ?1", [sql((now - retention.keys).0)])
        .map_err(refused)?;
    // The table has no row id to limit by; its key does as well.
    transaction
        .execute(
            "DELETE FROM attempts WHERE (job, element, attempt) IN
                 (SELECT job, element, attempt FROM attempts WHERE ended < ?1 LIMIT ?2)",
            params![sql((now - retention.accounting).0), ROWS_PER_CALL],
        )
        .map_err(refused)?;
    transaction.commit().map_err(refused)
}

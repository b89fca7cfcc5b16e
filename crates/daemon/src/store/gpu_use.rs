//! Use of GPUs in the accounting of attempts: how much of the held GPU time was measured, and in how much of that the
//! GPUs computed. `NULL` is never measured.

use muster_model::unit::Time;
use muster_model::view::{GpuUseView, MeasuredUse};
use muster_model::{AttemptId, JobId};
use muster_runtime::StoreError;
use rusqlite::{Connection, params};

use super::fault::store_error;
use super::read::HistoryReader;
use super::{run, sql, unsigned};

/// Thousandths of GPUs × milliseconds per GPU-second.
const MILLI_MS_PER_GPU_SEC: u64 = 1_000_000;

/// Adds to the use of attempts, which may have ended, in one transaction.
pub(super) fn write(
    connection: &mut Connection,
    sums: &[(AttemptId, MeasuredUse)],
) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(store_error)?;
    for (id, sum) in sums {
        run(
            &transaction,
            "UPDATE attempts SET measured_milli_ms = coalesce(measured_milli_ms, 0) + ?4,
                 busy_milli_ms = coalesce(busy_milli_ms, 0) + ?5
             WHERE job = ?1 AND element = ?2 AND attempt = ?3",
            params![
                sql(id.element.job.0),
                id.element.index,
                id.attempt.0,
                sql(sum.measured),
                sql(sum.busy)
            ],
        )?;
    }
    transaction.commit().map_err(store_error)
}

impl HistoryReader {
    /// Returns the use of the GPUs that a job has held until now; `None` if it was never measured.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn gpu_use(&self, job: JobId, now: Time) -> Result<Option<GpuUseView>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached(
                "SELECT sum(coalesce(gpu_milli_ms, gpu_milli * max(0, ?2 - held_from))),
                     sum(measured_milli_ms), sum(busy_milli_ms)
                 FROM attempts WHERE job = ?1",
            )
            .map_err(store_error)?;
        let sums = query.query_row(params![sql(job.0), sql(now.0)], |row| {
            let column = |index| row.get::<_, Option<i64>>(index);
            Ok((column(0)?, column(1)?, column(2)?))
        });
        let (held, measured, busy) = sums.map_err(store_error)?;
        let gpu_secs = |sum: Option<i64>| sum.map_or(0, unsigned) / MILLI_MS_PER_GPU_SEC;
        Ok(measured.map(|_| GpuUseView {
            held_gpu_secs: gpu_secs(held),
            measured_gpu_secs: gpu_secs(measured),
            used_gpu_secs: gpu_secs(busy),
        }))
    }
}

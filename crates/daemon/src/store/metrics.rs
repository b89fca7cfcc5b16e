//! Metrics of sweeps: the newest report of each element, and the values that early stops compared. Kept as long as
//! the elements.

use muster_model::sweep::MetricReport;
use muster_model::{ElementId, JobId};
use muster_runtime::StoreError;
use muster_sweep::Progress;
use rusqlite::{Connection, Transaction, params};

use super::fault::store_error;
use super::read::HistoryReader;
use super::{run, sql};

/// Report of an element, and the comparison that it led to.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredReport {
    /// Job and index to which it belongs.
    pub element: ElementId,
    /// Newest report of the element.
    pub report: MetricReport,
    /// Reports of the element so far; `None` for a sweep without early stops.
    pub progress: Option<Progress>,
    /// Mark (step) at which it was compared, and the value that counts there; `None` when it was not.
    pub compared: Option<(u64, f64)>,
}

/// Value of an element at a mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredMark {
    /// Index of the element.
    pub index: u32,
    /// Step of the comparison.
    pub mark: u64,
    /// Value that was compared.
    pub value: f64,
}

/// Writes what elements reported, in one transaction.
pub(super) fn write(
    connection: &mut Connection,
    reports: &[StoredReport],
) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(store_error)?;
    for StoredReport { element, report, progress, compared } in reports {
        let job = sql(element.job.0);
        let index = element.index;
        run(
            &transaction,
            "INSERT OR REPLACE INTO reports (job, element, step, value, reports, sum, best, mark)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                job,
                index,
                sql(report.step),
                report.value,
                progress.map(|progress| sql(progress.reports)),
                progress.map(|progress| progress.sum),
                progress.map(|progress| progress.best),
                progress.map(|progress| sql(progress.mark)),
            ],
        )?;
        if let Some((mark, value)) = compared {
            run(
                &transaction,
                "INSERT OR REPLACE INTO marks (job, element, mark, value) VALUES (?1, ?2, ?3, ?4)",
                params![job, index, sql(*mark), value],
            )?;
        }
    }
    transaction.commit().map_err(store_error)
}

/// Deletes a job's metrics.
pub(super) fn forget(transaction: &Transaction<'_>, job: JobId) -> Result<(), StoreError> {
    run(transaction, "DELETE FROM reports WHERE job = ?1", [sql(job.0)])?;
    run(transaction, "DELETE FROM marks WHERE job = ?1", [sql(job.0)])
}

impl HistoryReader {
    /// Returns the newest report of each element of a job.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn reports(&self, job: JobId) -> Result<Vec<(u32, MetricReport)>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached("SELECT element, step, value FROM reports WHERE job = ?1")
            .map_err(store_error)?;
        let rows = query.query_map([sql(job.0)], |row| {
            let step = row.get::<_, i64>(1)?.unsigned_abs();
            Ok((row.get(0)?, MetricReport { step, value: row.get(2)? }))
        });
        rows.and_then(Iterator::collect).map_err(store_error)
    }

    /// Returns the progress of the elements of a sweep with early stops.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn progress(&self, job: JobId) -> Result<Vec<(u32, Progress)>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached(
                "SELECT element, step, value, reports, sum, best, mark FROM reports
                 WHERE job = ?1 AND reports IS NOT NULL",
            )
            .map_err(store_error)?;
        let rows = query.query_map([sql(job.0)], |row| {
            let number =
                |column| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.unsigned_abs());
            let progress = Progress {
                last: MetricReport { step: number(1)?, value: row.get(2)? },
                reports: number(3)?,
                sum: row.get(4)?,
                best: row.get(5)?,
                mark: number(6)?,
            };
            Ok((row.get(0)?, progress))
        });
        rows.and_then(Iterator::collect).map_err(store_error)
    }

    /// Returns the values that were compared, of all elements of a job.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn marks(&self, job: JobId) -> Result<Vec<StoredMark>, StoreError> {
        let connection = self.lock();
        let mut query = connection
            .prepare_cached("SELECT element, mark, value FROM marks WHERE job = ?1")
            .map_err(store_error)?;
        let rows = query.query_map([sql(job.0)], |row| {
            let mark = row.get::<_, i64>(1)?.unsigned_abs();
            Ok(StoredMark { index: row.get(0)?, mark, value: row.get(2)? })
        });
        rows.and_then(Iterator::collect).map_err(store_error)
    }
}

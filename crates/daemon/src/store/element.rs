//! Outcomes of single elements of arrays. A job's last view only counts them, and users request
//! single ones by index.

use std::collections::BTreeMap;

use muster_model::unit::Time;
use muster_model::view::{ElementView, JobState};
use muster_model::{ElementId, IndexRange, JobId, Outcome};
use muster_runtime::StoreError;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::fault::store_error;
use super::read::{HistoryReader, column};
use super::{encode, instant, run, sql};

/// Writes the outcome of one element.
pub(super) fn ended(
    transaction: &Transaction<'_>,
    element: ElementId,
    attempts: u32,
    outcome: &Outcome,
    at: Time,
) -> Result<(), StoreError> {
    let job = sql(element.job.0);
    let outcome = encode(outcome)?;
    run(
        transaction,
        "UPDATE attempts SET outcome = ?4 WHERE job = ?1 AND element = ?2 AND attempt = ?3",
        params![job, element.index, attempts, outcome],
    )?;
    // Replaces the outcome from before a requeue.
    run(
        transaction,
        "INSERT OR REPLACE INTO elements (job, element, attempt, ended, outcome) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![job, element.index, attempts, sql(at.0), outcome],
    )
}

/// Deletes a job's elements.
pub(super) fn forget(transaction: &Transaction<'_>, job: JobId) -> Result<(), StoreError> {
    run(transaction, "DELETE FROM elements WHERE job = ?1", [sql(job.0)])?;
    run(transaction, "DELETE FROM unstarted WHERE job = ?1", [sql(job.0)])
}

impl HistoryReader {
    /// Returns an element of an array that has ended, without its tasks; `None` when the array has
    /// no such element or it was deleted.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn ended_element(&self, element: ElementId) -> Result<Option<ElementView>, StoreError> {
        let connection = self.lock();
        let mut by_itself = connection
            .prepare_cached(
                "SELECT elements.attempt, running_from, elements.ended, elements.outcome
                 FROM elements LEFT JOIN attempts USING (job, element, attempt)
                 WHERE job = ?1 AND element = ?2",
            )
            .map_err(store_error)?;
        let mut with_the_rest = connection
            .prepare_cached(
                "SELECT 0, NULL, ended, outcome FROM unstarted
                 WHERE job = ?1 AND ?2 BETWEEN first AND last AND (?2 - first) % step = 0",
            )
            .map_err(store_error)?;
        let key = params![sql(element.job.0), element.index];
        let read = |row: &Row<'_>| view(element, row);
        match by_itself.query_row(key, read).optional().map_err(store_error)? {
            Some(view) => Ok(Some(view)),
            None => with_the_rest.query_row(key, read).optional().map_err(store_error),
        }
    }

    /// Returns the elements of an array that have ended, by index and without their tasks; those that
    /// ended together before their start, too.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn ended_elements(&self, job: JobId) -> Result<Vec<ElementView>, StoreError> {
        let connection = self.lock();
        let mut by_themselves = connection
            .prepare_cached(
                "SELECT elements.attempt, running_from, elements.ended, elements.outcome, element
                 FROM elements LEFT JOIN attempts USING (job, element, attempt)
                 WHERE job = ?1",
            )
            .map_err(store_error)?;
        let mut together = connection
            .prepare_cached(
                "SELECT 0, NULL, ended, outcome, first, last, step FROM unstarted WHERE job = ?1",
            )
            .map_err(store_error)?;
        let element = |index| ElementId { job, index };
        let rows = by_themselves
            .query_map([sql(job.0)], |row| view(element(row.get(4)?), row))
            .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
            .map_err(store_error)?;
        let mut found: BTreeMap<u32, ElementView> =
            rows.into_iter().map(|view| (view.element.index, view)).collect();
        let ranges = together
            .query_map([sql(job.0)], |row| {
                let range = IndexRange { first: row.get(4)?, last: row.get(5)?, step: row.get(6)? };
                Ok((range, view(element(range.first), row)?))
            })
            .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
            .map_err(store_error)?;
        for (range, view) in ranges {
            for index in range.indices() {
                let of_range = || ElementView { element: element(index), ..view.clone() };
                found.entry(index).or_insert_with(of_range);
            }
        }
        Ok(found.into_values().collect())
    }
}

fn view(element: ElementId, row: &Row<'_>) -> rusqlite::Result<ElementView> {
    let outcome: Outcome = column(3, &row.get::<_, String>(3)?)?;
    Ok(ElementView {
        element,
        state: match &outcome {
            outcome if outcome.is_success() => JobState::Done,
            Outcome::Cancelled { .. } | Outcome::IdleGpus { .. } => JobState::Cancelled,
            _ => JobState::Failed,
        },
        attempt: row.get(0)?,
        backfilled: false,
        started: row.get::<_, Option<i64>>(1)?.map(instant),
        ends_by: None,
        expected_end: None,
        ended: Some(instant(row.get(2)?)),
        outcome: Some(outcome),
        last_end: None,
        checkpoint: None,
        checkpoint_asked: None,
        restarts_with_tasks: None,
        tasks: Vec::new(),
    })
}

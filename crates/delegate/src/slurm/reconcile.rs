//! What was handed on against what Slurm knows. A controller that dies can lose a job that it acknowledged; then the accounting is
//! asked, and the mark that the script makes when it starts. Only what nobody knows and never started is handed on again; what
//! has started and is known to nobody is unknown.

use muster_backends::slurm::job::NativeJob;
use muster_model::{Span, Time};

use super::record::Record;
use super::{Result, Slurm};

/// What was never answered is given so long to arrive: longer than a submission waits for its answer.
const ARRIVAL: Span = Span::from_secs(300);
/// A job is handed on again so often at most.
const MOST_TIMES: usize = 3;
/// The accounting knows a job by number, name and instant where it keeps no comments; its clock may be another.
const SAME_INSTANT: Span = Span::from_secs(60);

impl Slurm {
    /// Compares open jobs, as they were before the queue was read, with its rows; true when something was handed on again, so
    /// that the queue has changed.
    pub(super) async fn reconcile(&self, open: &[Record], rows: &[NativeJob]) -> Result<bool> {
        let records = self.records().await?;
        // 1. What the controller knows.
        let mut missing = Vec::new();
        for record in open {
            let own = rows.iter().filter(|row| row.muster_id() == Some(record.id.as_str()));
            let own: Vec<&NativeJob> = own.collect();
            let is_over = |row: &&NativeJob| row.state.state(false).is_final();
            match (own.first(), own.iter().all(is_over)) {
                (None, _) => missing.push(record),
                (Some(_), true) => records.close(&record.id),
                (Some(row), false) if record.number != Some(row.job()) => {
                    self.note(&record.id, row.job()).await?;
                }
                (Some(_), false) => {}
            }
        }
        if missing.is_empty() {
            return Ok(false);
        }
        // 2. What the accounting knows of the rest. Without accounting nobody can say that a job has not ended.
        let numbers: Vec<u64> = missing.iter().filter_map(|record| record.number).collect();
        let history = match numbers.is_empty() {
            true => Vec::new(),
            false => match self.accounted(&numbers).await {
                Some(history) => history,
                None => return Ok(false),
            },
        };
        // 3. What nobody knows and never started.
        let (now, mut has_changed) = (self.now(), false);
        for record in missing {
            match history.iter().find(|row| is_of(row, record)) {
                Some(row) if row.state.state(false).is_final() => records.close(&record.id),
                Some(_) => {}
                None if records.has_started(&record.id) || !is_due(record, now) => {}
                None => {
                    // Who was refused now is told as unknown, and stays so.
                    if let Ok(number) = self.sbatch(&record.id).await {
                        self.note(&record.id, number).await?;
                        has_changed = true;
                    }
                }
            }
        }
        Ok(has_changed)
    }
}

/// A row of the accounting is of this very job, and not of another with its number.
fn is_of(row: &NativeJob, record: &Record) -> bool {
    match row.muster_id() {
        Some(id) => id == record.id,
        None => {
            let submitted = row.submitted.unwrap_or_default();
            let apart = submitted.since(record.submitted).max(record.submitted.since(submitted));
            Some(row.job()) == record.number && row.name == record.name && apart <= SAME_INSTANT
        }
    }
}

/// It had its time to arrive, was not lost too often, and means the same again.
fn is_due(record: &Record, now: Time) -> bool {
    let has_arrived = record.number.is_some() || now.since(record.submitted) > ARRIVAL;
    has_arrived && record.is_plain && record.before.len() < MOST_TIMES
}

//! Resolves job numbers and ids. Slurm can lose a job and give its number to another one, but
//! Muster's id in the job's comment is unique. A name is resolved to the id; a number that may mean
//! either of two jobs is refused.

use muster_model::JobId;
use muster_slurm::job::NativeJob;

use super::queue::JobSelection;
use super::reconcile::JobOutcome;
use super::record::SubmissionRecord;
use super::{RequestError, Result, SlurmScheduler, reconcile};

/// Job that the caller named.
#[derive(Clone, Debug)]
pub(super) struct ResolvedJob {
    /// Number that the caller asked for.
    pub(super) asked: JobId,
    /// Number that the job has now.
    pub(super) present: u64,
    /// Muster's record of the job, if Muster submitted it.
    pub(super) record: Option<SubmissionRecord>,
    /// Set when it was named by Muster's id, which is unambiguous.
    is_by_id: bool,
    /// Another job that was acknowledged under this number before and has not ended as far as
    /// known.
    earlier: Option<SubmissionRecord>,
}

impl SlurmScheduler {
    /// Binds a number to the job with this id, for this caller.
    pub(super) fn bind_number(&self, job: JobId, id: &str) {
        self.named_by_id
            .lock()
            .expect("no thread panics while holding this lock")
            .insert(job.0, id.to_owned());
    }

    /// Resolves a number to a job by Muster's records.
    pub(super) async fn resolve(&self, asked: JobId) -> Result<ResolvedJob> {
        let records = self.records().await?;
        let id = self
            .named_by_id
            .lock()
            .expect("no thread panics while holding this lock")
            .get(&asked.0)
            .cloned();
        if let Some(record) = id.as_deref().and_then(|id| records.get(id)) {
            let present = record.number.unwrap_or(asked.0);
            return Ok(ResolvedJob {
                asked,
                present,
                record: Some(record),
                is_by_id: true,
                earlier: None,
            });
        }
        let mut holders = records.holders(asked.0).into_iter();
        let record = holders.next();
        let earlier = holders.filter(|earlier| records.is_open(earlier)).collect();
        let earlier = self.first_not_ended(earlier).await?;
        let present = record.as_ref().and_then(|record| record.number).unwrap_or(asked.0);
        Ok(ResolvedJob { asked, present, record, is_by_id: false, earlier })
    }

    /// Returns the first of these jobs that has not ended by the accounting either, and closes the
    /// records of those that have.
    async fn first_not_ended(
        &self,
        open: Vec<SubmissionRecord>,
    ) -> Result<Option<SubmissionRecord>> {
        if open.is_empty() {
            return Ok(None);
        }
        let records = self.records().await?;
        for (record, outcome) in self.outcomes(open, &[]).await? {
            if outcome != JobOutcome::Ended {
                return Ok(Some(record));
            }
            records.close(&record.id);
        }
        Ok(None)
    }

    /// Keeps those of the controller's rows that belong to the resolved job; none where Slurm has
    /// lost it. For callers that only read, the number of an ended job means the job that has the
    /// number now.
    ///
    /// # Errors
    /// When the number alone may mean another job, too.
    pub(super) async fn retain_own_rows(
        &self,
        resolved: &ResolvedJob,
        rows: &mut Vec<NativeJob>,
        acts: bool,
    ) -> Result<()> {
        let Some(record) = &resolved.record else { return Ok(()) };
        if let Some(earlier) = &resolved.earlier {
            return Err(ambiguous_number(resolved, earlier, &format!("`{}`", record.name)));
        }
        let other = rows.iter().find(|row| row.muster_id() != Some(record.id.as_str()));
        let Some(other) = other else { return Ok(()) };
        if !resolved.is_by_id {
            if !acts && !self.records().await?.is_open(record) {
                return Ok(());
            }
            return Err(ambiguous_number(
                resolved,
                record,
                &format!("`{}` of {}", other.name, other.user),
            ));
        }
        rows.retain(|row| row.muster_id() == Some(record.id.as_str()));
        Ok(())
    }

    /// Returns the rows of the accounting that belong to the resolved job.
    pub(super) async fn own_history(
        &self,
        resolved: &ResolvedJob,
        mut rows: Vec<NativeJob>,
    ) -> Result<Vec<NativeJob>> {
        let Some(record) = &resolved.record else { return Ok(rows) };
        if resolved.is_by_id || self.records().await?.is_open(record) {
            rows.retain(|row| {
                reconcile::is_of(row, record) && !reconcile::is_lost_in_restart(row, record)
            });
        }
        // An accounting that keeps no comments identifies the job by number, name and submit time.
        for row in
            rows.iter_mut().filter(|row| row.muster_id().is_none() && reconcile::is_of(row, record))
        {
            row.comment = format!("muster:{}", record.id);
        }
        Ok(rows)
    }

    /// Refuses an action that would hit another job than the one that was named; returns the
    /// controller's rows of the job.
    pub(super) async fn present_rows(&self, resolved: &ResolvedJob) -> Result<Vec<NativeJob>> {
        let mut rows = self.queue(JobSelection::Jobs(&[resolved.present])).await?;
        self.retain_own_rows(resolved, &mut rows, true).await?;
        Ok(rows)
    }

    /// Returns the record of a job: by its number, else by the id in the job's comment.
    pub(super) async fn record_of(
        &self,
        resolved: &ResolvedJob,
        rows: &[NativeJob],
    ) -> Result<Option<SubmissionRecord>> {
        let id = rows.iter().find_map(NativeJob::muster_id);
        match (&resolved.record, id) {
            (Some(record), Some(id)) if record.id != id => Ok(self.records().await?.get(id)),
            (Some(record), _) => {
                // A row without the id belongs to a job that Muster did not submit, unless the
                // accounting keeps no comments.
                let is_other = rows.iter().any(|row| !reconcile::is_of(row, record));
                Ok((!is_other).then(|| record.clone()))
            }
            (None, Some(id)) => Ok(self.records().await?.get(id)),
            (None, None) => Ok(None),
        }
    }
}

fn ambiguous_number(resolved: &ResolvedJob, lost: &SubmissionRecord, other: &str) -> RequestError {
    let asked = resolved.asked;
    let SubmissionRecord { name, id, .. } = lost;
    RequestError::refused(format!(
        "job number {asked} is ambiguous: Slurm lost `{name}`, which Muster submitted, and gave its number to {other}"
    ))
    .hint(format!("use muster:{id} for `{name}`, as in `muster show muster:{id}`; `scontrol show job {asked}` shows the other"))
}

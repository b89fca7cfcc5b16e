//! Reconciliation of submissions with Slurm's state. A controller that crashes can lose a job that
//! it acknowledged; the accounting and the marks that the script leaves at its start and end then
//! tell whether the job ran. Reading changes nothing. Only a job that was acknowledged, never
//! started and is in no part of Slurm is resubmitted, and only for a client that waits for it or on
//! `requeue`.

use std::time::Duration;

use muster_model::view::JobState;
use muster_model::{Span, Time};
use muster_slurm::job::NativeJob;

use super::queue::{AccountingReply, JobSelection};
use super::record::SubmissionRecord;
use super::{RequestError, Result, SlurmScheduler};
use crate::route::now;

/// Time for an unanswered submission to arrive: longer than a submission waits for its answer.
const ARRIVAL_TIMEOUT: Span = Span::from_secs(300);
/// Maximum number of times that a waiting client resubmits a job.
const MAX_RESUBMISSIONS: usize = 3;
/// Tolerance for the submit time, by which an accounting without comments identifies a job; its
/// clock may differ.
const SUBMIT_TIME_TOLERANCE: Span = Span::from_secs(60);
/// Interval at which records of ended jobs are closed.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(3600);

/// State of an acknowledged job that the controller does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobOutcome {
    /// Ended, by its own mark or by the accounting.
    Ended,
    /// Lost by Slurm before it started.
    Lost,
    /// Started; no part of Slurm has its end.
    Started,
    /// Started by the accounting, which has no end of it.
    Accounted,
    /// Unknown: there is no accounting, or it does not answer.
    Unknown,
}

impl SlurmScheduler {
    /// Returns the states of these jobs, whose records were read before the queue. Jobs in the rows
    /// and jobs that were never acknowledged are left out.
    pub(super) async fn outcomes(
        &self,
        open: Vec<SubmissionRecord>,
        rows: &[NativeJob],
    ) -> Result<Vec<(SubmissionRecord, JobOutcome)>> {
        let records = self.records().await?;
        let is_known = |record: &SubmissionRecord| {
            rows.iter().any(|row| row.muster_id() == Some(record.id.as_str()))
        };
        let missing =
            open.into_iter().filter(|record| record.number.is_some() && !is_known(record));
        let (ended, missing): (Vec<SubmissionRecord>, Vec<SubmissionRecord>) =
            missing.partition(|record| records.has_recorded_ends(record));
        let mut fates: Vec<(SubmissionRecord, JobOutcome)> =
            ended.into_iter().map(|record| (record, JobOutcome::Ended)).collect();
        if missing.is_empty() {
            return Ok(fates);
        }
        let numbers: Vec<u64> = missing.iter().filter_map(|record| record.number).collect();
        let history = match self.accounted(&numbers).await {
            AccountingReply::Rows(history) => Some(history),
            AccountingReply::Absent | AccountingReply::Silent(_) => None,
        };
        let fate = |record: &SubmissionRecord| match &history {
            None => JobOutcome::Unknown,
            Some(history) => {
                match history
                    .iter()
                    .find(|row| is_of(row, record) && !is_lost_in_restart(row, record))
                {
                    Some(row) if row.state.state(false).is_final() => JobOutcome::Ended,
                    Some(row) if row.start.is_some() => JobOutcome::Accounted,
                    _ if records.has_started(&record.id) => JobOutcome::Started,
                    // Also a job that is pending in the accounting: it learns only later that the
                    // controller has forgotten the job.
                    _ => JobOutcome::Lost,
                }
            }
        };
        fates.extend(
            missing
                .into_iter()
                .map(|record| (fate(&record), record))
                .map(|(fate, record)| (record, fate)),
        );
        Ok(fates)
    }

    /// Closes the records of ended jobs and resubmits jobs that Slurm lost before they started, for
    /// a client that waits for them. Returns whether the queue has changed.
    pub(super) async fn reconcile(
        &self,
        open: Vec<SubmissionRecord>,
        rows: &[NativeJob],
    ) -> Result<bool> {
        let records = self.records().await?;
        self.record_numbers(&open, rows).await?;
        let mut has_changed = false;
        for (record, fate) in self.outcomes(open, rows).await? {
            match fate {
                JobOutcome::Ended => records.close(&record.id),
                JobOutcome::Lost if record.is_plain && record.before.len() < MAX_RESUBMISSIONS => {
                    match self.resubmit(&record).await {
                        Ok(_) => has_changed = true,
                        // It is reported as lost, and stays lost.
                        Err(refusal) => (self.settings.warn)(&format!(
                            "Slurm lost `{}`, and resubmitting it failed: {refusal}",
                            record.name
                        )),
                    }
                }
                JobOutcome::Lost
                | JobOutcome::Started
                | JobOutcome::Accounted
                | JobOutcome::Unknown => {}
            }
        }
        Ok(has_changed)
    }

    /// Resubmits a job that Slurm lost.
    async fn resubmit(&self, record: &SubmissionRecord) -> Result<u64> {
        let number = self.sbatch(&record.id).await?;
        self.note(&record.id, number).await?;
        let before = record.number.map_or_else(String::new, |number| format!("job {number} "));
        (self.settings.warn)(&format!(
            "Slurm lost {before}({}) before it started; resubmitted as job {number}",
            record.name
        ));
        Ok(number)
    }

    /// Resubmits a lost job at its user's request.
    pub(super) async fn resubmit_on_request(&self, record: &SubmissionRecord) -> Result<u64> {
        let fates = self.outcomes(vec![record.clone()], &[]).await?;
        let name = &record.name;
        match fates.first().map(|(_, fate)| *fate) {
            Some(JobOutcome::Lost) if !record.is_plain => Err(RequestError::refused(format!(
                "Slurm lost `{name}`, which has a dependency or a begin time: its script cannot be resubmitted unchanged"
            ))
            .hint("submit the job anew")),
            Some(JobOutcome::Lost | JobOutcome::Unknown) if !self.records().await?.has_started(&record.id) => {
                self.resubmit(record).await
            }
            Some(JobOutcome::Ended) => Err(RequestError::refused(format!("`{name}` has ended, and Slurm has forgotten it"))
                .hint("submit it anew")),
            None => Err(RequestError::refused(format!("`{name}` was never acknowledged")).hint("submit it anew")),
            Some(_) => Err(RequestError::refused(format!(
                "`{name}` has started, and Slurm has no end of it: it may still be running"
            ))
            .hint("`muster logs` shows its output; submit it anew if it is not running")),
        }
    }

    /// Records job numbers that Slurm gave and no client received, and closes the records of ended
    /// jobs, for jobs in the rows.
    async fn record_numbers(&self, open: &[SubmissionRecord], rows: &[NativeJob]) -> Result<()> {
        let records = self.records().await?;
        for record in open {
            let own = rows.iter().filter(|row| row.muster_id() == Some(record.id.as_str()));
            let own: Vec<NativeJob> = own.cloned().collect();
            match own.first() {
                Some(_) if have_ended(&own) => records.close(&record.id),
                Some(row) if record.number != Some(row.job()) => {
                    self.note(&record.id, row.job()).await?;
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    /// Closes the records of jobs that ended or never arrived, now and then beside a submission, so
    /// that lists need not check them.
    pub(super) async fn tidy_records(&self) -> Result<()> {
        let records = self.records().await?;
        if !records.is_cleanup_due(CLEANUP_INTERVAL) {
            return Ok(());
        }
        let open = records.open_jobs();
        let now = now();
        let rows = self.queue(JobSelection::User(self.settings.user.as_str())).await?;
        self.record_numbers(&open, &rows).await?;
        let is_in = |record: &SubmissionRecord| {
            rows.iter().any(|row| row.muster_id() == Some(record.id.as_str()))
        };
        let unheard = open.iter().filter(|record| record.number.is_none() && !is_in(record));
        for record in unheard.filter(|record| has_passed_arrival(record, now)) {
            records.close(&record.id);
        }
        for (record, fate) in self.outcomes(open, &rows).await? {
            if fate == JobOutcome::Ended {
                records.close(&record.id);
            }
        }
        Ok(())
    }
}

/// Returns whether a row of the accounting is of this job, and not of another with its number.
pub(super) fn is_of(row: &NativeJob, record: &SubmissionRecord) -> bool {
    match row.muster_id() {
        Some(id) => id == record.id,
        None => {
            let submitted = row.submitted.unwrap_or_default();
            let apart = submitted.since(record.submitted).max(record.submitted.since(submitted));
            Some(row.job()) == record.number
                && row.name == record.name
                && apart <= SUBMIT_TIME_TOLERANCE
        }
    }
}

/// Returns whether a row of the accounting only shows that the controller forgot the job: a
/// controller that starts without its state has all open jobs recorded as cancelled, by no user and
/// without a start. Slurm itself cancels jobs in this way when their dependency can never be met.
pub(super) fn is_lost_in_restart(row: &NativeJob, record: &SubmissionRecord) -> bool {
    record.is_plain
        && row.state.text() == "CANCELLED"
        && row.cancelled_by.is_none()
        && row.start.is_none()
}

/// Returns whether all rows have ended.
pub(super) fn have_ended(rows: &[NativeJob]) -> bool {
    !rows.is_empty() && rows.iter().all(|row| JobState::is_final(row.state.state(false)))
}

fn has_passed_arrival(record: &SubmissionRecord, now: Time) -> bool {
    now.since(record.submitted) > ARRIVAL_TIMEOUT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_cancelled_by_no_one_before_it_started_was_forgotten() {
        let row = |state: &str, start: &str| {
            let fields = [
                "7",
                "7",
                "x",
                "ada",
                "lab",
                "batch",
                "normal",
                state,
                "0:0",
                "1795459683",
                start,
                "1795459690",
                "5",
                "None assigned",
                "1",
                "",
                "1",
                "",
                "",
                "muster:a1",
                "1",
                "/tmp",
                "None",
            ];
            let separator = muster_slurm::job::SEPARATOR.to_string();
            muster_slurm::job::from_sacct(&fields.join(&separator)).swap_remove(0)
        };
        let record = |is_plain: bool| SubmissionRecord {
            id: "a1".to_owned(),
            number: Some(7),
            before: Vec::new(),
            name: "x".to_owned(),
            elements: 1,
            roles: Vec::new(),
            submitted: Time(1_795_459_683_000),
            commands: [("main".to_owned(), "true".to_owned())].into(),
            has_ray: false,
            workdir: "/".to_owned(),
            without: Vec::new(),
            is_plain,
            files: muster_model::OutputFiles::default(),
            environment: muster_model::TaskEnvironment::default(),
            checkpoint: None,
            sweep: None,
        };
        assert!(is_lost_in_restart(&row("CANCELLED", "Unknown"), &record(true)));
        assert!(!is_lost_in_restart(&row("CANCELLED", "Unknown"), &record(false)));
        for (state, start) in [
            ("CANCELLED by 1000", "Unknown"),
            ("CANCELLED", "1795459685"),
            ("PENDING", "Unknown"),
            ("FAILED", "Unknown"),
        ] {
            assert!(!is_lost_in_restart(&row(state, start), &record(true)), "{state} {start}");
        }
    }
}

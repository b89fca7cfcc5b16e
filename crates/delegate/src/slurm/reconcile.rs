//! Compares what was handed on with what Slurm knows. A controller that dies can lose a job that it
//! acknowledged; then the accounting is asked, and the marks that the script makes when it starts
//! and ends. Looking changes nothing. Handed on again is only what was acknowledged, never started
//! and is known to no part of Slurm, and only by a client that waits for it or when asked
//! (`requeue`).

use std::time::Duration;

use muster_backends::slurm::job::NativeJob;
use muster_model::{Span, Time};

use super::queue::{Accounting, Whose};
use super::record::Record;
use super::{Refusal, Result, Slurm, named};

/// A submission that was never answered has this long to arrive: longer than a submission waits for
/// its answer.
const ARRIVAL: Span = Span::from_secs(300);
/// A client that waits hands a job on again so often at most.
const MOST_TIMES: usize = 3;
/// The accounting knows a job by number, name and instant where it keeps no comments; its clock may
/// be another.
const SAME_INSTANT: Span = Span::from_secs(60);
/// Between two looks through the marks of jobs that have ended.
const BETWEEN_LOOKS: Duration = Duration::from_secs(3600);

/// What has become of a job that was acknowledged and that the controller does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has ended, by its own mark or by the accounting.
    Ended,
    /// Slurm lost it before it started.
    Lost,
    /// It has started, and how it ended is known to no part of Slurm.
    Started,
    /// The accounting knows that it has started and does not say that it has ended.
    Accounted,
    /// There is no accounting, or it does not answer.
    Unsure,
}

impl Slurm {
    /// What has become of these jobs, which were read before the queue was; those in its rows are
    /// left out, and so are those that were never acknowledged.
    pub(super) async fn fates(
        &self,
        open: Vec<Record>,
        rows: &[NativeJob],
    ) -> Result<Vec<(Record, Fate)>> {
        let records = self.records().await?;
        let is_known =
            |record: &Record| rows.iter().any(|row| row.muster_id() == Some(record.id.as_str()));
        let missing =
            open.into_iter().filter(|record| record.number.is_some() && !is_known(record));
        let (ended, missing): (Vec<Record>, Vec<Record>) =
            missing.partition(|record| records.has_noted_ends(record));
        let mut fates: Vec<(Record, Fate)> =
            ended.into_iter().map(|record| (record, Fate::Ended)).collect();
        if missing.is_empty() {
            return Ok(fates);
        }
        let numbers: Vec<u64> = missing.iter().filter_map(|record| record.number).collect();
        let history = match self.accounted(&numbers).await {
            Accounting::Knows(history) => Some(history),
            Accounting::Absent | Accounting::Silent(_) => None,
        };
        let fate = |record: &Record| match &history {
            None => Fate::Unsure,
            Some(history) => {
                match history.iter().find(|row| is_of(row, record) && !is_flushed(row, record)) {
                    Some(row) if row.state.state(false).is_final() => Fate::Ended,
                    Some(row) if row.start.is_some() => Fate::Accounted,
                    _ if records.has_started(&record.id) => Fate::Started,
                    // Also what still waits by the accounting: it hears only later that the
                    // controller has forgotten.
                    _ => Fate::Lost,
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

    /// For a client that waits for these jobs: what has ended is marked so, and what Slurm lost
    /// before it started is handed on again. True when the queue has changed by that.
    pub(super) async fn keep_promises(
        &self,
        open: Vec<Record>,
        rows: &[NativeJob],
    ) -> Result<bool> {
        let records = self.records().await?;
        self.mark(&open, rows).await?;
        let mut has_changed = false;
        for (record, fate) in self.fates(open, rows).await? {
            match fate {
                Fate::Ended => records.close(&record.id),
                Fate::Lost if record.is_plain && record.before.len() < MOST_TIMES => {
                    match self.again(&record).await {
                        Ok(_) => has_changed = true,
                        // It is told as lost, and stays so.
                        Err(refusal) => (self.settings.warn)(&format!(
                            "Slurm lost `{}`, and did not take it again: {refusal}",
                            record.name
                        )),
                    }
                }
                Fate::Lost | Fate::Started | Fate::Accounted | Fate::Unsure => {}
            }
        }
        Ok(has_changed)
    }

    /// Gives a job that Slurm lost to it once more.
    async fn again(&self, record: &Record) -> Result<u64> {
        let number = self.sbatch(&record.id).await?;
        self.note(&record.id, number).await?;
        let before = record.number.map_or_else(String::new, |number| format!("job {number} "));
        (self.settings.warn)(&format!(
            "Slurm lost {before}({}) before it started; handed on again as job {number}",
            record.name
        ));
        Ok(number)
    }

    /// Hands on again what Slurm lost, because its user asks for it.
    pub(super) async fn hand_on_again(&self, record: &Record) -> Result<u64> {
        let fates = self.fates(vec![record.clone()], &[]).await?;
        let name = &record.name;
        match fates.first().map(|(_, fate)| *fate) {
            Some(Fate::Lost) if !record.is_plain => Err(Refusal::refused(format!(
                "Slurm lost `{name}`, which waited for another job or a time: handed on again its script would say something else"
            ))
            .hint("submit it again")),
            Some(Fate::Lost | Fate::Unsure) if !self.records().await?.has_started(&record.id) => {
                self.again(record).await
            }
            Some(Fate::Ended) => Err(Refusal::refused(format!("`{name}` has ended, and Slurm has forgotten it"))
                .hint("submit it again")),
            None => Err(Refusal::refused(format!("`{name}` was never acknowledged")).hint("submit it again")),
            Some(_) => Err(Refusal::refused(format!(
                "`{name}` has started, and Slurm does not know how it ended: it may still run"
            ))
            .hint("`muster logs` shows what it wrote; submit it again when it does not run")),
        }
    }

    /// Notes numbers that Slurm gave and no client heard, and closes what has ended, for jobs in
    /// the rows.
    async fn mark(&self, open: &[Record], rows: &[NativeJob]) -> Result<()> {
        let records = self.records().await?;
        for record in open {
            let own = rows.iter().filter(|row| row.muster_id() == Some(record.id.as_str()));
            let own: Vec<NativeJob> = own.cloned().collect();
            match own.first() {
                Some(_) if named::is_over(&own) => records.close(&record.id),
                Some(row) if record.number != Some(row.job()) => {
                    self.note(&record.id, row.job()).await?;
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    /// Now and then, beside a submission: closes what has ended and what never arrived, so that
    /// lists need not look at it.
    pub(super) async fn tidy_records(&self) -> Result<()> {
        let records = self.records().await?;
        if !records.is_due_to_look(BETWEEN_LOOKS) {
            return Ok(());
        }
        let (open, now) = (records.open(), self.now());
        let rows = self.queue(Whose::User(self.settings.user.as_str())).await?;
        self.mark(&open, &rows).await?;
        let is_in =
            |record: &Record| rows.iter().any(|row| row.muster_id() == Some(record.id.as_str()));
        let unheard = open.iter().filter(|record| record.number.is_none() && !is_in(record));
        for record in unheard.filter(|record| has_had_its_time(record, now)) {
            records.close(&record.id);
        }
        for (record, fate) in self.fates(open, &rows).await? {
            if fate == Fate::Ended {
                records.close(&record.id);
            }
        }
        Ok(())
    }
}

/// True when a row of the accounting is of this very job, and not of another with its number.
pub(super) fn is_of(row: &NativeJob, record: &Record) -> bool {
    match row.muster_id() {
        Some(id) => id == record.id,
        None => {
            let submitted = row.submitted.unwrap_or_default();
            let apart = submitted.since(record.submitted).max(record.submitted.since(submitted));
            Some(row.job()) == record.number && row.name == record.name && apart <= SAME_INSTANT
        }
    }
}

/// True when this row of the accounting says no more of a job than that the controller forgot it: a
/// controller that starts without its state has all that is open noted as cancelled, by no one and
/// without a start. Slurm itself cancels jobs so that depend on others.
pub(super) fn is_flushed(row: &NativeJob, record: &Record) -> bool {
    record.is_plain
        && row.state.text() == "CANCELLED"
        && row.cancelled_by.is_none()
        && row.start.is_none()
}

fn has_had_its_time(record: &Record, now: Time) -> bool {
    now.since(record.submitted) > ARRIVAL
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
            let separator = muster_backends::slurm::job::SEPARATOR.to_string();
            muster_backends::slurm::job::from_sacct(&fields.join(&separator)).swap_remove(0)
        };
        let record = |is_plain: bool| Record {
            id: "a1".to_owned(),
            number: Some(7),
            before: Vec::new(),
            name: "x".to_owned(),
            elements: 1,
            roles: Vec::new(),
            submitted: Time(1_795_459_683_000),
            commands: [("main".to_owned(), "true".to_owned())].into(),
            workdir: "/".to_owned(),
            without: Vec::new(),
            is_plain,
            files: muster_model::OutputFiles::default(),
            checkpoint: None,
        };
        assert!(is_flushed(&row("CANCELLED", "Unknown"), &record(true)));
        assert!(!is_flushed(&row("CANCELLED", "Unknown"), &record(false)));
        for (state, start) in [
            ("CANCELLED by 1000", "Unknown"),
            ("CANCELLED", "1795459685"),
            ("PENDING", "Unknown"),
            ("FAILED", "Unknown"),
        ] {
            assert!(!is_flushed(&row(state, start), &record(true)), "{state} {start}");
        }
    }
}

//! Which job a number means. Slurm can lose a job and give its number to another; Muster's id it
//! cannot give away. A name is resolved to the id, and what a number alone cannot tell is refused.

use muster_backends::slurm::job::NativeJob;
use muster_model::JobId;
use muster_model::view::State;

use super::queue::Whose;
use super::record::Record;
use super::{Refusal, Result, Slurm, reconcile};

/// A job that the caller named.
#[derive(Clone, Debug)]
pub(super) struct Meant {
    /// The number that was asked for.
    pub(super) asked: JobId,
    /// The number that the job has now.
    pub(super) present: u64,
    /// What is kept of it, where Muster handed it on.
    pub(super) record: Option<Record>,
    /// It was named by Muster's id, so that it is this job and no other.
    is_by_id: bool,
    /// Another job that was acknowledged under this number before, and that has not ended, as far
    /// as is known.
    earlier: Option<Record>,
}

impl Slurm {
    /// From now on the number means the job with this id, for this caller.
    pub(super) fn take_as_meant(&self, job: JobId, id: &str) {
        self.meant.lock().expect("nobody panics with this lock").insert(job.0, id.to_owned());
    }

    /// The job that a number means, as far as Muster's records tell.
    pub(super) async fn meant(&self, asked: JobId) -> Result<Meant> {
        let records = self.records().await?;
        let id = self.meant.lock().expect("nobody panics with this lock").get(&asked.0).cloned();
        if let Some(record) = id.as_deref().and_then(|id| records.get(id)) {
            let present = record.number.unwrap_or(asked.0);
            return Ok(Meant {
                asked,
                present,
                record: Some(record),
                is_by_id: true,
                earlier: None,
            });
        }
        let mut holders = records.holders(asked.0).into_iter();
        let record = holders.next();
        let earlier = holders.find(|earlier| records.is_open(earlier));
        let present = record.as_ref().and_then(|record| record.number).unwrap_or(asked.0);
        Ok(Meant { asked, present, record, is_by_id: false, earlier })
    }

    /// Leaves of the controller's rows those of the job that is meant; none where Slurm has lost
    /// it. A number whose job has ended means the one that has it today, for whoever only reads.
    ///
    /// # Errors
    /// When the number alone may mean another job, too.
    pub(super) async fn own_rows(
        &self,
        meant: &Meant,
        rows: &mut Vec<NativeJob>,
        acts: bool,
    ) -> Result<()> {
        let Some(record) = &meant.record else { return Ok(()) };
        if let Some(earlier) = &meant.earlier {
            return Err(given_away(meant, earlier, &format!("`{}`", record.name)));
        }
        let other = rows.iter().find(|row| row.muster_id() != Some(record.id.as_str()));
        let Some(other) = other else { return Ok(()) };
        if !meant.is_by_id {
            if !acts && !self.records().await?.is_open(record) {
                return Ok(());
            }
            return Err(given_away(meant, record, &format!("`{}` of {}", other.name, other.user)));
        }
        rows.retain(|row| row.muster_id() == Some(record.id.as_str()));
        Ok(())
    }

    /// The rows of the accounting that are of the job that is meant.
    pub(super) async fn own_history(
        &self,
        meant: &Meant,
        mut rows: Vec<NativeJob>,
    ) -> Result<Vec<NativeJob>> {
        let Some(record) = &meant.record else { return Ok(rows) };
        if meant.is_by_id || self.records().await?.is_open(record) {
            rows.retain(|row| reconcile::is_of(row, record) && !reconcile::is_flushed(row, record));
        }
        // An accounting that keeps no comments knows it by number, name and instant.
        for row in
            rows.iter_mut().filter(|row| row.muster_id().is_none() && reconcile::is_of(row, record))
        {
            row.comment = format!("muster:{}", record.id);
        }
        Ok(rows)
    }

    /// Refuses what would be done to another job than the one that is meant; returns what the
    /// controller knows of it.
    pub(super) async fn present_rows(&self, meant: &Meant) -> Result<Vec<NativeJob>> {
        let mut rows = self.queue(Whose::Jobs(&[meant.present])).await?;
        self.own_rows(meant, &mut rows, true).await?;
        Ok(rows)
    }

    /// The record of a job: by its number, else by the id that Slurm has in the job's comment.
    pub(super) async fn record_of(
        &self,
        meant: &Meant,
        rows: &[NativeJob],
    ) -> Result<Option<Record>> {
        let id = rows.iter().find_map(NativeJob::muster_id);
        match (&meant.record, id) {
            (Some(record), Some(id)) if record.id != id => Ok(self.records().await?.get(id)),
            (Some(record), _) => {
                // A row without the id is of a job that Muster did not hand on, unless the
                // accounting keeps no comments.
                let is_other = rows.iter().any(|row| !reconcile::is_of(row, record));
                Ok((!is_other).then(|| record.clone()))
            }
            (None, Some(id)) => Ok(self.records().await?.get(id)),
            (None, None) => Ok(None),
        }
    }
}

fn given_away(meant: &Meant, lost: &Record, other: &str) -> Refusal {
    let (asked, Record { name, id, .. }) = (meant.asked, lost);
    Refusal::refused(format!(
        "the number {asked} was given to two jobs: Slurm lost `{name}`, which Muster handed on, and gave its number to {other}"
    ))
    .hint(format!("`muster show muster:{id}` is of `{name}`, and so are other verbs with that; `scontrol show job {asked}` is of the other"))
}

/// True when all rows have ended.
pub(super) fn is_over(rows: &[NativeJob]) -> bool {
    !rows.is_empty() && rows.iter().all(|row| State::is_final(row.state.state(false)))
}

//! Actions on many jobs. Cancelling many jobs is one query of the queue and one call of scancel;
//! jobs that this does not cover, and all other actions, go job by job: scontrol takes lists, but
//! stops at the first error.

use std::collections::BTreeMap;

use crate::slurm::tool::ToolError;
use muster_api::types::{
    ActionRequest, ActionResponse, BulkAction, BulkRequest, BulkResponse, BulkResult, BulkTarget,
    ErrorBody,
};
use muster_slurm::job::NativeJob;

use super::act::{SlurmAction, action_error};
use super::queue::JobSelection;
use super::record::SubmissionRecord;
use super::{Result, SlurmScheduler, reconcile};

/// Job numbers per call of scancel: far below the limit on the length of a command line.
const JOBS_PER_CALL: usize = 1000;

impl SlurmScheduler {
    /// Performs an action on each job; an error on one does not stop the others.
    pub(super) async fn bulk(&self, request: BulkRequest) -> Result<BulkResponse> {
        let BulkRequest { action, targets } = request;
        let (verb, mut known) = match action {
            BulkAction::Cancel => (SlurmAction::Cancel, self.cancel_many(&targets).await?),
            BulkAction::Hold => (SlurmAction::Hold, BTreeMap::new()),
            BulkAction::Release => (SlurmAction::Release, BTreeMap::new()),
            BulkAction::Requeue => (SlurmAction::Requeue, BTreeMap::new()),
        };
        let mut results = Vec::with_capacity(targets.len());
        for target in targets {
            let answer = match known.remove(&target) {
                Some(answer) => answer,
                None => self.act(target.job, ActionRequest { index: target.index }, verb).await,
            };
            results.push(BulkResult::of(target, answer.map_err(ErrorBody::from)));
        }
        Ok(BulkResponse { results })
    }

    /// Cancels in one call the whole jobs that the controller still has under the numbers under
    /// which they were acknowledged, and returns the results. Targets missing in the result are
    /// handled one by one.
    async fn cancel_many(
        &self,
        targets: &[BulkTarget],
    ) -> Result<BTreeMap<BulkTarget, Result<ActionResponse>>> {
        // 1. Find the jobs that exist, with one query of the queue.
        let mut resolved = Vec::new();
        for target in targets.iter().filter(|target| target.index.is_none()) {
            resolved.push((*target, self.resolve(target.job).await?));
        }
        let present: Vec<u64> = resolved.iter().map(|(_, resolved)| resolved.present).collect();
        let mut by_job: BTreeMap<u64, Vec<NativeJob>> = BTreeMap::new();
        for row in self.queue(JobSelection::Jobs(&present)).await? {
            by_job.entry(row.job()).or_default().push(row);
        }
        let mut plain: BTreeMap<u64, (BulkTarget, Option<SubmissionRecord>)> = BTreeMap::new();
        for (target, resolved) in &resolved {
            let mut rows = by_job.get(&resolved.present).cloned().unwrap_or_default();
            // An ambiguous number is refused, and an ended job reported, by the single action.
            let is_known = self.retain_own_rows(resolved, &mut rows, true).await.is_ok();
            if is_known && !rows.is_empty() && !reconcile::have_ended(&rows) {
                plain.insert(resolved.present, (*target, self.record_of(resolved, &rows).await?));
            }
        }
        // 2. Cancel those.
        let mut known = BTreeMap::new();
        let records = self.records().await?;
        let plain: Vec<_> = plain.into_iter().collect();
        for chunk in plain.chunks(JOBS_PER_CALL) {
            let words: Vec<String> = chunk.iter().map(|(number, _)| number.to_string()).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let refused = match self.tools().output("scancel", &words).await {
                Ok(_) => BTreeMap::new(),
                Err(ToolError::Failed { message, .. }) => match refused(&message) {
                    // The message does not name the job: each is handled on its own.
                    named if named.is_empty() => continue,
                    named => named,
                },
                Err(error) => return Err(error.into()),
            };
            for (number, (target, record)) in chunk {
                let answer = match refused.get(number) {
                    Some(message) => Err(action_error(target.job, SlurmAction::Cancel, message)),
                    None => {
                        // A cancelled job must not be resubmitted by the reconciliation.
                        if let Some(record) = record {
                            records.close(&record.id);
                        }
                        Ok(ActionResponse { message: "cancelled".to_owned() })
                    }
                };
                known.insert(*target, answer);
            }
        }
        Ok(known)
    }
}

/// Parses scancel's messages on single jobs, joined by `; `: `Kill job error on job id 7: Invalid
/// job id specified`.
fn refused(message: &str) -> BTreeMap<u64, String> {
    let line = |line: &str| {
        let (_, rest) = line.split_once("job id ")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let why = rest.split_once(": ").map_or(rest, |(_, why)| why);
        Some((digits.parse().ok()?, why.trim().to_owned()))
    };
    // A line without a number may mean any of the jobs: no result is certain then.
    let named: Option<BTreeMap<u64, String>> = message.split("; ").map(line).collect();
    named.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn scancel_names_the_jobs_that_it_did_not_cancel() {
        let one = "Kill job error on job id 7: Invalid job id specified";
        let two = "Kill job error on job id 12: Access/permission denied";
        assert_eq!(refused(one)[&7], "Invalid job id specified");
        assert_eq!(refused(&format!("{one}; {two}")).into_keys().collect::<Vec<_>>(), [7, 12]);
        // No result is certain: each job is handled on its own.
        assert!(refused("Unable to contact slurm controller").is_empty());
        assert!(refused(&format!("{one}; something else")).is_empty());
        assert!(refused("").is_empty());
    }
}

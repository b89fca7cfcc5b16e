//! The same for many jobs. A cancellation of many is one question to Slurm and one call of scancel;
//! what that does not cover goes job by job, as does every other verb: scontrol takes lists, but
//! stops at their first refusal.

use std::collections::BTreeMap;

use muster_api::types::{
    ActionRequest, ActionResponse, BulkAction, BulkRequest, BulkResponse, BulkResult, BulkTarget,
    ErrorBody,
};
use muster_backends::slurm::job::NativeJob;
use muster_backends::slurm::tool::ToolError;

use super::act::{Verb, refusal};
use super::queue::Whose;
use super::record::Record;
use super::{Result, Slurm, named};

/// Numbers in one call of scancel: far below the limit on the length of a command line.
const AT_ONCE: usize = 1000;

impl Slurm {
    /// Does it to each job; a refusal of one does not stop the others.
    pub(super) async fn bulk(&self, request: BulkRequest) -> Result<BulkResponse> {
        let BulkRequest { action, targets } = request;
        let (verb, mut known) = match action {
            BulkAction::Cancel => (Verb::Cancel, self.cancel_many(&targets).await?),
            BulkAction::Hold => (Verb::Hold, BTreeMap::new()),
            BulkAction::Release => (Verb::Release, BTreeMap::new()),
            BulkAction::Requeue => (Verb::Requeue, BTreeMap::new()),
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

    /// Cancels in one call the whole jobs that the controller still has under the numbers that they
    /// were acknowledged for, and returns what became of them. Targets that are missing in the
    /// answer go one by one.
    async fn cancel_many(
        &self,
        targets: &[BulkTarget],
    ) -> Result<BTreeMap<BulkTarget, Result<ActionResponse>>> {
        // 1. Which of them are there, with one look at the queue.
        let mut meant = Vec::new();
        for target in targets.iter().filter(|target| target.index.is_none()) {
            meant.push((*target, self.meant(target.job).await?));
        }
        let present: Vec<u64> = meant.iter().map(|(_, meant)| meant.present).collect();
        let mut by_job: BTreeMap<u64, Vec<NativeJob>> = BTreeMap::new();
        for row in self.queue(Whose::Jobs(&present)).await? {
            by_job.entry(row.job()).or_default().push(row);
        }
        let mut plain: BTreeMap<u64, (BulkTarget, Option<Record>)> = BTreeMap::new();
        for (target, meant) in &meant {
            let mut rows = by_job.get(&meant.present).cloned().unwrap_or_default();
            // What a number does not tell is refused, and what has ended is said, by itself.
            let is_known = self.own_rows(meant, &mut rows, true).await.is_ok();
            if is_known && !rows.is_empty() && !named::is_over(&rows) {
                plain.insert(meant.present, (*target, self.record_of(meant, &rows).await?));
            }
        }
        // 2. Those.
        let mut known = BTreeMap::new();
        let records = self.records().await?;
        let plain: Vec<_> = plain.into_iter().collect();
        for chunk in plain.chunks(AT_ONCE) {
            let words: Vec<String> = chunk.iter().map(|(number, _)| number.to_string()).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let refused = match self.tools().output("scancel", &words).await {
                Ok(_) => BTreeMap::new(),
                Err(ToolError::Failed { message, .. }) => match refused(&message) {
                    // It does not say which: each is asked for on its own.
                    named if named.is_empty() => continue,
                    named => named,
                },
                Err(error) => return Err(error.into()),
            };
            for (number, (target, record)) in chunk {
                let answer = match refused.get(number) {
                    Some(message) => Err(refusal(target.job, Verb::Cancel, message)),
                    None => {
                        // What was cancelled is not looked for any more.
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

/// Returns what scancel says of single jobs: `Kill job error on job id 7: Invalid job id
/// specified`, with `; ` between them.
fn refused(message: &str) -> BTreeMap<u64, String> {
    let line = |line: &str| {
        let (_, rest) = line.split_once("job id ")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let why = rest.split_once(": ").map_or(rest, |(_, why)| why);
        Some((digits.parse().ok()?, why.trim().to_owned()))
    };
    // A line without a number may mean any of them: then nothing is known.
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
        // Which were cancelled is not known: each is asked for on its own.
        assert!(refused("Unable to contact slurm controller").is_empty());
        assert!(refused(&format!("{one}; something else")).is_empty());
        assert!(refused("").is_empty());
    }
}

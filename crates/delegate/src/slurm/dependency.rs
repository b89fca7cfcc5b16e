//! Resolves dependencies before submission: Slurm counts a dependency on a job that it has
//! forgotten, or never had, as met. Dependencies on jobs that the controller still has are passed
//! on to it; for ended jobs the accounting decides.

use muster_model::view::JobState;
use muster_model::{Dependency, DependencyKind, JobId};
use muster_slurm::job::NativeJob;

use super::queue::AccountingReply;
use super::{RequestError, Result, SlurmScheduler};

impl SlurmScheduler {
    /// Returns the dependencies that Slurm can decide, under their present job numbers; those
    /// already met are left out.
    pub(super) async fn open_dependencies(&self, after: &[Dependency]) -> Result<Vec<Dependency>> {
        let mut open = Vec::new();
        for one in after {
            let resolved = self.resolve(one.job).await?;
            let present = resolved.present;
            if !self.present_rows(&resolved).await?.is_empty() {
                open.push(Dependency { job: JobId(present), ..one.clone() });
                continue;
            }
            let rows = match self.accounted(&[present]).await {
                AccountingReply::Rows(rows) => self.own_history(&resolved, rows).await?,
                AccountingReply::Silent(why) => {
                    return Err(RequestError::unavailable(format!(
                        "the job depends on job {}, which Slurm's controller does not have, and the accounting does not answer: {why}",
                        one.job
                    ))
                    .hint("if that job ended as required, remove the dependency"));
                }
                AccountingReply::Absent => {
                    return Err(RequestError::refused(format!(
                        "the job depends on job {}, which Slurm's controller does not have; without accounting it is unknown \
                         whether and how that job ended",
                        one.job
                    ))
                    .hint("if that job ended as required, remove the dependency"));
                }
            };
            let rows: Vec<&NativeJob> = rows.iter().filter(|row| row.job() == present).collect();
            check_met(one, &rows)?;
        }
        Ok(open)
    }
}

/// Decides whether a dependency on a job that only the accounting knows is met.
fn check_met(one: &Dependency, rows: &[&NativeJob]) -> Result<()> {
    let states: Vec<JobState> = rows.iter().map(|row| row.state.state(false)).collect();
    if states.is_empty() || states.iter().any(|state| !state.is_final()) {
        return Err(RequestError::refused(format!(
            "the job depends on job {}, which is unknown or ended long ago",
            one.job
        ))
        .hint("`muster ps --all` lists known jobs"));
    }
    let has_succeeded = states.iter().all(|state| *state == JobState::Done);
    let is_met = match one.kind {
        DependencyKind::After | DependencyKind::AfterAny => true,
        DependencyKind::AfterOk => has_succeeded,
        DependencyKind::AfterNotOk => !has_succeeded,
    };
    if is_met {
        return Ok(());
    }
    let ended =
        rows.iter().zip(&states).find(|(_, state)| **state != JobState::Done || has_succeeded);
    let how = ended.map_or("", |(_, state)| state.word());
    Err(RequestError::refused(format!(
        "the job can never start: job {} is {how}, which does not satisfy the dependency",
        one.job
    ))
    .hint("resubmit that job, or remove the dependency; `afterany` accepts any end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_slurm::state::NativeState;

    /// Checks the decision on a dependency on a job whose elements ended in the given states.
    fn check(kind: DependencyKind, words: &[&str], expected: &str) {
        let row =
            |word: &&str| NativeJob { state: NativeState::new([*word]), ..NativeJob::default() };
        let rows: Vec<NativeJob> = words.iter().map(row).collect();
        let rows: Vec<&NativeJob> = rows.iter().collect();
        let said = check_met(&Dependency { kind, job: JobId(7) }, &rows);
        let said = said.err().map_or("met".to_owned(), |refusal| refusal.to_string());
        assert!(said.contains(expected), "{kind:?} {words:?}: {said}");
    }

    #[test]
    fn what_has_ended_is_judged_by_how() {
        use DependencyKind::{After, AfterAny, AfterNotOk, AfterOk};
        for (kind, words, expected) in [
            (AfterOk, ["COMPLETED"].as_slice(), "met"),
            (AfterOk, &["COMPLETED", "FAILED"], "can never start: job 7 is failed"),
            (AfterOk, &["CANCELLED by 0"], "can never start: job 7 is cancelled"),
            (AfterNotOk, &["COMPLETED"], "can never start: job 7 is done"),
            (AfterNotOk, &["TIMEOUT"], "met"),
            (AfterAny, &["NODE_FAIL"], "met"),
            (After, &["COMPLETED"], "met"),
            // The accounting has no end of the job, or does not have it at all.
            (AfterAny, &["RUNNING"], "unknown or ended long ago"),
            (AfterAny, &[], "unknown or ended long ago"),
        ] {
            check(kind, words, expected);
        }
    }
}

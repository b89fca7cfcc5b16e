//! What a job waits for, looked up before it is handed on: Slurm takes a dependency on a job that
//! it has forgotten, or never had, for met. What the controller still knows is left to it; of what
//! has ended, the accounting says how.

use muster_backends::slurm::job::NativeJob;
use muster_model::view::State;
use muster_model::{Dependency, DependencyKind, JobId};

use super::queue::Accounting;
use super::{Refusal, Result, Slurm};

impl Slurm {
    /// Those of a job's dependencies that Slurm can judge, under their present numbers; what is met
    /// already is left out.
    pub(super) async fn still_open(&self, after: &[Dependency]) -> Result<Vec<Dependency>> {
        let mut open = Vec::new();
        for one in after {
            let meant = self.meant(one.job).await?;
            let present = meant.present;
            if !self.present_rows(&meant).await?.is_empty() {
                open.push(Dependency { job: JobId(present), ..one.clone() });
                continue;
            }
            let rows = match self.accounted(&[present]).await {
                Accounting::Knows(rows) => self.own_history(&meant, rows).await?,
                Accounting::Silent(why) => {
                    return Err(Refusal::unavailable(format!(
                        "it waits for job {}, which Slurm's controller does not know, and the accounting does not answer: {why}",
                        one.job
                    ))
                    .hint("where the job has ended as it should, leave it out"));
                }
                Accounting::Absent => {
                    return Err(Refusal::refused(format!(
                        "it waits for job {}, which Slurm's controller does not know; there is no accounting that would say \
                         whether and how it ended",
                        one.job
                    ))
                    .hint("where it has ended as it should, leave it out"));
                }
            };
            let rows: Vec<&NativeJob> = rows.iter().filter(|row| row.job() == present).collect();
            judge(one, &rows)?;
        }
        Ok(open)
    }
}

/// Whether a dependency on a job that only the accounting knows is met.
fn judge(one: &Dependency, rows: &[&NativeJob]) -> Result<()> {
    let states: Vec<State> = rows.iter().map(|row| row.state.state(false)).collect();
    if states.is_empty() || states.iter().any(|state| !state.is_final()) {
        return Err(Refusal::refused(format!(
            "it waits for job {}, which is unknown or ended long ago",
            one.job
        ))
        .hint("`muster ps --all` lists the jobs that are known"));
    }
    let has_succeeded = states.iter().all(|state| *state == State::Done);
    let is_met = match one.kind {
        DependencyKind::After | DependencyKind::AfterAny => true,
        DependencyKind::AfterOk => has_succeeded,
        DependencyKind::AfterNotOk => !has_succeeded,
    };
    if is_met {
        return Ok(());
    }
    let ended = rows.iter().zip(&states).find(|(_, state)| **state != State::Done || has_succeeded);
    let how = ended.map_or("", |(_, state)| state.word());
    Err(Refusal::refused(format!(
        "it can never start: job {} is {how}, and did not end as its dependency requires",
        one.job
    ))
    .hint("submit the other again, or leave it out; `afterany` waits for an end of whatever kind"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_backends::slurm::state::NativeState;

    /// What becomes of a dependency on a job whose elements ended so.
    fn check(kind: DependencyKind, words: &[&str], expected: &str) {
        let row =
            |word: &&str| NativeJob { state: NativeState::new([*word]), ..NativeJob::default() };
        let rows: Vec<NativeJob> = words.iter().map(row).collect();
        let rows: Vec<&NativeJob> = rows.iter().collect();
        let said = judge(&Dependency { kind, job: JobId(7) }, &rows);
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
            // The accounting never closed it, or never had it.
            (AfterAny, &["RUNNING"], "unknown or ended long ago"),
            (AfterAny, &[], "unknown or ended long ago"),
        ] {
            check(kind, words, expected);
        }
    }
}

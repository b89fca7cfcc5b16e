//! Compares the engine's facts with the ledger: every end, and every attempt that begins to run.

use muster_model::{Attempt, AttemptId, ElementId, JobId, Outcome};
use muster_runtime::engine::AccountingFact;

use super::Ledger;
use crate::dst::coverage::Coverage;

impl Ledger {
    /// Compares the facts of this batch with those that must be reported.
    pub(super) fn compare(
        &mut self,
        facts: &[AccountingFact],
        coverage: &mut Coverage,
    ) -> Result<(), String> {
        let mut ends = Vec::new();
        let mut job_ends = Vec::new();
        let mut running = Vec::new();
        let own = std::mem::take(&mut self.ends);
        self.ends =
            own.into_iter().map(|(id, how)| (id, self.with_first_dependency(id, &how))).collect();
        for fact in facts {
            match fact {
                AccountingFact::ElementEnded { element, outcome, attempts, .. } => {
                    self.check_evicted_end(*element, *attempts, outcome)?;
                    ends.push((*element, self.with_first_dependency(*element, outcome)));
                }
                AccountingFact::RestEnded { job, count, first, last, step, outcome, .. } => {
                    let index = (*first, *last, *step);
                    ends.extend(self.rest_ends(facts, *job, *count, index, outcome)?);
                }
                AccountingFact::JobEnded { job, succeeded, .. } => {
                    job_ends.push((*job, *succeeded))
                }
                AccountingFact::Running { id, .. } => running.push(*id),
                AccountingFact::Evicted { id, .. } => drop(self.evicted.insert(*id)),
                AccountingFact::Queued { .. }
                | AccountingFact::Started { .. }
                | AccountingFact::AttemptEnded { .. } => {}
            }
        }
        for (_, outcome) in &ends {
            coverage.ended(outcome);
        }
        self.waited_for.clear();
        let by_id = |one: &(ElementId, Outcome)| (one.0, format!("{:?}", one.1));
        ends.sort_by_key(by_id);
        self.ends.sort_by_key(by_id);
        job_ends.sort_unstable();
        self.job_ends.sort_unstable();
        running.sort_unstable();
        self.running.sort_unstable();
        let mine = (
            std::mem::take(&mut self.ends),
            std::mem::take(&mut self.job_ends),
            std::mem::take(&mut self.running),
        );
        if mine == (ends, job_ends, running) {
            Ok(())
        } else {
            Err(format!("the journal gives {mine:?}, and the engine reports {facts:?}"))
        }
    }

    /// Returns the expected ends of array elements that the facts report together: those with an
    /// index in `(first, last, step)` and the same outcome, less those that are reported alone.
    fn rest_ends(
        &self,
        facts: &[AccountingFact],
        job: JobId,
        count: u32,
        (first, last, step): (u32, u32, u32),
        outcome: &Outcome,
    ) -> Result<Vec<(ElementId, Outcome)>, String> {
        let outcome = self.with_first_dependency(ElementId { job, index: first }, outcome);
        let is_covered = |id: &ElementId| {
            id.job == job
                && (first..=last).contains(&id.index)
                && (id.index - first).is_multiple_of(step)
        };
        let mut ends: Vec<_> = self
            .ends
            .iter()
            .filter(|(id, how)| is_covered(id) && *how == outcome)
            .cloned()
            .collect();
        if ends.len() < count as usize {
            return Err(format!("{count} elements of {job} end together, {} should", ends.len()));
        }
        let is_single = |id: ElementId| {
            facts.iter().any(|fact| {
                let AccountingFact::ElementEnded { element, .. } = fact else { return false };
                *element == id
            })
        };
        ends.retain(|(id, _)| !is_single(*id));
        Ok(ends)
    }

    /// Checks that an evicted attempt does not fail because of its eviction: it may succeed or be
    /// cancelled, otherwise it is pending again.
    fn check_evicted_end(
        &self,
        element: ElementId,
        attempts: u32,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let id = AttemptId { element, attempt: Attempt(attempts) };
        let is_fine = outcome.is_success() || matches!(outcome, Outcome::Cancelled { .. });
        if self.evicted.contains(&id) && !is_fine {
            Err(format!("{id} was evicted, and ended for good: {outcome}"))
        } else {
            Ok(())
        }
    }

    /// Replaces a failed dependency with the first one: if several fail in one batch, the engine
    /// may name any.
    fn with_first_dependency(&self, id: ElementId, outcome: &Outcome) -> Outcome {
        let lost = self.waited_for.get(&id.job).map_or(&[][..], Vec::as_slice);
        let mut lost = lost.iter().filter(|one| self.is_lost(one));
        match outcome {
            Outcome::DependencyFailed { on } if lost.clone().any(|one| one.job == *on) => {
                Outcome::DependencyFailed { on: lost.next().map_or(*on, |one| one.job) }
            }
            other => other.clone(),
        }
    }
}

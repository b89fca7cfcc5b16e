//! Does the engine tell what must be told: every end, and every attempt that runs? It changes
//! nothing but what was told.

use muster_model::{Attempt, AttemptId, ElementId, Outcome};
use muster_runtime::engine::Fact;

use super::Book;
use crate::storm::cover::Cover;

impl Book {
    /// What the engine tells of this batch beside what it must tell.
    pub(super) fn compare(&mut self, facts: &[Fact], cover: &mut Cover) -> Result<(), String> {
        let (mut ends, mut job_ends) = (Vec::new(), Vec::new());
        let mut running = Vec::new();
        let own = std::mem::take(&mut self.ends);
        self.ends = own.into_iter().map(|(id, how)| (id, self.as_named_here(id, &how))).collect();
        for fact in facts {
            match fact {
                Fact::ElementEnded { element, outcome, attempts, .. } => {
                    self.not_for_being_asked(*element, *attempts, outcome)?;
                    ends.push((*element, self.as_named_here(*element, outcome)));
                }
                Fact::RestEnded { job, count, first, last, step, outcome, .. } => {
                    let theirs = |id: &ElementId| {
                        id.job == *job
                            && (*first..=*last).contains(&id.index)
                            && (id.index - first).is_multiple_of(*step)
                    };
                    let outcome =
                        self.as_named_here(ElementId { job: *job, index: *first }, outcome);
                    let told: Vec<_> = self
                        .ends
                        .iter()
                        .filter(|(id, how)| theirs(id) && *how == outcome)
                        .cloned()
                        .collect();
                    if told.len() < *count as usize {
                        return Err(format!(
                            "{count} elements of {job} end together, {} should",
                            told.len()
                        ));
                    }
                    let single = |id: &ElementId| {
                        facts
                            .iter()
                            .any(|fact| matches!(fact, Fact::ElementEnded { element, .. } if element == id))
                    };
                    ends.extend(told.into_iter().filter(|(id, _)| !single(id)));
                }
                Fact::JobEnded { job, succeeded, .. } => job_ends.push((*job, *succeeded)),
                Fact::Running { id, .. } => running.push(*id),
                Fact::Evicted { id, .. } => drop(self.asked_to_go.insert(*id)),
                Fact::Queued { .. } | Fact::Started { .. } | Fact::AttemptEnded { .. } => {}
            }
        }
        for (_, outcome) in &ends {
            cover.ended(outcome);
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
        match mine == (ends, job_ends, running) {
            true => Ok(()),
            false => Err(format!("the journal comes to {mine:?}, and the engine tells {facts:?}")),
        }
    }

    /// A job does not fail for having been asked to make room: it may end while it is, by itself or
    /// by a cancellation, and otherwise waits again.
    fn not_for_being_asked(
        &self,
        element: ElementId,
        attempts: u32,
        outcome: &Outcome,
    ) -> Result<(), String> {
        let id = AttemptId { element, attempt: Attempt(attempts) };
        let is_fine = outcome.is_success() || matches!(outcome, Outcome::Cancelled { .. });
        match self.asked_to_go.contains(&id) && !is_fine {
            true => Err(format!("{id} was asked to make room, and ended for good: {outcome}")),
            false => Ok(()),
        }
    }

    /// Of several dependencies that fail in one batch the engine may name any; here the first is
    /// named.
    fn as_named_here(&self, id: ElementId, outcome: &Outcome) -> Outcome {
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

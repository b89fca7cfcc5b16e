//! Outcome of an attempt for its element: it waits again, or it ends. Changes nothing.

use muster_model::job::Restart;
use muster_model::{Outcome, Time};

use super::job::{AttemptFate, JobRecord};

/// Minimum number of retries of a failed start, whatever the job's own restart policy: a failed
/// start says nothing about the job, and one fault of a node must not lose it.
const START_RETRIES: u32 = 3;

/// Continuation of an element whose attempt has ended.
pub(super) enum AfterAttempt {
    /// Wait for another attempt. `restarts` are those used up with this one; `None` if it does not count.
    Requeue {
        outcome: Option<Outcome>,
        restarts: Option<u32>,
    },
    /// Wait for another attempt, which starts not before an instant.
    RequeueLater {
        outcome: Outcome,
        not_before: Time,
    },
    End(Outcome),
}

impl JobRecord {
    /// Returns what follows for an element whose attempt has ended; `None` without such an element.
    pub(super) fn after_attempt(
        &self,
        now: Time,
        ordinal: u32,
        fate: AttemptFate,
    ) -> Option<AfterAttempt> {
        let restart = self.spec.restart;
        let element = self.elements.get(&ordinal)?;
        let used = element.restarts_after(now, restart);
        let is_left = used < restart.max_restarts.max(START_RETRIES);
        let has_saved = element.has_saved_in_its_attempt();
        let was_warned = element.is_requeued_at_limit(self);
        let takes_turns = |outcome: &Outcome| was_warned && is_own_failure(outcome);
        let again = |outcome: Outcome, counts: bool| AfterAttempt::Requeue {
            outcome: Some(outcome),
            restarts: counts.then(|| used.saturating_add(1)),
        };
        Some(match fate {
            AttemptFate::Cancelled(outcome) => AfterAttempt::End(outcome),
            AttemptFate::Requeued | AttemptFate::Preempted => {
                AfterAttempt::Requeue { outcome: None, restarts: None }
            }
            AttemptFate::IdleRequeued { outcome, wait } => {
                AfterAttempt::RequeueLater { outcome, not_before: now + wait }
            }
            AttemptFate::Refused { rank, reason, .. } => {
                let outcome = Outcome::StartFailed { rank, reason };
                if is_left { again(outcome, true) } else { AfterAttempt::End(outcome) }
            }
            // The start can never succeed.
            AttemptFate::Failed(outcome @ Outcome::StartFailed { .. }) => {
                AfterAttempt::End(outcome)
            }
            // A run that was stopped at its time limit counts as a restart only if it saved
            // nothing.
            AttemptFate::Failed(outcome) if takes_turns(&outcome) && (has_saved || is_left) => {
                again(outcome, !has_saved)
            }
            AttemptFate::Failed(outcome) if is_restarted(restart, used, &outcome) => {
                again(outcome, true)
            }
            AttemptFate::Failed(outcome) => AfterAttempt::End(outcome),
        })
    }
}

/// True when an element restarts after an attempt with this outcome.
fn is_restarted(restart: Restart, used: u32, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Idle { .. }
        | Outcome::StoppedEarly { .. }
        | Outcome::IdleGpus { .. }
        | Outcome::Cancelled { .. }
        | Outcome::DependencyFailed { .. } => false,
        Outcome::Succeeded | Outcome::TimedOut => restart.always,
        Outcome::Failed { .. }
        | Outcome::Signaled { .. }
        | Outcome::OutOfMemory { .. }
        | Outcome::Lost { .. }
        | Outcome::StartFailed { .. }
        | Outcome::Native { .. } => restart.on_failure && used < restart.max_restarts,
    }
}

/// True for a failure that was not caused by the job's own limits.
fn is_own_failure(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Succeeded | Outcome::TimedOut | Outcome::Idle { .. })
}

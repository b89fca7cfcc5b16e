//! Disruptions: the cluster ended a pod, and not its program. They are read from the pod's condition
//! `DisruptionTarget`, which whoever ends the pod writes first.

use muster_model::{Outcome, Rank, Time};

use super::{JobTask, condition};
use crate::instant;

/// Reason of a pod that gave way to another one.
const PREEMPTION: &str = "PreemptionByScheduler";

/// Reasons of Kubernetes, in other words. (Kubernetes, "Disruptions", pod disruption conditions.)
const REASONS: [(&str, &str); 5] = [
    (PREEMPTION, "it was preempted by a pod of a higher priority"),
    ("EvictionByEvictionAPI", "it was evicted, as by `kubectl drain`"),
    ("DeletionByTaintManager", "its node has a taint that it does not tolerate"),
    ("TerminationByKubelet", "its node shut down, or ran out of memory or disk"),
    ("DeletionByPodGC", "its node is gone"),
];

/// Next step for a job that failed for it.
const HINT: &str = "`restart` in the job file starts it again";

/// Exit code of `wait` for a job that was preempted, as on Slurm.
const PREEMPTED_CODE: i32 = 125;

/// Disruption of the pod of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disruption<'a> {
    reason: &'a str,
    message: &'a str,
    /// Instant at which it was decided; the program ends later, within its grace period.
    pub(super) at: Option<Time>,
}

impl<'a> Disruption<'a> {
    /// Returns the disruption that ended a task; `None` if it ended before, or by itself.
    pub(super) fn of(task: &JobTask<'a>) -> Option<Self> {
        let said = condition(task.pod, "DisruptionTarget").filter(|one| one["status"] == "True")?;
        let text = |field: &str| said[field].as_str().unwrap_or_default();
        let at = instant::parse(text("lastTransitionTime"));
        let had_ended = at.zip(task.ended()).is_some_and(|(at, ended)| ended < at);
        (!had_ended).then(|| Self { reason: text("reason"), message: text("message"), at })
    }

    pub(super) fn is_preemption(self) -> bool {
        self.reason == PREEMPTION
    }

    /// Returns the cause as a clause, with the words of the program that ended the pod.
    pub(super) fn cause(self) -> String {
        let known = REASONS.iter().find(|(reason, _)| *reason == self.reason);
        let words = known.map_or(self.reason, |(_, words)| words);
        if self.message.is_empty() {
            words.to_owned()
        } else {
            format!("{words} ({})", self.message)
        }
    }

    /// Returns the outcome of a job whose task of this rank was the first to end.
    pub(super) fn outcome(self, rank: u32) -> Outcome {
        let cause = self.cause();
        if self.is_preemption() {
            let message = format!("rank {rank} ended: {cause}; {HINT}").into();
            return Outcome::Native { state: PREEMPTION.into(), message, code: PREEMPTED_CODE };
        }
        Outcome::Lost { rank: Rank(rank), reason: format!("{cause}; {HINT}").into() }
    }
}

/// Returns true for the outcome of a job that was preempted.
pub(super) fn is_preempted(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Native { state, .. } if **state == *PREEMPTION)
}

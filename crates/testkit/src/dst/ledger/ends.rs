//! End of attempts, elements and jobs, and dependencies, computed without the engine's results.

use muster_model::{
    AfterCheckpoint, Dependency, DependencyKind, ElementId, JobId, JobSpec, Outcome, Restart, Span,
    Time,
};

use super::budget::{self, Spent};
use super::{ElementPhase, Ledger, LedgerElement, LedgerJob};
use crate::dst::attempt::{LedgerAttempt, LedgerFate};

/// Least number of retries of a failed start (docs/jobs.md, `restart`).
const START_RETRIES: u32 = 3;

impl Ledger {
    /// Ends an attempt all of whose tasks are over.
    pub(super) fn end_attempt(&mut self, at: Time, id: ElementId) {
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        let held = job.held;
        let Some(element) = job.elements.get_mut(&id.index) else { return };
        let ElementPhase::Active(attempt) = &element.phase else { return };
        element.begun |= attempt.has_run;
        if !attempt.is_over() {
            return;
        }
        if let Some(ran_from) =
            attempt.ran_from.filter(|_| attempt.leaving.is_none() && job.spec.time_limit.is_some())
        {
            self.spent.push(Spent {
                leaf: job.leaf.to_string(),
                user: job.spec.user.clone(),
                milli: budget::milli(&attempt.placement),
                from: attempt.held_from,
                ran: at.since(ran_from),
            });
        }
        let fate = attempt.end();
        let again = again(at, &job.spec, attempt, element.restarts, &fate);
        // An evicted attempt keeps the place where it continues, unless it ended otherwise or may
        // not start.
        if held || fate != Some(LedgerFate::Preempted) {
            self.nominations.of.remove(&id);
        }
        if let Some((restarts, not_before)) = again {
            (element.restarts, element.phase) =
                (restarts, ElementPhase::Pending { held, not_before });
            return;
        }
        self.end(
            id,
            match fate {
                None => Outcome::Succeeded,
                Some(LedgerFate::Cancelled(by)) => Outcome::Cancelled { by },
                Some(LedgerFate::Refused { rank, reason }) => Outcome::StartFailed { rank, reason },
                Some(LedgerFate::Failed(outcome)) => outcome,
                Some(LedgerFate::Requeued | LedgerFate::Preempted) => return,
            },
        );
    }

    pub(super) fn end(&mut self, id: ElementId, outcome: Outcome) {
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        let Some(element) = job.elements.get_mut(&id.index) else { return };
        element.begun = true;
        element.phase = ElementPhase::Ended(outcome.clone());
        self.nominations.of.remove(&id);
        self.ends.push((id, outcome));
        let outcomes = job.elements.values().map(|element| match &element.phase {
            ElementPhase::Ended(outcome) => Some(outcome.is_success()),
            ElementPhase::Pending { .. } | ElementPhase::Active(_) => None,
        });
        let all: Option<Vec<bool>> = outcomes.collect();
        if let Some(all) = all {
            let succeeded = all.into_iter().all(|one| one);
            self.jobs.remove(&id.job);
            self.over.insert(id.job, succeeded);
            self.job_ends.push((id.job, succeeded));
        }
    }

    /// Ends elements whose dependency can no longer be satisfied; in order of job numbers, since a
    /// job depends on earlier ones only.
    pub(super) fn dependencies(&mut self) {
        let waiting: Vec<JobId> = self
            .jobs
            .iter()
            .filter(|(_, job)| !job.spec.after.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let begun = |on: &JobId| self.jobs.get(on).is_some_and(LedgerJob::has_begun);
            let Some(job) = self.jobs.get(&id) else { continue };
            let met: Vec<JobId> = job.spec.after.iter().map(|one| one.job).filter(begun).collect();
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.met.extend(met);
            let Some(job) = self.jobs.get(&id) else { continue };
            let Some(on) = job.spec.after.iter().find(|one| self.is_lost(one)).map(|one| one.job)
            else {
                continue;
            };
            let waits =
                |element: &LedgerElement| matches!(element.phase, ElementPhase::Pending { .. });
            let ends: Vec<u32> = job
                .elements
                .iter()
                .filter(|(_, element)| waits(element))
                .map(|(index, _)| *index)
                .collect();
            self.waited_for.insert(id, job.spec.after.clone());
            for index in ends {
                self.end(ElementId { job: id, index }, Outcome::DependencyFailed { on });
            }
        }
    }

    /// Returns whether a dependency can no longer be satisfied.
    pub(super) fn is_lost(&self, one: &Dependency) -> bool {
        match (self.over.get(&one.job), one.kind) {
            (Some(succeeded), DependencyKind::AfterOk) => !succeeded,
            (Some(succeeded), DependencyKind::AfterNotOk) => *succeeded,
            _ => false,
        }
    }

    /// Returns whether all dependencies of a job are satisfied.
    pub(crate) fn is_free(&self, job: &LedgerJob) -> bool {
        job.spec.after.iter().all(|one| match (self.over.get(&one.job), one.kind) {
            (Some(_), DependencyKind::After | DependencyKind::AfterAny) => true,
            (Some(succeeded), DependencyKind::AfterOk) => *succeeded,
            (Some(succeeded), DependencyKind::AfterNotOk) => !succeeded,
            (None, DependencyKind::After) => job.met.contains(&one.job),
            (None, _) => false,
        })
    }
}

/// Returns the number of restarts used and the earliest restart time of an element whose attempt
/// has ended; `None` if it does not restart.
fn again(
    at: Time,
    spec: &JobSpec,
    attempt: &LedgerAttempt,
    restarts: u32,
    fate: &Option<LedgerFate>,
) -> Option<(u32, Time)> {
    let restart = spec.restart;
    // A service that ran long enough is healthy: its restarts count from 0 again.
    let is_healthy = |from: Time| restart.always && at.since(from) >= Restart::HEALTHY_AFTER;
    let used = if attempt.ran_from.is_some_and(is_healthy) { 0 } else { restarts };
    let is_left = |most: u32| used < most;
    match fate {
        Some(LedgerFate::Failed(Outcome::StartFailed { .. })) => None,
        Some(LedgerFate::Failed(outcome))
            if failed_after_warning(spec, attempt, outcome) && attempt.has_saved() =>
        {
            Some((restarts, Time(0)))
        }
        Some(LedgerFate::Failed(outcome))
            if failed_after_warning(spec, attempt, outcome)
                && is_left(restart.max_restarts.max(START_RETRIES)) =>
        {
            Some(next_restart(at, restart, used))
        }
        Some(LedgerFate::Requeued | LedgerFate::Preempted) => Some((restarts, Time(0))),
        Some(LedgerFate::Refused { .. }) if is_left(restart.max_restarts.max(START_RETRIES)) => {
            Some(next_restart(at, restart, used))
        }
        None | Some(LedgerFate::Failed(Outcome::TimedOut)) if restart.always => {
            Some(next_restart(at, restart, used))
        }
        Some(LedgerFate::Failed(outcome))
            if !matches!(outcome, Outcome::TimedOut | Outcome::Idle { .. })
                && restart.on_failure
                && is_left(restart.max_restarts) =>
        {
            Some(next_restart(at, restart, used))
        }
        _ => None,
    }
}

/// Returns whether a job that was warned of its limit, and is to be requeued then, ended by itself
/// with a failure.
fn failed_after_warning(spec: &JobSpec, attempt: &LedgerAttempt, outcome: &Outcome) -> bool {
    spec.checkpoint.is_some_and(|terms| terms.then == AfterCheckpoint::Requeue)
        && attempt.was_warned()
        && !matches!(outcome, Outcome::TimedOut | Outcome::Idle { .. })
}

/// Returns one more restart, after a back-off that doubles.
fn next_restart(at: Time, restart: Restart, used: u32) -> (u32, Time) {
    let wait = (0..used).fold(restart.backoff.0, |wait, _| wait.saturating_mul(2));
    (used + 1, at + Span(wait).min(Restart::BACKOFF_CAP))
}

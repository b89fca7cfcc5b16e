//! How attempts, elements and jobs must end, and who may start after whom. It does not look at what
//! the engine says of it.

use muster_model::{
    AfterCheckpoint, Dependency, DependencyKind, ElementId, JobId, JobSpec, Outcome, Restart, Span,
    Time,
};

use super::{Book, Element, Job, Phase};
use crate::storm::attempt::{Attempt, Fate};
use crate::storm::budget::{self, Spent};

/// A failed start is tried again at least so often (docs/jobs.md, `restart`).
const START_RETRIES: u32 = 3;

impl Book {
    /// An attempt of which every task is over is over.
    pub(super) fn settle(&mut self, at: Time, id: ElementId) {
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        let held = job.held;
        let Some(element) = job.elements.get_mut(&id.index) else { return };
        let Phase::Active(attempt) = &element.phase else { return };
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
        // Who goes on by a plan does unless it has come to another end on the way, or may not
        // start.
        if held || fate != Some(Fate::Preempted) {
            self.claims.of.remove(&id);
        }
        if let Some((restarts, not_before)) = again {
            (element.restarts, element.phase) = (restarts, Phase::Waits { held, not_before });
            return;
        }
        self.end(
            id,
            match fate {
                None => Outcome::Succeeded,
                Some(Fate::Cancelled(by)) => Outcome::Cancelled { by },
                Some(Fate::Refused { rank, reason }) => Outcome::StartFailed { rank, reason },
                Some(Fate::Failed(outcome)) => outcome,
                Some(Fate::Requeued | Fate::Preempted) => return,
            },
        );
    }

    pub(super) fn end(&mut self, id: ElementId, outcome: Outcome) {
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        let Some(element) = job.elements.get_mut(&id.index) else { return };
        element.begun = true;
        element.phase = Phase::Ended(outcome.clone());
        self.claims.of.remove(&id);
        self.ends.push((id, outcome));
        let outcomes = job.elements.values().map(|element| match &element.phase {
            Phase::Ended(outcome) => Some(outcome.is_success()),
            Phase::Waits { .. } | Phase::Active(_) => None,
        });
        let all: Option<Vec<bool>> = outcomes.collect();
        if let Some(all) = all {
            let succeeded = all.into_iter().all(|one| one);
            self.jobs.remove(&id.job);
            self.over.insert(id.job, succeeded);
            self.job_ends.push((id.job, succeeded));
        }
    }

    /// Ends what waits for something that can never be; by number, since a job may only wait for
    /// earlier ones.
    pub(super) fn dependencies(&mut self) {
        let waiting: Vec<JobId> = self
            .jobs
            .iter()
            .filter(|(_, job)| !job.spec.after.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let begun = |on: &JobId| self.jobs.get(on).is_some_and(Job::has_begun);
            let Some(job) = self.jobs.get(&id) else { continue };
            let met: Vec<JobId> = job.spec.after.iter().map(|one| one.job).filter(begun).collect();
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.met.extend(met);
            let Some(job) = self.jobs.get(&id) else { continue };
            let Some(on) = job.spec.after.iter().find(|one| self.is_lost(one)).map(|one| one.job)
            else {
                continue;
            };
            let waits = |element: &Element| matches!(element.phase, Phase::Waits { .. });
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

    /// True when a dependency can never be met.
    pub(super) fn is_lost(&self, one: &Dependency) -> bool {
        match (self.over.get(&one.job), one.kind) {
            (Some(succeeded), DependencyKind::AfterOk) => !succeeded,
            (Some(succeeded), DependencyKind::AfterNotOk) => *succeeded,
            _ => false,
        }
    }

    /// True when a job waits for nobody.
    pub(crate) fn is_free(&self, job: &Job) -> bool {
        job.spec.after.iter().all(|one| match (self.over.get(&one.job), one.kind) {
            (Some(_), DependencyKind::After | DependencyKind::AfterAny) => true,
            (Some(succeeded), DependencyKind::AfterOk) => *succeeded,
            (Some(succeeded), DependencyKind::AfterNotOk) => !succeeded,
            (None, DependencyKind::After) => job.met.contains(&one.job),
            (None, _) => false,
        })
    }
}

/// When an element starts again whose attempt has ended so, and how many restarts it has used up by
/// then.
fn again(
    at: Time,
    spec: &JobSpec,
    attempt: &Attempt,
    restarts: u32,
    fate: &Option<Fate>,
) -> Option<(u32, Time)> {
    let restart = spec.restart;
    // What ran long enough is healthy, where it always restarts.
    let is_healthy = |from: Time| restart.always && at.since(from) >= Restart::HEALTHY_AFTER;
    let used = if attempt.ran_from.is_some_and(is_healthy) { 0 } else { restarts };
    let is_left = |most: u32| used < most;
    match fate {
        Some(Fate::Failed(Outcome::StartFailed { .. })) => None,
        Some(Fate::Failed(outcome))
            if takes_turns(spec, attempt, outcome) && attempt.has_saved() =>
        {
            Some((restarts, Time(0)))
        }
        Some(Fate::Failed(outcome))
            if takes_turns(spec, attempt, outcome)
                && is_left(restart.max_restarts.max(START_RETRIES)) =>
        {
            Some(next_restart(at, restart, used))
        }
        Some(Fate::Requeued | Fate::Preempted) => Some((restarts, Time(0))),
        Some(Fate::Refused { .. }) if is_left(restart.max_restarts.max(START_RETRIES)) => {
            Some(next_restart(at, restart, used))
        }
        None | Some(Fate::Failed(Outcome::TimedOut)) if restart.always => {
            Some(next_restart(at, restart, used))
        }
        Some(Fate::Failed(outcome))
            if !matches!(outcome, Outcome::TimedOut | Outcome::Idle { .. })
                && restart.on_failure
                && is_left(restart.max_restarts) =>
        {
            Some(next_restart(at, restart, used))
        }
        _ => None,
    }
}

/// True for a bad end of its own of a job that was warned of its limit, and is to be queued again
/// after that.
fn takes_turns(spec: &JobSpec, attempt: &Attempt, outcome: &Outcome) -> bool {
    spec.checkpoint.is_some_and(|terms| terms.then == AfterCheckpoint::Requeue)
        && attempt.was_warned()
        && !matches!(outcome, Outcome::TimedOut | Outcome::Idle { .. })
}

/// One restart more, after a wait that doubles.
fn next_restart(at: Time, restart: Restart, used: u32) -> (u32, Time) {
    let wait = (0..used).fold(restart.backoff.0, |wait, _| wait.saturating_mul(2));
    (used + 1, at + Span(wait).min(Restart::BACKOFF_CAP))
}

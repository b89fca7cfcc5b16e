//! Dependencies between jobs, and their effect. Job ids only increase and a job may only depend on
//! earlier ones, so there are no cycles; changes spread by a work list, not by recursion.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use muster_model::{Dependency, DependencyKind, JobId, Outcome, Time};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::State;
use super::jobs::JobTable;

/// Number of ended jobs that are remembered for dependencies: a bound on memory. A dependency on a
/// job older than the last 100,000 is most likely a mistake in a script.
const REMEMBERED: usize = 100_000;

/// Recently ended jobs, and whether they succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "VecDeque<(JobId, bool)>", into = "VecDeque<(JobId, bool)>")]
pub(crate) struct RecentJobs {
    order: VecDeque<(JobId, bool)>,
    by_job: FxHashMap<JobId, bool>,
}

impl RecentJobs {
    pub(crate) fn get(&self, job: JobId) -> Option<bool> {
        self.by_job.get(&job).copied()
    }

    /// Returns the largest job number that is remembered.
    pub(crate) fn last(&self) -> JobId {
        self.order.iter().map(|(job, _)| *job).max().unwrap_or_default()
    }

    fn push(&mut self, job: JobId, succeeded: bool) {
        if self.order.len() == REMEMBERED
            && let Some((oldest, _)) = self.order.pop_front()
        {
            self.by_job.remove(&oldest);
        }
        self.order.push_back((job, succeeded));
        self.by_job.insert(job, succeeded);
    }
}

impl From<VecDeque<(JobId, bool)>> for RecentJobs {
    fn from(order: VecDeque<(JobId, bool)>) -> Self {
        let by_job = order.iter().copied().collect();
        Self { order, by_job }
    }
}

impl From<RecentJobs> for VecDeque<(JobId, bool)> {
    fn from(recent: RecentJobs) -> Self {
        recent.order
    }
}

/// State of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Satisfaction {
    Met,
    Unsatisfied,
    Impossible,
    /// The job is not remembered.
    Unknown,
}

/// Dependencies between jobs in memory, and what is remembered of jobs that ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependencies {
    pub(crate) recent: RecentJobs,
    /// Jobs that depend on a job, by the job that they depend on.
    dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Jobs whose dependents have not been re-checked yet; empty between events.
    changed: BTreeSet<JobId>,
}

impl Dependencies {
    pub(crate) fn satisfaction(&self, jobs: &JobTable, dependency: &Dependency) -> Satisfaction {
        if let Some(job) = jobs.get(&dependency.job) {
            return match dependency.kind {
                DependencyKind::After if job.record.has_begun() => Satisfaction::Met,
                _ => Satisfaction::Unsatisfied,
            };
        }
        match (self.recent.get(dependency.job), dependency.kind) {
            (None, _) => Satisfaction::Unknown,
            (Some(_), DependencyKind::After | DependencyKind::AfterAny)
            | (Some(true), DependencyKind::AfterOk)
            | (Some(false), DependencyKind::AfterNotOk) => Satisfaction::Met,
            (Some(false), DependencyKind::AfterOk) | (Some(true), DependencyKind::AfterNotOk) => {
                Satisfaction::Impossible
            }
        }
    }

    /// Registers a job as waiting for its unsatisfied dependencies.
    pub(super) fn register(&mut self, id: JobId, waits_for: &[Dependency]) {
        for dependency in waits_for {
            self.dependents.entry(dependency.job).or_default().insert(id);
        }
    }

    /// Marks a job as started or ended: jobs that depend on it are re-checked at the end of this
    /// event.
    pub(super) fn mark_changed(&mut self, id: JobId) {
        if self.dependents.contains_key(&id) {
            self.changed.insert(id);
        }
    }

    /// Remembers how a job ended.
    pub(super) fn remember(&mut self, id: JobId, succeeded: bool) {
        self.recent.push(id, succeeded);
    }
}

impl State {
    /// Re-checks the dependencies of a job: drops satisfied ones, ends the job if one can never be
    /// satisfied.
    pub(crate) fn check_dependencies(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.record.waits_for.is_empty() {
            return;
        }
        let verdicts: Vec<_> = job
            .record
            .waits_for
            .iter()
            .map(|one| (one.clone(), self.dependencies.satisfaction(&self.jobs, one)))
            .collect();
        // A job that is no longer remembered ended long ago with an unknown outcome, so only kinds
        // that do not depend on the outcome are satisfied.
        let is_lost = |one: &Dependency, found: Satisfaction| {
            found == Satisfaction::Impossible
                || found == Satisfaction::Unknown
                    && matches!(one.kind, DependencyKind::AfterOk | DependencyKind::AfterNotOk)
        };
        if let Some((lost, _)) = verdicts.iter().find(|(one, found)| is_lost(one, *found)) {
            let on = lost.job;
            self.end_waiting(now, id, &Outcome::DependencyFailed { on });
            return;
        }
        let open: Vec<Dependency> = verdicts
            .into_iter()
            .filter(|(_, found)| *found == Satisfaction::Unsatisfied)
            .map(|(one, _)| one)
            .collect();
        let job = self.jobs.get_mut(&id).expect("looked up above");
        job.record.waits_for = open;
        self.sync_job(now, id);
    }

    /// Re-checks the jobs that depend on changed jobs, in order of job number. A dependent job has
    /// a higher number than its dependencies, so it sees all ends that this event causes, and the
    /// result does not depend on their order: a job ends at most once, and only ends cause further
    /// changes here.
    pub(super) fn recheck_dependents(&mut self, now: Time) {
        while let Some(id) = self.dependencies.changed.pop_first() {
            let Some(waiters) = self.dependencies.dependents.get(&id).cloned() else { continue };
            for waiter in waiters {
                self.check_dependencies(now, waiter);
                let still = self
                    .jobs
                    .get(&waiter)
                    .is_some_and(|job| job.record.waits_for.iter().any(|one| one.job == id));
                if !still && let Some(waiters) = self.dependencies.dependents.get_mut(&id) {
                    waiters.remove(&waiter);
                }
            }
            if self.dependencies.dependents.get(&id).is_some_and(BTreeSet::is_empty) {
                self.dependencies.dependents.remove(&id);
            }
        }
    }
}

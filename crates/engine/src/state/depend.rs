//! Dependencies between jobs: who waits for whom, and what becomes of them. Ids only grow and a job
//! may only wait for earlier ones, so there are no cycles; news spreads by a work list, not by
//! recursion.

use std::collections::VecDeque;

use muster_model::{Dependency, DependencyKind, JobId, Outcome, Time};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::State;

/// Ended jobs that are remembered for dependencies. A script that names a job which 100,000 others
/// have outlived waits for something else than it thinks.
const REMEMBERED: usize = 100_000;

/// Jobs that ended not long ago, and whether they succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "VecDeque<(JobId, bool)>", into = "VecDeque<(JobId, bool)>")]
pub(crate) struct Recent {
    order: VecDeque<(JobId, bool)>,
    by_job: FxHashMap<JobId, bool>,
}

impl Recent {
    pub(crate) fn get(&self, job: JobId) -> Option<bool> {
        self.by_job.get(&job).copied()
    }

    /// The largest number that is remembered.
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

impl From<VecDeque<(JobId, bool)>> for Recent {
    fn from(order: VecDeque<(JobId, bool)>) -> Self {
        let by_job = order.iter().copied().collect();
        Self { order, by_job }
    }
}

impl From<Recent> for VecDeque<(JobId, bool)> {
    fn from(recent: Recent) -> Self {
        recent.order
    }
}

/// What is known of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Satisfaction {
    Met,
    Open,
    Impossible,
    /// The job is not remembered.
    Unknown,
}

impl State {
    pub(crate) fn satisfaction(&self, dependency: &Dependency) -> Satisfaction {
        if let Some(job) = self.jobs.get(&dependency.job) {
            return match dependency.kind {
                DependencyKind::After if job.record.has_begun() => Satisfaction::Met,
                _ => Satisfaction::Open,
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

    /// Looks at what a job waits for: drops what is met, ends the job when something can never be.
    pub(crate) fn check_dependencies(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.record.waits_for.is_empty() {
            return;
        }
        let judged: Vec<_> =
            job.record.waits_for.iter().map(|one| (one.clone(), self.satisfaction(one))).collect();
        // A job that is forgotten by now ended long ago; nobody can say how, so only success-blind
        // kinds are met.
        let is_lost = |one: &Dependency, found: Satisfaction| {
            found == Satisfaction::Impossible
                || found == Satisfaction::Unknown
                    && matches!(one.kind, DependencyKind::AfterOk | DependencyKind::AfterNotOk)
        };
        if let Some((lost, _)) = judged.iter().find(|(one, found)| is_lost(one, *found)) {
            let on = lost.job;
            self.end_waiting(now, id, &Outcome::DependencyFailed { on });
            return;
        }
        let open: Vec<Dependency> = judged
            .into_iter()
            .filter(|(_, found)| *found == Satisfaction::Open)
            .map(|(one, _)| one)
            .collect();
        let job = self.jobs.get_mut(&id).expect("looked up above");
        job.record.waits_for = open;
        self.sync_job(now, id);
    }

    /// Has a job told when what it still waits for begins or ends.
    pub(crate) fn await_dependencies(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        for dependency in &job.record.waits_for {
            self.waiters.entry(dependency.job).or_default().insert(id);
        }
    }

    /// A job has begun or ended: whoever waits for it will look again at the end of this event.
    pub(crate) fn announce(&mut self, id: JobId) {
        if self.waiters.contains_key(&id) {
            self.news.insert(id);
        }
    }

    /// Remembers how a job ended.
    pub(crate) fn remember(&mut self, id: JobId, succeeded: bool) {
        self.recent.push(id, succeeded);
    }

    /// Tells the waiters of every job in the news, by number: who waits has a higher one, so
    /// whoever is told finds all ends that this event brings, and says the same of them whichever
    /// came first. Ends: a job ends at most once, and only ends make news here.
    pub(super) fn spread_news(&mut self, now: Time) {
        while let Some(id) = self.news.pop_first() {
            let Some(waiters) = self.waiters.get(&id).cloned() else { continue };
            for waiter in waiters {
                self.check_dependencies(now, waiter);
                let still = self
                    .jobs
                    .get(&waiter)
                    .is_some_and(|job| job.record.waits_for.iter().any(|one| one.job == id));
                if !still && let Some(waiters) = self.waiters.get_mut(&id) {
                    waiters.remove(&waiter);
                }
            }
            if self.waiters.get(&id).is_some_and(std::collections::BTreeSet::is_empty) {
                self.waiters.remove(&id);
            }
        }
    }
}

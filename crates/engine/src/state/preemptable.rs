//! Attempts that could be preempted, by queue and priority. It chooses none.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{ElementId, JobId, JobSpec, Protection, Span, Time};
use muster_policy::{LeafId, ModelId, UserId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::job::{Phase, RunStage};
use super::jobs::JobTable;
use crate::pool::HoldKey;

/// An attempt that holds resources and is not being evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreemptableAttempt {
    pub(crate) attempt: u32,
    pub(crate) key: HoldKey,
    pub(crate) user: UserId,
    pub(crate) gpus: SmallVec<[(ModelId, u64); 1]>,
    /// Instant since which work is unsaved; `None` while no user process runs.
    pub(crate) unsaved_since: Option<Time>,
    pub(crate) held_from: Time,
    /// Protection asked for by its job; that of its queue is added.
    pub(crate) protect: Protection,
    /// Longest time that an eviction takes: to save progress and to end.
    pub(crate) delay: Span,
}

impl PreemptableAttempt {
    /// Returns the longest time that an eviction takes: to save progress, if the attempt runs and
    /// supports checkpoints, and to end.
    pub(crate) fn eviction_delay(spec: &JobSpec, is_running: bool) -> Span {
        spec.grace + spec.checkpoint.filter(|_| is_running).map_or(Span(0), |terms| terms.lead)
    }

    /// Returns the GPU time that an eviction now would lose, in thousandths of a GPU times
    /// milliseconds.
    pub(crate) fn unsaved_gpu_time(&self, now: Time) -> u64 {
        self.unsaved_since.map_or(0, |since| self.milli().saturating_mul(now.since(since).0))
    }

    /// Returns the thousandths of GPUs that it holds, of all models.
    fn milli(&self) -> u64 {
        self.gpus.iter().map(|(_, milli)| milli).sum()
    }

    /// Returns the time before which an element must not reclaim quota from this attempt; `None` if it may now. The
    /// element must wait for `reclaim_after` if the attempt would lose more work than that for each GPU that the
    /// element takes. It needs `needed_milli` thousandths of GPUs, and waits since `waits_since`.
    pub(crate) fn exempt_until(
        &self,
        now: Time,
        reclaim_after: Span,
        (needed_milli, waits_since): (u64, Time),
    ) -> Option<Time> {
        let until = waits_since + reclaim_after;
        let accepted = self.milli().min(needed_milli).saturating_mul(reclaim_after.0);
        (until > now && self.unsaved_gpu_time(now) > accepted).then_some(until)
    }
}

/// Attempts by queue and priority; within one priority in arbitrary order, since preemption sorts
/// its candidates itself.
pub(crate) type PreemptableAttempts =
    BTreeMap<(LeafId, i32), FxHashMap<ElementId, PreemptableAttempt>>;

/// Index of the attempts that could be preempted.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreemptableIndex {
    pub(crate) attempts: PreemptableAttempts,
    /// Elements of elastic jobs among them, by ordinal.
    pub(crate) elastic: BTreeSet<(JobId, u32)>,
}

impl PreemptableIndex {
    /// Updates the entry of an element according to its attempt.
    pub(super) fn update(&mut self, jobs: &JobTable, id: JobId, ordinal: u32) {
        let Some(job) = jobs.get(&id) else { return };
        let spec = &job.record.spec;
        let place = (job.record.leaf, spec.order_of(ordinal));
        let key = ElementId { job: id, index: job.record.index_of(ordinal) };
        let runner = job.record.elements.get(&ordinal).and_then(|element| {
            let run = element.run.as_ref().filter(|_| element.phase == Phase::Active)?;
            let is_evicted = run.eviction.is_some() || matches!(run.stage, RunStage::Stopping(_));
            let is_running = run.stage == RunStage::Running;
            (!is_evicted).then(|| PreemptableAttempt {
                attempt: element.attempt,
                key: run.key,
                user: job.user,
                gpus: run.gpus.clone(),
                unsaved_since: element.unsaved_since(),
                held_from: run.since(),
                protect: spec.protect_of(ordinal),
                delay: PreemptableAttempt::eviction_delay(spec, is_running),
            })
        });
        match runner {
            Some(runner) => {
                if spec.elastic().is_some() {
                    self.elastic.insert((id, ordinal));
                }
                self.attempts.entry(place).or_default().insert(key, runner);
            }
            None => self.remove(jobs, id, ordinal),
        }
    }

    /// Removes an element before its queue or priority changes.
    pub(crate) fn remove(&mut self, jobs: &JobTable, id: JobId, ordinal: u32) {
        self.elastic.remove(&(id, ordinal));
        let Some(job) = jobs.get(&id) else { return };
        let place = (job.record.leaf, job.record.spec.order_of(ordinal));
        let key = ElementId { job: id, index: job.record.index_of(ordinal) };
        if let Some(there) = self.attempts.get_mut(&place) {
            there.remove(&key);
            if there.is_empty() {
                self.attempts.remove(&place);
            }
        }
    }

    /// Returns the entry of an element, with the queue and priority under which it is stored.
    pub(crate) fn get(
        &self,
        jobs: &JobTable,
        id: ElementId,
    ) -> Option<((LeafId, i32), &PreemptableAttempt)> {
        let record = &jobs.get(&id.job)?.record;
        let place = (record.leaf, record.spec.order_of(record.ordinal_of(id.index)?));
        Some((place, self.attempts.get(&place)?.get(&id)?))
    }

    /// Rebuilds all entries after a change of the queues.
    pub(super) fn rebuild(&mut self, jobs: &JobTable) {
        *self = Self::default();
        for (id, job) in jobs.iter() {
            for ordinal in job.record.active_ordinals() {
                self.update(jobs, *id, ordinal);
            }
        }
    }
}

//! What runs and could be made to go, by queue and priority: who to look at when somebody needs
//! room. It chooses nobody.

use std::collections::BTreeMap;

use muster_model::{ElementId, JobId, JobSpec, Protection, Span, Time};
use muster_policy::{LeafId, ModelId, UserId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::State;
use super::job::{Phase, RunStage};
use super::pool::HoldKey;

/// An attempt that holds resources and was not told to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runner {
    pub(crate) attempt: u32,
    pub(crate) key: HoldKey,
    pub(crate) user: UserId,
    pub(crate) gpus: SmallVec<[(ModelId, u64); 1]>,
    /// Since when work would be lost; `None` while no user process runs.
    pub(crate) unsaved_since: Option<Time>,
    pub(crate) held_from: Time,
    /// Its job's own terms; its queue's come on top.
    pub(crate) protect: Protection,
    /// How long it takes at most to go: to save its progress, and to end.
    pub(crate) delay: Span,
}

impl Runner {
    /// How long an attempt takes at most to go: to save its progress, where it runs and does that,
    /// and to end.
    pub(crate) fn delay(spec: &JobSpec, is_running: bool) -> Span {
        spec.grace + spec.checkpoint.filter(|_| is_running).map_or(Span(0), |terms| terms.lead)
    }

    /// GPU time that would be lost if it went now, in thousandths of a GPU times milliseconds.
    pub(crate) fn lost(&self, now: Time) -> u64 {
        let milli: u64 = self.gpus.iter().map(|(_, milli)| milli).sum();
        self.unsaved_since.map_or(0, |since| milli.saturating_mul(now.since(since).0))
    }
}

/// Runners by queue and priority; those of one in no meaningful order, since whoever looks for
/// somebody brings an order.
pub(crate) type Runners = BTreeMap<(LeafId, i32), FxHashMap<ElementId, Runner>>;

impl State {
    /// Brings the runner of an element in line with its attempt.
    pub(super) fn track(&mut self, id: JobId, ordinal: u32) {
        let Some(job) = self.jobs.get(&id) else { return };
        let spec = &job.record.spec;
        let place = (job.record.leaf, spec.order_of(ordinal));
        let key = ElementId { job: id, index: job.record.index_of(ordinal) };
        let runner = job.record.elements.get(&ordinal).and_then(|element| {
            let run = element.run.as_ref().filter(|_| element.phase == Phase::Active)?;
            let goes = run.leaving.is_some() || matches!(run.stage, RunStage::Stopping(_));
            let is_running = run.stage == RunStage::Running;
            (!goes).then(|| Runner {
                attempt: element.attempt,
                key: run.key,
                user: job.user,
                gpus: run.gpus.clone(),
                unsaved_since: element.unsaved_since(),
                held_from: run.held_from,
                protect: spec.protect_of(ordinal),
                delay: Runner::delay(spec, is_running),
            })
        });
        match runner {
            Some(runner) => {
                if spec.elastic().is_some() {
                    self.elastic.insert((id, ordinal));
                }
                self.runners.entry(place).or_default().insert(key, runner);
            }
            None => self.untrack(id, ordinal),
        }
    }

    /// Takes an element out before its place changes.
    pub(super) fn untrack(&mut self, id: JobId, ordinal: u32) {
        self.elastic.remove(&(id, ordinal));
        let Some(job) = self.jobs.get(&id) else { return };
        let place = (job.record.leaf, job.record.spec.order_of(ordinal));
        let key = ElementId { job: id, index: job.record.index_of(ordinal) };
        if let Some(there) = self.runners.get_mut(&place) {
            there.remove(&key);
            if there.is_empty() {
                self.runners.remove(&place);
            }
        }
    }

    /// The runner of an element, with the queue and the order that it is known by.
    pub(crate) fn runner(&self, id: ElementId) -> Option<((LeafId, i32), &Runner)> {
        let record = &self.jobs.get(&id.job)?.record;
        let place = (record.leaf, record.spec.order_of(record.ordinal_of(id.index)?));
        Some((place, self.runners.get(&place)?.get(&id)?))
    }

    /// Works all runners out again, after queues have changed.
    pub(super) fn track_all(&mut self) {
        self.runners.clear();
        self.elastic.clear();
        let active: Vec<(JobId, u32)> = self
            .jobs
            .iter()
            .flat_map(|(id, job)| {
                let active = job
                    .record
                    .elements
                    .iter()
                    .filter(|(_, element)| element.phase == Phase::Active);
                active.map(|(ordinal, _)| (*id, *ordinal))
            })
            .collect();
        for (id, ordinal) in active {
            self.track(id, ordinal);
        }
    }
}

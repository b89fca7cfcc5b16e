//! Pods that wait, in their order: higher priority first, then who was created first. A pod that
//! found no room backs off, and is tried again once something has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{Span, Time};

use crate::fleet::JobNo;

/// First and longest pause after a try (pkg/scheduler/backend/queue,
/// DefaultPodInitialBackoffDuration and DefaultPodMaxBackoffDuration). It doubles with each.
const FIRST_BACKOFF: Span = Span::from_secs(1);
const LONGEST_BACKOFF: Span = Span::from_secs(10);

/// The pause of something that was tried in vain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
    until: Time,
}

impl Backoff {
    /// It may be tried from then on.
    pub(super) fn until(self) -> Time {
        self.until
    }

    /// It was tried in vain.
    pub(super) fn longer(&mut self, now: Time) {
        let pause = FIRST_BACKOFF.0.saturating_mul(1 << self.tries.min(10)).min(LONGEST_BACKOFF.0);
        (self.tries, self.until) = (self.tries + 1, now + Span(pause));
    }
}

/// Place in the queue.
type Turn = (i64, u64);

/// A pod that waits.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) job: JobNo,
    pub(super) rank: u32,
    shape: Arc<Resources>,
    backoff: Backoff,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    created: u64,
    pods: BTreeMap<Turn, Pod>,
    /// Pods to be tried, since something has changed since they were.
    to_try: BTreeSet<Turn>,
}

impl Waiting {
    /// A pod is created.
    pub(super) fn create(&mut self, job: JobNo, rank: u32, priority: i32, shape: &Arc<Resources>) {
        self.created += 1;
        let turn = (-i64::from(priority), self.created);
        let pod = Pod { job, rank, shape: Arc::clone(shape), backoff: Backoff::default() };
        self.pods.insert(turn, pod);
        self.to_try.insert(turn);
    }

    /// Something was freed: all are tried again.
    pub(super) fn changed(&mut self) {
        self.to_try.extend(self.pods.keys());
    }

    /// The first after `last` that may be tried now, and is not of a shape that has just found no
    /// room.
    pub(super) fn next(
        &mut self,
        now: Time,
        last: Option<Turn>,
        without: &BTreeSet<Arc<Resources>>,
    ) -> Option<(Turn, Pod)> {
        let from = last.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut turns = self.to_try.range((from, std::ops::Bound::Unbounded));
        let turn = turns.find(|turn| {
            let pod = &self.pods[turn];
            pod.backoff.until() <= now && !without.contains(&pod.shape)
        });
        turn.map(|turn| (*turn, self.pods[turn].clone()))
    }

    /// The pods of a job are deleted.
    pub(super) fn delete(&mut self, job: JobNo) {
        self.pods.retain(|_, pod| pod.job != job);
        let pods = &self.pods;
        self.to_try.retain(|turn| pods.contains_key(turn));
    }

    /// It has found a node.
    pub(super) fn bound(&mut self, turn: Turn) {
        self.pods.remove(&turn);
        self.to_try.remove(&turn);
    }

    /// It, and all to be tried now that ask for the same, have found no room.
    pub(super) fn found_none(&mut self, now: Time, turn: Turn) {
        let shape = Arc::clone(&self.pods[&turn].shape);
        let pods = &mut self.pods;
        self.to_try.retain(|turn| {
            let Some(pod) =
                pods.get_mut(turn).filter(|pod| pod.backoff.until() <= now && pod.shape == shape)
            else {
                return true;
            };
            pod.backoff.longer(now);
            false
        });
    }

    /// Whether a pod that waits may be tried, and when at the earliest.
    pub(super) fn next_try(&self) -> Option<Time> {
        self.to_try.iter().map(|turn| self.pods[turn].backoff.until()).min()
    }
}

//! Pending pods in order: higher priority first, then earlier creation. A pod that did not fit
//! backs off, and is retried once something has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{Span, Time};

use crate::fleet::JobNo;

/// First and longest back-off (pkg/scheduler/backend/queue, DefaultPodInitialBackoffDuration and
/// DefaultPodMaxBackoffDuration). It doubles with each try.
const FIRST_BACKOFF: Span = Span::from_secs(1);
const LONGEST_BACKOFF: Span = Span::from_secs(10);

/// Back-off after failed tries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
    until: Time,
}

impl Backoff {
    /// Returns the earliest time of the next try.
    pub(super) fn until(self) -> Time {
        self.until
    }

    /// Counts a failed try.
    pub(super) fn longer(&mut self, now: Time) {
        let pause = FIRST_BACKOFF.0.saturating_mul(1 << self.tries.min(10)).min(LONGEST_BACKOFF.0);
        (self.tries, self.until) = (self.tries + 1, now + Span(pause));
    }
}

/// Position of a pod: negated priority, then creation number.
type PodPosition = (i64, u64);

#[derive(Clone, Debug)]
pub(super) struct WaitingPod {
    pub(super) job: JobNo,
    pub(super) rank: u32,
    shape: Arc<Resources>,
    backoff: Backoff,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PodQueue {
    created: u64,
    pods: BTreeMap<PodPosition, WaitingPod>,
    /// Pods to be tried because something has changed since their last try.
    to_try: BTreeSet<PodPosition>,
}

impl PodQueue {
    pub(super) fn create(&mut self, job: JobNo, rank: u32, priority: i32, shape: &Arc<Resources>) {
        self.created += 1;
        let turn = (-i64::from(priority), self.created);
        let pod = WaitingPod { job, rank, shape: Arc::clone(shape), backoff: Backoff::default() };
        self.pods.insert(turn, pod);
        self.to_try.insert(turn);
    }

    /// Marks all pods to be tried after resources were freed.
    pub(super) fn changed(&mut self) {
        self.to_try.extend(self.pods.keys());
    }

    /// Returns the first pod after `last` that may be tried now, without shapes that did not fit in
    /// this pass.
    pub(super) fn next(
        &mut self,
        now: Time,
        last: Option<PodPosition>,
        without: &BTreeSet<Arc<Resources>>,
    ) -> Option<(PodPosition, WaitingPod)> {
        let from = last.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut turns = self.to_try.range((from, std::ops::Bound::Unbounded));
        let turn = turns.find(|turn| {
            let pod = &self.pods[turn];
            pod.backoff.until() <= now && !without.contains(&pod.shape)
        });
        turn.map(|turn| (*turn, self.pods[turn].clone()))
    }

    /// Deletes the pods of a job.
    pub(super) fn delete(&mut self, job: JobNo) {
        self.pods.retain(|_, pod| pod.job != job);
        let pods = &self.pods;
        self.to_try.retain(|turn| pods.contains_key(turn));
    }

    /// Removes a pod that got a node.
    pub(super) fn bound(&mut self, turn: PodPosition) {
        self.pods.remove(&turn);
        self.to_try.remove(&turn);
    }

    /// Backs off a pod that did not fit, and all with the same requests that could be tried now.
    pub(super) fn back_off(&mut self, now: Time, turn: PodPosition) {
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

    /// Returns the earliest time of the next try; `None` if there is none.
    pub(super) fn next_try(&self) -> Option<Time> {
        self.to_try.iter().map(|turn| self.pods[turn].backoff.until()).min()
    }
}

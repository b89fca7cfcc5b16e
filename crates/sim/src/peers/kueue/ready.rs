//! `waitForPodsReady`: a workload whose pods are not all ready in time is evicted, and is pending
//! again after a back-off. On by default since Kueue 0.19. It must not decide who is admitted.
//!
//! Source: apis/config/v1beta2/defaults.go, UpdateRequeueState and GetQueueOrderTimestamp in
//! pkg/workload/workload.go, and admittedNotReadyWorkload in
//! pkg/controller/core/workload_controller.go, Kueue 0.19.2.

use std::collections::BTreeMap;

use muster_model::{Span, Time};

use crate::fleet::JobNo;
use crate::rng::Rng;

/// Time within which all pods of an admitted workload must be ready
/// (DefaultWaitForPodsReadyTimeout), and within which lost ones must be replaced (recoveryTimeout,
/// by default the same).
pub(super) const PODS_READY_TIMEOUT: Span = Span::from_secs(30 * 60);
/// Back-off of a workload that was not ready in time; it doubles, up to an hour
/// (DefaultRequeuingBackoffBaseSeconds and DefaultRequeuingBackoffMaxSeconds).
const REQUEUE_BACKOFF: Span = Span::from_secs(60);
const LONGEST_REQUEUE_BACKOFF: Span = Span::from_secs(3600);
/// Longest random addition to the back-off, as a part of it: 1 in 10,000 (UpdateRequeueState).
const JITTER: u64 = 10_000;

/// Time until an evicted workload is pending again: its job is suspended and its pods stop. An
/// assumption; pods have up to their grace of 30 s, and most need less.
const EVICTION: Span = Span::from_secs(1);

/// Evicted workload that is not pending yet.
#[derive(Clone, Copy, Debug)]
struct Evicted {
    /// Time at which it is pending again.
    back_at: Time,
    /// Time by which its queue sorts it.
    queued_at: Time,
}

/// Evicted workloads, and the number of times that each was not ready in time.
#[derive(Clone, Debug)]
pub(super) struct EvictedWorkloads {
    returning: BTreeMap<JobNo, Evicted>,
    late: BTreeMap<JobNo, u32>,
    rng: Rng,
}

impl EvictedWorkloads {
    pub(super) fn new(seed: u64) -> Self {
        Self { returning: BTreeMap::new(), late: BTreeMap::new(), rng: Rng::new(seed) }
    }

    /// Adds a preempted workload. Its queue sorts it by its creation, so it is ahead of workloads
    /// of its priority that were created later.
    pub(super) fn preempted(&mut self, job: JobNo, created: Time, now: Time) {
        self.returning.insert(job, Evicted { back_at: now + EVICTION, queued_at: created });
    }

    /// Adds a workload whose pods were not ready in time. Its queue sorts it by its eviction
    /// (requeuingStrategy.timestamp).
    pub(super) fn not_ready(&mut self, job: JobNo, now: Time) {
        let times = self.late.entry(job).or_default();
        let pause = REQUEUE_BACKOFF.0.saturating_mul(1 << (*times).min(10));
        let pause = pause.min(LONGEST_REQUEUE_BACKOFF.0);
        *times += 1;
        // Without the jitter, workloads that block each other would return together for ever.
        let pause = pause + self.rng.roll(pause / JITTER + 1);
        self.returning.insert(job, Evicted { back_at: now + Span(pause), queued_at: now });
    }

    /// Removes the workloads that are pending again, with the times by which queues sort them.
    pub(super) fn take_back(&mut self, now: Time) -> Vec<(JobNo, Time)> {
        let back = self.returning.extract_if(.., |_, evicted| evicted.back_at <= now);
        back.map(|(job, evicted)| (job, evicted.queued_at)).collect()
    }

    /// Returns when the next one is pending again.
    pub(super) fn next_back(&self) -> Option<Time> {
        self.returning.values().map(|evicted| evicted.back_at).min()
    }

    pub(super) fn contains(&self, job: JobNo) -> bool {
        self.returning.contains_key(&job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_doubles_up_to_an_hour_with_a_little_jitter() {
        let mut evicted = EvictedWorkloads::new(0);
        for expected in
            [60_000, 120_000, 240_000, 480_000, 960_000, 1_920_000, 3_600_000, 3_600_000]
        {
            evicted.not_ready(JobNo(0), Time(5_000));
            let pause = evicted.next_back().map(|at| at.since(Time(5_000)).0);
            let most = expected + expected / 10_000;
            assert!(pause.is_some_and(|pause| (expected..=most).contains(&pause)), "{pause:?}");
        }
        assert_eq!(evicted.take_back(Time(4_000_000)), [(JobNo(0), Time(5_000))]);
    }
}

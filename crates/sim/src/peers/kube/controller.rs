//! The Job controller: it creates the pods of jobs, at a limited rate, and new ones for those that
//! were lost or have failed. It must not choose nodes.
//!
//! Source: pkg/controller/job/job_controller.go and the flags of kube-controller-manager, release
//! 1.37.

use std::collections::{BTreeMap, VecDeque};

use muster_model::{Span, Time};

use super::client::RateLimiter;
use crate::fleet::{ClusterState, JobNo};
use crate::rng::Rng;

/// Order in which pods of jobs that arrive at one instant are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The Job controller's: in batches of 1, 2, 4, 8 and so on (pkg/controller/job,
    /// SlowStartInitialBatchSize), with jobs in turn.
    Batches,
    /// Raw pods, one by one, of these jobs in this order. No controller replaces them, and their
    /// processes wait for each other for ever.
    Given(Vec<JobNo>),
}

/// Requests per second of the controller, and burst after a pause (`--kube-api-qps` and
/// `--kube-api-burst` of kube-controller-manager). Only creations are counted here.
const CREATES_PER_SECOND: i64 = 20;
const CREATE_BURST: i64 = 30;

/// Delay before pods are created for failed ones; it doubles with each failed pod of the job
/// (DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff).
const FAILURE_BACKOFF: Span = Span::from_secs(10);
const LONGEST_FAILURE_BACKOFF: Span = Span::from_secs(600);
/// Longest random addition to that delay. An assumption: kubelet and controller notice a failed pod
/// within about a second; without it, jobs that fail together would return together for ever.
const NOTICE: Span = Span::from_secs(1);

/// Failed pods of a job.
#[derive(Clone, Debug, Default)]
struct FailedPods {
    /// Number of pods that have failed so far.
    failures: u32,
    /// Time before which none is created again.
    retry_at: Time,
    /// Ranks to be created again.
    ranks: Vec<u32>,
}

/// Pods that are still to be created.
#[derive(Clone, Debug)]
pub(super) struct JobController {
    pub(super) creation: Creation,
    /// Jobs that arrived at this instant.
    fresh: Vec<JobNo>,
    pods: VecDeque<(JobNo, u32)>,
    failed: BTreeMap<JobNo, FailedPods>,
    limiter: RateLimiter,
    rng: Rng,
}

impl JobController {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            creation: Creation::Batches,
            fresh: Vec::new(),
            pods: VecDeque::new(),
            failed: BTreeMap::new(),
            limiter: RateLimiter::new(CREATES_PER_SECOND, CREATE_BURST),
            rng: Rng::new(seed),
        }
    }

    pub(super) fn arrived(&mut self, job: JobNo) {
        self.fresh.push(job);
    }

    /// Replaces a pod that was lost with its node.
    pub(super) fn replace(&mut self, job: JobNo, rank: u32) {
        self.pods.push_back((job, rank));
    }

    /// Replaces pods of a job that have failed, after a delay.
    pub(super) fn failed(&mut self, now: Time, job: JobNo, ranks: &[u32]) {
        let failed = self.failed.entry(job).or_default();
        failed.failures += ranks.len() as u32;
        let pause = FAILURE_BACKOFF.0.saturating_mul(1 << (failed.failures - 1).min(10));
        let notice = self.rng.roll(NOTICE.0);
        failed.retry_at = now + Span(pause.min(LONGEST_FAILURE_BACKOFF.0) + notice);
        failed.ranks.extend(ranks);
    }

    /// Forgets the pods of a job that is suspended.
    pub(super) fn delete(&mut self, job: JobNo) {
        self.fresh.retain(|fresh| *fresh != job);
        self.pods.retain(|(other, _)| *other != job);
        self.failed.remove(&job);
    }

    /// Forgets the failures of a job that has ended.
    pub(super) fn ended(&mut self, job: JobNo) {
        self.failed.remove(&job);
    }

    /// Returns the next pod to be created, if the rate allows one now.
    pub(super) fn next(&mut self, now: Time) -> Option<(JobNo, u32)> {
        if self.pods.is_empty() || !self.limiter.take(now) {
            return None;
        }
        self.pods.pop_front()
    }

    /// Returns when it creates pods next.
    pub(super) fn next_creation(&self) -> Option<Time> {
        let limited = (!self.pods.is_empty()).then(|| self.limiter.ready());
        let failed = self.failed.values().filter(|failed| !failed.ranks.is_empty());
        limited.into_iter().chain(failed.map(|failed| failed.retry_at)).min()
    }

    /// Queues the pods of jobs that arrived at this instant, and of those whose delay is over.
    pub(super) fn enqueue(&mut self, cluster: &ClusterState) {
        let now = cluster.now();
        for (job, failed) in self.failed.iter_mut().filter(|(_, failed)| failed.retry_at <= now) {
            self.pods.extend(failed.ranks.drain(..).map(|rank| (*job, rank)));
        }
        let fresh = std::mem::take(&mut self.fresh);
        let mut created = vec![0; fresh.len()];
        let mut create = |at: usize, pods: u32| {
            let until = cluster.job(fresh[at]).tasks.min(created[at] + pods);
            self.pods.extend((created[at]..until).map(|rank| (fresh[at], rank)));
            let is_more = until > created[at];
            created[at] = until;
            is_more
        };
        match &self.creation {
            Creation::Batches => {
                let mut batch = 1;
                while (0..fresh.len()).fold(false, |more, at| create(at, batch) | more) {
                    batch *= 2;
                }
            }
            Creation::Given(order) => {
                for job in order {
                    let at = fresh.iter().position(|fresh| fresh == job);
                    at.map(|at| create(at, 1));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_with_each_failed_pod_up_to_ten_minutes() {
        let mut controller = JobController::new(0);
        for (pods, secs) in [(1, 10), (1, 20), (2, 80), (4, 600)] {
            controller.failed(Time(0), JobNo(0), &vec![0; pods]);
            let delay = controller.next_creation().map(|at| at.0);
            assert!(delay.is_some_and(|delay| (secs * 1000..secs * 1000 + 1000).contains(&delay)));
        }
    }
}

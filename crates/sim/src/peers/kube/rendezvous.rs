//! Rendezvous of the processes of a job: pods that have a node wait for the others, and fail if
//! these do not come in time. It must not create or place pods.
//!
//! Source: torch/distributed/elastic/rendezvous/dynamic_rendezvous.py (`join`, 600 s).

use std::collections::BTreeMap;

use muster_model::{Span, Time};

use crate::fleet::{ClusterState, JobNo};

/// Time for which a process waits for the others of its job (`join_timeout` of torchrun, default).
const JOIN_TIMEOUT: Span = Span::from_secs(600);

/// Pods that have a node and wait for others of their job, and since when.
#[derive(Clone, Debug, Default)]
pub(super) struct Rendezvous {
    since: BTreeMap<(JobNo, u32), Time>,
}

impl Rendezvous {
    /// Adds a pod that has just got its node; with the last one, none waits any more.
    pub(super) fn joined(&mut self, cluster: &ClusterState, job: JobNo, rank: u32) {
        if cluster.runs(job) {
            self.left(job);
        } else {
            self.since.insert((job, rank), cluster.now());
        }
    }

    /// Lets the remaining pods of a job wait again after it lost some.
    pub(super) fn lost(&mut self, cluster: &ClusterState, job: JobNo) {
        for rank in 0..cluster.job(job).tasks {
            if cluster.place_of(job, rank).is_some() {
                self.since.entry((job, rank)).or_insert(cluster.now());
            } else {
                self.since.remove(&(job, rank));
            }
        }
    }

    /// Removes the pods of a job.
    pub(super) fn left(&mut self, job: JobNo) {
        self.since.extract_if((job, 0)..=(job, u32::MAX), |_, _| true).for_each(drop);
    }

    /// Returns when the next pod fails.
    pub(super) fn next_failure(&self) -> Option<Time> {
        self.since.values().min().map(|since| *since + JOIN_TIMEOUT)
    }

    /// Removes the pods that fail now, by job.
    pub(super) fn take_failed(&mut self, now: Time) -> BTreeMap<JobNo, Vec<u32>> {
        let mut failed: BTreeMap<JobNo, Vec<u32>> = BTreeMap::new();
        let late = self.since.extract_if(.., |_, since| *since + JOIN_TIMEOUT <= now);
        late.for_each(|((job, rank), _)| failed.entry(job).or_default().push(rank));
        failed
    }
}

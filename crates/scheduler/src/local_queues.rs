//! LocalQueues of Kueue, as the scheduler sees them: counts what waits and runs in each, and stops
//! running jobs of a drained one.

use std::collections::BTreeMap;

use muster_kubernetes::kueue::{DEFAULT, LocalQueue, Target};
use muster_kubernetes::object::ObjectKey;
use muster_model::{JobId, Time};

use crate::gang::{GangKey, Pod};
use crate::scheduler::Scheduler;

/// Reason of an end, for users.
const DRAINED: &str = "its queue is drained (`stopPolicy: HoldAndDrain`)";

/// Gangs and single pods of a LocalQueue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Those that wait for nodes or quota, or are held back.
    pub pending: u64,
    /// Those that hold resources.
    pub admitted: u64,
}

impl Scheduler {
    /// Returns what waits and runs, by the namespace and name of the LocalQueue, existing or not.
    #[must_use]
    pub fn counts_of_queues(&self) -> BTreeMap<ObjectKey, QueueCounts> {
        let mut counts: BTreeMap<ObjectKey, QueueCounts> = BTreeMap::new();
        for (key, gang) in &self.gangs {
            let Some(queue) = self.queue_of(key) else { continue };
            let placed = |job: &&JobId| self.batches[*job].placed.is_some();
            let admitted = gang.jobs.iter().filter(placed).count();
            let pending = gang.jobs.len() - admitted;
            // What is held back is not even submitted.
            let held = usize::from(pending == 0 && gang.hold.is_some());
            let sum = counts.entry(queue).or_default();
            sum.admitted += admitted as u64;
            sum.pending += (pending + held) as u64;
        }
        counts
    }

    /// Ends the jobs of a gang whose queue has another place in the tree, so that what runs is adopted
    /// there: the engine moves jobs of a queue that is gone to the default queue.
    pub(crate) fn leave_old_queue(&mut self, now: Time, key: &GangKey) {
        let Some(gang) = self.gangs.get(key).filter(|_| self.local_queues.is_some()) else {
            return;
        };
        let is_elsewhere = |job: &&JobId| {
            let batch = &self.batches[*job];
            let is_running = batch.placed.as_ref().is_some_and(|placed| !placed.is_stopping);
            // Nodes that are kept for expected pods would be lost.
            let has_pods = batch.pods.first().is_some_and(|pod| !self.is_expected(pod));
            // Pods of a gang that name several queues have one job, in the queue of one of them.
            let names_its_queue = |pod: &ObjectKey| {
                let target = self.pods.get(pod).and_then(|pod| self.target_of(pod));
                target.is_none_or(|target| target.queue == batch.spec.queue)
            };
            is_running && has_pods && !batch.pods.iter().any(names_its_queue)
        };
        let jobs: Vec<JobId> = gang.jobs.iter().filter(is_elsewhere).copied().collect();
        for job in jobs {
            self.end_batch(now, job);
        }
    }

    /// Stops what a gang has running, if its queue is drained.
    pub(crate) fn drain(&mut self, key: &GangKey) {
        if !self.local_queue_of(key).is_some_and(|queue| queue.drains) {
            return;
        }
        let jobs: Vec<JobId> = self.gangs[key].jobs.iter().copied().collect();
        for job in jobs {
            self.stop(job, DRAINED);
        }
    }

    /// Returns the ClusterQueue to which the LocalQueue of a pod leads, if both exist.
    fn target_of(&self, pod: &Pod) -> Option<&Target> {
        let queues = self.local_queues.as_ref()?;
        let wishes = self.groups.wishes(&pod.facts);
        let found = queues.find(&pod.facts.key.namespace, wishes.local_queue()).ok()?;
        found.target.as_deref()
    }

    /// Returns the LocalQueue of a gang, if it exists.
    fn local_queue_of(&self, key: &GangKey) -> Option<&LocalQueue> {
        let queues = self.local_queues.as_ref()?;
        let queue = self.queue_of(key)?;
        queues.find(&queue.namespace, Some(&queue.name)).ok()
    }

    /// Returns the LocalQueue that the pods of a gang name, or the default one of their namespace.
    fn queue_of(&self, key: &GangKey) -> Option<ObjectKey> {
        let mut pods = self.gangs.get(key)?.pods.iter();
        let (namespace, wishes) = match pods.find_map(|pod| self.pods.get(pod)) {
            Some(pod) => (&pod.facts.key.namespace, self.groups.wishes(&pod.facts)),
            None => {
                let workload = self.groups.workload_facts(key)?;
                (&workload.key.namespace, workload.wishes.clone())
            }
        };
        Some(ObjectKey::new(namespace, wishes.local_queue().unwrap_or(DEFAULT)))
    }
}

//! Stock Kubernetes: a controller creates the pods of a job, the scheduler takes them one by one,
//! and a pod that has a node keeps it, whether or not the others of its job have theirs. So gangs
//! hold GPUs that they cannot use, and two of them can block each other, until their processes give
//! up and are started again.

use std::collections::BTreeSet;

use muster_model::{NodeId, Time};

use super::client::RateLimiter;
use super::controller::{Creation, JobController};
use super::nodes::{NodePicker, Scoring};
use super::rendezvous::Rendezvous;
use super::waiting::PodQueue;
use crate::fleet::{ClusterState, FleetSite, JobNo, Scheduler, SchedulerError};

/// Model of stock Kubernetes.
#[derive(Clone, Debug)]
pub struct KubeDefault {
    controller: JobController,
    rendezvous: Rendezvous,
    waiting: PodQueue,
    nodes: NodePicker,
    client: RateLimiter,
    /// True if pods wait for the client's budget only.
    is_slowed: bool,
}

impl KubeDefault {
    /// Creates a model with stock settings.
    #[must_use]
    pub fn new(_site: &FleetSite, seed: u64) -> Self {
        Self {
            controller: JobController::new(seed),
            rendezvous: Rendezvous::default(),
            waiting: PodQueue::default(),
            nodes: NodePicker::new(seed),
            client: RateLimiter::of_bindings(),
            is_slowed: false,
        }
    }

    /// Sets the strategy by which nodes are scored.
    #[must_use]
    pub fn scoring(mut self, scoring: Scoring) -> Self {
        self.nodes.scoring = scoring;
        self
    }

    /// Sets the order in which pods are created.
    #[must_use]
    pub fn creating(mut self, creation: Creation) -> Self {
        self.controller.creation = creation;
        self
    }

    /// Deletes the pending pods of a job that is evicted.
    pub(in crate::peers) fn delete(&mut self, job: JobNo) {
        self.controller.delete(job);
        self.rendezvous.left(job);
        self.waiting.delete(job);
        self.waiting.changed();
    }

    /// Creates as many pods as the controller's rate allows.
    fn create(&mut self, cluster: &ClusterState) {
        self.controller.enqueue(cluster);
        while let Some((job, rank)) = self.controller.next(cluster.now()) {
            let there = cluster.job(job);
            self.waiting.create(job, rank, there.priority, &there.task);
        }
    }

    /// Ends pods that have waited too long for others of their job; the controller replaces them.
    fn fail_waiting(&mut self, cluster: &mut ClusterState) {
        for (job, ranks) in self.rendezvous.take_failed(cluster.now()) {
            ranks.iter().for_each(|rank| cluster.evict_task(job, *rank));
            self.controller.failed(cluster.now(), job, &ranks);
            self.waiting.changed();
        }
    }
}

impl Scheduler for KubeDefault {
    fn arrived(&mut self, _cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        self.controller.arrived(job);
        Ok(())
    }

    fn ended(&mut self, _cluster: &ClusterState, job: JobNo) {
        self.controller.ended(job);
        self.waiting.changed();
    }

    /// Creates new pods for the lost ones, as the controller does; the others keep their nodes.
    fn lost(
        &mut self,
        cluster: &ClusterState,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        for (job, rank) in tasks {
            self.controller.replace(*job, *rank);
            if self.controller.creation == Creation::Batches {
                self.rendezvous.lost(cluster, *job);
            }
        }
        self.waiting.changed();
    }

    fn repaired(&mut self, _cluster: &ClusterState, _node: NodeId, _device: Option<usize>) {
        self.waiting.changed();
    }

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        let pods = self.waiting.next_try();
        let pods =
            pods.map(|next| if self.is_slowed { next.max(self.client.ready()) } else { next });
        let others = [self.controller.next_creation(), self.rendezvous.next_failure()];
        others.into_iter().chain([pods]).flatten().min()
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        self.fail_waiting(cluster);
        self.create(cluster);
        let now = cluster.now();
        let mut no_capacity = BTreeSet::new();
        let mut last = None;
        self.is_slowed = false;
        while let Some((turn, pod)) = self.waiting.next(now, last, &no_capacity) {
            last = Some(turn);
            let shape = &cluster.job(pod.job).task;
            let Some(node) = self.nodes.choose(cluster.pool(), shape) else {
                no_capacity.insert(shape.clone());
                self.waiting.back_off(now, turn);
                continue;
            };
            if !self.client.take(now) {
                self.is_slowed = true;
                break;
            }
            cluster.place(pod.job, pod.rank, node)?;
            if self.controller.creation == Creation::Batches {
                self.rendezvous.joined(cluster, pod.job, pod.rank);
            }
            self.waiting.bound(turn);
        }
        Ok(())
    }

    fn why(&mut self, cluster: &ClusterState, job: JobNo) -> String {
        let placed = cluster.placed(job);
        let tasks = cluster.job(job).tasks;
        match placed {
            0 => "no node has room for any of its pods".to_owned(),
            _ => format!(
                "{placed} of its {tasks} pods have a node and hold it; no node has room for the others"
            ),
        }
    }
}

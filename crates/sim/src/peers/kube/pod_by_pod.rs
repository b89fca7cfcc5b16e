//! Stock Kubernetes: a controller creates the pods of a job, the scheduler takes them one by one,
//! and a pod that has a node keeps it, whether or not the others of its job have theirs. So gangs
//! hold GPUs that they cannot use, and two of them can deadlock.

use std::collections::BTreeSet;

use muster_model::{NodeId, Time};

use super::client::BindLimiter;
use super::nodes::NodePicker;
use super::waiting::PodQueue;
use crate::fleet::{ClusterState, FleetSite, JobNo, Scheduler, SchedulerError};

/// Order in which pods of jobs that arrive at one instant are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The Job controller's: in batches of 1, 2, 4, 8 and so on (pkg/controller/job,
    /// SlowStartInitialBatchSize), with jobs in turn.
    Batches,
    /// Raw pods, one by one, of these jobs in this order.
    Given(Vec<JobNo>),
}

/// Model of stock Kubernetes.
#[derive(Clone, Debug)]
pub struct KubeDefault {
    creation: Creation,
    /// Jobs that arrived at this instant.
    fresh: Vec<JobNo>,
    waiting: PodQueue,
    nodes: NodePicker,
    client: BindLimiter,
    /// True if pods wait for the client's budget only.
    is_slowed: bool,
}

impl KubeDefault {
    /// Creates a model with stock settings.
    #[must_use]
    pub fn new(_site: &FleetSite, seed: u64) -> Self {
        Self {
            creation: Creation::Batches,
            fresh: Vec::new(),
            waiting: PodQueue::default(),
            nodes: NodePicker::new(seed),
            client: BindLimiter::new(),
            is_slowed: false,
        }
    }

    /// Sets the order in which pods are created.
    #[must_use]
    pub fn creating(self, creation: Creation) -> Self {
        Self { creation, ..self }
    }

    /// Deletes the pending pods of a job that is evicted.
    pub(in crate::peers) fn delete(&mut self, job: JobNo) {
        self.fresh.retain(|fresh| *fresh != job);
        self.waiting.delete(job);
        self.waiting.changed();
    }

    /// Creates the pods of jobs that arrived at this instant.
    fn create(&mut self, cluster: &ClusterState) {
        let fresh = std::mem::take(&mut self.fresh);
        let mut created = vec![0; fresh.len()];
        let mut create = |at: usize, pods: u32| {
            let job = cluster.job(fresh[at]);
            let until = job.tasks.min(created[at] + pods);
            for rank in created[at]..until {
                self.waiting.create(fresh[at], rank, job.priority, &job.task);
            }
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

impl Scheduler for KubeDefault {
    fn arrived(&mut self, _cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        self.fresh.push(job);
        Ok(())
    }

    fn ended(&mut self, _cluster: &ClusterState, _job: JobNo) {
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
            let job_there = cluster.job(*job);
            self.waiting.create(*job, *rank, job_there.priority, &job_there.task);
        }
        self.waiting.changed();
    }

    fn repaired(&mut self, _cluster: &ClusterState, _node: NodeId, _device: Option<usize>) {
        self.waiting.changed();
    }

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        let next = self.waiting.next_try()?;
        Some(if self.is_slowed { next.max(self.client.ready()) } else { next })
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
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

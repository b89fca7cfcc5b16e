//! Kubernetes by itself: a controller creates the pods of a job, the scheduler takes them one by
//! one, and a pod that has a node keeps it, whether or not the others of its job have theirs. So
//! gangs hold GPUs that they cannot use, and two of them can wait for each other for ever.

use std::collections::BTreeSet;

use muster_model::{NodeId, Time};

use super::client::Client;
use super::nodes::Nodes;
use super::waiting::Waiting;
use crate::fleet::{Desk, JobNo, Plane, PlaneError, Site};

/// In which order pods of jobs that arrive at one instant are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// As the Job controller does: in batches of 1, 2, 4, 8 and so on (pkg/controller/job,
    /// SlowStartInitialBatchSize), jobs in turns.
    Batches,
    /// Each pod by itself, as somebody does who creates raw pods: so many jobs, in this order.
    Given(Vec<JobNo>),
}

/// The model.
#[derive(Clone, Debug)]
pub struct KubeDefault {
    creation: Creation,
    /// Jobs that arrived at this instant.
    fresh: Vec<JobNo>,
    waiting: Waiting,
    nodes: Nodes,
    client: Client,
    /// Pods wait for the client, and nothing else.
    is_slowed: bool,
}

impl KubeDefault {
    /// Stock settings.
    #[must_use]
    pub fn new(_site: &Site, seed: u64) -> Self {
        Self {
            creation: Creation::Batches,
            fresh: Vec::new(),
            waiting: Waiting::default(),
            nodes: Nodes::new(seed),
            client: Client::new(),
            is_slowed: false,
        }
    }

    /// With pods created in another way.
    #[must_use]
    pub fn creating(self, creation: Creation) -> Self {
        Self { creation, ..self }
    }

    /// The pods of a job that wait are deleted: it is to go.
    pub(in crate::peers) fn delete(&mut self, job: JobNo) {
        self.fresh.retain(|fresh| *fresh != job);
        self.waiting.delete(job);
        self.waiting.changed();
    }

    /// Pods of the jobs that arrived at this instant.
    fn create(&mut self, desk: &Desk) {
        let fresh = std::mem::take(&mut self.fresh);
        let mut created = vec![0; fresh.len()];
        let mut create = |at: usize, pods: u32| {
            let job = desk.job(fresh[at]);
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

impl Plane for KubeDefault {
    fn arrived(&mut self, _desk: &Desk, job: JobNo) -> Result<(), PlaneError> {
        self.fresh.push(job);
        Ok(())
    }

    fn ended(&mut self, _desk: &Desk, _job: JobNo) {
        self.waiting.changed();
    }

    /// The controller creates new pods for those that went; the others keep their nodes.
    fn lost(&mut self, desk: &Desk, _node: NodeId, _device: Option<usize>, tasks: &[(JobNo, u32)]) {
        for (job, rank) in tasks {
            let job_there = desk.job(*job);
            self.waiting.create(*job, *rank, job_there.priority, &job_there.task);
        }
        self.waiting.changed();
    }

    fn mended(&mut self, _desk: &Desk, _node: NodeId, _device: Option<usize>) {
        self.waiting.changed();
    }

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        let next = self.waiting.next_try()?;
        Some(if self.is_slowed { next.max(self.client.ready()) } else { next })
    }

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        self.create(desk);
        let now = desk.now();
        let mut no_room = BTreeSet::new();
        let mut last = None;
        self.is_slowed = false;
        while let Some((turn, pod)) = self.waiting.next(now, last, &no_room) {
            last = Some(turn);
            let shape = &desk.job(pod.job).task;
            let Some(node) = self.nodes.choose(desk.pool(), shape) else {
                no_room.insert(shape.clone());
                self.waiting.found_none(now, turn);
                continue;
            };
            if !self.client.take(now) {
                self.is_slowed = true;
                break;
            }
            desk.place(pod.job, pod.rank, node)?;
            self.waiting.bound(turn);
        }
        Ok(())
    }

    fn why(&mut self, desk: &Desk, job: JobNo) -> String {
        let (placed, tasks) = (desk.placed(job), desk.job(job).tasks);
        match placed {
            0 => "no node has room for any of its pods".to_owned(),
            _ => format!(
                "{placed} of its {tasks} pods have a node and hold it; no node has room for the others"
            ),
        }
    }
}

//! Kubernetes with its own gangs: the pods of a group are held until all are there, and placed in
//! one cycle, all of them or none. A group that finds no room backs off, and whoever comes after it
//! may pass: nothing is set aside for it.
//!
//! Source: pkg/scheduler/framework/plugins/gangscheduling and schedule_one_podgroup.go, release
//! 1.36, gates GenericWorkload and GangScheduling. Pods that a group has lost are placed as a group
//! again.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{NodeId, Time};

use super::client::Client;
use super::nodes::Nodes;
use super::waiting::Backoff;
use crate::fleet::{Desk, JobNo, Plane, PlaneError, Site};

/// A group, or what is left of one, that waits.
#[derive(Clone, Debug)]
struct Group {
    job: JobNo,
    backoff: Backoff,
    /// Something has changed since it was tried.
    to_try: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct KubeGang {
    created: u64,
    /// By priority, then by when the group was complete.
    waiting: BTreeMap<(i64, u64), Group>,
    nodes: Nodes,
    client: Client,
    is_slowed: bool,
}

impl KubeGang {
    /// Stock settings.
    #[must_use]
    pub fn new(_site: &Site, seed: u64) -> Self {
        Self {
            created: 0,
            waiting: BTreeMap::new(),
            nodes: Nodes::new(seed),
            client: Client::new(),
            is_slowed: false,
        }
    }

    fn create(&mut self, desk: &Desk, job: JobNo) {
        self.created += 1;
        let turn = (-i64::from(desk.job(job).priority), self.created);
        self.waiting.insert(turn, Group { job, backoff: Backoff::default(), to_try: true });
    }

    fn changed(&mut self) {
        self.waiting.values_mut().for_each(|group| group.to_try = true);
    }

    /// Places what is left of a group; there is room. False when the client has no budget left for
    /// now.
    fn place(&mut self, desk: &mut Desk, job: JobNo) -> Result<bool, PlaneError> {
        let task = Arc::clone(&desk.job(job).task);
        for rank in 0..desk.job(job).tasks {
            if desk.place_of(job, rank).is_some() {
                continue;
            }
            let node = self
                .nodes
                .choose(desk.pool(), &task)
                .expect("room for all of them was counted before the first");
            desk.place(job, rank, node)?;
            self.client.take_ahead(desk.now());
        }
        Ok(self.client.has_budget())
    }
}

impl Plane for KubeGang {
    fn arrived(&mut self, desk: &Desk, job: JobNo) -> Result<(), PlaneError> {
        self.create(desk, job);
        Ok(())
    }

    fn ended(&mut self, _desk: &Desk, _job: JobNo) {
        self.changed();
    }

    fn lost(&mut self, desk: &Desk, _node: NodeId, _device: Option<usize>, tasks: &[(JobNo, u32)]) {
        let mut jobs: Vec<JobNo> = tasks.iter().map(|(job, _)| *job).collect();
        jobs.dedup();
        for job in jobs {
            if !self.waiting.values().any(|group| group.job == job) {
                self.create(desk, job);
            }
        }
        self.changed();
    }

    fn mended(&mut self, _desk: &Desk, _node: NodeId, _device: Option<usize>) {
        self.changed();
    }

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        let next = self
            .waiting
            .values()
            .filter(|group| group.to_try)
            .map(|group| group.backoff.until())
            .min()?;
        Some(if self.is_slowed { next.max(self.client.ready()) } else { next })
    }

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let now = desk.now();
        self.is_slowed = !self.client.refill(now);
        if self.is_slowed {
            return Ok(());
        }
        // Of what found no room in this pass, the fewest tasks that did not: as many need not be
        // counted again.
        let mut no_room: BTreeMap<Arc<Resources>, u32> = BTreeMap::new();
        let turns: Vec<(i64, u64)> =
            self.waiting.iter().filter(|(_, group)| group.to_try).map(|(turn, _)| *turn).collect();
        for turn in turns {
            let group =
                self.waiting.get_mut(&turn).expect("the pass removes none but the one it is at");
            let job = group.job;
            if group.backoff.until() > now {
                continue;
            }
            let (task, left) = (&desk.job(job).task, desk.job(job).tasks - desk.placed(job));
            let is_known = no_room.get(task).is_some_and(|tasks| *tasks <= left);
            if is_known || !desk.pool().has_room(task, left) {
                no_room
                    .entry(Arc::clone(task))
                    .and_modify(|tasks| *tasks = left.min(*tasks))
                    .or_insert(left);
                group.to_try = false;
                group.backoff.longer(now);
                continue;
            }
            self.waiting.remove(&turn);
            if !self.place(desk, job)? {
                self.is_slowed = true;
                break;
            }
        }
        Ok(())
    }

    fn why(&mut self, desk: &Desk, job: JobNo) -> String {
        let left = desk.job(job).tasks - desk.placed(job);
        format!("the nodes have no room for its {left} pods at once")
    }
}

//! Kubernetes with its own gang scheduling: the pods of a group are held until all exist, and
//! placed in one cycle, all or none. A group that does not fit backs off, and later groups may pass
//! it: nothing is reserved for it.
//!
//! Source: pkg/scheduler/framework/plugins/gangscheduling and schedule_one_podgroup.go, release
//! 1.37, gate GenericWorkload. Pods that a group has lost are placed as a group again.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{NodeId, Time};

use super::client::RateLimiter;
use super::nodes::NodePicker;
use super::waiting::Backoff;
use crate::fleet::{ClusterState, FleetSite, JobNo, Scheduler, SchedulerError};

/// A pending group, or the lost pods of one.
#[derive(Clone, Debug)]
struct WaitingPodGroup {
    job: JobNo,
    backoff: Backoff,
    /// True if something has changed since its last try.
    to_try: bool,
}

/// Model of Kubernetes gang scheduling.
#[derive(Clone, Debug)]
pub struct KubeGang {
    created: u64,
    /// Groups by priority, then by the time at which they were complete.
    waiting: BTreeMap<(i64, u64), WaitingPodGroup>,
    nodes: NodePicker,
    client: RateLimiter,
    is_slowed: bool,
}

impl KubeGang {
    /// Creates a model with stock settings.
    #[must_use]
    pub fn new(_site: &FleetSite, seed: u64) -> Self {
        Self {
            created: 0,
            waiting: BTreeMap::new(),
            nodes: NodePicker::new(seed),
            client: RateLimiter::of_bindings(),
            is_slowed: false,
        }
    }

    fn create(&mut self, cluster: &ClusterState, job: JobNo) {
        self.created += 1;
        let turn = (-i64::from(cluster.job(job).priority), self.created);
        self.waiting
            .insert(turn, WaitingPodGroup { job, backoff: Backoff::default(), to_try: true });
    }

    fn changed(&mut self) {
        self.waiting.values_mut().for_each(|group| group.to_try = true);
    }

    /// Places the missing pods of a group, which fit. False if the client has no budget left for
    /// now.
    fn place(&mut self, cluster: &mut ClusterState, job: JobNo) -> Result<bool, SchedulerError> {
        let task = Arc::clone(&cluster.job(job).task);
        for rank in 0..cluster.job(job).tasks {
            if cluster.place_of(job, rank).is_some() {
                continue;
            }
            let node = self
                .nodes
                .choose(cluster.pool(), &task)
                .expect("the group fits, as was checked before");
            cluster.place(job, rank, node)?;
            self.client.take_ahead(cluster.now());
        }
        Ok(self.client.has_budget())
    }
}

impl Scheduler for KubeGang {
    fn arrived(&mut self, cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        self.create(cluster, job);
        Ok(())
    }

    fn ended(&mut self, _cluster: &ClusterState, _job: JobNo) {
        self.changed();
    }

    fn lost(
        &mut self,
        cluster: &ClusterState,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        let mut jobs: Vec<JobNo> = tasks.iter().map(|(job, _)| *job).collect();
        jobs.dedup();
        for job in jobs {
            if !self.waiting.values().any(|group| group.job == job) {
                self.create(cluster, job);
            }
        }
        self.changed();
    }

    fn repaired(&mut self, _cluster: &ClusterState, _node: NodeId, _device: Option<usize>) {
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

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let now = cluster.now();
        self.is_slowed = !self.client.refill(now);
        if self.is_slowed {
            return Ok(());
        }
        // Fewest tasks of each shape that did not fit in this pass: more need not be tried.
        let mut no_capacity: BTreeMap<Arc<Resources>, u32> = BTreeMap::new();
        let turns: Vec<(i64, u64)> =
            self.waiting.iter().filter(|(_, group)| group.to_try).map(|(turn, _)| *turn).collect();
        for turn in turns {
            let group =
                self.waiting.get_mut(&turn).expect("the pass removes none but the one it is at");
            let job = group.job;
            if group.backoff.until() > now {
                continue;
            }
            let task = &cluster.job(job).task;
            let left = cluster.job(job).tasks - cluster.placed(job);
            let is_known = no_capacity.get(task).is_some_and(|tasks| *tasks <= left);
            if is_known || !cluster.pool().has_capacity(task, left) {
                no_capacity
                    .entry(Arc::clone(task))
                    .and_modify(|tasks| *tasks = left.min(*tasks))
                    .or_insert(left);
                group.to_try = false;
                group.backoff.longer(now);
                continue;
            }
            self.waiting.remove(&turn);
            if !self.place(cluster, job)? {
                self.is_slowed = true;
                break;
            }
        }
        Ok(())
    }

    fn why(&mut self, cluster: &ClusterState, job: JobNo) -> String {
        let left = cluster.job(job).tasks - cluster.placed(job);
        format!("its {left} pods do not all fit now")
    }
}

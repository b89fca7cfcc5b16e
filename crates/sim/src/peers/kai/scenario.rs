//! Evictions and moves for a pending job: jobs are removed one by one on a copy of the cluster
//! until the pending one fits. Victims that need not be evicted are put back, and the others are
//! placed elsewhere if possible. The cluster changes only once the whole scenario works.

use muster_model::{DeviceSet, NodeId};

use super::{Kai, nodes};
use crate::fleet::{ClusterState, JobNo, Pool, SchedulerError};
use crate::peers::gang;
use crate::peers::line::LinePosition;

/// Most jobs that are moved for one (cmd/scheduler/app/options, defaultMaxConsolidationPreemptees).
const MOST_MOVED: usize = 16;

/// Reason why jobs are evicted or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KaiAction {
    /// Consolidation: all of them are placed elsewhere.
    Consolidate,
    /// Reclaim for another queue.
    Reclaim,
    /// Preemption by a higher priority in the same queue.
    Preempt,
}

/// Places of a job's pods.
type PodPlaces = Vec<(NodeId, DeviceSet)>;

/// Evictions, moves and placements that let a pending job start.
#[derive(Debug)]
pub(super) struct EvictionScenario {
    places: PodPlaces,
    moved: Vec<(JobNo, PodPlaces)>,
    gone: Vec<JobNo>,
}

/// Victims in eviction order; cached for all jobs of one action until something changes.
#[derive(Debug, Default)]
pub(super) struct EvictionOrder(Option<Vec<JobNo>>);

impl Kai {
    /// Finds a scenario that lets a pending job start; `None` if there is none.
    pub(super) fn scenario(
        &self,
        cluster: &ClusterState,
        job: JobNo,
        action: KaiAction,
        victim_order: &mut EvictionOrder,
    ) -> Option<EvictionScenario> {
        let waiting = &self.jobs[job.at()];
        let may_be = match action {
            KaiAction::Consolidate => self.idle_milli(cluster) >= waiting.lacking_milli(),
            KaiAction::Reclaim => self.may_reclaim(waiting.leaf, waiting.lacking_milli()),
            KaiAction::Preempt => self.has_lower(waiting.leaf, waiting.turn),
        };
        if !may_be {
            return None;
        }
        let order = victim_order.0.get_or_insert_with(|| self.in_victim_order(cluster));
        let victims =
            order.iter().copied().filter(|victim| self.is_victim(cluster, job, *victim, action));
        let most = if action == KaiAction::Consolidate { MOST_MOVED } else { usize::MAX };
        self.search(cluster, job, action, victims.take(most))
    }

    fn search(
        &self,
        cluster: &ClusterState,
        job: JobNo,
        action: KaiAction,
        victims: impl Iterator<Item = JobNo>,
    ) -> Option<EvictionScenario> {
        let (pods, pod) = self.shapes.get(self.jobs[job.at()].shape);
        let mut scratch = cluster.pool().clone();
        let mut taken: Vec<JobNo> = Vec::new();
        for victim in victims {
            each_place(cluster, victim, |node, devices| {
                scratch.give(node, &cluster.job(victim).task, devices)
            });
            taken.push(victim);
            if scratch.has_capacity(pod, pods)
                && let Some(scenario) =
                    self.restore_victims(cluster, job, action, &taken, scratch.clone())
            {
                return Some(scenario);
            }
        }
        None
    }

    /// Puts back victims that need not be evicted, places the job, and then the other victims if
    /// they fit.
    fn restore_victims(
        &self,
        cluster: &ClusterState,
        job: JobNo,
        action: KaiAction,
        taken: &[JobNo],
        mut pool: Pool,
    ) -> Option<EvictionScenario> {
        let (pods, pod) = self.shapes.get(self.jobs[job.at()].shape);
        let mut needed = Vec::new();
        for victim in taken {
            let task = &cluster.job(*victim).task;
            let mut is_back = true;
            each_place(cluster, *victim, |node, devices| is_back &= pool.take(node, task, devices));
            debug_assert!(is_back, "the resources of a removed victim are free");
            if !pool.has_capacity(pod, pods) {
                each_place(cluster, *victim, |node, devices| pool.give(node, task, devices));
                needed.push(*victim);
            }
        }
        let places = self.place(&mut pool, job, pods)?;
        let mut moved = Vec::new();
        let mut gone = Vec::new();
        for victim in needed.into_iter().rev() {
            match self.place(&mut pool, victim, cluster.job(victim).tasks) {
                Some(places) => moved.push((victim, places)),
                None if action == KaiAction::Consolidate => return None,
                None => gone.push(victim),
            }
        }
        // Victims in the order of removal, in which queues are checked.
        gone.reverse();
        let leaf = self.jobs[job.at()].leaf;
        let milli = self.jobs[job.at()].lacking_milli();
        let is_right = match action {
            KaiAction::Reclaim => self.is_reclaimable(leaf, milli, &gone),
            KaiAction::Consolidate | KaiAction::Preempt => true,
        };
        (is_right && self.is_within_limits(leaf, milli, &gone)).then_some(EvictionScenario {
            places,
            moved,
            gone,
        })
    }

    /// Places pods of a job on the copy.
    fn place(&self, pool: &mut Pool, job: JobNo, pods: u32) -> Option<PodPlaces> {
        let pod = &self.jobs[job.at()].task;
        let score = |node: &crate::fleet::PoolNode, placed| nodes::score(node, pod, placed);
        let nodes = gang::places(pool, pod, pods, score, |_| 0)?;
        let mut take = |node| {
            let devices = pool.node(node).choose(pod)?;
            pool.take(node, pod, devices).then_some((node, devices))
        };
        nodes.into_iter().map(&mut take).collect()
    }

    pub(super) fn execute(
        &mut self,
        cluster: &mut ClusterState,
        job: JobNo,
        scenario: EvictionScenario,
    ) -> Result<(), SchedulerError> {
        for victim in scenario.moved.iter().map(|(victim, _)| victim).chain(&scenario.gone) {
            self.evict(cluster, *victim);
        }
        self.evicted.extend(scenario.gone);
        for (job, places) in std::iter::once((job, scenario.places)).chain(scenario.moved) {
            for (rank, (node, devices)) in gang::missing_ranks(cluster, job).into_iter().zip(places)
            {
                cluster.place_on(job, rank, node, devices)?;
            }
            self.has_all(cluster, job);
        }
        Ok(())
    }

    /// Returns idle GPUs or CPUs of all nodes together (actions/utils,
    /// IsEnoughGPUsAllocatableForJob).
    fn idle_milli(&self, cluster: &ClusterState) -> u64 {
        cluster.pool().nodes().map(|(_, node)| node.idle_milli(self.has_gpus)).sum()
    }

    fn has_lower(&self, leaf: usize, than: LinePosition) -> bool {
        self.running.get(&leaf).and_then(|turns| turns.last()).is_some_and(|last| last.0 > than.0)
    }

    fn is_victim(
        &self,
        cluster: &ClusterState,
        job: JobNo,
        victim: JobNo,
        action: KaiAction,
    ) -> bool {
        let waiting = &self.jobs[job.at()];
        let other = &self.jobs[victim.at()];
        match action {
            KaiAction::Consolidate => true,
            KaiAction::Reclaim => {
                other.leaf != waiting.leaf
                    && self.may_lose(waiting.leaf, waiting.lacking_milli(), other.leaf)
                    && self.safe_until(cluster, victim, waiting.leaf) <= cluster.now()
            }
            KaiAction::Preempt => {
                other.leaf == waiting.leaf
                    && other.turn.0 > waiting.turn.0
                    && self.safe_until(cluster, victim, waiting.leaf) <= cluster.now()
            }
        }
    }

    /// Returns running jobs in eviction order: the reverse of the order in which jobs are placed,
    /// where removed jobs no longer count for their queue (actions/utils, JobsOrderByQueues with
    /// VictimQueue). Jobs that were placed in this session are not included: their pods are not
    /// bound before it ends.
    fn in_victim_order(&self, cluster: &ClusterState) -> Vec<JobNo> {
        let mut left: Vec<u64> = self.queues.all.iter().map(|queue| queue.allocated).collect();
        let mut running: Vec<Vec<LinePosition>> = vec![Vec::new(); self.queues.all.len()];
        for (leaf, turns) in &self.running {
            let is_bound = |turn: &&LinePosition| cluster.runs_since(turn.1) != Some(cluster.now());
            running[*leaf] = turns.iter().filter(is_bound).copied().collect();
        }
        let mut order = Vec::new();
        while let Some((_, job)) = self.last(&self.queues.tops, &left, &running) {
            let leaf = self.jobs[job.at()].leaf;
            running[leaf].pop();
            for at in self.queues.ancestors(leaf) {
                left[at] -= self.jobs[job.at()].held_milli();
            }
            order.push(job);
        }
        order
    }

    fn last(
        &self,
        among: &[usize],
        left: &[u64],
        running: &[Vec<LinePosition>],
    ) -> Option<LinePosition> {
        let of = |at: &usize| {
            let turn = if self.queues.all[*at].children.is_empty() {
                running[*at].last().copied()
            } else {
                self.last(&self.queues.all[*at].children, left, running)
            }?;
            let without = left[*at] - self.jobs[turn.1.at()].held_milli();
            Some((self.queues.order(*at, without, 0), turn))
        };
        among.iter().filter_map(of).max_by_key(|(order, _)| *order).map(|(_, turn)| turn)
    }
}

/// Calls `what` for every place that a job holds.
fn each_place(cluster: &ClusterState, job: JobNo, mut what: impl FnMut(NodeId, DeviceSet)) {
    for (node, devices) in
        (0..cluster.job(job).tasks).filter_map(|rank| cluster.place_of(job, rank))
    {
        what(node, devices);
    }
}

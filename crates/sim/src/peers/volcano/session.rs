//! One session: actions enqueue, allocate and, where it is configured, gangreclaim. Action backfill
//! is for pods without requests, which a trace does not have.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::amounts::ResourceAmounts;
use super::{PodGroupPhase, Volcano, nodes, queues};
use crate::fleet::{ClusterState, JobNo, Pool, SchedulerError};
use crate::peers::gang;
use crate::peers::line::ShapeNo;

/// Most that pending and running pods request together, as a part of the cluster
/// (plugins/overcommit, defaultOverCommitFactor 1.2).
const OVERCOMMIT: (u64, u64) = (12, 10);

/// Limit of action enqueue that a pod group would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnqueueGate {
    /// Most that the queue may hold, which is less than the gang requests.
    Capability { most: ResourceAmounts },
    /// Most that the queue may hold, with the pods that are enqueued and running.
    Claimed { most: ResourceAmounts },
    /// Most that pods of all queues may request.
    Overcommit { most: ResourceAmounts },
}

/// Queues and shapes that failed in this session: nothing is freed in it, so they fail again.
#[derive(Default)]
struct InfeasibleShapes {
    queues: BTreeSet<usize>,
    of_queue: BTreeSet<(usize, ShapeNo)>,
    of_all: BTreeSet<ShapeNo>,
}

impl InfeasibleShapes {
    fn has(&self, queue: usize, shape: ShapeNo) -> bool {
        self.of_all.contains(&shape) || self.of_queue.contains(&(queue, shape))
    }
}

impl Volcano {
    /// Runs the session of this instant.
    pub(super) fn hold_session(
        &mut self,
        cluster: &mut ClusterState,
    ) -> Result<(), SchedulerError> {
        let total = ResourceAmounts::available(cluster.pool());
        // 1. What each queue deserves.
        queues::divide(total, &mut self.queues);
        // 2. Pod groups to enqueue; the job controller creates their pods for the next session.
        let let_in = if self.reclaims { self.all_pending() } else { self.enqueue(total) };
        // 3. Gangs that fit.
        self.allocate(cluster)?;
        // 4. Gangs that reclaim.
        if self.reclaims {
            self.reclaim(cluster)?;
        }
        for job in let_in {
            self.enter(job, PodGroupPhase::Inqueue);
        }
        Ok(())
    }

    /// Returns queues by share, and of equals the first in the tree.
    fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.queues.len()).collect();
        order.sort_by_key(|at| (self.queues[*at].share(), *at));
        order
    }

    /// Returns all pending pod groups: without action enqueue all are enqueued (actions/allocate,
    /// buildAllocateContext).
    fn all_pending(&self) -> Vec<JobNo> {
        let pending = self.queues.iter().flat_map(|queue| queue.pending.by_shape());
        pending.flat_map(|(_, turns)| turns.iter().map(|(_, job)| *job)).collect()
    }

    /// Returns the limit that keeps a pending pod group of a queue from being enqueued now; `None` if
    /// none does, or without action enqueue.
    pub(super) fn enqueue_gate(
        &self,
        total: ResourceAmounts,
        queue: usize,
        asks: ResourceAmounts,
    ) -> Option<EnqueueGate> {
        if self.reclaims {
            return None;
        }
        let most = self.queues[queue].real_capability(total, queues::guaranteed(&self.queues));
        let claimed = self.queues[queue].asked + self.queues[queue].allocated;
        let all = self
            .queues
            .iter()
            .fold(ResourceAmounts::default(), |sum, queue| sum + queue.asked + queue.allocated);
        let overcommitted = total.combine(total, |amount, _| amount * OVERCOMMIT.0 / OVERCOMMIT.1);
        if !asks.within_for(most, asks) {
            Some(EnqueueGate::Capability { most })
        } else if !(claimed + asks).within_for(most, asks) {
            Some(EnqueueGate::Claimed { most })
        } else if !(all + asks).within_for(overcommitted, asks) {
            Some(EnqueueGate::Overcommit { most: overcommitted })
        } else {
            None
        }
    }

    /// Returns the pod groups to enqueue while the overcommitted cluster and the queue have room
    /// for them (actions/enqueue, with JobEnqueueable of overcommit and proportion). One that is
    /// too large is skipped.
    fn enqueue(&mut self, total: ResourceAmounts) -> Vec<JobNo> {
        let sum = |of: fn(&queues::VolcanoQueue) -> ResourceAmounts| {
            self.queues
                .iter()
                .map(of)
                .fold(ResourceAmounts::default(), |sum, amounts| sum + amounts)
        };
        let used = sum(|queue| queue.allocated);
        let mut waiting = sum(|queue| queue.asked);
        let capacity =
            total.combine(total, |amount, _| amount * OVERCOMMIT.0 / OVERCOMMIT.1).less(used);
        let guaranteed = queues::guaranteed(&self.queues);
        let mut let_in = Vec::new();
        for at in self.in_order() {
            let most = self.queues[at].real_capability(total, guaranteed);
            let mut claimed = self.queues[at].asked + self.queues[at].allocated;
            let mut infeasible = BTreeSet::new();
            while let Some((shape, turn)) =
                self.queues[at].pending.first(|shape| !infeasible.contains(&shape))
            {
                let asks = self.jobs[turn.1.at()].asks;
                if !(waiting + asks).within_for(capacity, asks)
                    || !(claimed + asks).within_for(most, asks)
                {
                    infeasible.insert(shape);
                    continue;
                }
                (waiting, claimed) = (waiting + asks, claimed + asks);
                self.queues[at].pending.remove(shape, turn);
                let_in.push(turn.1);
            }
        }
        let_in
    }

    /// Returns the next job to try: the first of the queue with the lowest share, without queues
    /// that have what they deserve.
    fn next(&self, infeasible: &mut InfeasibleShapes) -> Option<(usize, ShapeNo, JobNo)> {
        for at in self.in_order() {
            let queue = &self.queues[at];
            if infeasible.queues.contains(&at) || queue.inqueue.is_empty() {
                continue;
            }
            if queue.is_overused() {
                infeasible.queues.insert(at);
                continue;
            }
            match queue.inqueue.first(|shape| !infeasible.has(at, shape)) {
                Some((shape, (_, job))) => return Some((at, shape, job)),
                None => drop(infeasible.queues.insert(at)),
            }
        }
        None
    }

    /// Places gangs, all pods or none (actions/allocate): after each the queues are sorted again.
    fn allocate(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let mut infeasible = InfeasibleShapes::default();
        while let Some((queue, shape, job)) = self.next(&mut infeasible) {
            if !self.queues[queue].has_share_for(self.jobs[job.at()].asks) {
                infeasible.of_queue.insert((queue, shape));
                continue;
            }
            match self.places(cluster.pool(), shape) {
                Some(places) => {
                    gang::seat(cluster, job, &places)?;
                    self.enter(job, PodGroupPhase::Running);
                }
                None => drop(infeasible.of_all.insert(shape)),
            }
        }
        Ok(())
    }

    /// Returns a node for each pod of a gang; any of the best.
    fn places(&mut self, pool: &Pool, shape: ShapeNo) -> Option<Vec<muster_model::NodeId>> {
        let (pods, pod) = self.shapes.get(shape);
        let rng = &mut self.rng;
        gang::places(
            pool,
            pod,
            pods,
            |node, placed| nodes::score(node, pod, placed),
            |sides| rng.roll(sides),
        )
    }

    /// Evicts whole jobs of queues that have more than they deserve for gangs of queues that have
    /// less (actions/gangreclaim).
    fn reclaim(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        for at in self.in_order() {
            if self.queues[at].is_overused() {
                continue;
            }
            let mut infeasible = BTreeSet::new();
            while let Some((shape, (_, job))) =
                self.queues[at].inqueue.first(|shape| !infeasible.contains(&shape))
            {
                let victims = if self.queues[at].has_share_for(self.jobs[job.at()].asks) {
                    self.victims(cluster, at, shape)
                } else {
                    None
                };
                let Some(victims) = victims else {
                    infeasible.insert(shape);
                    continue;
                };
                for victim in victims {
                    self.restart(cluster, victim);
                }
                // Its pods are nominated to the nodes, which are free at once in the simulation.
                let Some(places) = self.places(cluster.pool(), shape) else { break };
                gang::seat(cluster, job, &places)?;
                self.enter(job, PodGroupPhase::Running);
            }
        }
        Ok(())
    }

    /// Returns jobs of other queues after whose eviction the gang fits: queues with the highest
    /// share first, in a queue those that hold no more than is needed first (actions/utils,
    /// SortBundlesForReclaim). No queue is left with less than its guarantee, and none that has
    /// only what it deserves loses anything. This is the rule of plugin `capacity`
    /// (UnifiedEvictableFn); `proportion` has none, and without a rule queues would reclaim the
    /// same GPUs from each other for ever. Jobs that were placed in this session are not included:
    /// only running pods are reclaimed.
    fn victims(
        &self,
        cluster: &ClusterState,
        reclaimer: usize,
        shape: ShapeNo,
    ) -> Option<Vec<JobNo>> {
        let (pods, pod) = self.shapes.get(shape);
        let need = ResourceAmounts::of(pods, pod);
        let mut left: Vec<ResourceAmounts> =
            self.queues.iter().map(|queue| queue.allocated).collect();
        let may_lose = |at: usize, left: ResourceAmounts, asks: ResourceAmounts| {
            let queue = &self.queues[at];
            at != reclaimer
                && !left.within_for(queue.deserved, asks)
                && queue.guarantee.within(left.less(asks))
        };
        if (0..left.len()).all(|at| !may_lose(at, left[at], left[at])) {
            return None;
        }
        let shares: Vec<u64> = self.queues.iter().map(queues::VolcanoQueue::share).collect();
        let is_bound = |job: &&JobNo| cluster.runs_since(**job) != Some(cluster.now());
        let mut running: Vec<JobNo> = self.running.iter().filter(is_bound).copied().collect();
        running.sort_by_cached_key(|number| {
            let job = &self.jobs[number.at()];
            (Reverse((shares[job.queue], job.queue)), Reverse(useful_ppm(job.asks, need)), *number)
        });
        let mut scratch = cluster.pool().clone();
        let mut victims = Vec::new();
        for number in running {
            let job = &self.jobs[number.at()];
            if !may_lose(job.queue, left[job.queue], job.asks) {
                continue;
            }
            left[job.queue] -= job.asks;
            release(cluster, &mut scratch, number);
            victims.push(number);
            if scratch.has_capacity(pod, pods) {
                return Some(victims);
            }
        }
        None
    }
}

/// Returns the useful part of what a victim holds, in millionths.
fn useful_ppm(holds: ResourceAmounts, need: ResourceAmounts) -> u64 {
    const ALL: u64 = 1_000_000;
    let part =
        |holds: u64, need: u64| (u128::from(holds) * u128::from(ALL)).checked_div(u128::from(need));
    let sum = |holds: ResourceAmounts| {
        [
            (holds.cpu_milli, need.cpu_milli),
            (holds.memory_bytes, need.memory_bytes),
            (holds.gpu_milli, need.gpu_milli),
        ]
        .into_iter()
        .filter_map(|(holds, need)| part(holds, need))
        .sum::<u128>()
    };
    let useful = sum(holds.min(need)) * u128::from(ALL);
    useful.checked_div(sum(holds)).map_or(u64::MAX, |worth| worth as u64)
}

/// Frees what a job holds on the copy.
fn release(cluster: &ClusterState, scratch: &mut Pool, job: JobNo) {
    let there = cluster.job(job);
    for (node, devices) in (0..there.tasks).filter_map(|rank| cluster.place_of(job, rank)) {
        scratch.give(node, &there.task, devices);
    }
}

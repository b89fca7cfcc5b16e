//! Ray as the only scheduler: one application that lives as long as the trace, with a placement
//! group for each job. A group is placed as a whole; a pending one is retried on a timer and does
//! not block later ones. Priorities, quotas and preemption do not exist, so the site's are ignored.
//!
//! Sources, for each constant beside it: ray-project/ray at 8e3f2f1 (src/ray/gcs) and 016b154
//! (src/ray/raylet/scheduling). Not modelled: autoscaling, bundles of different shapes, and the
//! time that a try and the two-phase commit take.

use std::collections::BTreeSet;

use muster_model::job::Resources;
use muster_model::{NodeId, Span, Time};

use super::gang;
use super::line::{ShapeIndex, ShapeNo, WaitingLine, turn};
use crate::fleet::{ClusterState, FleetSite, JobNo, Pool, PoolNode, Scheduler, SchedulerError};

/// Pause after the first try, factor, and longest pause (src/ray/common/ray_config_def.h,
/// gcs_create_placement_group_retry_min_interval_ms 100, _multiplier 1.5, _max_interval_ms 1000).
const FIRST_PAUSE_MICROS: u64 = 100_000;
const FACTOR: (u64, u64) = (3, 2);
const LONGEST_PAUSE_MICROS: u64 = 1_000_000;

/// A pending placement group.
#[derive(Clone, Copy, Debug)]
struct PlacementGroup {
    shape: ShapeNo,
    /// Time of its first try; later tries are timed from it.
    first_try: Time,
}

/// Scheduler model of Ray.
#[derive(Clone, Debug, Default)]
pub struct Ray {
    shapes: ShapeIndex,
    /// Pending group of each job; `None` while it has all it needs.
    groups: Vec<Option<PlacementGroup>>,
    waiting: WaitingLine,
    /// Groups that lost bundles at this instant: tried before all others
    /// (gcs_placement_group_manager.cc, OnNodeDead).
    recovering: BTreeSet<JobNo>,
    /// Groups that arrived at this instant.
    fresh: Vec<JobNo>,
    /// True if resources were freed since no pending group fitted.
    is_freed: bool,
    /// The next try that will succeed, and its job.
    next: Option<(Time, JobNo)>,
}

impl Ray {
    /// Creates a model with stock settings. Ray has no queues.
    #[must_use]
    pub fn new(_site: &FleetSite) -> Self {
        Self::default()
    }

    /// Tries to place a whole group; otherwise its missing bundles are pending from now on.
    fn try_first(&mut self, cluster: &mut ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        self.leave(cluster, job);
        let task = cluster.job(job).task.clone();
        let first_try = cluster.now();
        let lacking = gang::missing_ranks(cluster, job).len() as u32;
        if let Some(places) = pack(cluster.pool(), &task, lacking) {
            return gang::seat(cluster, job, &places);
        }
        let shape = self.shapes.number(lacking, &task);
        self.groups[job.at()] = Some(PlacementGroup { shape, first_try });
        self.waiting.push(shape, turn(job, cluster.job(job)));
        Ok(())
    }

    fn leave(&mut self, cluster: &ClusterState, job: JobNo) {
        if let Some(group) = self.groups[job.at()].take() {
            self.waiting.remove(group.shape, turn(job, cluster.job(job)));
        }
    }

    /// Finds the next try that succeeds, this instant's included: failed tries change nothing, so
    /// no wake-up is needed for them.
    fn schedule_try(&mut self, cluster: &ClusterState) {
        self.next = None;
        if !self.is_freed {
            return;
        }
        let now = cluster.now();
        for (shape, turns) in self.waiting.by_shape() {
            let (tasks, task) = self.shapes.get(shape);
            if cluster.pool().has_capacity(task, tasks) {
                let of = |job: JobNo| {
                    self.groups[job.at()].map(|group| (next_try(group.first_try, now), job))
                };
                let first = turns.iter().filter_map(|(_, job)| of(*job)).min();
                self.next = [self.next, first].into_iter().flatten().min();
            }
        }
        self.is_freed = self.next.is_some();
    }

    /// Returns the group whose try is due now, if it fits.
    fn due(&mut self, cluster: &ClusterState) -> Option<(JobNo, ShapeNo)> {
        self.schedule_try(cluster);
        let (_, job) = self.next.filter(|(at, _)| *at == cluster.now())?;
        Some((job, self.groups[job.at()]?.shape))
    }
}

/// Packs bundles of one shape: the node that keeps most free gets as many as fit, then the next
/// (strategy PACK, bundle_scheduling_policy.cc and scorer.cc). Among equals Ray takes any; the
/// model takes the first.
fn pack(pool: &Pool, task: &Resources, tasks: u32) -> Option<Vec<NodeId>> {
    if !pool.has_capacity(task, tasks) {
        return None;
    }
    let mut nodes: Vec<(u64, NodeId, u32)> = pool
        .nodes()
        .map(|(id, node)| (node.capacity(task, tasks), id, node))
        .filter(|(capacity, ..)| *capacity > 0)
        .map(|(capacity, id, node)| (score(node, task), id, capacity))
        .collect();
    nodes.sort_by_key(|(score, id, _)| (std::cmp::Reverse(*score), *id));
    let each =
        nodes.into_iter().flat_map(|(_, id, capacity)| std::iter::repeat_n(id, capacity as usize));
    Some(each.take(tasks as usize).collect())
}

/// Returns the free part of a node that a bundle would leave, in millionths, summed over the
/// resources it requests.
fn score(node: &PoolNode, task: &Resources) -> u64 {
    let gpus = (0..node.free.len())
        .filter(|at| !node.broken.contains(*at))
        .map(|at| u64::from(node.free[at]))
        .sum();
    let parts = [
        (u64::from(node.cpus), u64::from(task.cpus.0)),
        (node.memory_bytes, task.memory.0),
        (gpus, u64::from(task.gpu.milli().0)),
    ];
    let requested =
        parts.into_iter().filter(|(free, requested)| *requested > 0 && *free >= *requested);
    requested
        .map(|(free, requested)| {
            (u128::from(free - requested) * 1_000_000 / u128::from(free)) as u64
        })
        .sum()
}

/// Returns the first retry, from `now` on, of a group that was first tried at `first`.
fn next_try(first: Time, now: Time) -> Time {
    // Tries are rounded up to whole milliseconds: this is the earliest that is not before now.
    let waited_micros = now.since(first).0.saturating_mul(1000).saturating_sub(999);
    let mut at_micros = FIRST_PAUSE_MICROS;
    let mut pause = FIRST_PAUSE_MICROS;
    while at_micros < waited_micros {
        pause = (pause * FACTOR.0 / FACTOR.1).min(LONGEST_PAUSE_MICROS);
        let pauses = match pause {
            LONGEST_PAUSE_MICROS => (waited_micros - at_micros).div_ceil(pause),
            _ => 1,
        };
        at_micros += pause * pauses;
    }
    first + Span(at_micros.div_ceil(1000))
}

impl Scheduler for Ray {
    fn arrived(&mut self, _cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        self.groups.push(None);
        self.fresh.push(job);
        Ok(())
    }

    fn ended(&mut self, _cluster: &ClusterState, _job: JobNo) {
        self.is_freed = true;
    }

    /// Keeps the bundles on other nodes, which stay held until the lost ones are placed again.
    fn lost(
        &mut self,
        _cluster: &ClusterState,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        self.recovering.extend(tasks.iter().map(|(job, _)| *job));
        self.is_freed = true;
    }

    fn repaired(&mut self, _cluster: &ClusterState, _node: NodeId, _device: Option<usize>) {
        self.is_freed = true;
    }

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        self.next.map(|(at, _)| at)
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        // 1. Groups that lost bundles.
        for job in std::mem::take(&mut self.recovering) {
            self.try_first(cluster, job)?;
        }
        // 2. Tries that are due now, in order.
        while let Some((job, shape)) = self.due(cluster) {
            let (tasks, task) = self.shapes.get(shape);
            let Some(places) = pack(cluster.pool(), task, tasks) else { break };
            self.leave(cluster, job);
            gang::seat(cluster, job, &places)?;
        }
        // 3. New groups, tried at once.
        for job in std::mem::take(&mut self.fresh) {
            self.try_first(cluster, job)?;
        }
        Ok(())
    }

    fn why(&mut self, cluster: &ClusterState, job: JobNo) -> String {
        match (cluster.placed(job), cluster.job(job).tasks) {
            (0, _) => {
                "not all bundles of its placement group fit; it is tried once a second".to_owned()
            }
            (placed, tasks) => {
                format!(
                    "{placed} of its {tasks} bundles hold their places; the lost ones do not fit"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_by_half_up_to_a_second() {
        let mut at = Time(5_000);
        let tries = (0..9).map(|_| {
            at = next_try(Time(5_000), at + Span(1));
            at.0 - 5_000
        });
        // 100, 150, 225, 337.5, 506.25, 759.375 and then 1000 ms after the one before, each rounded
        // up.
        assert_eq!(
            tries.collect::<Vec<_>>(),
            [100, 250, 475, 813, 1_319, 2_079, 3_079, 4_079, 5_079]
        );
        assert_eq!(next_try(Time(0), Time(1_319)), Time(1_319));
        assert_eq!(next_try(Time(0), Time(1_000_000_000)), Time(1_000_000_079));
    }
}

//! One session: fair shares, then the actions allocate, consolidation, reclaim, preempt and
//! stalegangeviction, in this order.

use std::collections::BTreeSet;

use super::scenario::{EvictionOrder, KaiAction};
use super::shares::QueueOrderKey;
use super::{Kai, STALENESS_GRACE, nodes};
use crate::fleet::{ClusterState, JobNo, SchedulerError};
use crate::peers::gang;
use crate::peers::line::{LinePosition, ShapeNo};

/// Shapes that failed in an action: by queue if another queue may succeed, else for all.
#[derive(Default)]
struct FailedShapes {
    of_queue: BTreeSet<(usize, ShapeNo)>,
    of_all: BTreeSet<ShapeNo>,
}

/// The next job of a queue or of those below it.
struct NextJob {
    shape: ShapeNo,
    turn: LinePosition,
    milli: u64,
}

impl Kai {
    /// Runs the session of this instant.
    pub(super) fn hold_session(
        &mut self,
        cluster: &mut ClusterState,
    ) -> Result<(), SchedulerError> {
        let nodes = cluster.pool().nodes().filter(|(_, node)| node.is_up);
        let total = nodes.map(|(_, node)| {
            if self.has_gpus {
                (node.free.len() as u64 - u64::from(node.broken.len())) * 1000
            } else {
                u64::from(node.spec.cpus.0)
            }
        });
        self.queues.divide(total.sum());
        self.allocate(cluster)?;
        for action in [KaiAction::Consolidate, KaiAction::Reclaim, KaiAction::Preempt] {
            self.solve_for_pending(cluster, action)?;
        }
        self.evict_stale_gangs(cluster);
        for job in std::mem::take(&mut self.evicted) {
            self.stand(job, 0, cluster.job(job).tasks);
        }
        Ok(())
    }

    /// Returns the first job in the order of the queues, chosen level by level. Shapes that failed
    /// are skipped.
    fn next(&self, among: &[usize], failed: &FailedShapes) -> Option<NextJob> {
        let mut best: Option<(QueueOrderKey, NextJob)> = None;
        for at in among {
            let queue = &self.queues.all[*at];
            let next = if queue.children.is_empty() {
                let may = |shape| {
                    !failed.of_all.contains(&shape) && !failed.of_queue.contains(&(*at, shape))
                };
                queue.line.first(may).map(|(shape, turn)| {
                    let milli = self.jobs[turn.1.at()].lacking_milli();
                    NextJob { shape, turn, milli }
                })
            } else {
                self.next(&queue.children, failed)
            };
            let Some(next) = next else { continue };
            let order = self.queues.order(*at, queue.allocated, next.milli);
            if best.as_ref().is_none_or(|(first, _)| order < *first) {
                best = Some((order, next));
            }
        }
        best.map(|(_, next)| next)
    }

    /// Returns whether the queue and all above it stay within their limits, once these jobs are
    /// gone.
    pub(super) fn is_within_limits(&self, leaf: usize, more: u64, gone: &[JobNo]) -> bool {
        self.queues.ancestors(leaf).all(|at| {
            let queue = &self.queues.all[at];
            let gone = gone.iter().map(|job| &self.jobs[job.at()]);
            let below = gone.filter(|job| self.queues.ancestors(job.leaf).any(|above| above == at));
            let freed: u64 = below.map(super::KaiJob::held_milli).sum();
            more == 0 || queue.limit.is_none_or(|limit| queue.allocated - freed + more <= limit)
        })
    }

    /// Places gangs, all pods or none; a job that does not fit blocks no other (actions/allocate).
    fn allocate(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let mut failed = FailedShapes::default();
        while let Some(NextJob { shape, turn: (_, job), milli }) =
            self.next(&self.queues.tops, &failed)
        {
            let leaf = self.jobs[job.at()].leaf;
            if !self.is_within_limits(leaf, milli, &[]) {
                failed.of_queue.insert((leaf, shape));
                continue;
            }
            let (pods, pod) = self.shapes.get(shape);
            let score = |node: &crate::fleet::PoolNode, placed| nodes::score(node, pod, placed);
            match gang::places(cluster.pool(), pod, pods, score, |_| 0) {
                Some(places) => {
                    gang::seat(cluster, job, &places)?;
                    self.has_all(cluster, job);
                }
                None => drop(failed.of_all.insert(shape)),
            }
        }
        Ok(())
    }

    /// Marks a job all of whose pods are placed.
    pub(super) fn has_all(&mut self, cluster: &ClusterState, job: JobNo) {
        self.stale.remove(&job);
        self.stand(job, cluster.job(job).tasks, 0);
    }

    /// Evicts or moves jobs for pending ones (actions/consolidation, reclaim and preempt). A job
    /// that is no easier to place than one that failed is skipped (actions/common,
    /// MinimalJobRepresentatives).
    fn solve_for_pending(
        &mut self,
        cluster: &mut ClusterState,
        action: KaiAction,
    ) -> Result<(), SchedulerError> {
        let mut failed = FailedShapes::default();
        let mut victim_order = EvictionOrder::default();
        while let Some(NextJob { shape, turn: (_, job), .. }) =
            self.next(&self.queues.tops, &failed)
        {
            let leaf = self.jobs[job.at()].leaf;
            let found = if self.has_failed_smaller(leaf, shape, action, &failed) {
                None
            } else {
                self.scenario(cluster, job, action, &mut victim_order)
            };
            match found {
                Some(scenario) => {
                    victim_order = EvictionOrder::default();
                    self.execute(cluster, job, scenario)?;
                }
                None if action == KaiAction::Consolidate => drop(failed.of_all.insert(shape)),
                None => drop(failed.of_queue.insert((leaf, shape))),
            }
        }
        Ok(())
    }

    /// Returns whether a job that is no larger has failed.
    fn has_failed_smaller(
        &self,
        leaf: usize,
        shape: ShapeNo,
        action: KaiAction,
        failed: &FailedShapes,
    ) -> bool {
        let (tasks, task) = self.shapes.get(shape);
        let is_smaller = |other: &ShapeNo| {
            let (other_tasks, other) = self.shapes.get(*other);
            other_tasks <= tasks
                && other.gpu.models == task.gpu.models
                && other.gpu.milli() <= task.gpu.milli()
                && (other.gpu.devices > 0) == (task.gpu.devices > 0)
                && other.cpus <= task.cpus
                && other.memory <= task.memory
        };
        match action {
            KaiAction::Consolidate => failed.of_all.iter().any(is_smaller),
            _ => failed.of_queue.iter().any(|(other, shape)| *other == leaf && is_smaller(shape)),
        }
    }

    /// Evicts gangs that lost pods and were not completed in time (actions/stalegangeviction).
    fn evict_stale_gangs(&mut self, cluster: &mut ClusterState) {
        let now = cluster.now();
        let over = self.stale.iter().filter(|(_, since)| **since + STALENESS_GRACE <= now);
        for job in over.map(|(job, _)| *job).collect::<Vec<_>>() {
            self.evict(cluster, job);
            self.evicted.push(job);
        }
    }
}

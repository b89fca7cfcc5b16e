//! One session: fair shares, then actions allocate, consolidation, reclaim, preempt and
//! stalegangeviction, in this order.

use std::collections::BTreeSet;

use super::scenario::{Aim, Bystanders};
use super::shares::Order;
use super::{Kai, STALENESS_GRACE, nodes};
use crate::fleet::{Desk, JobNo, PlaneError};
use crate::peers::gang;
use crate::peers::line::{ShapeNo, Turn};

/// What has been tried in an action and failed: by queue where others may fare better, else of all.
#[derive(Default)]
struct Tried {
    of_queue: BTreeSet<(usize, ShapeNo)>,
    of_all: BTreeSet<ShapeNo>,
}

/// Whoever is next in a queue or below it.
struct Next {
    shape: ShapeNo,
    turn: Turn,
    milli: u64,
}

impl Kai {
    /// The session of this instant.
    pub(super) fn hold_session(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let nodes = desk.pool().nodes().filter(|(_, node)| node.is_up);
        let total = nodes.map(|(_, node)| match self.has_gpus {
            true => (node.free.len() as u64 - u64::from(node.broken.len())) * 1000,
            false => u64::from(node.spec.cpus.0),
        });
        self.queues.divide(total.sum());
        self.allocate(desk)?;
        for aim in [Aim::Consolidate, Aim::Reclaim, Aim::Preempt] {
            self.make_room(desk, aim)?;
        }
        self.give_up_stale(desk);
        for job in std::mem::take(&mut self.evicted) {
            self.stand(job, 0, desk.job(job).tasks);
        }
        Ok(())
    }

    /// Whoever is next: of the queues that stand first, level by level, the first job. What has
    /// been tried with a job of the same shape is passed over at once.
    fn next(&self, among: &[usize], tried: &Tried) -> Option<Next> {
        let mut best: Option<(Order, Next)> = None;
        for at in among {
            let queue = &self.queues.all[*at];
            let next = match queue.children.is_empty() {
                false => self.next(&queue.children, tried),
                true => {
                    let may = |shape| {
                        !tried.of_all.contains(&shape) && !tried.of_queue.contains(&(*at, shape))
                    };
                    queue.line.first(may).map(|(shape, turn)| {
                        let milli = self.jobs[turn.1.at()].lacking_milli();
                        Next { shape, turn, milli }
                    })
                }
            };
            let Some(next) = next else { continue };
            let order = self.queues.order(*at, queue.allocated, next.milli);
            if best.as_ref().is_none_or(|(first, _)| order < *first) {
                best = Some((order, next));
            }
        }
        best.map(|(_, next)| next)
    }

    /// Neither its queue nor one above it would exceed its limit, once these have gone.
    pub(super) fn is_within_limits(&self, leaf: usize, more: u64, gone: &[JobNo]) -> bool {
        self.queues.upwards(leaf).all(|at| {
            let queue = &self.queues.all[at];
            let gone = gone.iter().map(|job| &self.jobs[job.at()]);
            let below = gone.filter(|job| self.queues.upwards(job.leaf).any(|above| above == at));
            let freed: u64 = below.map(super::Job::held_milli).sum();
            more == 0 || queue.limit.is_none_or(|limit| queue.allocated - freed + more <= limit)
        })
    }

    /// Places gangs, each whole or not at all; who does not fit keeps nobody waiting
    /// (actions/allocate).
    fn allocate(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let mut tried = Tried::default();
        while let Some(Next { shape, turn: (_, job), milli }) = self.next(&self.queues.tops, &tried)
        {
            let leaf = self.jobs[job.at()].leaf;
            if !self.is_within_limits(leaf, milli, &[]) {
                tried.of_queue.insert((leaf, shape));
                continue;
            }
            let (pods, pod) = self.shapes.get(shape);
            let score = |node: &crate::fleet::PoolNode, placed| nodes::score(node, pod, placed);
            match gang::places(desk.pool(), pod, pods, score, |_| 0) {
                Some(places) => {
                    gang::seat(desk, job, &places)?;
                    self.has_all(desk, job);
                }
                None => drop(tried.of_all.insert(shape)),
            }
        }
        Ok(())
    }

    /// All pods of a job have their places.
    pub(super) fn has_all(&mut self, desk: &Desk, job: JobNo) {
        self.stale.remove(&job);
        self.stand(job, desk.job(job).tasks, 0);
    }

    /// Lets jobs go or move for those who wait (actions/consolidation, reclaim and preempt). Who is
    /// no easier to help than one for whom nothing was found is not tried (actions/common,
    /// MinimalJobRepresentatives).
    fn make_room(&mut self, desk: &mut Desk, aim: Aim) -> Result<(), PlaneError> {
        let mut tried = Tried::default();
        let mut bystanders = Bystanders::default();
        while let Some(Next { shape, turn: (_, job), .. }) = self.next(&self.queues.tops, &tried) {
            let leaf = self.jobs[job.at()].leaf;
            let found = match self.is_harder(leaf, shape, aim, &tried) {
                true => None,
                false => self.scenario(desk, job, aim, &mut bystanders),
            };
            match found {
                Some(scenario) => {
                    bystanders = Bystanders::default();
                    self.carry_out(desk, job, scenario)?;
                }
                None if aim == Aim::Consolidate => drop(tried.of_all.insert(shape)),
                None => drop(tried.of_queue.insert((leaf, shape))),
            }
        }
        Ok(())
    }

    /// Something no larger was tried for nothing.
    fn is_harder(&self, leaf: usize, shape: ShapeNo, aim: Aim, tried: &Tried) -> bool {
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
        match aim {
            Aim::Consolidate => tried.of_all.iter().any(is_smaller),
            _ => tried.of_queue.iter().any(|(other, shape)| *other == leaf && is_smaller(shape)),
        }
    }

    /// Gangs that lost pods and did not find others in time give up the rest
    /// (actions/stalegangeviction).
    fn give_up_stale(&mut self, desk: &mut Desk) {
        let now = desk.now();
        let over = self.stale.iter().filter(|(_, since)| **since + STALENESS_GRACE <= now);
        for job in over.map(|(job, _)| *job).collect::<Vec<_>>() {
            self.evict(desk, job);
            self.evicted.push(job);
        }
    }
}

//! Ray as the whole control plane: one application that lives as long as the trace, and a placement
//! group for each job. A group is placed whole; one that waits is tried again by the clock and
//! keeps nobody behind it waiting. There are no priorities, no quotas and nobody is made to go, so
//! none of that is read of a site.
//!
//! Sources, for each constant beside it: ray-project/ray at 8e3f2f1 (src/ray/gcs) and 016b154
//! (src/ray/raylet/scheduling). What is not modelled: autoscaling, bundles of unlike shape, and the
//! time that a try and the two-phase commit take.

use std::collections::BTreeSet;

use muster_model::job::Resources;
use muster_model::{NodeId, Span, Time};

use super::gang;
use super::line::{Line, ShapeNo, Shapes, turn};
use crate::fleet::{Desk, JobNo, Plane, PlaneError, Pool, PoolNode, Site};

/// Pause after the first try, factor, and longest pause (src/ray/common/ray_config_def.h,
/// gcs_create_placement_group_retry_min_interval_ms 100, _multiplier 1.5, _max_interval_ms 1000).
const FIRST_PAUSE_MICROS: u64 = 100_000;
const FACTOR: (u64, u64) = (3, 2);
const LONGEST_PAUSE_MICROS: u64 = 1_000_000;

/// A group that waits.
#[derive(Clone, Copy, Debug)]
struct Group {
    shape: ShapeNo,
    /// When it was tried first; each later try has its time from this.
    first_try: Time,
}

/// The model.
#[derive(Clone, Debug, Default)]
pub struct Ray {
    shapes: Shapes,
    /// By job; `None` while it has all it needs.
    groups: Vec<Option<Group>>,
    waiting: Line,
    /// Groups that lost bundles at this instant: tried before all others
    /// (gcs_placement_group_manager.cc, OnNodeDead).
    recovering: BTreeSet<JobNo>,
    /// Groups that arrived at this instant.
    fresh: Vec<JobNo>,
    /// Something was freed since it was known that nobody who waits fits.
    is_freed: bool,
    /// The next try that will find room, and whose.
    next: Option<(Time, JobNo)>,
}

impl Ray {
    /// Stock settings. Ray has no word for queues.
    #[must_use]
    pub fn new(_site: &Site) -> Self {
        Self::default()
    }

    /// Tries to place a group whole; what it lacks waits otherwise, counted from now.
    fn try_first(&mut self, desk: &mut Desk, job: JobNo) -> Result<(), PlaneError> {
        self.leave(desk, job);
        let (task, first_try) = (desk.job(job).task.clone(), desk.now());
        let lacking = gang::missing(desk, job).len() as u32;
        if let Some(places) = pack(desk.pool(), &task, lacking) {
            return gang::seat(desk, job, &places);
        }
        let shape = self.shapes.number(lacking, &task);
        self.groups[job.at()] = Some(Group { shape, first_try });
        self.waiting.push(shape, turn(job, desk.job(job)));
        Ok(())
    }

    fn leave(&mut self, desk: &Desk, job: JobNo) {
        if let Some(group) = self.groups[job.at()].take() {
            self.waiting.remove(group.shape, turn(job, desk.job(job)));
        }
    }

    /// The next try that finds room, this instant's among them: tries of those who do not fit
    /// change nothing, so nobody wakes for them.
    fn foresee(&mut self, desk: &Desk) {
        self.next = None;
        if !self.is_freed {
            return;
        }
        let now = desk.now();
        for (shape, turns) in self.waiting.by_shape() {
            let (tasks, task) = self.shapes.get(shape);
            if desk.pool().has_room(task, tasks) {
                let of = |job: JobNo| {
                    self.groups[job.at()].map(|group| (next_try(group.first_try, now), job))
                };
                let first = turns.iter().filter_map(|(_, job)| of(*job)).min();
                self.next = [self.next, first].into_iter().flatten().min();
            }
        }
        self.is_freed = self.next.is_some();
    }

    /// The group whose try is due now, if it finds room.
    fn due(&mut self, desk: &Desk) -> Option<(JobNo, ShapeNo)> {
        self.foresee(desk);
        let (_, job) = self.next.filter(|(at, _)| *at == desk.now())?;
        Some((job, self.groups[job.at()]?.shape))
    }
}

/// Bundles of one shape, packed: the node where most stays free gets as many as it can take, then
/// the next (strategy PACK, bundle_scheduling_policy.cc and scorer.cc). Of equals Ray takes any;
/// here it is the first.
fn pack(pool: &Pool, task: &Resources, tasks: u32) -> Option<Vec<NodeId>> {
    if !pool.has_room(task, tasks) {
        return None;
    }
    let mut nodes: Vec<(u64, NodeId, u32)> = pool
        .nodes()
        .map(|(id, node)| (node.room(task, tasks), id, node))
        .filter(|(room, ..)| *room > 0)
        .map(|(room, id, node)| (score(node, task), id, room))
        .collect();
    nodes.sort_by_key(|(score, id, _)| (std::cmp::Reverse(*score), *id));
    let each = nodes.into_iter().flat_map(|(_, id, room)| std::iter::repeat_n(id, room as usize));
    Some(each.take(tasks as usize).collect())
}

/// Of what is free on a node, the part that a bundle would leave, in millionths, summed over what
/// it asks for.
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
    let asked = parts.into_iter().filter(|(free, asked)| *asked > 0 && *free >= *asked);
    asked
        .map(|(free, asked)| (u128::from(free - asked) * 1_000_000 / u128::from(free)) as u64)
        .sum()
}

/// The first instant from `now` on at which a group is tried that was tried first at `first`.
fn next_try(first: Time, now: Time) -> Time {
    // Tries are rounded up to whole milliseconds: this is the earliest that is not before now.
    let waited_micros = now.since(first).0.saturating_mul(1000).saturating_sub(999);
    let (mut at_micros, mut pause) = (FIRST_PAUSE_MICROS, FIRST_PAUSE_MICROS);
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

impl Plane for Ray {
    fn arrived(&mut self, _desk: &Desk, job: JobNo) -> Result<(), PlaneError> {
        self.groups.push(None);
        self.fresh.push(job);
        Ok(())
    }

    fn ended(&mut self, _desk: &Desk, _job: JobNo) {
        self.is_freed = true;
    }

    /// Bundles elsewhere stay where they are, and are held, until the lost ones have a place again.
    fn lost(
        &mut self,
        _desk: &Desk,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        self.recovering.extend(tasks.iter().map(|(job, _)| *job));
        self.is_freed = true;
    }

    fn mended(&mut self, _desk: &Desk, _node: NodeId, _device: Option<usize>) {
        self.is_freed = true;
    }

    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        self.next.map(|(at, _)| at)
    }

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        // 1. Who lost bundles goes first.
        for job in std::mem::take(&mut self.recovering) {
            self.try_first(desk, job)?;
        }
        // 2. Tries that are due now, in the order in which they came.
        while let Some((job, shape)) = self.due(desk) {
            let (tasks, task) = self.shapes.get(shape);
            let Some(places) = pack(desk.pool(), task, tasks) else { break };
            self.leave(desk, job);
            gang::seat(desk, job, &places)?;
        }
        // 3. Who came now is tried at once, whoever else waits.
        for job in std::mem::take(&mut self.fresh) {
            self.try_first(desk, job)?;
        }
        Ok(())
    }

    fn why(&mut self, desk: &Desk, job: JobNo) -> String {
        match (desk.placed(job), desk.job(job).tasks) {
            (0, _) => {
                "there is no room for all bundles of its placement group; it is tried once a second"
                    .to_owned()
            }
            (placed, tasks) => {
                format!(
                    "{placed} of its {tasks} bundles hold their place; there is no room for those that were lost"
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

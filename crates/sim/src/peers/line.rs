//! Pending jobs by shape. Real traces have thousands of pending jobs of a few shapes: a shape that
//! did not fit once in a pass does not fit again, so a model asks for the first job of another
//! shape.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::job::Resources;

use crate::fleet::{FleetJob, JobNo};

/// Number of a shape: the number of tasks and the resources of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShapeNo(usize);

/// All shapes so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ShapeIndex {
    known: BTreeMap<(u32, Arc<Resources>), ShapeNo>,
    shapes: Vec<(u32, Arc<Resources>)>,
}

impl ShapeIndex {
    /// Returns the number of a shape.
    pub(super) fn number(&mut self, tasks: u32, task: &Arc<Resources>) -> ShapeNo {
        let next = ShapeNo(self.shapes.len());
        let number = *self.known.entry((tasks, Arc::clone(task))).or_insert(next);
        if number == next {
            self.shapes.push((tasks, Arc::clone(task)));
        }
        number
    }

    /// Returns the number of tasks and the resources of each.
    pub(super) fn get(&self, shape: ShapeNo) -> (u32, &Arc<Resources>) {
        let (tasks, task) = &self.shapes[shape.0];
        (*tasks, task)
    }
}

/// Position among pending jobs: higher priority first, then earlier arrival.
pub(super) type LinePosition = (Reverse<i32>, JobNo);

/// Returns the position of a job.
pub(super) fn turn(number: JobNo, job: &FleetJob) -> LinePosition {
    (Reverse(job.priority), number)
}

/// Pending jobs by shape.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingLine {
    jobs: BTreeMap<ShapeNo, BTreeSet<LinePosition>>,
}

impl WaitingLine {
    pub(super) fn push(&mut self, shape: ShapeNo, turn: LinePosition) {
        self.jobs.entry(shape).or_default().insert(turn);
    }

    pub(super) fn remove(&mut self, shape: ShapeNo, turn: LinePosition) {
        if let Some(jobs) = self.jobs.get_mut(&shape) {
            jobs.remove(&turn);
            if jobs.is_empty() {
                self.jobs.remove(&shape);
            }
        }
    }

    /// Returns the first job whose shape may still be tried.
    pub(super) fn first(
        &self,
        may_try: impl Fn(ShapeNo) -> bool,
    ) -> Option<(ShapeNo, LinePosition)> {
        let firsts = self.jobs.iter().filter(|(shape, _)| may_try(**shape));
        firsts
            .filter_map(|(shape, jobs)| Some((*shape, *jobs.first()?)))
            .min_by_key(|(_, turn)| *turn)
    }

    /// Returns the shapes of pending jobs, each with its jobs.
    pub(super) fn by_shape(&self) -> impl Iterator<Item = (ShapeNo, &BTreeSet<LinePosition>)> {
        self.jobs.iter().map(|(shape, jobs)| (*shape, jobs))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

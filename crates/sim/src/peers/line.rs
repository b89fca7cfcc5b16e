//! Jobs that wait, by what they ask for. Real traces have thousands of jobs that wait and a few
//! shapes among them: what did not fit once in a pass does not fit again, so a model asks for the
//! first job of another shape.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::job::Resources;

use crate::fleet::{FleetJob, JobNo};

/// Number of a shape: so many tasks, and what each holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShapeNo(usize);

/// All shapes seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Shapes {
    known: BTreeMap<(u32, Arc<Resources>), ShapeNo>,
    shapes: Vec<(u32, Arc<Resources>)>,
}

impl Shapes {
    /// The number of a shape.
    pub(super) fn number(&mut self, tasks: u32, task: &Arc<Resources>) -> ShapeNo {
        let next = ShapeNo(self.shapes.len());
        let number = *self.known.entry((tasks, Arc::clone(task))).or_insert(next);
        if number == next {
            self.shapes.push((tasks, Arc::clone(task)));
        }
        number
    }

    /// Tasks, and what each holds.
    pub(super) fn get(&self, shape: ShapeNo) -> (u32, &Arc<Resources>) {
        let (tasks, task) = &self.shapes[shape.0];
        (*tasks, task)
    }
}

/// Place in a line: higher priority first, then who came first.
pub(super) type Turn = (Reverse<i32>, JobNo);

/// Where a job stands in a line.
pub(super) fn turn(number: JobNo, job: &FleetJob) -> Turn {
    (Reverse(job.priority), number)
}

/// A line.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    jobs: BTreeMap<ShapeNo, BTreeSet<Turn>>,
}

impl Line {
    pub(super) fn push(&mut self, shape: ShapeNo, turn: Turn) {
        self.jobs.entry(shape).or_default().insert(turn);
    }

    pub(super) fn remove(&mut self, shape: ShapeNo, turn: Turn) {
        if let Some(jobs) = self.jobs.get_mut(&shape) {
            jobs.remove(&turn);
            if jobs.is_empty() {
                self.jobs.remove(&shape);
            }
        }
    }

    /// Whoever is first among those with a shape that may still be tried.
    pub(super) fn first(&self, may_try: impl Fn(ShapeNo) -> bool) -> Option<(ShapeNo, Turn)> {
        let firsts = self.jobs.iter().filter(|(shape, _)| may_try(**shape));
        firsts
            .filter_map(|(shape, jobs)| Some((*shape, *jobs.first()?)))
            .min_by_key(|(_, turn)| *turn)
    }

    /// Shapes of those who wait, each with who waits.
    pub(super) fn by_shape(&self) -> impl Iterator<Item = (ShapeNo, &BTreeSet<Turn>)> {
        self.jobs.iter().map(|(shape, jobs)| (*shape, jobs))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
}

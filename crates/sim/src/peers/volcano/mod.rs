//! Volcano with its default configuration: a session each second that lets pod groups in, divides
//! the cluster between queues by weight, and places gangs whole. Where the site's queues take back
//! what others borrow, action `gangreclaim` takes the place of `enqueue`.
//!
//! * `amounts.rs`: CPUs, memory and GPUs, added and compared
//! * `queues.rs`: what each queue deserves
//! * `nodes.rs`: which node a pod gets
//! * `session.rs`: what one session does
//!
//! Sources, for each constant beside it: volcano-sh/volcano, release 1.15.1 (pkg/scheduler, and the
//! configuration in installer/helm/chart/volcano/config/volcano-scheduler.conf). What is not
//! modelled stands in docs/models.md. It must not look at how long a job runs or is believed to:
//! Volcano does not.

mod amounts;
mod nodes;
mod queues;
mod session;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{NodeId, QueueName, Span, Time};

use self::amounts::Amounts;
use self::queues::Queue;
use super::line::{ShapeNo, Shapes, Turn, turn};
use crate::dice::Dice;
use crate::fleet::{Desk, JobNo, Plane, PlaneError, Site};

/// Time between sessions (cmd/scheduler/app/options, defaultSchedulerPeriod).
const PERIOD: Span = Span::from_secs(1);

/// How far a pod group has come (phases of PodGroup).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its pods are not created.
    Pending,
    /// They are, and wait.
    Inqueue,
    /// They have their nodes.
    Running,
    /// They are done.
    Ended,
}

/// A job as Volcano keeps it.
#[derive(Clone, Copy, Debug)]
struct Job {
    queue: usize,
    shape: ShapeNo,
    turn: Turn,
    asks: Amounts,
    phase: Phase,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Volcano {
    /// Actions are `allocate, backfill, gangreclaim` instead of `enqueue, allocate, backfill`
    /// (design document gang-aware-eviction-design): with `enqueue` nobody would be let in while
    /// the cluster is full, and so nobody could reclaim.
    reclaims: bool,
    queues: Vec<Queue>,
    at: BTreeMap<QueueName, usize>,
    shapes: Shapes,
    jobs: Vec<Job>,
    running: BTreeSet<JobNo>,
    /// Jobs that lost a pod: the job controller restarts them whole.
    broken: BTreeSet<JobNo>,
    /// Something has changed since the last session, or in it.
    is_changed: bool,
    dice: Dice,
}

impl Volcano {
    /// The default configuration, or the one that reclaims where the site asks for it and has
    /// queues to reclaim from.
    #[must_use]
    pub fn new(site: &Site, seed: u64) -> Self {
        let (queues, at) = queues::leaves(site);
        Self {
            reclaims: site.tree.preemption.reclaim && queues.len() > 1,
            queues,
            at,
            shapes: Shapes::default(),
            jobs: Vec::new(),
            running: BTreeSet::new(),
            broken: BTreeSet::new(),
            is_changed: false,
            dice: Dice::new(seed),
        }
    }

    /// Moves a job to another phase, with what its queue counts of it.
    fn enter(&mut self, number: JobNo, phase: Phase) {
        let job = &mut self.jobs[number.at()];
        let queue = &mut self.queues[job.queue];
        match job.phase {
            Phase::Pending => queue.pending.remove(job.shape, job.turn),
            Phase::Inqueue => {
                queue.inqueue.remove(job.shape, job.turn);
                queue.asked -= job.asks;
            }
            Phase::Running => {
                self.running.remove(&number);
                queue.allocated -= job.asks;
            }
            Phase::Ended => {}
        }
        match phase {
            Phase::Pending => queue.pending.push(job.shape, job.turn),
            Phase::Inqueue => {
                queue.inqueue.push(job.shape, job.turn);
                queue.asked += job.asks;
            }
            Phase::Running => {
                self.running.insert(number);
                queue.allocated += job.asks;
            }
            Phase::Ended => {}
        }
        job.phase = phase;
        self.is_changed = true;
    }

    /// Makes all pods of a job go; it waits to be let in again.
    fn restart(&mut self, desk: &mut Desk, job: JobNo) {
        desk.evict(job);
        self.enter(job, Phase::Pending);
    }
}

impl Plane for Volcano {
    fn arrived(&mut self, desk: &Desk, job: JobNo) -> Result<(), PlaneError> {
        let new = desk.job(job);
        let queue = self.at.get(&new.queue).copied().unwrap_or(0);
        let shape = self.shapes.number(new.tasks, &new.task);
        let asks = Amounts::of(new.tasks, &new.task);
        self.jobs.push(Job { queue, shape, turn: turn(job, new), asks, phase: Phase::Ended });
        self.enter(job, Phase::Pending);
        Ok(())
    }

    fn ended(&mut self, _desk: &Desk, job: JobNo) {
        self.enter(job, Phase::Ended);
    }

    fn lost(
        &mut self,
        _desk: &Desk,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        self.broken.extend(tasks.iter().map(|(job, _)| *job));
        self.is_changed = true;
    }

    fn mended(&mut self, _desk: &Desk, _node: NodeId, _device: Option<usize>) {
        self.is_changed = true;
    }

    /// A session in which nothing has changed decides nothing, so it is not held.
    fn next_wake(&mut self, now: Time) -> Option<Time> {
        self.is_changed.then(|| Time((now.0 / PERIOD.0 + 1) * PERIOD.0))
    }

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        for job in std::mem::take(&mut self.broken) {
            self.restart(desk, job);
        }
        if self.is_changed && desk.now().0.is_multiple_of(PERIOD.0) {
            self.is_changed = false;
            self.hold_session(desk)?;
        }
        Ok(())
    }

    fn why(&mut self, _desk: &Desk, job: JobNo) -> String {
        let job = &self.jobs[job.at()];
        let queue = &self.queues[job.queue];
        match job.phase {
            Phase::Pending => {
                "its pod group is pending: pods that wait ask for as much as is let in".to_owned()
            }
            Phase::Inqueue if !queue.has_share_for(job.asks) => format!(
                "queue {} deserves {} GPUs and has {}",
                queue.name,
                queue.deserved.gpu_milli / 1000,
                queue.allocated.gpu_milli / 1000
            ),
            Phase::Inqueue => "no nodes have room for all of its pods".to_owned(),
            Phase::Running | Phase::Ended => String::new(),
        }
    }
}

//! KAI with its default configuration: a session each second that divides the cluster between
//! queues, quota first and the rest by weight, places gangs whole, moves jobs together where that
//! lets one in, and takes back what queues have beyond their share.
//!
//! * `shares.rs`: queues, their fair shares and their order
//! * `nodes.rs`: which node a pod gets
//! * `session.rs`: what one session does
//! * `scenario.rs`: which jobs go or move for another
//! * `reclaim.rs`: what a queue may take from others
//!
//! Sources, for each constant beside it: kai-scheduler/KAI-Scheduler, release 0.17.0
//! (pkg/scheduler). What is not modelled stands in docs/models.md. It must not look at how long a
//! job will run or is believed to: KAI does not.

mod nodes;
mod reclaim;
mod scenario;
mod session;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::job::{Protection, Resources};
use muster_model::{NodeId, Span, Time};

use self::shares::Queues;
use super::line::{ShapeNo, Shapes, Turn, turn};
use crate::fleet::{Desk, JobNo, Plane, PlaneError, Site};

/// Time between sessions (cmd/scheduler/app/options, defaultSchedulerPeriod).
const PERIOD: Span = Span::from_secs(1);
/// A gang that lost pods may hold the others for so long (same file, defaultStalenessGracePeriod).
const STALENESS_GRACE: Span = Span::from_secs(60);

/// A pod group. Every job is taken for preemptible training, the default (docs/priority).
#[derive(Clone, Debug)]
struct Job {
    leaf: usize,
    turn: Turn,
    task: Arc<Resources>,
    /// What each pod counts for in queues.
    each_milli: u64,
    held: u32,
    lacking: u32,
    /// Of what it lacks.
    shape: ShapeNo,
}

impl Job {
    fn lacking_milli(&self) -> u64 {
        u64::from(self.lacking) * self.each_milli
    }

    fn held_milli(&self) -> u64 {
        u64::from(self.held) * self.each_milli
    }
}

/// The model.
#[derive(Clone, Debug)]
pub struct Kai {
    has_gpus: bool,
    queues: Queues,
    shapes: Shapes,
    jobs: Vec<Job>,
    /// Jobs that have all their pods, by leaf.
    running: BTreeMap<usize, BTreeSet<Turn>>,
    /// Jobs that lost some of their pods, and since when they hold the others for nothing.
    stale: BTreeMap<JobNo, Time>,
    /// Something has changed since the last session, or in it.
    is_changed: bool,
    /// Jobs that were made to go in this session: they stand in line from the next on.
    evicted: Vec<JobNo>,
    /// When the next job is no longer safe, while somebody waits.
    next_unsafe: Option<Time>,
}

impl Kai {
    /// The default configuration.
    #[must_use]
    pub fn new(site: &Site) -> Self {
        Self {
            has_gpus: site.has_gpus(),
            queues: Queues::new(site),
            shapes: Shapes::default(),
            jobs: Vec::new(),
            running: BTreeMap::new(),
            stale: BTreeMap::new(),
            is_changed: false,
            evicted: Vec::new(),
            next_unsafe: None,
        }
    }

    /// A job holds so many pods and lacks so many: it stands in line while it lacks any, and its
    /// queues count both.
    fn stand(&mut self, number: JobNo, held: u32, lacking: u32) {
        let job = &mut self.jobs[number.at()];
        let (before_held, before_lacking) = (job.held_milli(), job.lacking_milli());
        if job.lacking > 0 {
            self.queues.all[job.leaf].line.remove(job.shape, job.turn);
        } else if let Some(running) = self.running.get_mut(&job.leaf) {
            running.remove(&job.turn);
        }
        (job.held, job.lacking) = (held, lacking);
        if lacking > 0 {
            job.shape = self.shapes.number(lacking, &job.task);
            self.queues.all[job.leaf].line.push(job.shape, job.turn);
        } else if held > 0 {
            self.running.entry(job.leaf).or_default().insert(job.turn);
        }
        let (now_held, now_lacking) = (job.held_milli(), job.lacking_milli());
        let leaf = job.leaf;
        for at in self.queues.upwards(leaf).collect::<Vec<_>>() {
            let queue = &mut self.queues.all[at];
            queue.allocated = queue.allocated + now_held - before_held;
            queue.requested =
                queue.requested + now_held + now_lacking - before_held - before_lacking;
        }
        self.is_changed = true;
    }

    /// Makes all pods of a job go.
    fn evict(&mut self, desk: &mut Desk, job: JobNo) {
        desk.evict(job);
        self.stale.remove(&job);
        self.stand(job, 0, 0);
    }

    /// Until when a job is safe from one that waits: what the queue says that is the victim's among
    /// the siblings of both, or else one above it (plugins/minruntime, reclaimResolveMethod lca).
    fn safe_until(&self, desk: &Desk, victim: JobNo, for_leaf: usize) -> Time {
        let leaf = self.jobs[victim.at()].leaf;
        let (_, at) = self.queues.level(for_leaf, leaf);
        let since = desk.runs_since(victim).unwrap_or_else(|| desk.now());
        self.queues.all[at].min_runtime.until(since)
    }

    /// When to look again though nothing has changed by then.
    fn foresee(&mut self, desk: &Desk) {
        self.next_unsafe = None;
        let is_safe = self.queues.all.iter().any(|queue| queue.min_runtime != Protection::None);
        if !is_safe || self.queues.all.iter().all(|queue| queue.line.is_empty()) {
            return;
        }
        let queues = &self.queues;
        let running = self
            .running
            .iter()
            .flat_map(|(leaf, turns)| turns.iter().map(move |turn| (*leaf, turn.1)));
        let ends = running.flat_map(|(leaf, job)| {
            let since = desk.runs_since(job).unwrap_or_else(|| desk.now());
            queues.upwards(leaf).map(move |at| queues.all[at].min_runtime.until(since))
        });
        self.next_unsafe = ends.filter(|end| *end > desk.now() && *end < Time::NEVER).min();
    }
}

/// The first session from then on.
fn session_at(time: Time) -> Time {
    Time(time.0.div_ceil(PERIOD.0).saturating_mul(PERIOD.0))
}

impl Plane for Kai {
    fn arrived(&mut self, desk: &Desk, number: JobNo) -> Result<(), PlaneError> {
        let new = desk.job(number);
        let each = if self.has_gpus { new.task.gpu.milli().0 } else { new.task.cpus.0 };
        self.jobs.push(Job {
            leaf: self.queues.leaves.get(&new.queue).copied().unwrap_or(0),
            turn: turn(number, new),
            task: Arc::clone(&new.task),
            each_milli: u64::from(each),
            held: 0,
            lacking: 0,
            shape: self.shapes.number(new.tasks, &new.task),
        });
        self.stand(number, 0, new.tasks);
        Ok(())
    }

    fn ended(&mut self, _desk: &Desk, job: JobNo) {
        self.stand(job, 0, 0);
    }

    /// The others of a gang keep what they have for a while, in which the pods that are lost may
    /// find another place.
    fn lost(&mut self, desk: &Desk, _node: NodeId, _device: Option<usize>, tasks: &[(JobNo, u32)]) {
        for (job, _) in tasks {
            let held = desk.placed(*job);
            self.stand(*job, held, desk.job(*job).tasks - held);
            match held {
                0 => drop(self.stale.remove(job)),
                _ => drop(self.stale.entry(*job).or_insert(desk.now())),
            }
        }
        self.is_changed = true;
    }

    fn mended(&mut self, _desk: &Desk, _node: NodeId, _device: Option<usize>) {
        self.is_changed = true;
    }

    /// A session in which nothing has changed decides nothing, unless somebody's time is up by
    /// then.
    fn next_wake(&mut self, now: Time) -> Option<Time> {
        let changed = self.is_changed.then_some(now + Span(1));
        let stale = self.stale.values().map(|since| *since + STALENESS_GRACE).min();
        [changed, stale, self.next_unsafe].into_iter().flatten().min().map(session_at)
    }

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let now = desk.now();
        let is_due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        let stale = self.stale.values().map(|since| *since + STALENESS_GRACE).min();
        let is_called_for = self.is_changed || is_due(stale) || is_due(self.next_unsafe);
        if is_called_for && now.0.is_multiple_of(PERIOD.0) {
            self.is_changed = false;
            self.hold_session(desk)?;
            self.foresee(desk);
        }
        Ok(())
    }

    fn why(&mut self, _desk: &Desk, number: JobNo) -> String {
        let job = &self.jobs[number.at()];
        let unit = if self.has_gpus { "GPUs" } else { "CPUs" };
        if !self.is_within_limits(job.leaf, job.lacking_milli(), &[]) {
            return format!("its queue {} is at its limit", self.queues.all[job.leaf].name);
        }
        let queue = &self.queues.all[job.leaf];
        let (has, fair) = (queue.allocated / 1000, queue.fair / 1000);
        format!(
            "no nodes have room for it; its queue {} has {has} {unit} of a fair share of {fair}",
            queue.name
        )
    }
}

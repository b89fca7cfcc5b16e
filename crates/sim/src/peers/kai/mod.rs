//! KAI with its default configuration: a session each second that divides the cluster between
//! queues, quota first and the rest by weight, places whole gangs, consolidates jobs where that
//! lets a gang start, and reclaims what queues have beyond their share.
//!
//! * `shares.rs`: queues, their fair shares and their order
//! * `nodes.rs`: which node a pod gets
//! * `session.rs`: one session
//! * `scenario.rs`: which jobs are evicted or moved for another
//! * `reclaim.rs`: what a queue may reclaim from others
//!
//! Sources, for each constant beside it: kai-scheduler/KAI-Scheduler, release 0.17.0
//! (pkg/scheduler). What is not modelled is listed in docs/models.md. It must not use runtimes or
//! their estimates, as KAI does not.

mod nodes;
mod reclaim;
mod scenario;
mod session;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::job::{Protection, Resources};
use muster_model::{NodeId, Span, Time};

use self::shares::KaiQueues;
use super::line::{LinePosition, ShapeIndex, ShapeNo, turn};
use crate::fleet::{ClusterState, FleetSite, JobNo, Scheduler, SchedulerError};

/// Time between sessions (cmd/scheduler/app/options, defaultSchedulerPeriod).
const PERIOD: Span = Span::from_secs(1);
/// Time for which a gang that lost pods may hold the others (same file,
/// defaultStalenessGracePeriod).
const STALENESS_GRACE: Span = Span::from_secs(60);

/// A pod group. Every job is treated as preemptible training, the default (docs/priority).
#[derive(Clone, Debug)]
struct KaiJob {
    leaf: usize,
    turn: LinePosition,
    task: Arc<Resources>,
    /// Thousandths that each pod counts for in queues.
    each_milli: u64,
    held: u32,
    lacking: u32,
    /// Shape of the pods that it lacks.
    shape: ShapeNo,
}

impl KaiJob {
    fn lacking_milli(&self) -> u64 {
        u64::from(self.lacking) * self.each_milli
    }

    fn held_milli(&self) -> u64 {
        u64::from(self.held) * self.each_milli
    }
}

/// Scheduler model of KAI.
#[derive(Clone, Debug)]
pub struct Kai {
    has_gpus: bool,
    queues: KaiQueues,
    shapes: ShapeIndex,
    jobs: Vec<KaiJob>,
    /// Jobs that have all their pods, by leaf.
    running: BTreeMap<usize, BTreeSet<LinePosition>>,
    /// Jobs that lost some of their pods, and since when they hold the others.
    stale: BTreeMap<JobNo, Time>,
    /// True if something has changed since the last session, or in it.
    is_changed: bool,
    /// Jobs evicted in this session: they are pending from the next one on.
    evicted: Vec<JobNo>,
    /// End of the next job's minimum runtime, while some job is pending.
    next_unsafe: Option<Time>,
}

impl Kai {
    /// Creates a model with the default configuration.
    #[must_use]
    pub fn new(site: &FleetSite) -> Self {
        Self {
            has_gpus: site.has_gpus(),
            queues: KaiQueues::new(site),
            shapes: ShapeIndex::default(),
            jobs: Vec::new(),
            running: BTreeMap::new(),
            stale: BTreeMap::new(),
            is_changed: false,
            evicted: Vec::new(),
            next_unsafe: None,
        }
    }

    /// Updates the pods that a job holds and lacks: it is pending while it lacks any, and its
    /// queues count both.
    fn stand(&mut self, number: JobNo, held: u32, lacking: u32) {
        let job = &mut self.jobs[number.at()];
        let before_held = job.held_milli();
        let before_lacking = job.lacking_milli();
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
        let now_held = job.held_milli();
        let now_lacking = job.lacking_milli();
        let leaf = job.leaf;
        for at in self.queues.ancestors(leaf).collect::<Vec<_>>() {
            let queue = &mut self.queues.all[at];
            queue.allocated = queue.allocated + now_held - before_held;
            queue.requested =
                queue.requested + now_held + now_lacking - before_held - before_lacking;
        }
        self.is_changed = true;
    }

    /// Evicts all pods of a job.
    fn evict(&mut self, cluster: &mut ClusterState, job: JobNo) {
        cluster.evict(job);
        self.stale.remove(&job);
        self.stand(job, 0, 0);
    }

    /// Returns until when the minimum runtime protects a victim from a reclaimer: that of the
    /// victim's queue among the siblings of both, or else of one above it (plugins/minruntime,
    /// reclaimResolveMethod lca).
    fn safe_until(&self, cluster: &ClusterState, victim: JobNo, for_leaf: usize) -> Time {
        let leaf = self.jobs[victim.at()].leaf;
        let (_, at) = self.queues.level(for_leaf, leaf);
        let since = cluster.runs_since(victim).unwrap_or_else(|| cluster.now());
        self.queues.all[at].min_runtime.until(since)
    }

    /// Computes when a session is needed although nothing has changed.
    fn schedule_session(&mut self, cluster: &ClusterState) {
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
            let since = cluster.runs_since(job).unwrap_or_else(|| cluster.now());
            queues.ancestors(leaf).map(move |at| queues.all[at].min_runtime.until(since))
        });
        self.next_unsafe = ends.filter(|end| *end > cluster.now() && *end < Time::NEVER).min();
    }
}

/// Returns the time of the first session from then on.
fn session_at(time: Time) -> Time {
    Time(time.0.div_ceil(PERIOD.0).saturating_mul(PERIOD.0))
}

impl Scheduler for Kai {
    fn arrived(&mut self, cluster: &ClusterState, number: JobNo) -> Result<(), SchedulerError> {
        let new = cluster.job(number);
        let each = if self.has_gpus { new.task.gpu.milli().0 } else { new.task.cpus.0 };
        self.jobs.push(KaiJob {
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

    fn ended(&mut self, _cluster: &ClusterState, job: JobNo) {
        self.stand(job, 0, 0);
    }

    /// Lets the others of a gang keep what they have for a while, in which the lost pods may be
    /// placed elsewhere.
    fn lost(
        &mut self,
        cluster: &ClusterState,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        for (job, _) in tasks {
            let held = cluster.placed(*job);
            self.stand(*job, held, cluster.job(*job).tasks - held);
            match held {
                0 => drop(self.stale.remove(job)),
                _ => drop(self.stale.entry(*job).or_insert(cluster.now())),
            }
        }
        self.is_changed = true;
    }

    fn repaired(&mut self, _cluster: &ClusterState, _node: NodeId, _device: Option<usize>) {
        self.is_changed = true;
    }

    /// Skips sessions in which nothing has changed, unless a deadline has passed by then.
    fn next_wake(&mut self, now: Time) -> Option<Time> {
        let changed = self.is_changed.then_some(now + Span(1));
        let stale = self.stale.values().map(|since| *since + STALENESS_GRACE).min();
        [changed, stale, self.next_unsafe].into_iter().flatten().min().map(session_at)
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let now = cluster.now();
        let is_due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        let stale = self.stale.values().map(|since| *since + STALENESS_GRACE).min();
        let is_called_for = self.is_changed || is_due(stale) || is_due(self.next_unsafe);
        if is_called_for && now.0.is_multiple_of(PERIOD.0) {
            self.is_changed = false;
            self.hold_session(cluster)?;
            self.schedule_session(cluster);
        }
        Ok(())
    }

    fn why(&mut self, _cluster: &ClusterState, number: JobNo) -> String {
        let job = &self.jobs[number.at()];
        let unit = if self.has_gpus { "GPUs" } else { "CPUs" };
        if !self.is_within_limits(job.leaf, job.lacking_milli(), &[]) {
            return format!("its queue {} is at its limit", self.queues.all[job.leaf].name);
        }
        let queue = &self.queues.all[job.leaf];
        let has = queue.allocated / 1000;
        let fair = queue.fair / 1000;
        format!(
            "it fits on no nodes; its queue {} holds {has} {unit} of a fair share of {fair}",
            queue.name
        )
    }
}

//! Volcano with its default configuration: a session each second that enqueues pod groups, divides
//! the cluster between queues by weight, and places whole gangs. Where the site's queues reclaim,
//! action `gangreclaim` replaces `enqueue`.
//!
//! * `amounts.rs`: CPUs, memory and GPUs, added and compared
//! * `queues.rs`: what each queue deserves
//! * `nodes.rs`: which node a pod gets
//! * `session.rs`: one session
//!
//! Sources, for each constant beside it: volcano-sh/volcano, release 1.15.1 (pkg/scheduler, and the
//! configuration in installer/helm/chart/volcano/config/volcano-scheduler.conf). What is not
//! modelled is listed in docs/models.md. It must not use runtimes or their estimates, as Volcano
//! does not.

mod amounts;
mod nodes;
mod queues;
mod session;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{NodeId, QueueName, Span, Time};

use self::amounts::ResourceAmounts;
use self::queues::VolcanoQueue;
use self::session::EnqueueGate;
use super::line::{LinePosition, ShapeIndex, ShapeNo, turn};
use crate::fleet::{ClusterState, FleetSite, JobNo, Scheduler, SchedulerError};
use crate::rng::Rng;

/// Time between sessions (cmd/scheduler/app/options, defaultSchedulerPeriod).
const PERIOD: Span = Span::from_secs(1);

/// Phase of a pod group (phases of PodGroup).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodGroupPhase {
    /// Its pods are not created.
    Pending,
    /// Its pods are created and pending.
    Inqueue,
    /// Its pods have their nodes.
    Running,
    /// Its pods have ended.
    Ended,
}

/// A job in the model.
#[derive(Clone, Copy, Debug)]
struct VolcanoJob {
    queue: usize,
    shape: ShapeNo,
    turn: LinePosition,
    asks: ResourceAmounts,
    phase: PodGroupPhase,
}

/// Scheduler model of Volcano.
#[derive(Clone, Debug)]
pub struct Volcano {
    /// True if the actions are `allocate, backfill, gangreclaim` instead of `enqueue, allocate,
    /// backfill` (design document gang-aware-eviction-design): with `enqueue` no pod group is
    /// enqueued while the cluster is full, so none could reclaim.
    reclaims: bool,
    queues: Vec<VolcanoQueue>,
    at: BTreeMap<QueueName, usize>,
    shapes: ShapeIndex,
    jobs: Vec<VolcanoJob>,
    running: BTreeSet<JobNo>,
    /// Jobs that lost a pod: the job controller restarts them as a whole.
    broken: BTreeSet<JobNo>,
    /// True if something has changed since the last session, or in it.
    is_changed: bool,
    rng: Rng,
}

impl Volcano {
    /// Creates a model with the default configuration, or with the reclaiming one if the site
    /// reclaims and has several queues.
    #[must_use]
    pub fn new(site: &FleetSite, seed: u64) -> Self {
        let (queues, at) = queues::leaves(site);
        Self {
            reclaims: site.tree.preemption.reclaim && queues.len() > 1,
            queues,
            at,
            shapes: ShapeIndex::default(),
            jobs: Vec::new(),
            running: BTreeSet::new(),
            broken: BTreeSet::new(),
            is_changed: false,
            rng: Rng::new(seed),
        }
    }

    /// Moves a job to another phase, and updates the counts of its queue.
    fn enter(&mut self, number: JobNo, phase: PodGroupPhase) {
        let job = &mut self.jobs[number.at()];
        let queue = &mut self.queues[job.queue];
        match job.phase {
            PodGroupPhase::Pending => queue.pending.remove(job.shape, job.turn),
            PodGroupPhase::Inqueue => {
                queue.inqueue.remove(job.shape, job.turn);
                queue.asked -= job.asks;
            }
            PodGroupPhase::Running => {
                self.running.remove(&number);
                queue.allocated -= job.asks;
            }
            PodGroupPhase::Ended => {}
        }
        match phase {
            PodGroupPhase::Pending => queue.pending.push(job.shape, job.turn),
            PodGroupPhase::Inqueue => {
                queue.inqueue.push(job.shape, job.turn);
                queue.asked += job.asks;
            }
            PodGroupPhase::Running => {
                self.running.insert(number);
                queue.allocated += job.asks;
            }
            PodGroupPhase::Ended => {}
        }
        job.phase = phase;
        self.is_changed = true;
    }

    /// Evicts all pods of a job, which waits to be enqueued again.
    fn restart(&mut self, cluster: &mut ClusterState, job: JobNo) {
        cluster.evict(job);
        self.enter(job, PodGroupPhase::Pending);
    }
}

impl Scheduler for Volcano {
    fn arrived(&mut self, cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        let new = cluster.job(job);
        let queue = self.at.get(&new.queue).copied().unwrap_or(0);
        let shape = self.shapes.number(new.tasks, &new.task);
        let asks = ResourceAmounts::of(new.tasks, &new.task);
        self.jobs.push(VolcanoJob {
            queue,
            shape,
            turn: turn(job, new),
            asks,
            phase: PodGroupPhase::Ended,
        });
        self.enter(job, PodGroupPhase::Pending);
        Ok(())
    }

    fn ended(&mut self, _cluster: &ClusterState, job: JobNo) {
        self.enter(job, PodGroupPhase::Ended);
    }

    fn lost(
        &mut self,
        _cluster: &ClusterState,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        self.broken.extend(tasks.iter().map(|(job, _)| *job));
        self.is_changed = true;
    }

    fn repaired(&mut self, _cluster: &ClusterState, _node: NodeId, _device: Option<usize>) {
        self.is_changed = true;
    }

    /// Skips sessions in which nothing has changed, since they decide nothing.
    fn next_wake(&mut self, now: Time) -> Option<Time> {
        self.is_changed.then(|| Time((now.0 / PERIOD.0 + 1) * PERIOD.0))
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        for job in std::mem::take(&mut self.broken) {
            self.restart(cluster, job);
        }
        if self.is_changed && cluster.now().0.is_multiple_of(PERIOD.0) {
            self.is_changed = false;
            self.hold_session(cluster)?;
        }
        Ok(())
    }

    /// Names the plugin and the queue that refuse a gang, and by which numbers.
    fn why(&mut self, cluster: &ClusterState, job: JobNo) -> String {
        let job = &self.jobs[job.at()];
        let queue = &self.queues[job.queue];
        let name = &queue.name;
        let [asks, deserved, has] =
            [job.asks, queue.deserved, queue.allocated].map(|amounts| amounts.gpu_milli / 1000);
        match job.phase {
            PodGroupPhase::Pending => {
                let total = ResourceAmounts::available(cluster.pool());
                match self.enqueue_gate(total, job.queue, job.asks) {
                    Some(EnqueueGate::Capability { most }) => format!(
                        "queue {name} refuses its pod group: it may hold {} GPUs at most, and the gang needs {asks} (plugin proportion)",
                        most.gpu_milli / 1000
                    ),
                    Some(EnqueueGate::Claimed { most }) => format!(
                        "queue {name} does not enqueue its pod group: with its {asks} GPUs, enqueued pods would need more than the {} that the queue may hold (plugin proportion)",
                        most.gpu_milli / 1000
                    ),
                    Some(EnqueueGate::Overcommit { most }) => format!(
                        "its pod group is not enqueued: with its {asks} GPUs, enqueued pods of all queues would need more than {} (plugin overcommit)",
                        most.gpu_milli / 1000
                    ),
                    None => "its pod group is enqueued in the next session".to_owned(),
                }
            }
            PodGroupPhase::Inqueue if !job.asks.within_for(queue.deserved, job.asks) => format!(
                "queue {name} refuses the gang: it deserves {deserved} GPUs while others ask for theirs, and the gang needs {asks} (plugin proportion)"
            ),
            PodGroupPhase::Inqueue if !queue.has_share_for(job.asks) => format!(
                "queue {name} deserves {deserved} GPUs and has {has}, which leaves too few for the {asks} of the gang (plugin proportion)"
            ),
            PodGroupPhase::Inqueue => "no nodes have room for all of its pods".to_owned(),
            PodGroupPhase::Running | PodGroupPhase::Ended => String::new(),
        }
    }
}

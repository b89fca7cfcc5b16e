//! State of the controller: pending and running jobs, their usage, and how a job starts and ends.
//! The timing of passes and the order of starts are decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{Span, Time};

use super::accounts::Accounts;
use super::capacity::CapacityTable;
use super::fair_tree::FairTree;
use super::limits::{Cap, HeldLimits};
use super::queue::{self, SlurmJob, SlurmQueue};
use super::settings::{MINUTE, SlurmSettings};
use super::switches::{NodeTasks, SwitchTree};
use crate::fleet::{ClusterState, FleetSite, JobNo, SchedulerError};

/// Shape of jobs: the number of tasks and the resources of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobShape {
    pub(super) task: Arc<Resources>,
    pub(super) tasks: u32,
}

#[derive(Clone, Copy, Debug)]
struct RunningJob {
    /// Time up to which its usage is added.
    counted: Time,
    /// End of its time limit, or of its grace time once it is preempted.
    end: Time,
    is_preempted: bool,
}

/// State of the controller.
#[derive(Clone, Debug)]
pub(super) struct ControllerState {
    pub(super) settings: SlurmSettings,
    pub(super) accounts: Accounts,
    pub(super) fair: FairTree,
    pub(super) limits: HeldLimits,
    pub(super) capacities: CapacityTable,
    pub(super) switches: SwitchTree,
    pub(super) kinds: Vec<JobShape>,
    known: BTreeMap<(Resources, u32), usize>,
    pub(super) jobs: Vec<SlurmJob>,
    pub(super) queue: SlurmQueue,
    running: BTreeMap<JobNo, RunningJob>,
    /// Number of running jobs by QOS.
    running_qos: BTreeMap<i32, usize>,
    /// Preempted jobs that still run, and the ends of their grace times.
    preempted: BTreeSet<(Time, JobNo)>,
    has_gpus: bool,
}

impl ControllerState {
    pub(super) fn new(site: &FleetSite, settings: SlurmSettings) -> Self {
        let accounts = Accounts::new(&site.tree);
        Self {
            settings,
            fair: FairTree::new(&accounts, site.tree.half_life),
            limits: HeldLimits::new(&accounts),
            accounts,
            capacities: CapacityTable::new(site, settings.bf_resolution),
            switches: SwitchTree::new(site),
            kinds: Vec::new(),
            known: BTreeMap::new(),
            jobs: Vec::new(),
            queue: SlurmQueue::default(),
            running: BTreeMap::new(),
            running_qos: BTreeMap::new(),
            preempted: BTreeSet::new(),
            has_gpus: site.has_gpus(),
        }
    }

    pub(super) fn submit(&mut self, cluster: &ClusterState, number: JobNo) {
        let job = cluster.job(number);
        let (user, is_new) = self.accounts.user(&job.queue, &job.user);
        if is_new {
            self.fair.enter();
            self.limits.enter();
            self.fair.rank_all(&self.accounts);
        }
        let gpus_milli = u64::from(job.tasks) * u64::from(job.task.gpu.milli().0);
        let cpus_milli = u64::from(job.tasks) * u64::from(job.task.cpus.0);
        let billed_milli = if self.has_gpus { gpus_milli } else { cpus_milli };
        let limit = job.estimate.unwrap_or(self.settings.default_time);
        let nodes = (u64::from(job.fewest_nodes), cluster.pool().nodes().len() as u64);
        let kind = self.kind(&job.task, job.tasks);
        self.jobs.push(SlurmJob {
            kind,
            user,
            gpus_milli,
            billed_milli,
            limit: Span(limit.0.div_ceil(MINUTE.0).max(1) * MINUTE.0),
            eligible: cluster.now(),
            size: queue::size(nodes, (billed_milli, cluster.size_milli())),
            bonus: i64::from(job.priority),
            qos: if self.settings.preemption.is_some() { job.priority } else { 0 },
            priority: 0,
        });
        self.wait(number, cluster.now());
    }

    /// Makes a job pending, for the first time or again.
    pub(super) fn wait(&mut self, number: JobNo, now: Time) {
        let users = self.accounts.users();
        let job = &mut self.jobs[number.at()];
        job.eligible = now;
        job.weigh(now, self.fair.rank(job.user), users, &self.settings);
        self.queue.enter(number, &self.jobs);
    }

    fn kind(&mut self, task: &Arc<Resources>, tasks: u32) -> usize {
        let next = self.kinds.len();
        let kind = *self.known.entry(((**task).clone(), tasks)).or_insert(next);
        if kind == next {
            self.kinds.push(JobShape { task: Arc::clone(task), tasks });
        }
        kind
    }

    /// Returns the cap that keeps a job from starting.
    pub(super) fn exceeded(&self, job: JobNo) -> Option<Cap> {
        let job = &self.jobs[job.at()];
        self.limits.exceeded(&self.accounts, job.user, job.gpus_milli)
    }

    /// Returns where a job can start now, ignoring reservations.
    pub(super) fn places(&self, cluster: &ClusterState, job: JobNo) -> Option<NodeTasks> {
        let kind = &self.kinds[self.jobs[job.at()].kind];
        self.switches.choose(&self.capacities.now(cluster.pool(), &kind.task), kind.tasks)
    }

    /// Starts all tasks of a job; it stays in the queue until it is removed.
    ///
    /// # Errors
    /// A task does not fit: a defect of this model.
    pub(super) fn start(
        &mut self,
        cluster: &mut ClusterState,
        job: JobNo,
        places: &NodeTasks,
    ) -> Result<(), SchedulerError> {
        let mut ranks = 0..cluster.job(job).tasks;
        for (node, tasks) in places {
            for rank in ranks.by_ref().take(*tasks as usize) {
                if !cluster.place(job, rank, *node)? {
                    let node = cluster.pool().node(*node).spec.name.to_string();
                    return Err(SchedulerError::NotFree {
                        job: cluster.job(job).id.to_string(),
                        rank,
                        node,
                    });
                }
            }
        }
        let known = &self.jobs[job.at()];
        let end = cluster.now() + known.limit;
        self.limits.take(&self.accounts, known.user, known.gpus_milli);
        self.capacities.begin(cluster, job, end);
        *self.running_qos.entry(known.qos).or_default() += 1;
        self.running.insert(job, RunningJob { counted: cluster.now(), end, is_preempted: false });
        Ok(())
    }

    /// Stops a job; false if it did not run.
    pub(super) fn stop(&mut self, job: JobNo, now: Time) -> bool {
        let Some(ran) = self.running.remove(&job) else { return false };
        let known = &self.jobs[job.at()];
        self.fair.used(known.user, known.billed_milli, now.since(ran.counted));
        self.limits.give(&self.accounts, known.user, known.gpus_milli);
        self.capacities.end(job, ran.end);
        self.preempted.remove(&(ran.end, job));
        if let Some(count) = self.running_qos.get_mut(&known.qos) {
            *count -= 1;
        }
        self.running_qos.retain(|_, count| *count > 0);
        true
    }

    /// Returns the running jobs.
    pub(super) fn running(&self) -> impl Iterator<Item = JobNo> {
        self.running.keys().copied()
    }

    /// Returns the lowest QOS of a running job.
    pub(super) fn lowest_qos(&self) -> Option<i32> {
        self.running_qos.first_key_value().map(|(qos, _)| *qos)
    }

    /// Sets the end of a job that is preempted; its limit still holds. False if it was preempted
    /// before.
    pub(super) fn end_by(&mut self, job: JobNo, end: Time) -> bool {
        let Some(running) = self.running.get_mut(&job).filter(|job| !job.is_preempted) else {
            return false;
        };
        self.capacities.move_end(job, running.end, end);
        (running.end, running.is_preempted) = (end, true);
        self.preempted.insert((end, job))
    }

    /// Returns when the first grace time ends.
    pub(super) fn next_grace_end(&self) -> Option<Time> {
        self.preempted.first().map(|(end, _)| *end)
    }

    /// Returns a preempted job whose grace time is over.
    pub(super) fn grace_over(&self, now: Time) -> Option<JobNo> {
        self.preempted.first().filter(|(end, _)| *end <= now).map(|(_, job)| *job)
    }

    /// Returns whether some job runs.
    pub(super) fn runs_any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Removes jobs that have started from the queue.
    pub(super) fn remove_started(&mut self) {
        let running = &self.running;
        self.queue.keep(|job| !running.contains_key(&job));
    }

    pub(super) fn calculate(&mut self, now: Time) {
        for (job, running) in &mut self.running {
            let known = &self.jobs[job.at()];
            self.fair.used(known.user, known.billed_milli, now.since(running.counted));
            running.counted = now;
        }
        self.fair.pass(&self.accounts, self.settings.calc_period);
    }

    /// Recalculates the priority of all pending jobs.
    pub(super) fn weigh_all(&mut self, now: Time) {
        self.fair.rank_all(&self.accounts);
        let users = self.accounts.users();
        for number in self.queue.jobs() {
            let job = &mut self.jobs[number.at()];
            job.weigh(now, self.fair.rank(job.user), users, &self.settings);
        }
        self.queue.sort(&self.jobs);
    }
}

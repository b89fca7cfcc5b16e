//! Timing of slurmctld: priorities every PriorityCalcPeriod, the main scheduler after events,
//! backfill every bf_interval. The main scheduler goes down the queue and stops at the first job
//! that does not fit; only backfill lets others pass it.

use std::collections::BTreeSet;

use muster_model::{NodeId, Time};

use super::backfill;
use super::limits::Cap;
use super::settings::SlurmSettings;
use super::state::ControllerState;
use crate::fleet::{ClusterState, FleetSite, JobNo, Scheduler, SchedulerError};

/// Times of the last runs, and pending work.
#[derive(Clone, Copy, Debug, Default)]
struct ControllerClock {
    /// Next calculation of priorities; `None` before the first instant.
    calculation: Option<Time>,
    last_main: Option<Time>,
    last_full: Option<Time>,
    last_backfill: Time,
    /// True if something has happened since the main scheduler ran.
    main_is_due: bool,
    /// True if its last pass was cut short by the queue depth.
    main_was_cut: bool,
    /// True if something has changed since the last backfill pass.
    backfill_is_due: bool,
    /// True if usage has been updated and priorities have not.
    is_to_weigh: bool,
}

/// Scheduler model of Slurm.
#[derive(Clone, Debug)]
pub struct Slurm {
    state: ControllerState,
    clock: ControllerClock,
    /// Jobs that were submitted at this instant.
    fresh: Vec<JobNo>,
    /// Jobs that have just lost a node, whose other tasks end too, or whose grace time is over.
    crashed: Vec<JobNo>,
    /// Requeued jobs, and when they may start again.
    requeued: BTreeSet<(Time, JobNo)>,
}

impl Slurm {
    /// Creates a model of a site with these settings.
    #[must_use]
    pub fn new(site: &FleetSite, settings: SlurmSettings) -> Self {
        Self {
            state: ControllerState::new(site, settings),
            clock: ControllerClock::default(),
            fresh: Vec::new(),
            crashed: Vec::new(),
            requeued: BTreeSet::new(),
        }
    }

    fn request_passes(&mut self) {
        (self.clock.main_is_due, self.clock.backfill_is_due) = (true, true);
    }

    /// Requeues jobs that lost a part or whose grace time is over, after ending them; those whose
    /// delay is over are pending again.
    fn requeue(&mut self, cluster: &mut ClusterState) {
        let now = cluster.now();
        while let Some(job) = self.state.grace_over(now) {
            self.state.stop(job, now);
            self.crashed.push(job);
            self.request_passes();
        }
        for job in self.crashed.drain(..) {
            cluster.evict(job);
            self.requeued.insert((now + self.state.settings.requeue_delay, job));
        }
        while let Some((_, job)) = self.requeued.first().copied().filter(|(at, _)| *at <= now) {
            self.requeued.pop_first();
            self.state.wait(job, now);
            self.request_passes();
        }
    }

    /// Tries a job at once that is first in the queue when it is submitted.
    fn try_submitted(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        for job in std::mem::take(&mut self.fresh) {
            let is_tried =
                self.state.queue.jobs().first() == Some(&job) && self.state.exceeded(job).is_none();
            if !is_tried {
                continue;
            }
            match self.state.places(cluster, job) {
                Some(places) => {
                    self.state.start(cluster, job, &places)?;
                    self.state.queue.remove(0);
                }
                None => self.preempt_for(cluster, job),
            }
        }
        Ok(())
    }

    /// Preempts jobs for one that does not fit.
    fn preempt_for(&mut self, cluster: &ClusterState, job: JobNo) {
        if self.state.may_preempt(job)
            && let Some(preemptees) = self.state.preemptees(cluster, job, |_| true)
        {
            self.state.preempt(cluster, &preemptees);
        }
    }

    /// Runs the main scheduler: down the queue until a job does not fit. Jobs above a cap are
    /// skipped.
    fn main_pass(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let now = cluster.now();
        let is_full = self
            .clock
            .last_full
            .is_none_or(|last| now >= last + self.state.settings.sched_interval);
        let mut at = 0;
        let mut looked_at = 0;
        self.clock.main_is_due = false;
        self.clock.main_was_cut = false;
        self.clock.last_main = Some(now);
        if is_full {
            self.clock.last_full = Some(now);
        }
        while let Some(job) = self.state.queue.jobs().get(at).copied() {
            if !is_full && looked_at == self.state.settings.queue_depth {
                self.clock.main_was_cut = true;
                break;
            }
            looked_at += 1;
            if self.state.exceeded(job).is_some() {
                at += 1;
                continue;
            }
            let Some(places) = self.state.places(cluster, job) else {
                self.preempt_for(cluster, job);
                break;
            };
            self.state.start(cluster, job, &places)?;
            self.state.queue.remove(at);
        }
        Ok(())
    }

    /// Returns when the main scheduler runs next, if it is due.
    fn next_main(&self) -> Option<Time> {
        let SlurmSettings { sched_delay, sched_interval, .. } = self.state.settings;
        let after_event = self.clock.last_main.map_or(Time(0), |last| last + sched_delay);
        let full = self.clock.last_full.map_or(Time(0), |last| last + sched_interval);
        match (self.clock.main_is_due, self.clock.main_was_cut) {
            (true, _) => Some(after_event),
            (false, true) => Some(full),
            (false, false) => None,
        }
    }

    fn next_backfill(&self) -> Option<Time> {
        self.clock
            .backfill_is_due
            .then_some(self.clock.last_backfill + self.state.settings.bf_interval)
    }
}

impl Scheduler for Slurm {
    /// Updates usage at the end of each period, even while no job is pending.
    fn turn(&mut self, now: Time) {
        if self.clock.calculation.is_none() {
            self.clock.last_backfill = now;
        }
        let period = self.state.settings.calc_period;
        let mut next = self.clock.calculation.unwrap_or(now + period);
        while next <= now {
            self.state.calculate(next);
            self.clock.is_to_weigh = true;
            next = next + period;
        }
        self.clock.calculation = Some(next);
    }

    fn arrived(&mut self, cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        self.state.submit(cluster, job);
        self.fresh.push(job);
        self.request_passes();
        Ok(())
    }

    fn ended(&mut self, cluster: &ClusterState, job: JobNo) {
        self.state.stop(job, cluster.now());
        self.request_passes();
    }

    fn lost(
        &mut self,
        cluster: &ClusterState,
        _node: NodeId,
        _device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        for (job, _) in tasks {
            if self.state.stop(*job, cluster.now()) {
                self.crashed.push(*job);
            }
        }
        self.request_passes();
    }

    fn repaired(&mut self, _cluster: &ClusterState, _node: NodeId, _device: Option<usize>) {
        self.request_passes();
    }

    /// Returns no wake-up while nothing runs: without events, a pending job does not start by
    /// waiting longer.
    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        let requeued = self.requeued.first().map(|(at, _)| *at);
        let grace_end = self.state.next_grace_end();
        if self.state.queue.jobs().is_empty() {
            return requeued.into_iter().chain(grace_end).min();
        }
        let calculation = self.clock.calculation.filter(|_| self.state.runs_any());
        let own = [self.next_main(), self.next_backfill(), calculation];
        own.into_iter().chain([requeued, grace_end]).flatten().min()
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        let now = cluster.now();
        // 1. Failures and requeues.
        self.requeue(cluster);
        // 2. Priorities.
        if std::mem::take(&mut self.clock.is_to_weigh) {
            self.state.weigh_all(now);
            self.request_passes();
        }
        // 3. New jobs.
        self.try_submitted(cluster)?;
        // 4. The main scheduler.
        if self.next_main().is_some_and(|at| at <= now) {
            self.main_pass(cluster)?;
        }
        // 5. Backfill.
        if self.next_backfill().is_some_and(|at| at <= now) {
            self.clock.last_backfill = now;
            let has_started = backfill::pass(&mut self.state, cluster)?;
            self.clock.backfill_is_due = has_started || self.state.awaits_exempt_time(cluster);
        }
        Ok(())
    }

    fn why(&mut self, _cluster: &ClusterState, job: JobNo) -> String {
        if self.requeued.iter().any(|(_, requeued)| *requeued == job) {
            return "BeginTime: it was requeued and may not start yet".to_owned();
        }
        match self.state.exceeded(job) {
            Some(Cap::AccountGpus) => {
                return "AssocGrpGRES: its account would exceed the GPUs of GrpTRES".to_owned();
            }
            Some(Cap::AccountJobs) => {
                return "AssocGrpJobsLimit: its account runs as many jobs as GrpJobs allows"
                    .to_owned();
            }
            Some(Cap::UserGpus) => {
                return "QOSMaxGRESPerUser: its user would exceed the GPUs of MaxTRESPerUser"
                    .to_owned();
            }
            None => {}
        }
        match self.state.queue.jobs().iter().position(|other| *other == job) {
            Some(0) => "Resources: it is first in the queue, and does not fit".to_owned(),
            Some(before) => format!(
                "Priority: {before} pending jobs have a higher priority, and it cannot pass them without delaying one"
            ),
            None => String::new(),
        }
    }
}

//! When slurmctld does what: priorities every PriorityCalcPeriod, the main scheduler after events,
//! backfill every bf_interval. The main scheduler goes down the queue and stops at the first job
//! that finds no room; only backfill lets anybody pass it.

use std::collections::BTreeSet;

use muster_model::{NodeId, Time};

use super::backfill;
use super::limits::Cap;
use super::settings::Settings;
use super::state::State;
use crate::fleet::{Desk, JobNo, Plane, PlaneError, Site};

/// When what was done last, and what there is to do.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// When priorities are calculated next; `None` before the first instant.
    calculation: Option<Time>,
    last_main: Option<Time>,
    last_full: Option<Time>,
    last_backfill: Time,
    /// Something has happened since the main scheduler ran.
    main_is_due: bool,
    /// Its last pass has not come to the end of what it might have started.
    main_was_cut: bool,
    /// Something has changed since the last backfill pass.
    backfill_is_due: bool,
    /// Usage has been taken over, and priorities have not.
    is_to_weigh: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Slurm {
    state: State,
    clock: Clock,
    /// Jobs that were submitted at this instant.
    fresh: Vec<JobNo>,
    /// Jobs that have just lost a node: what is left of them ends too.
    crashed: Vec<JobNo>,
    /// Jobs that are requeued, and when they may start again.
    requeued: BTreeSet<(Time, JobNo)>,
}

impl Slurm {
    /// A site that has set Slurm up like this.
    #[must_use]
    pub fn new(site: &Site, settings: Settings) -> Self {
        Self {
            state: State::new(site, settings),
            clock: Clock::default(),
            fresh: Vec::new(),
            crashed: Vec::new(),
            requeued: BTreeSet::new(),
        }
    }

    fn something_happened(&mut self) {
        (self.clock.main_is_due, self.clock.backfill_is_due) = (true, true);
    }

    /// Jobs of which a part broke end whole and wait for being requeued; those that have waited for
    /// it are back.
    fn requeue(&mut self, desk: &mut Desk) {
        let now = desk.now();
        for job in self.crashed.drain(..) {
            desk.evict(job);
            self.requeued.insert((now + self.state.settings.requeue_delay, job));
        }
        while let Some((_, job)) = self.requeued.first().copied().filter(|(at, _)| *at <= now) {
            self.requeued.pop_first();
            self.state.wait(job, now);
            self.something_happened();
        }
    }

    /// A job that is first in line when it is submitted is tried at once.
    fn try_fresh(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        for job in std::mem::take(&mut self.fresh) {
            let is_tried =
                self.state.queue.jobs().first() == Some(&job) && self.state.exceeded(job).is_none();
            if let Some(places) = is_tried.then(|| self.state.places(desk, job)).flatten() {
                self.state.start(desk, job, &places)?;
                self.state.queue.remove(0);
            }
        }
        Ok(())
    }

    /// The main scheduler: down the queue until somebody finds no room. Who is held back by a cap
    /// is passed over.
    fn main_pass(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let now = desk.now();
        let is_full = self
            .clock
            .last_full
            .is_none_or(|last| now >= last + self.state.settings.sched_interval);
        let (mut at, mut looked_at) = (0, 0);
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
            let Some(places) = self.state.places(desk, job) else { break };
            self.state.start(desk, job, &places)?;
            self.state.queue.remove(at);
        }
        Ok(())
    }

    /// When the main scheduler runs next, if it has to.
    fn next_main(&self) -> Option<Time> {
        let Settings { sched_delay, sched_interval, .. } = self.state.settings;
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

impl Plane for Slurm {
    /// Usage is taken over at the end of each period, whether anybody waits or not.
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

    fn arrived(&mut self, desk: &Desk, job: JobNo) -> Result<(), PlaneError> {
        self.state.submit(desk, job);
        self.fresh.push(job);
        self.something_happened();
        Ok(())
    }

    fn ended(&mut self, desk: &Desk, job: JobNo) {
        self.state.stop(job, desk.now());
        self.something_happened();
    }

    fn lost(&mut self, desk: &Desk, _node: NodeId, _device: Option<usize>, tasks: &[(JobNo, u32)]) {
        for (job, _) in tasks {
            if self.state.stop(*job, desk.now()) {
                self.crashed.push(*job);
            }
        }
        self.something_happened();
    }

    fn mended(&mut self, _desk: &Desk, _node: NodeId, _device: Option<usize>) {
        self.something_happened();
    }

    /// While nothing runs and nothing happens, nobody who waits now will start by waiting longer.
    fn next_wake(&mut self, _now: Time) -> Option<Time> {
        let requeued = self.requeued.first().map(|(at, _)| *at);
        if self.state.queue.jobs().is_empty() {
            return requeued;
        }
        let calculation = self.clock.calculation.filter(|_| self.state.runs_any());
        [requeued, self.next_main(), self.next_backfill(), calculation].into_iter().flatten().min()
    }

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        let now = desk.now();
        // 1. What broke, and who is back.
        self.requeue(desk);
        // 2. Priorities.
        if std::mem::take(&mut self.clock.is_to_weigh) {
            self.state.weigh_all(now);
            self.something_happened();
        }
        // 3. Who has just been submitted.
        self.try_fresh(desk)?;
        // 4. The main scheduler.
        if self.next_main().is_some_and(|at| at <= now) {
            self.main_pass(desk)?;
        }
        // 5. Backfill.
        if self.next_backfill().is_some_and(|at| at <= now) {
            self.clock.last_backfill = now;
            self.clock.backfill_is_due = backfill::pass(&mut self.state, desk)?;
        }
        Ok(())
    }

    fn why(&mut self, _desk: &Desk, job: JobNo) -> String {
        if self.requeued.iter().any(|(_, requeued)| *requeued == job) {
            return "BeginTime: it was requeued after a failure and may not start yet".to_owned();
        }
        match self.state.exceeded(job) {
            Some(Cap::AccountGpus) => {
                return "AssocGrpGRES: with it its account would hold more GPUs than GrpTRES allows"
                    .to_owned();
            }
            Some(Cap::AccountJobs) => {
                return "AssocGrpJobsLimit: its account runs as many jobs as GrpJobs allows"
                    .to_owned();
            }
            Some(Cap::UserGpus) => {
                return "QOSMaxGRESPerUser: with it its user would hold more GPUs than allowed"
                    .to_owned();
            }
            None => {}
        }
        match self.state.queue.jobs().iter().position(|other| *other == job) {
            Some(0) => {
                "Resources: it is first in line, and there is too little room for it".to_owned()
            }
            Some(before) => format!(
                "Priority: {before} jobs that wait have a higher priority, and to pass them it would delay one"
            ),
            None => String::new(),
        }
    }
}

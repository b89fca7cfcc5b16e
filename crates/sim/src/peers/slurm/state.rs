//! The controller's state: jobs that wait and run, what they use, and how one starts and ends. When
//! jobs are looked at, and in which order they may start, is decided elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{Span, Time};

use super::accounts::Accounts;
use super::fair_tree::FairTree;
use super::limits::{Cap, Limits};
use super::queue::{self, Job, Queue};
use super::room::Rooms;
use super::settings::{MINUTE, Settings};
use super::switches::{Places, Switches};
use crate::fleet::{Desk, JobNo, PlaneError, Site};

/// What jobs ask for: so many tasks that each hold so much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) task: Arc<Resources>,
    pub(super) tasks: u32,
}

/// A job that runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// Its use is taken over up to here.
    counted: Time,
    /// When its time limit ends.
    end: Time,
}

/// The state.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) accounts: Accounts,
    pub(super) fair: FairTree,
    pub(super) limits: Limits,
    pub(super) rooms: Rooms,
    pub(super) switches: Switches,
    pub(super) kinds: Vec<Kind>,
    known: BTreeMap<(Resources, u32), usize>,
    pub(super) jobs: Vec<Job>,
    pub(super) queue: Queue,
    running: BTreeMap<JobNo, Running>,
    has_gpus: bool,
}

impl State {
    pub(super) fn new(site: &Site, settings: Settings) -> Self {
        let accounts = Accounts::new(&site.tree);
        Self {
            settings,
            fair: FairTree::new(&accounts, site.tree.half_life),
            limits: Limits::new(&accounts),
            accounts,
            rooms: Rooms::new(site, settings.bf_resolution),
            switches: Switches::new(site),
            kinds: Vec::new(),
            known: BTreeMap::new(),
            jobs: Vec::new(),
            queue: Queue::default(),
            running: BTreeMap::new(),
            has_gpus: site.has_gpus(),
        }
    }

    /// A job is submitted.
    pub(super) fn submit(&mut self, desk: &Desk, number: JobNo) {
        let job = desk.job(number);
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
        let nodes = (u64::from(job.fewest_nodes), desk.pool().nodes().len() as u64);
        let kind = self.kind(&job.task, job.tasks);
        self.jobs.push(Job {
            kind,
            user,
            gpus_milli,
            billed_milli,
            limit: Span(limit.0.div_ceil(MINUTE.0).max(1) * MINUTE.0),
            eligible: desk.now(),
            size: queue::size(nodes, (billed_milli, desk.size_milli())),
            bonus: i64::from(job.priority),
            priority: 0,
        });
        self.wait(number, desk.now());
    }

    /// A job waits from now on, or again.
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
            self.kinds.push(Kind { task: Arc::clone(task), tasks });
        }
        kind
    }

    /// The cap that keeps a job from starting.
    pub(super) fn exceeded(&self, job: JobNo) -> Option<Cap> {
        let job = &self.jobs[job.at()];
        self.limits.exceeded(&self.accounts, job.user, job.gpus_milli)
    }

    /// Where a job can start now, were nothing reserved.
    pub(super) fn places(&self, desk: &Desk, job: JobNo) -> Option<Places> {
        let kind = &self.kinds[self.jobs[job.at()].kind];
        self.switches.choose(&self.rooms.now(desk.pool(), &kind.task), kind.tasks)
    }

    /// All tasks of a job get their places; it stays in the queue until it is taken out.
    ///
    /// # Errors
    /// A place has no room: a defect of this model.
    pub(super) fn start(
        &mut self,
        desk: &mut Desk,
        job: JobNo,
        places: &Places,
    ) -> Result<(), PlaneError> {
        let mut ranks = 0..desk.job(job).tasks;
        for (node, tasks) in places {
            for rank in ranks.by_ref().take(*tasks as usize) {
                if !desk.place(job, rank, *node)? {
                    let node = desk.pool().node(*node).spec.name.to_string();
                    return Err(PlaneError::NotFree {
                        job: desk.job(job).id.to_string(),
                        rank,
                        node,
                    });
                }
            }
        }
        let known = &self.jobs[job.at()];
        let end = desk.now() + known.limit;
        self.limits.take(&self.accounts, known.user, known.gpus_milli);
        self.rooms.begin(desk, job, end);
        self.running.insert(job, Running { counted: desk.now(), end });
        Ok(())
    }

    /// A job runs no longer; false where it did not.
    pub(super) fn stop(&mut self, job: JobNo, now: Time) -> bool {
        let Some(ran) = self.running.remove(&job) else { return false };
        let known = &self.jobs[job.at()];
        self.fair.used(known.user, known.billed_milli, now.since(ran.counted));
        self.limits.give(&self.accounts, known.user, known.gpus_milli);
        self.rooms.end(job, ran.end);
        true
    }

    /// Some job runs.
    pub(super) fn runs_any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Jobs that have started leave the queue.
    pub(super) fn take_out_started(&mut self) {
        let running = &self.running;
        self.queue.keep(|job| !running.contains_key(&job));
    }

    /// A period of PriorityCalcPeriod is over.
    pub(super) fn calculate(&mut self, now: Time) {
        for (job, running) in &mut self.running {
            let known = &self.jobs[job.at()];
            self.fair.used(known.user, known.billed_milli, now.since(running.counted));
            running.counted = now;
        }
        self.fair.pass(&self.accounts, self.settings.calc_period);
    }

    /// All jobs that wait get their priority anew.
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

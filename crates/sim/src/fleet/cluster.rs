//! State of the simulated cluster and the actions of a scheduler: arrived jobs, free resources, and
//! the few orders there are. Immediate effects of an order happen here: a job begins when its last
//! task holds what it needs, and stops when one no longer does. Orders are checked: resources that
//! are not free are not given.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use muster_model::simulation::LevelSpread;
use muster_model::{DeviceSet, NodeId, Span, Time};

use super::domains::Domains;
use super::error::SchedulerError;
use super::load::{FleetJob, JobNo};
use super::pool::Pool;
use super::record::{AllocationBar, ClusterEvent, FleetRecord, UsageLevels};
use super::site::FleetSite;
use super::waiting::WaitingJobs;
use super::withheld::{WithheldNode, WithheldNodes};

/// Costs of stopping a job, the same for every scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopCosts {
    /// Running time after which a job saves its progress; `None`: never by itself.
    pub checkpoint_every: Option<Span>,
    /// True if evicted jobs save their progress first; jobs that fail with their node do not.
    pub saves_when_told: bool,
    /// Time that a restarted job needs before it continues its work.
    pub restart: Span,
    /// Time from the engine's stop order until the processes are gone and their resources are free.
    pub stopping: Span,
}

impl Default for StopCosts {
    /// No checkpoints and free restarts. A stop takes 1 s, which is an assumption, the same as for
    /// Kueue: processes have up to their grace of 30 s, and most need less.
    fn default() -> Self {
        Self {
            checkpoint_every: None,
            saves_when_told: false,
            restart: Span(0),
            stopping: Span::from_secs(1),
        }
    }
}

/// Status of a job so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobStatus {
    /// Time of its first start.
    pub began: Option<Time>,
    /// Time of its last start.
    pub last_began: Option<Time>,
    /// Time at which its work was done.
    pub ended: Option<Time>,
    /// True if the scheduler rejected it.
    pub is_refused: bool,
    /// Number of times it was stopped while it ran.
    pub stops: u32,
    /// Time pending in all finished periods: before its first start and after each stop.
    pub waited: Span,
    /// Number of nodes of its last start.
    pub nodes: u32,
    /// Number of domains of each level in its last start, widest level first; empty where the site
    /// has no levels.
    pub domains: Vec<u32>,
    /// Fewest nodes that it could have run on in the idle cluster.
    pub fewest_nodes: u32,
}

/// Minimum time for which the Gantt chart shows allocations that are held at the end of a run.
const LAST_BARS: Span = Span::from_secs(600);

/// Devices that a task holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldDevices {
    node: NodeId,
    devices: DeviceSet,
    since: Time,
}

/// State of a job in the simulation.
#[derive(Clone, Debug, Default)]
struct JobRun {
    /// Held devices by rank; empty once the job has ended.
    held: Vec<Option<HeldDevices>>,
    placed: u32,
    /// Start of the current run; `None` while it does not run.
    since: Option<Time>,
    /// Start of the current pending period.
    waits_since: Option<Time>,
    /// Missing thousandths with which it is counted among the pending jobs.
    counted: Option<u64>,
    /// Work that is saved.
    saved: Span,
    /// Number of stops; expected ends of earlier epochs are outdated.
    epoch: u32,
    status: JobStatus,
}

/// State of the simulated cluster.
#[derive(Clone, Debug)]
pub struct ClusterState {
    now: Time,
    terms: StopCosts,
    has_gpus: bool,
    size: u64,
    /// All jobs in order of arrival; those with a run have arrived.
    jobs: Arc<Vec<FleetJob>>,
    runs: Vec<JobRun>,
    pool: Pool,
    domains: Domains,
    withheld: WithheldNodes,
    endings: BinaryHeap<Reverse<(Time, JobNo, u32)>>,
    waiting: WaitingJobs,
    /// Jobs whose count among the pending jobs is outdated.
    to_count: Vec<JobNo>,
    levels: UsageLevels,
    record: FleetRecord,
}

impl ClusterState {
    pub(super) fn new(site: &FleetSite, terms: StopCosts, jobs: Arc<Vec<FleetJob>>) -> Self {
        Self {
            now: Time(0),
            terms,
            has_gpus: site.has_gpus(),
            size: site.size_milli(),
            runs: Vec::with_capacity(jobs.len()),
            jobs,
            pool: Pool::new(&site.nodes),
            domains: Domains::new(site),
            withheld: WithheldNodes::default(),
            endings: BinaryHeap::new(),
            waiting: WaitingJobs::new(site),
            to_count: Vec::new(),
            levels: UsageLevels::default(),
            record: FleetRecord::new(),
        }
    }

    // ---- read ----

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the costs of a stop.
    #[must_use]
    pub fn terms(&self) -> StopCosts {
        self.terms
    }

    /// Returns the free resources.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns how far jobs were spread over the domains of each level.
    pub(super) fn domain_spreads(&self) -> Vec<LevelSpread> {
        let idle = || {
            Pool::new(&self.pool.nodes().map(|(_, node)| (*node.spec).clone()).collect::<Vec<_>>())
        };
        let jobs = (0..self.jobs().len() as u32).map(JobNo);
        let spanned = jobs.map(|job| (self.job(job), &self.status(job).domains[..]));
        self.domains.spreads(idle, spanned)
    }

    /// Returns the topology domains.
    #[must_use]
    pub fn domains(&self) -> &Domains {
        &self.domains
    }

    /// Returns the jobs that have arrived, by number.
    #[must_use]
    pub fn jobs(&self) -> &[FleetJob] {
        &self.jobs[..self.runs.len()]
    }

    /// Returns a job that has arrived.
    #[must_use]
    pub fn job(&self, job: JobNo) -> &FleetJob {
        &self.jobs[job.at()]
    }

    /// Returns the status of a job.
    #[must_use]
    pub fn status(&self, job: JobNo) -> &JobStatus {
        &self.runs[job.at()].status
    }

    /// Returns whether all tasks hold what they need.
    #[must_use]
    pub fn runs(&self, job: JobNo) -> bool {
        self.runs[job.at()].since.is_some()
    }

    /// Returns the start of the current run.
    #[must_use]
    pub fn runs_since(&self, job: JobNo) -> Option<Time> {
        self.runs[job.at()].since
    }

    /// Returns whether the job's work is done.
    #[must_use]
    pub fn has_ended(&self, job: JobNo) -> bool {
        self.runs[job.at()].status.ended.is_some()
    }

    /// Returns the time a job has been pending so far: all the time since its submission in which
    /// it neither ran nor had ended, also after a stop.
    #[must_use]
    pub fn waited(&self, job: JobNo) -> Span {
        let run = &self.runs[job.at()];
        let now = run.waits_since.map_or(Span(0), |since| self.now.since(since));
        Span(run.status.waited.0 + now.0)
    }

    /// Returns the time from a job's submission to its end, or until now.
    #[must_use]
    pub fn turnaround(&self, job: JobNo) -> Span {
        self.status(job).ended.unwrap_or(self.now).since(self.job(job).submit)
    }

    /// Returns the number of tasks that hold what they need.
    #[must_use]
    pub fn placed(&self, job: JobNo) -> u32 {
        self.runs[job.at()].placed
    }

    /// Returns the node and devices of a task.
    #[must_use]
    pub fn place_of(&self, job: JobNo, rank: u32) -> Option<(NodeId, DeviceSet)> {
        let held = self.runs[job.at()].held.get(rank as usize).copied().flatten()?;
        Some((held.node, held.devices))
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn record(&self) -> &FleetRecord {
        &self.record
    }

    /// Returns what is held now, in thousandths of the cluster's unit.
    #[must_use]
    pub fn held_milli(&self) -> u64 {
        self.levels.held
    }

    pub(super) fn record_mut(&mut self) -> &mut FleetRecord {
        &mut self.record
    }

    /// Returns the size of the cluster in thousandths of its unit.
    #[must_use]
    pub fn size_milli(&self) -> u64 {
        self.size
    }

    /// Returns the size of a job in thousandths of the cluster's unit.
    #[must_use]
    pub fn width_milli(&self, job: JobNo) -> u64 {
        self.jobs[job.at()].width_milli(self.has_gpus)
    }

    // ---- orders ----

    /// Places a task on a node, on the devices that the pool chooses. Returns false, without a
    /// change, if it does not fit.
    ///
    /// # Errors
    /// The task is placed already.
    pub fn place(&mut self, job: JobNo, rank: u32, node: NodeId) -> Result<bool, SchedulerError> {
        match self.pool.node(node).choose(&self.jobs[job.at()].task) {
            Some(devices) => self.place_on(job, rank, node, devices).map(|()| true),
            None => Ok(false),
        }
    }

    /// Places a task on devices of a node.
    ///
    /// # Errors
    /// The devices are not free, the task is placed already, or the job has ended.
    pub fn place_on(
        &mut self,
        job: JobNo,
        rank: u32,
        node: NodeId,
        devices: DeviceSet,
    ) -> Result<(), SchedulerError> {
        let run = &self.runs[job.at()];
        if !matches!(run.held.get(rank as usize), Some(None)) {
            return Err(SchedulerError::PlacedTwice {
                job: self.jobs[job.at()].id.to_string(),
                rank,
            });
        }
        if !self.pool.take(node, &self.jobs[job.at()].task, devices) {
            let node = self.pool.node(node).spec.name.to_string();
            return Err(SchedulerError::NotFree {
                job: self.jobs[job.at()].id.to_string(),
                rank,
                node,
            });
        }
        let run = &mut self.runs[job.at()];
        run.held[rank as usize] = Some(HeldDevices { node, devices, since: self.now });
        run.placed += 1;
        let is_whole = run.placed == run.held.len() as u32;
        self.levels.held += self.task_milli(job);
        self.update_counts(job, node, devices, true);
        self.record.record_event(self.now, ClusterEvent::Placed(job, rank, node, devices));
        if is_whole {
            self.begin(job);
        }
        Ok(())
    }

    /// Stops a running job for another while its tasks still hold their resources; [`Self::evict`]
    /// frees them.
    pub fn halt(&mut self, job: JobNo) {
        if self.runs[job.at()].since.is_some() {
            self.record.evictions += 1;
            self.stop(job, true);
        }
    }

    /// Evicts every task of a job, which is pending then.
    pub fn evict(&mut self, job: JobNo) {
        self.halt(job);
        for rank in 0..self.runs[job.at()].held.len() as u32 {
            self.remove(job, rank);
        }
    }

    /// Evicts one task of a job; the others keep their resources.
    pub fn evict_task(&mut self, job: JobNo, rank: u32) {
        self.halt(job);
        self.remove(job, rank);
    }

    /// Withholds the free part of a node for the owner of a job: it counts as held, stays idle, and
    /// no other job gets it until it is released. Nothing changes if the node is withheld already.
    pub fn withhold(&mut self, job: JobNo, node: NodeId) {
        self.withheld.withhold(&mut self.pool, node, job, self.now);
        self.waiting.node_changed(node);
    }

    /// Releases the withheld part of a node.
    pub fn release(&mut self, node: NodeId) {
        let withheld = self.withheld.release(&mut self.pool, node);
        self.waiting.node_changed(node);
        self.note_withheld(node, withheld);
    }

    // ---- what happens ----

    /// Advances time and counts what was held meanwhile.
    pub(super) fn pass(&mut self, to: Time) {
        self.levels.withheld = self.withheld.idle_milli(&self.pool, self.has_gpus);
        self.count_waiting();
        self.levels.waiting = self.waiting.jobs();
        self.levels.stranded = self.waiting.stranded_milli(&self.pool);
        self.record.pass(self.now, to, &self.levels);
        self.now = to;
    }

    /// Returns the next arrival time.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        self.jobs.get(self.runs.len()).map(|job| job.submit)
    }

    /// Lets the next job arrive.
    pub(super) fn arrive(&mut self) -> JobNo {
        let number = JobNo(self.runs.len() as u32);
        let job = &self.jobs[number.at()];
        self.record.first.get_or_insert(self.now);
        let status = JobStatus { fewest_nodes: job.fewest_nodes, ..JobStatus::default() };
        self.runs.push(JobRun {
            held: vec![None; job.tasks as usize],
            status,
            ..JobRun::default()
        });
        self.waits(number, true);
        self.record.record_event(self.now, ClusterEvent::Arrived(number));
        number
    }

    /// Marks a job as rejected; it is no longer pending.
    pub(super) fn refuse(&mut self, job: JobNo) {
        self.runs[job.at()].status.is_refused = true;
        self.waits(job, false);
    }

    /// Returns the next time at which a job ends.
    pub(super) fn next_end(&mut self) -> Option<Time> {
        while let Some(Reverse((at, job, epoch))) = self.endings.peek() {
            let run = &self.runs[job.at()];
            if run.epoch == *epoch && run.since.is_some() {
                return Some(*at);
            }
            self.endings.pop();
        }
        None
    }

    /// Ends the next job whose work is done by now.
    pub(super) fn end_next(&mut self) -> Option<JobNo> {
        if self.next_end()? > self.now {
            return None;
        }
        let Reverse((_, job, _)) = self.endings.pop()?;
        self.record.record_event(self.now, ClusterEvent::Ended(job));
        self.levels.running -= self.width_milli(job);
        self.note_bars(job);
        let width = u128::from(self.width_milli(job));
        let run = &mut self.runs[job.at()];
        if run.status.stops > 0 {
            self.record.lost += u128::from(self.terms.restart.0) * width;
        }
        run.since = None;
        run.status.ended = Some(self.now);
        run.placed = 0;
        let held = std::mem::take(&mut run.held);
        for held in held.into_iter().flatten() {
            self.levels.held -= self.task_milli(job);
            self.free(job, held);
        }
        Some(job)
    }

    /// Breaks a node, or one device of it: returns the lost tasks, whose jobs stop.
    pub(super) fn fail_part(&mut self, node: NodeId, device: Option<usize>) -> Vec<(JobNo, u32)> {
        let mut lost = Vec::new();
        for (at, run) in self.runs.iter().enumerate().filter(|(_, run)| run.placed > 0) {
            for (rank, held) in run.held.iter().enumerate() {
                let is_hit = held.is_some_and(|held| {
                    held.node == node && device.is_none_or(|device| held.devices.contains(device))
                });
                if is_hit {
                    lost.push((JobNo(at as u32), rank as u32));
                }
            }
        }
        for (job, rank) in &lost {
            if self.runs[job.at()].since.is_some() {
                self.record.breakdowns += 1;
                self.stop(*job, false);
            }
            self.remove(*job, *rank);
        }
        match device {
            None => {
                self.pool.set_up(node, false);
                self.record.record_event(self.now, ClusterEvent::NodeDown(node));
            }
            Some(device) => {
                self.pool.set_broken(node, device, true);
                self.record.record_event(self.now, ClusterEvent::DeviceBroken(node, device));
            }
        }
        self.waiting.node_changed(node);
        self.levels.down = self.pool.down_milli(self.has_gpus);
        lost
    }

    /// Repairs a node, or one device of it.
    pub(super) fn repair(&mut self, node: NodeId, device: Option<usize>) {
        match device {
            None => {
                self.pool.set_up(node, true);
                self.record.record_event(self.now, ClusterEvent::NodeUp(node));
            }
            Some(device) => {
                self.pool.set_broken(node, device, false);
                self.record.record_event(self.now, ClusterEvent::DeviceMended(node, device));
            }
        }
        self.waiting.node_changed(node);
        self.levels.down = self.pool.down_milli(self.has_gpus);
    }

    fn begin(&mut self, job: JobNo) {
        self.waits(job, false);
        self.levels.running += self.width_milli(job);
        let restart = self.terms.restart;
        let work = self.jobs[job.at()].runtime;
        let run = &mut self.runs[job.at()];
        let left = Span(work.0 - run.saved.0);
        let again = if run.status.stops > 0 { restart } else { Span(0) };
        run.since = Some(self.now);
        run.status.began.get_or_insert(self.now);
        run.status.last_began = Some(self.now);
        let nodes = run.held.iter().flatten().map(|held| held.node);
        run.status.domains = self.domains.spanned(nodes.clone());
        run.status.nodes = distinct(nodes);
        self.endings.push(Reverse((self.now + again + left, job, run.epoch)));
        self.record.record_event(self.now, ClusterEvent::Began(job));
    }

    /// Stops a running job.
    fn stop(&mut self, job: JobNo, is_told: bool) {
        self.note_bars(job);
        let width = self.width_milli(job);
        let terms = self.terms;
        let run = &mut self.runs[job.at()];
        let since = run.since.take().expect("only running jobs are stopped");
        let ran = self.now.since(since);
        let restarting = if run.status.stops > 0 { terms.restart.min(ran) } else { Span(0) };
        let done = Span(run.saved.0 + ran.0 - restarting.0);
        let saved = match terms.checkpoint_every {
            _ if is_told && terms.saves_when_told => done,
            Some(every) if every.0 > 0 => Span(done.0 / every.0 * every.0).max(run.saved),
            _ => run.saved,
        };
        let lost = Span(done.0 - saved.0 + restarting.0);
        (run.saved, run.epoch, run.status.stops) = (saved, run.epoch + 1, run.status.stops + 1);
        self.record.lost += u128::from(lost.0) * u128::from(width);
        self.levels.running -= width;
        self.waits(job, true);
        self.record.record_event(self.now, ClusterEvent::Stopped(job, lost));
    }

    fn remove(&mut self, job: JobNo, rank: u32) {
        let run = &mut self.runs[job.at()];
        let Some(held) = run.held.get_mut(rank as usize).and_then(Option::take) else { return };
        run.placed -= 1;
        self.levels.held -= self.task_milli(job);
        self.note_bar(job, held, None);
        self.free(job, held);
        self.record.record_event(self.now, ClusterEvent::Removed(job, rank, held.node));
    }

    /// Frees what a task held, or withholds it with its node.
    fn free(&mut self, job: JobNo, held: HeldDevices) {
        self.pool.give(held.node, &self.jobs[job.at()].task, held.devices);
        self.update_counts(job, held.node, held.devices, false);
        let withheld = self.withheld.renew(&self.pool, held.node, self.now);
        self.note_withheld(held.node, withheld);
    }

    fn note_withheld(&mut self, node: NodeId, withheld: Option<WithheldNode>) {
        let (Some(bars), Some(WithheldNode { job, since, rest })) =
            (&mut self.record.bars, withheld)
        else {
            return;
        };
        if since < self.now && !rest.is_empty() {
            bars.push(AllocationBar {
                job,
                node,
                devices: rest,
                from: since,
                to: self.now,
                runs: false,
            });
        }
    }

    /// Records what a running job has held until now, and starts new records for its tasks.
    fn note_bars(&mut self, job: JobNo) {
        let now = self.now;
        let since = self.runs[job.at()].since;
        if self.record.bars.is_some() {
            let held: Vec<HeldDevices> =
                self.runs[job.at()].held.iter().flatten().copied().collect();
            held.into_iter().for_each(|held| self.note_bar(job, held, since));
        }
        for held in self.runs[job.at()].held.iter_mut().flatten() {
            held.since = now;
        }
    }

    fn note_bar(&mut self, job: JobNo, held: HeldDevices, runs_since: Option<Time>) {
        let now = self.now;
        if let Some(bars) = &mut self.record.bars {
            bars.extend(bars_of(job, held, runs_since, now));
        }
    }

    /// Returns the recorded allocations. Those held at the end of the run extend beyond it, since
    /// they are never freed.
    #[must_use]
    pub fn bars(&self) -> Vec<AllocationBar> {
        let ran = self.now.since(self.record.first.unwrap_or_default());
        let until = self.now + Span(ran.0 / 20).max(LAST_BARS);
        let mut bars = self.record.bars.clone().unwrap_or_default();
        for (at, run) in self.runs.iter().enumerate().filter(|(_, run)| run.placed > 0) {
            let held = run.held.iter().flatten();
            bars.extend(held.flat_map(|held| bars_of(JobNo(at as u32), *held, run.since, until)));
        }
        bars
    }

    /// Starts or ends a pending period of a job.
    fn waits(&mut self, job: JobNo, does: bool) {
        let run = &mut self.runs[job.at()];
        if let Some(since) = run.waits_since.take() {
            run.status.waited = Span(run.status.waited.0 + self.now.since(since).0);
        }
        run.waits_since = does.then_some(self.now);
        self.to_count.push(job);
    }

    /// Counts devices of a node that a task takes or frees.
    fn update_counts(&mut self, job: JobNo, node: NodeId, devices: DeviceSet, does: bool) {
        self.waiting.node_changed(node);
        let there = &self.jobs[job.at()];
        let each = self.task_milli(job) / u64::from(devices.len().max(1));
        self.waiting.holds(there, self.pool.node(node), devices, each, does);
        if self.to_count.last() != Some(&job) {
            self.to_count.push(job);
        }
    }

    /// Updates the count of pending jobs by what they lack now.
    fn count_waiting(&mut self) {
        for job in std::mem::take(&mut self.to_count) {
            let there = &self.jobs[job.at()];
            let run = &mut self.runs[job.at()];
            let lacks = || {
                let each = there.width_milli(self.has_gpus) / u64::from(there.tasks.max(1));
                each * u64::from(there.tasks - run.placed)
            };
            let now = run.waits_since.is_some().then(lacks);
            if run.counted != now {
                self.waiting.change(there, run.counted, now);
                run.counted = now;
            }
        }
    }

    /// Returns what one task of a job holds in the cluster's unit.
    fn task_milli(&self, job: JobNo) -> u64 {
        let task = &self.jobs[job.at()].task;
        u64::from(if self.has_gpus { task.gpu.milli().0 } else { task.cpus.0 })
    }
}

/// Returns the allocation of a task until an instant: first without running, then running.
fn bars_of(
    job: JobNo,
    held: HeldDevices,
    runs_since: Option<Time>,
    until: Time,
) -> impl Iterator<Item = AllocationBar> {
    let began = runs_since.unwrap_or(until).max(held.since);
    let bar = move |from, to, runs| AllocationBar {
        job,
        node: held.node,
        devices: held.devices,
        from,
        to,
        runs,
    };
    let bars = [bar(held.since, began, false), bar(began, until, true)];
    bars.into_iter().filter(|bar| bar.from < bar.to)
}

fn distinct(nodes: impl Iterator<Item = NodeId>) -> u32 {
    let mut nodes: Vec<NodeId> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.len() as u32
}

//! Where whoever decides works: what has arrived, what is free, and the few orders there are. What
//! follows from an order at once is seen to here: devices change hands, a job begins when its last
//! task holds what it needs, and stops when one no longer does. No order is believed: what is not
//! free is not given.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use muster_model::{DeviceSet, NodeId, Span, Time};

use super::domains::Domains;
use super::kept::{Kept, KeptNodes};
use super::load::{FleetJob, JobNo};
use super::plane::PlaneError;
use super::pool::Pool;
use super::record::{Bar, Happening, Levels, Record};
use super::site::Site;
use super::waiting::Waiting;

/// What a stop costs, the same under every control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Jobs save their progress each time they have worked for so long. `None`: never by
    /// themselves.
    pub checkpoint_every: Option<Span>,
    /// Jobs that are made to go save their progress first; one whose node breaks does not.
    pub saves_when_told: bool,
    /// A job that runs again needs so long until it works.
    pub restart: Span,
    /// From when the engine tells a job to stop until its processes are gone and what they held is
    /// free.
    pub stopping: Span,
}

impl Default for Terms {
    /// Nothing is saved and restarts cost nothing. A stop takes 1 s, which is an assumption, the
    /// same as for Kueue: processes have up to their grace of 30 s, and most need less.
    fn default() -> Self {
        Self {
            checkpoint_every: None,
            saves_when_told: false,
            restart: Span(0),
            stopping: Span::from_secs(1),
        }
    }
}

/// How a job stands, or how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// When it began first.
    pub began: Option<Time>,
    /// When it began last.
    pub last_began: Option<Time>,
    /// When its work was done.
    pub ended: Option<Time>,
    /// Whoever decides did not take it.
    pub is_refused: bool,
    /// How often it was stopped while it ran.
    pub stops: u32,
    /// How long it waited in all the stretches that are over, before its first start and after each
    /// stop.
    pub waited: Span,
    /// Nodes that it ran on last.
    pub nodes: u32,
    /// Domains of each level that these lay in, widest first; empty where the site has no levels.
    pub domains: Vec<u32>,
    /// Fewest nodes that it could have run on, were the cluster idle.
    pub fewest_nodes: u32,
}

/// What is held at the end is drawn for so long at least.
const LAST_BARS: Span = Span::from_secs(600);

/// What a task holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    node: NodeId,
    devices: DeviceSet,
    since: Time,
}

/// A job as the world keeps it.
#[derive(Clone, Debug, Default)]
struct Run {
    /// By rank; empty once it has ended.
    held: Vec<Option<Held>>,
    placed: u32,
    /// It runs, since then.
    since: Option<Time>,
    /// It waits, since then.
    waits_since: Option<Time>,
    /// What it lacks, as it is counted among the waiting jobs.
    counted: Option<u64>,
    /// Work that is saved.
    saved: Span,
    /// Of two ends that are foreseen, that of the later epoch counts.
    epoch: u32,
    fate: Fate,
}

/// The desk.
#[derive(Clone, Debug)]
pub struct Desk {
    now: Time,
    terms: Terms,
    has_gpus: bool,
    size: u64,
    /// In order of arrival; so many of them have arrived as there are runs.
    jobs: Arc<Vec<FleetJob>>,
    runs: Vec<Run>,
    pool: Pool,
    domains: Domains,
    kept: KeptNodes,
    endings: BinaryHeap<Reverse<(Time, JobNo, u32)>>,
    waiting: Waiting,
    /// Jobs that hold more or less than when they were counted among the waiting jobs, or no longer
    /// wait.
    to_count: Vec<JobNo>,
    levels: Levels,
    record: Record,
}

impl Desk {
    pub(super) fn new(site: &Site, terms: Terms, jobs: Arc<Vec<FleetJob>>) -> Self {
        Self {
            now: Time(0),
            terms,
            has_gpus: site.has_gpus(),
            size: site.size_milli(),
            runs: Vec::with_capacity(jobs.len()),
            jobs,
            pool: Pool::new(&site.nodes),
            domains: Domains::new(site),
            kept: KeptNodes::default(),
            endings: BinaryHeap::new(),
            waiting: Waiting::new(site),
            to_count: Vec::new(),
            levels: Levels::default(),
            record: Record::new(),
        }
    }

    // ---- read ----

    /// The present instant.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// What a stop costs.
    #[must_use]
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// What is free.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// How its nodes lie to each other.
    #[must_use]
    pub fn domains(&self) -> &Domains {
        &self.domains
    }

    /// Jobs that have arrived, by number.
    #[must_use]
    pub fn jobs(&self) -> &[FleetJob] {
        &self.jobs[..self.runs.len()]
    }

    /// A job that has arrived.
    #[must_use]
    pub fn job(&self, job: JobNo) -> &FleetJob {
        &self.jobs[job.at()]
    }

    /// How it stands.
    #[must_use]
    pub fn fate(&self, job: JobNo) -> &Fate {
        &self.runs[job.at()].fate
    }

    /// All of its tasks hold what they need.
    #[must_use]
    pub fn runs(&self, job: JobNo) -> bool {
        self.runs[job.at()].since.is_some()
    }

    /// Since when it runs.
    #[must_use]
    pub fn runs_since(&self, job: JobNo) -> Option<Time> {
        self.runs[job.at()].since
    }

    /// Its work is done.
    #[must_use]
    pub fn has_ended(&self, job: JobNo) -> bool {
        self.runs[job.at()].fate.ended.is_some()
    }

    /// How long a job has waited so far: all the time from its submission on in which it neither
    /// ran nor had ended, also after it was stopped.
    #[must_use]
    pub fn waited(&self, job: JobNo) -> Span {
        let run = &self.runs[job.at()];
        let now = run.waits_since.map_or(Span(0), |since| self.now.since(since));
        Span(run.fate.waited.0 + now.0)
    }

    /// From a job's submission to its end, or until now where it has not ended.
    #[must_use]
    pub fn turnaround(&self, job: JobNo) -> Span {
        self.fate(job).ended.unwrap_or(self.now).since(self.job(job).submit)
    }

    /// How many of its tasks hold what they need.
    #[must_use]
    pub fn placed(&self, job: JobNo) -> u32 {
        self.runs[job.at()].placed
    }

    /// Where a task is and what it holds there.
    #[must_use]
    pub fn place_of(&self, job: JobNo, rank: u32) -> Option<(NodeId, DeviceSet)> {
        let held = self.runs[job.at()].held.get(rank as usize).copied().flatten()?;
        Some((held.node, held.devices))
    }

    /// What has been counted so far.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// What is held now, in thousandths of what the cluster is measured in.
    #[must_use]
    pub fn held_milli(&self) -> u64 {
        self.levels.held
    }

    pub(super) fn record_mut(&mut self) -> &mut Record {
        &mut self.record
    }

    /// Size of the cluster in thousandths of what it is measured in.
    #[must_use]
    pub fn size_milli(&self) -> u64 {
        self.size
    }

    /// Size of a job in what the cluster is measured in.
    #[must_use]
    pub fn width_milli(&self, job: JobNo) -> u64 {
        self.jobs[job.at()].width_milli(self.has_gpus)
    }

    // ---- orders ----

    /// Places a task on a node, on the devices that the pool chooses. False, and nothing changed,
    /// when it does not fit.
    ///
    /// # Errors
    /// The task is placed already.
    pub fn place(&mut self, job: JobNo, rank: u32, node: NodeId) -> Result<bool, PlaneError> {
        match self.pool.node(node).choose(&self.jobs[job.at()].task) {
            Some(devices) => self.place_on(job, rank, node, devices).map(|()| true),
            None => Ok(false),
        }
    }

    /// Places a task on devices of a node.
    ///
    /// # Errors
    /// They are not free, or the task is placed already, or it has ended.
    pub fn place_on(
        &mut self,
        job: JobNo,
        rank: u32,
        node: NodeId,
        devices: DeviceSet,
    ) -> Result<(), PlaneError> {
        let run = &self.runs[job.at()];
        if !matches!(run.held.get(rank as usize), Some(None)) {
            return Err(PlaneError::PlacedTwice { job: self.jobs[job.at()].id.to_string(), rank });
        }
        if !self.pool.take(node, &self.jobs[job.at()].task, devices) {
            let node = self.pool.node(node).spec.name.to_string();
            return Err(PlaneError::NotFree {
                job: self.jobs[job.at()].id.to_string(),
                rank,
                node,
            });
        }
        let run = &mut self.runs[job.at()];
        run.held[rank as usize] = Some(Held { node, devices, since: self.now });
        run.placed += 1;
        let is_whole = run.placed == run.held.len() as u32;
        self.levels.held += self.task_milli(job);
        self.counts_anew(job, node, devices, true);
        self.record.tell(self.now, Happening::Placed(job, rank, node, devices));
        if is_whole {
            self.begin(job);
        }
        Ok(())
    }

    /// Stops a running job for another, while its tasks still hold what they have: [`Self::evict`]
    /// takes it from them.
    pub fn halt(&mut self, job: JobNo) {
        if self.runs[job.at()].since.is_some() {
            self.record.evictions += 1;
            self.stop(job, true);
        }
    }

    /// Makes every task of a job go; it waits again, or goes on waiting.
    pub fn evict(&mut self, job: JobNo) {
        self.halt(job);
        for rank in 0..self.runs[job.at()].held.len() as u32 {
            self.remove(job, rank);
        }
    }

    /// Makes one task of a job go; the others hold what they have.
    pub fn evict_task(&mut self, job: JobNo, rank: u32) {
        self.halt(job);
        self.remove(job, rank);
    }

    /// Keeps what is free of a node for the owner of a job: it is held, does nothing, and nobody
    /// gets it, until it is let go. Nothing changes where somebody keeps it already.
    pub fn keep(&mut self, job: JobNo, node: NodeId) {
        self.kept.keep(&mut self.pool, node, job, self.now);
        self.waiting.node_changed(node);
    }

    /// Gives back what was kept of a node.
    pub fn let_go(&mut self, node: NodeId) {
        let kept = self.kept.let_go(&mut self.pool, node);
        self.waiting.node_changed(node);
        self.note_kept(node, kept);
    }

    // ---- what happens ----

    /// Time passes.
    pub(super) fn pass(&mut self, to: Time) {
        self.levels.kept = self.kept.idle_milli(&self.pool, self.has_gpus);
        self.count_waiting();
        self.levels.waiting = self.waiting.jobs();
        self.levels.stranded = self.waiting.stranded_milli(&self.pool);
        self.record.pass(self.now, to, &self.levels);
        self.now = to;
    }

    /// When the next job comes.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        self.jobs.get(self.runs.len()).map(|job| job.submit)
    }

    /// The next job comes.
    pub(super) fn arrive(&mut self) -> JobNo {
        let number = JobNo(self.runs.len() as u32);
        let job = &self.jobs[number.at()];
        self.record.first.get_or_insert(self.now);
        let fate = Fate { fewest_nodes: job.fewest_nodes, ..Fate::default() };
        self.runs.push(Run { held: vec![None; job.tasks as usize], fate, ..Run::default() });
        self.waits(number, true);
        self.record.tell(self.now, Happening::Arrived(number));
        number
    }

    /// Whoever decides did not take a job: nobody waits for it.
    pub(super) fn refuse(&mut self, job: JobNo) {
        self.runs[job.at()].fate.is_refused = true;
        self.waits(job, false);
    }

    /// When something ends next.
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
        self.record.tell(self.now, Happening::Ended(job));
        self.levels.running -= self.width_milli(job);
        self.note_bars(job);
        let width = u128::from(self.width_milli(job));
        let run = &mut self.runs[job.at()];
        if run.fate.stops > 0 {
            self.record.lost += u128::from(self.terms.restart.0) * width;
        }
        run.since = None;
        run.fate.ended = Some(self.now);
        run.placed = 0;
        let held = std::mem::take(&mut run.held);
        for held in held.into_iter().flatten() {
            self.levels.held -= self.task_milli(job);
            self.free(job, held);
        }
        Some(job)
    }

    /// What of a node is lost when it, or one device of it, breaks: its tasks go and their jobs
    /// stop.
    pub(super) fn break_down(&mut self, node: NodeId, device: Option<usize>) -> Vec<(JobNo, u32)> {
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
                self.record.tell(self.now, Happening::NodeDown(node));
            }
            Some(device) => {
                self.pool.set_broken(node, device, true);
                self.record.tell(self.now, Happening::DeviceBroken(node, device));
            }
        }
        self.waiting.node_changed(node);
        self.levels.down = self.pool.down_milli(self.has_gpus);
        lost
    }

    /// A node, or one device of it, is there again.
    pub(super) fn mend(&mut self, node: NodeId, device: Option<usize>) {
        match device {
            None => {
                self.pool.set_up(node, true);
                self.record.tell(self.now, Happening::NodeUp(node));
            }
            Some(device) => {
                self.pool.set_broken(node, device, false);
                self.record.tell(self.now, Happening::DeviceMended(node, device));
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
        let again = if run.fate.stops > 0 { restart } else { Span(0) };
        run.since = Some(self.now);
        run.fate.began.get_or_insert(self.now);
        run.fate.last_began = Some(self.now);
        let nodes = run.held.iter().flatten().map(|held| held.node);
        run.fate.domains = self.domains.spanned(nodes.clone());
        run.fate.nodes = distinct(nodes);
        self.endings.push(Reverse((self.now + again + left, job, run.epoch)));
        self.record.tell(self.now, Happening::Began(job));
    }

    /// A job that runs no longer does.
    fn stop(&mut self, job: JobNo, is_told: bool) {
        self.note_bars(job);
        let width = self.width_milli(job);
        let terms = self.terms;
        let run = &mut self.runs[job.at()];
        let since = run.since.take().expect("only what runs is stopped");
        let ran = self.now.since(since);
        let restarting = if run.fate.stops > 0 { terms.restart.min(ran) } else { Span(0) };
        let done = Span(run.saved.0 + ran.0 - restarting.0);
        let saved = match terms.checkpoint_every {
            _ if is_told && terms.saves_when_told => done,
            Some(every) if every.0 > 0 => Span(done.0 / every.0 * every.0).max(run.saved),
            _ => run.saved,
        };
        let lost = Span(done.0 - saved.0 + restarting.0);
        (run.saved, run.epoch, run.fate.stops) = (saved, run.epoch + 1, run.fate.stops + 1);
        self.record.lost += u128::from(lost.0) * u128::from(width);
        self.levels.running -= width;
        self.waits(job, true);
        self.record.tell(self.now, Happening::Stopped(job, lost));
    }

    fn remove(&mut self, job: JobNo, rank: u32) {
        let run = &mut self.runs[job.at()];
        let Some(held) = run.held.get_mut(rank as usize).and_then(Option::take) else { return };
        run.placed -= 1;
        self.levels.held -= self.task_milli(job);
        self.note_bar(job, held, None);
        self.free(job, held);
        self.record.tell(self.now, Happening::Removed(job, rank, held.node));
    }

    /// What a task held is free, or kept.
    fn free(&mut self, job: JobNo, held: Held) {
        self.pool.give(held.node, &self.jobs[job.at()].task, held.devices);
        self.counts_anew(job, held.node, held.devices, false);
        let kept = self.kept.renew(&self.pool, held.node, self.now);
        self.note_kept(held.node, kept);
    }

    fn note_kept(&mut self, node: NodeId, kept: Option<Kept>) {
        let (Some(bars), Some(Kept { job, since, rest })) = (&mut self.record.bars, kept) else {
            return;
        };
        if since < self.now && !rest.is_empty() {
            bars.push(Bar { job, node, devices: rest, from: since, to: self.now, runs: false });
        }
    }

    /// What a job that runs has held until now; from now on its tasks hold anew.
    fn note_bars(&mut self, job: JobNo) {
        let now = self.now;
        let since = self.runs[job.at()].since;
        if self.record.bars.is_some() {
            let held: Vec<Held> = self.runs[job.at()].held.iter().flatten().copied().collect();
            held.into_iter().for_each(|held| self.note_bar(job, held, since));
        }
        for held in self.runs[job.at()].held.iter_mut().flatten() {
            held.since = now;
        }
    }

    fn note_bar(&mut self, job: JobNo, held: Held, runs_since: Option<Time>) {
        let now = self.now;
        if let Some(bars) = &mut self.record.bars {
            bars.extend(bars_of(job, held, runs_since, now));
        }
    }

    /// Who held what, of a run that has kept it. What is held at the end is held for a while
    /// longer: nobody gives it back.
    #[must_use]
    pub fn bars(&self) -> Vec<Bar> {
        let ran = self.now.since(self.record.first.unwrap_or_default());
        let until = self.now + Span(ran.0 / 20).max(LAST_BARS);
        let mut bars = self.record.bars.clone().unwrap_or_default();
        for (at, run) in self.runs.iter().enumerate().filter(|(_, run)| run.placed > 0) {
            let held = run.held.iter().flatten();
            bars.extend(held.flat_map(|held| bars_of(JobNo(at as u32), *held, run.since, until)));
        }
        bars
    }

    /// From now on a job waits, or no longer does.
    fn waits(&mut self, job: JobNo, does: bool) {
        let run = &mut self.runs[job.at()];
        if let Some(since) = run.waits_since.take() {
            run.fate.waited = Span(run.fate.waited.0 + self.now.since(since).0);
        }
        run.waits_since = does.then_some(self.now);
        self.to_count.push(job);
    }

    /// A task of a job begins or ceases to hold devices of a node.
    fn counts_anew(&mut self, job: JobNo, node: NodeId, devices: DeviceSet, does: bool) {
        self.waiting.node_changed(node);
        let there = &self.jobs[job.at()];
        let each = self.task_milli(job) / u64::from(devices.len().max(1));
        self.waiting.holds(there, self.pool.node(node), devices, each, does);
        if self.to_count.last() != Some(&job) {
            self.to_count.push(job);
        }
    }

    /// Counts jobs among the waiting ones, or no longer, by what they lack now.
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

    /// What one task of a job holds, in what the cluster is measured in.
    fn task_milli(&self, job: JobNo) -> u64 {
        let task = &self.jobs[job.at()].task;
        u64::from(if self.has_gpus { task.gpu.milli().0 } else { task.cpus.0 })
    }
}

/// What a task held until an instant: first without running, then running.
fn bars_of(
    job: JobNo,
    held: Held,
    runs_since: Option<Time>,
    until: Time,
) -> impl Iterator<Item = Bar> {
    let began = runs_since.unwrap_or(until).max(held.since);
    let bar =
        move |from, to, runs| Bar { job, node: held.node, devices: held.devices, from, to, runs };
    let bars = [bar(held.since, began, false), bar(began, until, true)];
    bars.into_iter().filter(|bar| bar.from < bar.to)
}

fn distinct(nodes: impl Iterator<Item = NodeId>) -> u32 {
    let mut nodes: Vec<NodeId> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.len() as u32
}

//! Kueue: a job is admitted when the quota of its queue, and what its cohort lends, suffices; only
//! then are its pods created, and stock Kubernetes places them one by one. Quota knows no nodes:
//! what was admitted may find no room, and hold what it has.
//!
//! * `quota.rs`: what may be used; `queues.rs`: who waits; `preempt.rs`: who is evicted
//! * `topology.rs`: places for a gang at once, where topology-aware scheduling is on
//!
//! Source: pkg/scheduler/scheduler.go and the pages on cluster queues, cohorts, preemption and
//! waitForPodsReady, Kueue 0.15. Not modelled: fair sharing, admission checks, partial admission,
//! several resources in one quota (only GPUs are counted, or CPUs where there are none), and the
//! time that the controller takes, unless it is told.

mod preempt;
mod queues;
mod quota;
mod topology;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::queue::Preemption;
use muster_model::{DeviceSet, NodeId, Span, Time};

use super::kube::KubeDefault;
use crate::fleet::{Desk, JobNo, Plane, PlaneError, Pool, Site};
use preempt::Admitted;
use queues::{Pending, Turn};
use quota::{Demand, Flavor, Quotas};

/// Pods of an admitted workload must be ready within this time (apis/config,
/// DefaultPodsReadyTimeout).
const PODS_READY_TIMEOUT: Span = Span::from_secs(300);
/// A workload that was not ready in time waits so long, twice as long each time, at most an hour
/// (apis/config, requeuingStrategy.backoffBaseSeconds and .backoffMaxSeconds).
const REQUEUE_BACKOFF: Span = Span::from_secs(60);
const LONGEST_REQUEUE_BACKOFF: Span = Span::from_secs(3600);

/// Until a workload that is evicted waits again: its job is suspended and its pods go. An
/// assumption; pods have up to their grace of 30 s, and most need less.
const EVICTION: Span = Span::from_secs(1);

/// From when all pods of a workload have their nodes until they are reported ready, where that is
/// waited for. An assumption: with the image on the node a container starts in about this time.
const POD_START: Span = Span::from_secs(1);

/// How pods of an admitted workload get their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Stock Kubernetes binds them, and nobody looks whether all of them can be.
    Stock,
    /// The same, and a workload whose pods are not all ready in time is evicted; until they are,
    /// nobody else is admitted (waitForPodsReady with blockAdmission).
    WaitsForPodsReady,
    /// Topology-aware scheduling: a workload is admitted when there are places for all of its pods,
    /// and gets these.
    Topology,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Kueue {
    binding: Binding,
    rights: Preemption,
    quotas: Quotas,
    pending: BTreeMap<usize, Pending>,
    admitted: Vec<Admitted>,
    pods: KubeDefault,
    /// Workloads that were evicted, and from when on they wait again.
    returning: BTreeMap<JobNo, Time>,
    /// How often each was not ready in time.
    late: BTreeMap<JobNo, u32>,
    /// The controller takes so long for each admission.
    per_admission: Span,
    busy_until: Time,
    /// Places of workloads that were admitted at this instant, with topology-aware scheduling.
    /// Cycles follow each other within milliseconds; pods are bound once no cycle changes anything
    /// any more, so who is evicted before that never ran.
    planned: BTreeMap<JobNo, Vec<(NodeId, DeviceSet)>>,
    /// What is free beside these; `None` as long as there are none.
    beside_planned: Option<Pool>,
    /// Pods of the workload that was admitted last are ready from then on, where that is waited
    /// for.
    ready_at: Time,
}

/// What is alike for all jobs that are: queue, priority, what each task holds, and how many there
/// are.
type Class = (usize, i32, Arc<Resources>, u32);

/// What a head of a queue came to in a cycle.
enum Mode {
    Fits(Flavor),
    /// On a flavor, once these have gone.
    Preempts(Flavor, Vec<Admitted>),
    /// It is within its queue's own quota, which others use and cannot be made to give back: in
    /// this cycle nobody gets more of it.
    Reserves(Flavor),
    NoFit,
}

impl Kueue {
    /// Quotas of a site, and a controller that takes no time.
    #[must_use]
    pub fn new(site: &Site, seed: u64, binding: Binding) -> Self {
        let quotas = Quotas::new(site);
        Self {
            binding,
            rights: site.tree.preemption,
            pending: quotas.leaves().map(|(_, at)| (at, Pending::default())).collect(),
            quotas,
            admitted: Vec::new(),
            pods: KubeDefault::new(site, seed),
            returning: BTreeMap::new(),
            late: BTreeMap::new(),
            per_admission: Span(0),
            busy_until: Time(0),
            planned: BTreeMap::new(),
            beside_planned: None,
            ready_at: Time(0),
        }
    }

    /// With a controller that takes so long for each admission. Calibrated where it is used, never
    /// here.
    #[must_use]
    pub fn taking(self, per_admission: Span) -> Self {
        Self { per_admission, ..self }
    }

    fn flush(&mut self) {
        self.pending.values_mut().for_each(Pending::flush);
    }

    fn queue(&mut self, queue: usize) -> &mut Pending {
        self.pending.get_mut(&queue).expect("every job waits in a leaf of the tree")
    }

    /// One cycle: the head of every queue. True when something came of it: somebody was admitted,
    /// evicted or set aside.
    fn cycle(&mut self, desk: &mut Desk, known: &mut BTreeSet<Class>) -> Result<bool, PlaneError> {
        // 1. The heads, and what each would need.
        let heads: Vec<(usize, Turn)> =
            self.pending.iter().filter_map(|(at, pending)| Some((*at, pending.head()?))).collect();
        let mut entries = Vec::new();
        let mut goes_on = false;
        for (queue, turn) in heads {
            let job = desk.job(turn.2);
            let demand = self.quotas.demand(job);
            let class = (queue, job.priority, Arc::clone(&job.task), job.tasks);
            let mode = if known.contains(&class) {
                Mode::NoFit
            } else {
                self.mode(desk, queue, turn.2, &demand)
            };
            if matches!(mode, Mode::NoFit) {
                known.insert(class);
                self.queue(queue).set_aside(turn);
                goes_on = true;
                continue;
            }
            let borrows = matches!(mode, Mode::Fits(flavor) if self.quotas.would_borrow(queue, flavor, demand.amount));
            entries.push((borrows, turn, queue, demand, mode));
        }
        // 2. Who does not borrow goes first, then by priority and time. What one takes the next no
        //    longer has.
        entries.sort_by_key(|(borrows, turn, ..)| (*borrows, *turn));
        let mut evicted = BTreeSet::new();
        let mut reserved = Vec::new();
        for (_, turn, queue, demand, mode) in entries {
            match mode {
                Mode::Fits(flavor) => {
                    goes_on |= self.admit(desk, queue, turn, flavor, demand.amount)?
                }
                Mode::Preempts(flavor, victims)
                    if victims.iter().all(|one| !evicted.contains(&one.job))
                        && self.quotas.would_fit(queue, flavor, demand.amount, &victims) =>
                {
                    goes_on = true;
                    evicted.extend(victims.iter().map(|one| one.job));
                    victims.into_iter().for_each(|one| self.evict(desk, one));
                    known.clear();
                    // What they give back is for nobody else in this cycle.
                    self.quotas.add(queue, flavor, demand.amount);
                    reserved.push((queue, flavor, demand.amount));
                }
                Mode::Reserves(flavor) => {
                    let amount = demand.amount.min(self.quotas.unused(queue, flavor));
                    self.quotas.add(queue, flavor, amount);
                    reserved.push((queue, flavor, amount));
                    self.queue(queue).set_aside(turn);
                    goes_on = true;
                }
                Mode::Preempts(..) | Mode::NoFit => {}
            }
        }
        for (queue, flavor, amount) in reserved.into_iter().rev() {
            self.quotas.remove(queue, flavor, amount);
        }
        Ok(goes_on)
    }

    fn mode(&self, desk: &Desk, queue: usize, job: JobNo, demand: &Demand) -> Mode {
        if demand.amount == 0 && self.has_places(desk, job) {
            return Mode::Fits(0);
        }
        let fits = demand
            .flavors
            .iter()
            .find(|flavor| self.quotas.available(queue, **flavor) >= demand.amount);
        match fits {
            Some(flavor) if self.has_places(desk, job) => Mode::Fits(*flavor),
            Some(_) => Mode::NoFit,
            None => {
                let priority = desk.job(job).priority;
                let found = preempt::victims(
                    &self.quotas,
                    &self.admitted,
                    self.rights,
                    queue,
                    priority,
                    demand,
                );
                let found = found.filter(|(_, victims)| {
                    !victims.is_empty() && self.leaves_places(desk, job, victims)
                });
                let is_own =
                    |flavor: &&Flavor| !self.quotas.would_borrow(queue, **flavor, demand.amount);
                match (found, demand.flavors.iter().find(is_own)) {
                    (Some((flavor, victims)), _) => Mode::Preempts(flavor, victims),
                    (None, Some(flavor)) if self.rights != Preemption::OFF => {
                        Mode::Reserves(*flavor)
                    }
                    _ => Mode::NoFit,
                }
            }
        }
    }

    /// There are places for all of its pods once some have gone, where anybody looks.
    fn leaves_places(&self, desk: &Desk, job: JobNo, victims: &[Admitted]) -> bool {
        if self.binding != Binding::Topology {
            return true;
        }
        let mut pool = self.free(desk).clone();
        for one in victims {
            for (node, devices) in self.places_of(desk, one.job) {
                pool.give(node, &desk.job(one.job).task, devices);
            }
        }
        topology::places(&pool, desk.job(job)).is_some()
    }

    fn has_places(&self, desk: &Desk, job: JobNo) -> bool {
        self.binding != Binding::Topology
            || topology::places(self.free(desk), desk.job(job)).is_some()
    }

    /// What is free beside the places that workloads were admitted to at this instant.
    fn free<'d>(&'d self, desk: &'d Desk) -> &'d Pool {
        self.beside_planned.as_ref().unwrap_or(desk.pool())
    }

    /// Where the pods of a workload are, or will be.
    fn places_of(&self, desk: &Desk, job: JobNo) -> Vec<(NodeId, DeviceSet)> {
        match self.planned.get(&job) {
            Some(places) => places.clone(),
            None => (0..desk.job(job).tasks).filter_map(|rank| desk.place_of(job, rank)).collect(),
        }
    }

    /// Plans the pods of a workload. False, and nothing changed, where they find no places.
    fn plan(&mut self, desk: &Desk, job: JobNo) -> bool {
        let there = desk.job(job);
        let Some(nodes) = topology::places(self.free(desk), there) else { return false };
        let pool = self.beside_planned.get_or_insert_with(|| desk.pool().clone());
        let mut take = |node: NodeId| {
            let devices = pool.node(node).choose(&there.task)?;
            pool.take(node, &there.task, devices).then_some((node, devices))
        };
        let places = nodes.into_iter().map_while(&mut take).collect();
        self.planned.insert(job, places);
        true
    }

    /// Binds the pods that were planned at this instant.
    fn bind(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        self.beside_planned = None;
        for (job, places) in std::mem::take(&mut self.planned) {
            for (rank, (node, devices)) in (0..).zip(places) {
                desk.place_on(job, rank, node, devices)?;
            }
        }
        Ok(())
    }

    /// Admits it, if it still fits after those before it in the cycle. False when it does not.
    fn admit(
        &mut self,
        desk: &mut Desk,
        queue: usize,
        turn: Turn,
        flavor: Flavor,
        amount: u64,
    ) -> Result<bool, PlaneError> {
        let job = turn.2;
        if self.quotas.available(queue, flavor) < amount || self.is_blocked(desk) {
            return Ok(false);
        }
        if self.binding == Binding::Topology {
            if !self.plan(desk, job) {
                return Ok(false);
            }
        } else {
            self.pods.arrived(desk, job)?;
        }
        self.quotas.add(queue, flavor, amount);
        self.queue(queue).remove(turn);
        let priority = desk.job(job).priority;
        self.admitted.push(Admitted {
            job,
            queue,
            flavor,
            amount,
            priority,
            since: desk.now(),
            unready_since: desk.now(),
        });
        self.busy_until = self.busy_until.max(desk.now()) + self.per_admission;
        Ok(true)
    }

    /// A workload was admitted whose pods are not all ready, and which blocks all others.
    fn is_blocked(&self, desk: &Desk) -> bool {
        let waits = |one: &Admitted| !desk.runs(one.job);
        self.binding == Binding::WaitsForPodsReady
            && (desk.now() < self.ready_at || self.admitted.iter().rev().any(waits))
    }

    fn evict(&mut self, desk: &mut Desk, one: Admitted) {
        self.admitted.retain(|other| other.job != one.job);
        self.quotas.remove(one.queue, one.flavor, one.amount);
        self.pods.delete(one.job);
        if let Some(pool) = &mut self.beside_planned {
            let planned = self.planned.remove(&one.job);
            let held = || {
                (0..desk.job(one.job).tasks)
                    .filter_map(|rank| desk.place_of(one.job, rank))
                    .collect()
            };
            for (node, devices) in planned.unwrap_or_else(held) {
                pool.give(node, &desk.job(one.job).task, devices);
            }
        }
        desk.evict(one.job);
        self.returning.insert(one.job, desk.now() + EVICTION);
        self.flush();
    }

    /// Evicts who was not ready in time; they come back after a pause.
    fn evict_late(&mut self, desk: &mut Desk) {
        let now = desk.now();
        let is_late =
            |one: &&Admitted| !desk.runs(one.job) && one.unready_since + PODS_READY_TIMEOUT <= now;
        let late: Vec<Admitted> = self.admitted.iter().filter(is_late).copied().collect();
        for one in late {
            self.evict(desk, one);
            let times = self.late.entry(one.job).or_default();
            let pause = REQUEUE_BACKOFF
                .0
                .saturating_mul(1 << (*times).min(10))
                .min(LONGEST_REQUEUE_BACKOFF.0);
            *times += 1;
            self.returning.insert(one.job, now + Span(pause));
        }
    }

    /// Who was evicted waits again, behind those who came before his eviction was over.
    fn take_back(&mut self, desk: &Desk) {
        let now = desk.now();
        for (job, at) in self.returning.extract_if(.., |_, at| *at <= now).collect::<Vec<_>>() {
            let queue = self.quotas.leaf(&desk.job(job).queue);
            self.queue(queue).push((Reverse(desk.job(job).priority), at, job));
        }
    }
}

impl Plane for Kueue {
    fn arrived(&mut self, desk: &Desk, job: JobNo) -> Result<(), PlaneError> {
        let there = desk.job(job);
        let queue = self.quotas.leaf(&there.queue);
        self.queue(queue).push((Reverse(there.priority), there.submit, job));
        Ok(())
    }

    fn ended(&mut self, desk: &Desk, job: JobNo) {
        if let Some(at) = self.admitted.iter().position(|one| one.job == job) {
            let one = self.admitted.swap_remove(at);
            self.quotas.remove(one.queue, one.flavor, one.amount);
        }
        self.pods.ended(desk, job);
        self.flush();
    }

    fn lost(&mut self, desk: &Desk, node: NodeId, device: Option<usize>, tasks: &[(JobNo, u32)]) {
        for one in
            self.admitted.iter_mut().filter(|one| tasks.iter().any(|(job, _)| *job == one.job))
        {
            one.unready_since = desk.now();
        }
        self.pods.lost(desk, node, device, tasks);
    }

    fn mended(&mut self, desk: &Desk, node: NodeId, device: Option<usize>) {
        self.pods.mended(desk, node, device);
        self.flush();
    }

    fn next_wake(&mut self, now: Time) -> Option<Time> {
        let pods = self.pods.next_wake(now);
        let busy = (self.busy_until > now
            && self.pending.values().any(|pending| pending.head().is_some()))
        .then_some(self.busy_until);
        let waits = self.binding == Binding::WaitsForPodsReady;
        let timeout = self
            .admitted
            .iter()
            .map(|one| one.unready_since + PODS_READY_TIMEOUT)
            .filter(|at| waits && *at > now)
            .min();
        let back = self.returning.values().copied().min();
        let ready = (waits && self.ready_at > now).then_some(self.ready_at);
        [pods, busy, timeout, back, ready].into_iter().flatten().min()
    }

    fn decide(&mut self, desk: &mut Desk) -> Result<(), PlaneError> {
        if self.binding == Binding::WaitsForPodsReady {
            self.evict_late(desk);
        }
        self.take_back(desk);
        let mut known = BTreeSet::new();
        while self.busy_until <= desk.now()
            && !self.is_blocked(desk)
            && self.cycle(desk, &mut known)?
        {}
        // Pods of what was admitted find their nodes.
        self.bind(desk)?;
        self.pods.decide(desk)?;
        let now = desk.now();
        if self.binding == Binding::WaitsForPodsReady
            && self.admitted.iter().any(|one| desk.runs_since(one.job) == Some(now))
        {
            self.ready_at = now + POD_START;
        }
        Ok(())
    }

    fn why(&mut self, desk: &Desk, job: JobNo) -> String {
        if self.admitted.iter().any(|one| one.job == job) {
            return self.pods.why(desk, job);
        }
        let there = desk.job(job);
        let (queue, demand) = (self.quotas.leaf(&there.queue), self.quotas.demand(there));
        let has_quota = demand
            .flavors
            .iter()
            .any(|flavor| self.quotas.available(queue, *flavor) >= demand.amount);
        let why = match (self.returning.contains_key(&job), has_quota) {
            (true, _) => "it was evicted, and is not back in its queue yet",
            (false, false) => "no quota is left for it in its queue and cohort",
            (false, true) if self.is_blocked(desk) => {
                "nobody is admitted until all pods of who was admitted last run"
            }
            (false, true) if !self.has_places(desk, job) => {
                "there is quota, but no places for all of its pods at once"
            }
            (false, true) => "its turn has not come: the controller is busy",
        };
        why.to_owned()
    }
}

//! Kueue: a job is admitted when the quota of its queue, and what its cohort lends, is enough; only
//! then are its pods created, and stock Kubernetes places them one by one. Quota ignores nodes: an
//! admitted job may not fit, and hold part of its pods.
//!
//! * `quota.rs`: quotas; `queues.rs`: pending workloads; `preempt.rs`: evictions
//! * `ready.rs`: workloads whose pods are not ready in time, and requeuing
//! * `topology.rs`: placement of whole gangs with topology-aware scheduling
//!
//! Source: pkg/scheduler/scheduler.go and the pages on cluster queues, cohorts, preemption and
//! waitForPodsReady, Kueue 0.19.2. Not modelled: fair sharing, admission checks, partial admission,
//! several resources in one quota (only GPUs are counted, or CPUs where there are none), and,
//! unless set, the controller's time.

mod preempt;
mod queues;
mod quota;
mod ready;
mod topology;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::queue::Preemption;
use muster_model::{NodeId, Span, Time};

use super::kube::KubeDefault;
use crate::fleet::{ClusterState, FleetSite, JobNo, Pool, Scheduler, SchedulerError};
use preempt::{PlaceSearch, PlannedPlaces, Preemptor};
use queues::{Pending, WorkloadPosition};
use quota::{AdmittedWorkload, Flavor, QuotaDemand, Quotas};
use ready::{EvictedWorkloads, PODS_READY_TIMEOUT};

/// Time from the binding of all pods of a workload until they are reported ready, with
/// blockAdmission. An assumption: with the image on the node a container starts in about this
/// time.
const POD_START: Span = Span::from_secs(1);

/// Way in which pods of an admitted workload get their nodes. With each of them, a workload whose
/// pods are not all ready in time is evicted (waitForPodsReady).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Stock Kubernetes binds them, without a check that all of them fit.
    Stock,
    /// The same; until all pods of the admitted workloads are ready, no other is admitted
    /// (blockAdmission).
    BlocksAdmission,
    /// Topology-aware scheduling: a workload is admitted when all of its pods can be placed, on
    /// those places.
    Topology,
}

/// Scheduler model of Kueue.
#[derive(Clone, Debug)]
pub struct Kueue {
    binding: Binding,
    policy: Preemption,
    quotas: Quotas,
    pending: BTreeMap<usize, Pending>,
    admitted: Vec<AdmittedWorkload>,
    pods: KubeDefault,
    evicted: EvictedWorkloads,
    /// Next time at which an admitted workload is evicted unless its pods are ready.
    next_timeout: Option<Time>,
    /// Time the controller needs for each admission.
    per_admission: Span,
    busy_until: Time,
    /// Places of workloads that were admitted at this instant, with topology-aware scheduling.
    /// Cycles follow each other within milliseconds; pods are bound once no cycle changes anything,
    /// so a workload that is evicted before that never ran.
    planned: PlannedPlaces,
    /// Free resources beside these; `None` while there are none.
    beside_planned: Option<Pool>,
    /// Time at which the pods of the last admitted workload are ready, with blockAdmission.
    ready_at: Time,
}

/// Equal workloads: queue, priority, resources of each task, and number of tasks.
type WorkloadClass = (usize, i32, Arc<Resources>, u32);

/// Result of a cycle for the head of a queue.
enum AssignmentMode {
    Fits(Flavor),
    /// Admissible on a flavor after these evictions.
    Preempts(Flavor, Vec<AdmittedWorkload>),
    /// Within its queue's own quota, which other workloads use and no eviction returns: the quota
    /// is reserved, so that in this cycle no other workload gets more of it.
    Reserves(Flavor),
    NoFit,
}

impl Kueue {
    /// Creates a model with the quotas of a site, and a controller that needs no time.
    #[must_use]
    pub fn new(site: &FleetSite, seed: u64, binding: Binding) -> Self {
        let quotas = Quotas::new(site);
        Self {
            binding,
            policy: site.tree.preemption,
            pending: quotas.leaves().map(|(_, at)| (at, Pending::default())).collect(),
            quotas,
            admitted: Vec::new(),
            pods: KubeDefault::new(site, seed),
            evicted: EvictedWorkloads::new(seed),
            next_timeout: None,
            per_admission: Span(0),
            busy_until: Time(0),
            planned: BTreeMap::new(),
            beside_planned: None,
            ready_at: Time(0),
        }
    }

    /// Sets the controller's time for each admission. It is calibrated by the caller.
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

    /// Runs one cycle over the heads of all queues. True if some workload was admitted, evicted or
    /// set aside.
    fn cycle(
        &mut self,
        cluster: &mut ClusterState,
        known: &mut BTreeSet<WorkloadClass>,
    ) -> Result<bool, SchedulerError> {
        // 1. The heads, and what each would need.
        let heads: Vec<(usize, WorkloadPosition)> =
            self.pending.iter().filter_map(|(at, pending)| Some((*at, pending.head()?))).collect();
        let mut entries = Vec::new();
        let mut has_progressed = false;
        for (queue, turn) in heads {
            let job = cluster.job(turn.2);
            let demand = self.quotas.demand(job);
            let class = (queue, job.priority, Arc::clone(&job.task), job.tasks);
            let mode = if known.contains(&class) {
                AssignmentMode::NoFit
            } else {
                self.mode(cluster, queue, turn.2, &demand)
            };
            if matches!(mode, AssignmentMode::NoFit) {
                known.insert(class);
                self.queue(queue).set_aside(turn);
                has_progressed = true;
                continue;
            }
            let would_borrow = |flavor| self.quotas.would_borrow(queue, flavor, demand.amount);
            let borrows = matches!(mode, AssignmentMode::Fits(flavor) if would_borrow(flavor));
            entries.push((borrows, turn, queue, demand, mode));
        }
        // 2. Workloads that do not borrow go first, then by priority and time. Each uses quota that
        // the next no longer has.
        entries.sort_by_key(|(borrows, turn, ..)| (*borrows, *turn));
        let mut evicted = BTreeSet::new();
        let mut reserved = Vec::new();
        let mut reserved_places = Vec::new();
        for (_, turn, queue, demand, mode) in entries {
            match mode {
                AssignmentMode::Fits(flavor) => {
                    has_progressed |= self.admit(cluster, queue, turn, flavor, demand.amount)?
                }
                AssignmentMode::Preempts(flavor, victims)
                    if victims.iter().all(|one| !evicted.contains(&one.job))
                        && self.quotas.would_fit(queue, flavor, demand.amount, &victims)
                        && self.leaves_places(cluster, turn.2, &victims) =>
                {
                    has_progressed = true;
                    evicted.extend(victims.iter().map(|one| one.job));
                    victims.into_iter().for_each(|one| self.preempt(cluster, one));
                    self.queue(queue).preempts(turn);
                    known.clear();
                    // What the evicted ones give back is reserved in this cycle.
                    self.quotas.add(queue, flavor, demand.amount);
                    reserved.push((queue, flavor, demand.amount));
                    reserved_places.extend(self.plan(cluster, turn.2).then_some(turn.2));
                }
                AssignmentMode::Reserves(flavor) => {
                    let amount = demand.amount.min(self.quotas.unused(queue, flavor));
                    self.quotas.add(queue, flavor, amount);
                    reserved.push((queue, flavor, amount));
                    self.queue(queue).set_aside(turn);
                    has_progressed = true;
                }
                AssignmentMode::Preempts(..) | AssignmentMode::NoFit => {}
            }
        }
        for (queue, flavor, amount) in reserved.into_iter().rev() {
            self.quotas.remove(queue, flavor, amount);
        }
        self.unplan(cluster, &reserved_places);
        Ok(has_progressed)
    }

    fn mode(
        &self,
        cluster: &ClusterState,
        queue: usize,
        job: JobNo,
        demand: &QuotaDemand,
    ) -> AssignmentMode {
        if demand.amount == 0 && self.has_places(cluster, job) {
            return AssignmentMode::Fits(0);
        }
        let fits = demand
            .flavors
            .iter()
            .find(|flavor| self.quotas.available(queue, **flavor) >= demand.amount);
        if let Some(flavor) = fits.filter(|_| self.has_places(cluster, job)) {
            return AssignmentMode::Fits(*flavor);
        }
        if demand.amount == 0 {
            return AssignmentMode::NoFit;
        }
        let preemptor = Preemptor {
            quotas: &self.quotas,
            admitted: &self.admitted,
            policy: self.policy,
            queue,
            priority: cluster.job(job).priority,
            places: self.place_search(cluster, job),
        };
        let is_own = |flavor: &&Flavor| !self.quotas.would_borrow(queue, **flavor, demand.amount);
        match (preemptor.victims(demand), demand.flavors.iter().find(is_own)) {
            (Some((flavor, victims)), _) => AssignmentMode::Preempts(flavor, victims),
            // A queue that can always reclaim its quota reserves none of it (CanAlwaysReclaim).
            (None, Some(flavor)) if fits.is_none() && !self.policy.reclaim => {
                AssignmentMode::Reserves(*flavor)
            }
            _ => AssignmentMode::NoFit,
        }
    }

    /// Returns the search for places of a job; `None` without topology-aware scheduling.
    fn place_search<'k>(
        &'k self,
        cluster: &'k ClusterState,
        job: JobNo,
    ) -> Option<PlaceSearch<'k>> {
        let free = self.free(cluster);
        (self.binding == Binding::Topology).then_some(PlaceSearch {
            cluster,
            planned: &self.planned,
            free,
            job,
        })
    }

    /// Returns whether all pods fit after the evictions; true without topology-aware scheduling.
    fn leaves_places(
        &self,
        cluster: &ClusterState,
        job: JobNo,
        victims: &[AdmittedWorkload],
    ) -> bool {
        self.place_search(cluster, job).is_none_or(|search| search.fits_without(victims))
    }

    fn has_places(&self, cluster: &ClusterState, job: JobNo) -> bool {
        self.binding != Binding::Topology
            || topology::places(self.free(cluster), cluster.job(job)).is_some()
    }

    /// Returns what is free beside the places of workloads admitted at this instant.
    fn free<'d>(&'d self, cluster: &'d ClusterState) -> &'d Pool {
        self.beside_planned.as_ref().unwrap_or(cluster.pool())
    }

    /// Plans the pods of a workload. False, without a change, if they do not fit, or without
    /// topology-aware scheduling.
    fn plan(&mut self, cluster: &ClusterState, job: JobNo) -> bool {
        if self.binding != Binding::Topology {
            return false;
        }
        let there = cluster.job(job);
        let Some(nodes) = topology::places(self.free(cluster), there) else { return false };
        let pool = self.beside_planned.get_or_insert_with(|| cluster.pool().clone());
        let mut take = |node: NodeId| {
            let devices = pool.node(node).choose(&there.task)?;
            pool.take(node, &there.task, devices).then_some((node, devices))
        };
        let places = nodes.into_iter().map_while(&mut take).collect();
        self.planned.insert(job, places);
        true
    }

    /// Frees the places that are planned for workloads.
    fn unplan(&mut self, cluster: &ClusterState, jobs: &[JobNo]) {
        let Some(pool) = &mut self.beside_planned else { return };
        for job in jobs {
            for (node, devices) in self.planned.remove(job).unwrap_or_default() {
                pool.give(node, &cluster.job(*job).task, devices);
            }
        }
    }

    /// Binds the pods that were planned at this instant.
    fn bind(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        self.beside_planned = None;
        for (job, places) in std::mem::take(&mut self.planned) {
            for (rank, (node, devices)) in (0..).zip(places) {
                cluster.place_on(job, rank, node, devices)?;
            }
        }
        Ok(())
    }

    /// Admits a workload if it still fits after those before it in the cycle; false if not.
    fn admit(
        &mut self,
        cluster: &mut ClusterState,
        queue: usize,
        turn: WorkloadPosition,
        flavor: Flavor,
        amount: u64,
    ) -> Result<bool, SchedulerError> {
        let job = turn.2;
        if self.quotas.available(queue, flavor) < amount || self.is_blocked(cluster) {
            return Ok(false);
        }
        if self.binding == Binding::Topology {
            if !self.plan(cluster, job) {
                return Ok(false);
            }
        } else {
            self.pods.arrived(cluster, job)?;
        }
        self.quotas.add(queue, flavor, amount);
        self.queue(queue).remove(turn);
        let priority = cluster.job(job).priority;
        self.admitted.push(AdmittedWorkload {
            job,
            queue,
            flavor,
            amount,
            priority,
            since: cluster.now(),
            unready_since: cluster.now(),
        });
        self.busy_until = self.busy_until.max(cluster.now()) + self.per_admission;
        Ok(true)
    }

    /// Returns whether an admitted workload without all pods ready blocks all others.
    fn is_blocked(&self, cluster: &ClusterState) -> bool {
        let waits = |one: &AdmittedWorkload| !cluster.runs(one.job);
        self.binding == Binding::BlocksAdmission
            && (cluster.now() < self.ready_at || self.admitted.iter().rev().any(waits))
    }

    /// Evicts a workload for another one.
    fn preempt(&mut self, cluster: &mut ClusterState, one: AdmittedWorkload) {
        self.evicted.preempted(one.job, cluster.job(one.job).submit, cluster.now());
        self.evict(cluster, one);
    }

    fn evict(&mut self, cluster: &mut ClusterState, one: AdmittedWorkload) {
        self.admitted.retain(|other| other.job != one.job);
        self.quotas.remove(one.queue, one.flavor, one.amount);
        self.pods.delete(one.job);
        if let Some(pool) = &mut self.beside_planned {
            for (node, devices) in preempt::places_of(cluster, &self.planned, one.job) {
                pool.give(node, &cluster.job(one.job).task, devices);
            }
        }
        self.planned.remove(&one.job);
        cluster.evict(one.job);
        self.flush();
    }

    /// Evicts workloads that were not ready in time.
    fn evict_late(&mut self, cluster: &mut ClusterState) {
        let now = cluster.now();
        if self.next_timeout.is_none_or(|at| at > now) {
            return;
        }
        let is_late = |one: &&AdmittedWorkload| {
            !cluster.runs(one.job) && one.unready_since + PODS_READY_TIMEOUT <= now
        };
        let late: Vec<AdmittedWorkload> = self.admitted.iter().filter(is_late).copied().collect();
        for one in late {
            self.evicted.not_ready(one.job, now);
            self.evict(cluster, one);
        }
    }

    /// Returns the next time at which a workload is evicted unless its pods are ready.
    fn timeout(&self, cluster: &ClusterState) -> Option<Time> {
        let waits = self.admitted.iter().filter(|one| !cluster.runs(one.job));
        waits.map(|one| one.unready_since + PODS_READY_TIMEOUT).min()
    }

    fn take_back(&mut self, cluster: &ClusterState) {
        for (job, queued_at) in self.evicted.take_back(cluster.now()) {
            let queue = self.quotas.leaf(&cluster.job(job).queue);
            self.queue(queue).push((Reverse(cluster.job(job).priority), queued_at, job));
        }
    }
}

impl Scheduler for Kueue {
    fn arrived(&mut self, cluster: &ClusterState, job: JobNo) -> Result<(), SchedulerError> {
        let there = cluster.job(job);
        let queue = self.quotas.leaf(&there.queue);
        self.queue(queue).push((Reverse(there.priority), there.submit, job));
        Ok(())
    }

    fn ended(&mut self, cluster: &ClusterState, job: JobNo) {
        if let Some(at) = self.admitted.iter().position(|one| one.job == job) {
            let one = self.admitted.swap_remove(at);
            self.quotas.remove(one.queue, one.flavor, one.amount);
        }
        self.pods.ended(cluster, job);
        self.flush();
    }

    fn lost(
        &mut self,
        cluster: &ClusterState,
        node: NodeId,
        device: Option<usize>,
        tasks: &[(JobNo, u32)],
    ) {
        for one in
            self.admitted.iter_mut().filter(|one| tasks.iter().any(|(job, _)| *job == one.job))
        {
            one.unready_since = cluster.now();
        }
        self.pods.lost(cluster, node, device, tasks);
    }

    fn repaired(&mut self, cluster: &ClusterState, node: NodeId, device: Option<usize>) {
        self.pods.repaired(cluster, node, device);
        self.flush();
    }

    fn next_wake(&mut self, now: Time) -> Option<Time> {
        let pods = self.pods.next_wake(now);
        let busy = (self.busy_until > now
            && self.pending.values().any(|pending| pending.head().is_some()))
        .then_some(self.busy_until);
        let blocks = self.binding == Binding::BlocksAdmission;
        let ready = (blocks && self.ready_at > now).then_some(self.ready_at);
        let back = self.evicted.next_back();
        [pods, busy, self.next_timeout, back, ready].into_iter().flatten().min()
    }

    fn decide(&mut self, cluster: &mut ClusterState) -> Result<(), SchedulerError> {
        self.evict_late(cluster);
        self.take_back(cluster);
        let mut known = BTreeSet::new();
        while self.busy_until <= cluster.now()
            && !self.is_blocked(cluster)
            && self.cycle(cluster, &mut known)?
        {}
        // Pods of admitted workloads get their nodes.
        self.bind(cluster)?;
        self.pods.decide(cluster)?;
        let now = cluster.now();
        if self.binding == Binding::BlocksAdmission
            && self.admitted.iter().any(|one| cluster.runs_since(one.job) == Some(now))
        {
            self.ready_at = now + POD_START;
        }
        self.next_timeout = self.timeout(cluster);
        Ok(())
    }

    fn why(&mut self, cluster: &ClusterState, job: JobNo) -> String {
        if self.admitted.iter().any(|one| one.job == job) {
            return self.pods.why(cluster, job);
        }
        let there = cluster.job(job);
        let queue = self.quotas.leaf(&there.queue);
        let demand = self.quotas.demand(there);
        let has_quota = demand
            .flavors
            .iter()
            .any(|flavor| self.quotas.available(queue, *flavor) >= demand.amount);
        let why = match (self.evicted.contains(job), has_quota) {
            (true, _) => "it was evicted, and is not requeued yet",
            (false, false) => "its queue and cohort have no quota left for it",
            (false, true) if self.is_blocked(cluster) => {
                "no workload is admitted until all pods of the admitted ones are ready"
            }
            (false, true) if !self.has_places(cluster, job) => {
                "it has quota, but its pods do not all fit now"
            }
            (false, true) => "the controller is still processing workloads ahead of it",
        };
        why.to_owned()
    }
}

//! Evictions of Kueue for a workload that lacks quota or, with topology-aware scheduling, places:
//! workloads of its own queue with a lower priority, and those of queues above their own quota, if
//! the workload fits within its queue's own. As few as needed, other queues first, then lower
//! priority, then later admission; those that turn out to be unnecessary stay.
//!
//! Source: pkg/scheduler/preemption (candidates' order and fill-back) and updateModeForTASRequests
//! in pkg/scheduler/flavorassigner, Kueue 0.19.2, without fair sharing. `withinClusterQueue:
//! LowerPriority` and `reclaimWithinCohort: Any` where the queue file lets queues preempt and
//! reclaim, else `Never`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_model::queue::Preemption;
use muster_model::{DeviceSet, NodeId};

use super::quota::{AdmittedWorkload, Flavor, QuotaDemand, Quotas};
use super::topology;
use crate::fleet::{ClusterState, JobNo, Pool};

/// Places of workloads whose pods are not bound yet.
pub(super) type PlannedPlaces = BTreeMap<JobNo, Vec<(NodeId, DeviceSet)>>;

/// Workload that seeks capacity by evictions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preemptor<'k> {
    pub(super) quotas: &'k Quotas,
    pub(super) admitted: &'k [AdmittedWorkload],
    pub(super) policy: Preemption,
    pub(super) queue: usize,
    pub(super) priority: i32,
    /// Places to be found too; `None` without topology-aware scheduling.
    pub(super) places: Option<PlaceSearch<'k>>,
}

/// Search for places of a gang while other workloads are evicted on trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceSearch<'k> {
    pub(super) cluster: &'k ClusterState,
    pub(super) planned: &'k PlannedPlaces,
    pub(super) free: &'k Pool,
    pub(super) job: JobNo,
}

impl PlaceSearch<'_> {
    /// Returns the places where the pods of a workload are, or will be.
    fn places_of(&self, job: JobNo) -> Vec<(NodeId, DeviceSet)> {
        places_of(self.cluster, self.planned, job)
    }

    /// Returns whether the gang has places once these workloads are gone.
    pub(super) fn fits_without(&self, victims: &[AdmittedWorkload]) -> bool {
        let mut pool = self.free.clone();
        victims.iter().for_each(|one| self.free_places(&mut pool, one.job));
        self.fits(&pool)
    }

    fn free_places(&self, pool: &mut Pool, job: JobNo) {
        for (node, devices) in self.places_of(job) {
            pool.give(node, &self.cluster.job(job).task, devices);
        }
    }

    fn take_places(&self, pool: &mut Pool, job: JobNo) {
        for (node, devices) in self.places_of(job) {
            let is_free = pool.take(node, &self.cluster.job(job).task, devices);
            debug_assert!(is_free, "places that were freed on trial are free");
        }
    }

    fn fits(&self, pool: &Pool) -> bool {
        topology::places(pool, self.cluster.job(self.job)).is_some()
    }
}

/// Returns the places where the pods of a workload are, or will be.
pub(super) fn places_of(
    cluster: &ClusterState,
    planned: &PlannedPlaces,
    job: JobNo,
) -> Vec<(NodeId, DeviceSet)> {
    let bound = || (0..cluster.job(job).tasks).filter_map(|rank| cluster.place_of(job, rank));
    planned.get(&job).map_or_else(|| bound().collect(), Clone::clone)
}

/// Quota and places with some workloads evicted on trial.
struct Trial<'k> {
    preemptor: Preemptor<'k>,
    flavor: Flavor,
    amount: u64,
    quotas: Quotas,
    pool: Option<Pool>,
}

impl Trial<'_> {
    fn evict(&mut self, one: AdmittedWorkload) {
        self.quotas.remove(one.queue, one.flavor, one.amount);
        if let Some((search, pool)) = self.preemptor.places.zip(self.pool.as_mut()) {
            search.free_places(pool, one.job);
        }
    }

    fn put_back(&mut self, one: AdmittedWorkload) {
        self.quotas.add(one.queue, one.flavor, one.amount);
        if let Some((search, pool)) = self.preemptor.places.zip(self.pool.as_mut()) {
            search.take_places(pool, one.job);
        }
    }

    /// Returns whether the workload has quota, and places where it needs them.
    fn fits(&self) -> bool {
        let has_places = || match (self.preemptor.places, &self.pool) {
            (Some(search), Some(pool)) => search.fits(pool),
            _ => true,
        };
        self.quotas.available(self.preemptor.queue, self.flavor) >= self.amount && has_places()
    }
}

impl Preemptor<'_> {
    /// Returns the evictions that let the workload fit on one of its flavors, and the flavor.
    /// `None` if no evictions suffice.
    pub(super) fn victims(&self, demand: &QuotaDemand) -> Option<(Flavor, Vec<AdmittedWorkload>)> {
        demand.flavors.iter().find_map(|flavor| {
            let gone = self.on_flavor(*flavor, demand.amount)?;
            Some((*flavor, gone))
        })
    }

    /// Returns the workloads that may be evicted, in order.
    fn candidates(&self, flavor: Flavor, amount: u64) -> Vec<AdmittedWorkload> {
        let Self { quotas, policy, queue, priority, .. } = *self;
        let reclaims = policy.reclaim && !quotas.would_borrow(queue, flavor, amount);
        let may_go = |one: &&AdmittedWorkload| {
            one.flavor == flavor
                && if one.queue == queue {
                    policy.priority && one.priority < priority
                } else {
                    reclaims && quotas.borrows(one.queue, flavor)
                }
        };
        let mut candidates: Vec<AdmittedWorkload> =
            self.admitted.iter().filter(may_go).copied().collect();
        candidates
            .sort_by_key(|one| (one.queue == queue, one.priority, Reverse(one.since), one.job));
        candidates
    }

    fn on_flavor(&self, flavor: Flavor, amount: u64) -> Option<Vec<AdmittedWorkload>> {
        // 1. Workloads that may be evicted.
        let candidates = self.candidates(flavor, amount);
        if candidates.is_empty() {
            return None;
        }
        // 2. Evict one after the other, until it fits.
        let quotas = self.quotas.clone();
        let pool = self.places.map(|search| search.free.clone());
        let mut trial = Trial { preemptor: *self, flavor, amount, quotas, pool };
        let mut gone = Vec::new();
        let mut fits = false;
        for one in candidates {
            if one.queue != self.queue && !trial.quotas.borrows(one.queue, flavor) {
                continue;
            }
            trial.evict(one);
            gone.push(one);
            fits = trial.fits();
            if fits {
                break;
            }
        }
        if !fits {
            return None;
        }
        // 3. Put back unnecessary victims, last first.
        for at in (0..gone.len().saturating_sub(1)).rev() {
            let one = gone[at];
            trial.put_back(one);
            if trial.fits() {
                gone.remove(at);
            } else {
                trial.evict(one);
            }
        }
        Some(gone)
    }
}

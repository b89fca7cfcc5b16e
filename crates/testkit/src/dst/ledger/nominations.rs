//! Evictions and nominated placements (pending allocations), rebuilt from the journal alone: each
//! eviction needs preemption eligibility, the claimant then starts on its nominated placement
//! unless the cluster has changed, and evictions do not repeat for ever. It shares no code with the
//! engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{
    ElementId, Eviction, EvictionCause, GpuModel, Protection, QueueSpec, TaskPlacement, Tier, Time,
};

use super::queue_path::path_of;
use super::quota::{self, by_model, nominal};
use super::{Ledger, LedgerJob};
use super::{continuation, nodes, reservations};
use crate::dst::attempt::LedgerAttempt;

/// Placement nominated for a pending element.
#[derive(Clone, Debug)]
pub(crate) struct NominatedPlacement {
    pub(crate) placement: Arc<[TaskPlacement]>,
    pub(crate) since: Time,
    /// True once nodes, queues or topology levels have changed: dropping it then needs no other
    /// reason.
    pub(crate) is_outdated: bool,
}

/// All nominations, and the evictions for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nominations {
    pub(crate) of: BTreeMap<ElementId, NominatedPlacement>,
    /// Number of evictions by (victim, claimant) since arrivals stopped.
    pub(crate) evictions: BTreeMap<(ElementId, ElementId), u32>,
    /// Elements evicted by the current plan that must continue by the same plan, with the cause.
    pub(crate) continuation: BTreeMap<ElementId, EvictionCause>,
}

impl Nominations {
    /// Marks every nomination as outdated by a change of the cluster.
    pub(crate) fn mark_outdated(&mut self) {
        for nomination in self.of.values_mut() {
            nomination.is_outdated = true;
        }
    }
}

/// Checks whether an attempt may be evicted for an element that is nominated for these places.
pub(crate) fn check_eviction(
    ledger: &Ledger,
    at: Time,
    element: ElementId,
    wanted: &[TaskPlacement],
    eviction: &Eviction,
) -> Result<(), &'static str> {
    let claimant = ledger.jobs.get(&element.job).ok_or("the claimant has no job")?;
    let victim = ledger.attempt(eviction.id.element).filter(|attempt| attempt.id == eviction.id);
    let victim = victim.filter(|victim| victim.leaving.is_none() && victim.fate.is_none());
    let victim = victim.ok_or("it does not run")?;
    let job = &ledger.jobs[&eviction.id.element.job];
    let place = eviction.id.element.index;
    // 1. The victim is not protected.
    let of_queue = path_of(ledger, job).iter().rev().find_map(|(_, queue)| queue.protect);
    let safe = |one: Protection| one.until(victim.held_from) > at;
    if safe(quota::protection(job, place)) || of_queue.is_some_and(safe) {
        return Err("it is protected");
    }
    // 2. The claimant is eligible to preempt it.
    let terms = ledger.queues.preemption;
    let victim_is_opportunistic = is_opportunistic(job, place);
    let claimant_is_opportunistic = is_opportunistic(claimant, element.index);
    let to = ledger.leaf_of(claimant);
    let from = ledger.leaf_of(job);
    match eviction.cause {
        EvictionCause::Outranked => {
            let outranks = victim_is_opportunistic == claimant_is_opportunistic
                && job.spec.priority < claimant.spec.priority;
            let is_right = terms.priority && to == from && outranks;
            if is_right { Ok(()) } else { Err("its priority is not lower in the same queue") }
        }
        EvictionCause::Grown => Err("it may be stopped to grow for its own element only"),
        EvictionCause::Shrunk | EvictionCause::Moved if claimant_is_opportunistic => {
            Err("an opportunistic claimant may not shrink or move it")
        }
        EvictionCause::Shrunk if !terms.priority && !terms.reclaim => Err("preemption is off"),
        EvictionCause::Shrunk => Ok(()),
        EvictionCause::Moved => continuation::check_move(ledger, (job, victim), wanted, at),
        EvictionCause::Opportunistic
            if victim_is_opportunistic
                && !claimant_is_opportunistic
                && (terms.priority || terms.reclaim) =>
        {
            Ok(())
        }
        EvictionCause::Opportunistic => Err("it is not opportunistic, or the claimant is"),
        EvictionCause::Reclaimed if !terms.reclaim => Err("reclaim is off"),
        EvictionCause::Reclaimed if claimant_is_opportunistic => {
            Err("an opportunistic claimant may not reclaim")
        }
        EvictionCause::Reclaimed => {
            let wanted = by_model(ledger, wanted);
            let held = by_model(ledger, &victim.placement);
            let may_reclaim = |(model, milli): (&GpuModel, &u64)| {
                held.contains_key(model) && may_reclaim(ledger, (claimant, job), model, *milli)
            };
            if wanted.iter().any(may_reclaim) {
                Ok(())
            } else {
                Err("its queue is within its quota, or the claimant's would exceed its own")
            }
        }
    }
}

/// Returns whether an element is opportunistic: placed last, on idle resources only, as replicas
/// above a service's guaranteed number are.
fn is_opportunistic(job: &LedgerJob, index: u32) -> bool {
    let floor = job.spec.service().map(|service| service.replicas.guaranteed);
    floor.map_or(job.spec.tier == Tier::Opportunistic, |floor| index >= floor)
}

/// Returns whether the claimant's side stays within its quota, and the victim's side exceeds its
/// own on every level.
fn may_reclaim(
    ledger: &Ledger,
    (to, from): (&LedgerJob, &LedgerJob),
    model: &GpuModel,
    milli: u64,
) -> bool {
    let used = |queue: &str| used(ledger, ledger.counted(), queue, model);
    // A gang that starts above its minimum counts there already, by an unknown amount.
    let most =
        |queue: &str| used(queue) + self::used(ledger, ledger.uncounted_growth(), queue, model);
    let to = path_of(ledger, to);
    let from = path_of(ledger, from);
    let shared = to.iter().zip(&from).take_while(|(one, other)| one.0 == other.0).count();
    let features = |(name, queue): &(String, &QueueSpec)| most(name) > nominal(queue, model);
    to.get(shared).is_some_and(|(name, queue)| used(name) + milli <= nominal(queue, model))
        && from.len() > shared
        && from[shared..].iter().all(features)
}

/// As [`may_reclaim`], for a claimant within its quota on every level, and a victim whose whole use
/// is borrowed.
pub(crate) fn may_reclaim_all(
    ledger: &Ledger,
    (to, from): (&LedgerJob, &LedgerJob),
    model: &GpuModel,
    milli: u64,
    held: u64,
) -> bool {
    let used = |queue: &str| used(ledger, ledger.counted(), queue, model);
    let to = path_of(ledger, to);
    let from = path_of(ledger, from);
    let shared = to.iter().zip(&from).take_while(|(one, other)| one.0 == other.0).count();
    let owns = to.last().is_some_and(|(_, leaf)| leaf.quota.contains_key(model));
    owns && held >= milli
        && to[shared..].iter().all(|(name, queue)| used(name) + milli <= nominal(queue, model))
        && from.len() > shared
        && to.len() > shared
        && from[shared..].iter().all(|(name, queue)| used(name) >= nominal(queue, model) + held)
}

/// Returns the thousandths of GPUs of a model held below a queue.
fn used<'a>(
    ledger: &Ledger,
    those: impl Iterator<Item = (&'a LedgerJob, &'a [TaskPlacement])>,
    queue: &str,
    model: &GpuModel,
) -> u64 {
    let inside = |job: &LedgerJob| path_of(ledger, job).iter().any(|(name, _)| name == queue);
    let inside = those.filter(|(job, _)| inside(job));
    inside.map(|(_, places)| quota::by_model(ledger, places).get(model).copied().unwrap_or(0)).sum()
}

/// Checks whether a nomination may be dropped: only after a change of the cluster, before an
/// upcoming drain of its nodes, or for a reservation.
pub(crate) fn check_end(ledger: &Ledger, element: ElementId) -> Result<(), String> {
    let nomination = ledger.nominations.of.get(&element).ok_or("it has no nomination")?;
    let closes = |place: &TaskPlacement| {
        let host = ledger.nodes.get(place.node.0 as usize);
        host.is_none_or(|host| host.closes(place.devices).is_some())
    };
    let names = |job: &LedgerJob| job.spec.constraint.advance_reservation.is_some();
    let is_reserved = ledger.jobs.get(&element.job).is_some_and(names)
        || reservations::is_reserved(ledger, &nomination.placement);
    if nomination.is_outdated || is_reserved || nomination.placement.iter().any(closes) {
        Ok(())
    } else {
        Err("victims were evicted for it and nothing has changed since".to_owned())
    }
}

/// Checks that a start leaves nominated placements of other elements free.
pub(crate) fn check_start(
    ledger: &Ledger,
    element: ElementId,
    placement: &[TaskPlacement],
) -> Result<(), String> {
    let leaving = |attempt: &LedgerAttempt| attempt.leaving.is_some();
    let stays = ledger
        .active()
        .filter(|(_, attempt)| !leaving(attempt))
        .map(|(_, attempt)| &*attempt.placement);
    let nominated = ledger.nominations.of.iter().filter(|(of, _)| **of != element);
    let all: Vec<&TaskPlacement> =
        stays.chain(nominated.map(|(_, nomination)| &*nomination.placement)).flatten().collect();
    for place in placement {
        for device in place.devices.iter() {
            let own = placement.iter().filter(|other| nodes::is_on(other, place.node, device));
            let others = all.iter().filter(|other| nodes::is_on(other, place.node, device));
            let held: u32 = own.map(|one| one.share.0).chain(others.map(|one| one.share.0)).sum();
            if held > 1000 {
                return Err(format!(
                    "device {device} of node {} is nominated for another element",
                    place.node
                ));
            }
        }
    }
    Ok(())
}

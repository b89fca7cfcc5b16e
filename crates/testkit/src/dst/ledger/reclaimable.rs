//! Checks that a lender gets its own quota back, where the answer is certain: a job of one task on
//! one device, which fits in the place of an unprotected borrower, while no other job interferes.
//! It also checks that no gang grows onto what such a job waits for. It shares no code with the
//! engine.

use muster_model::queue::Backfill;
use muster_model::{ElementId, GpuMilli, JobId, Protection, Span, TaskPlacement, Tier, Time};

use super::queue_path::path_of;
use super::quota;
use super::{ElementPhase, Ledger, LedgerElement, LedgerJob};
use super::{nodes, nominations};
use crate::dst::attempt::LedgerAttempt;

/// Returns a pending element and the attempt that should have been preempted for it.
pub(crate) fn missed_reclaim(ledger: &Ledger, at: Time) -> Option<(ElementId, ElementId)> {
    if !ledger.queues.preemption.reclaim
        || ledger.queues.backfill == Backfill::None
        || !ledger.nominations.of.is_empty()
        || !ledger.reservations.is_empty()
    {
        return None;
    }
    for (id, job) in &ledger.jobs {
        for (index, element) in &job.elements {
            if !is_single_device(job)
                || !is_ready(ledger, job, element, at)
                || may_be_held_back(ledger, (*id, job), at)
            {
                continue;
            }
            let mut borrowers = ledger.active().filter(|(_, attempt)| attempt.is_running());
            let found = borrowers.find(|one| is_reclaimable(ledger, job, *one, at));
            if let Some((_, attempt)) = found {
                return Some((ElementId { job: *id, index: *index }, attempt.id.element));
            }
        }
    }
    None
}

/// Returns a pending element that could use each of the places on which a gang grows: for no
/// longer, and within its quota even beside the whole gang.
pub(crate) fn bypassed_job(
    ledger: &Ledger,
    gang: &LedgerJob,
    places: &[TaskPlacement],
    at: Time,
) -> Option<ElementId> {
    if ledger.queues.backfill == Backfill::None
        || !ledger.reservations.is_empty()
        || places.is_empty()
    {
        return None;
    }
    let lasts = |job: &LedgerJob| {
        job.spec.time_limit.map_or(Span(u64::MAX), |limit| limit + job.spec.grace)
    };
    let could_be = |job: &LedgerJob, place: &TaskPlacement| {
        let task = &job.spec.groups[0].task;
        let own = TaskPlacement { group: 0, devices: place.devices.lowest(1), ..place.clone() };
        (task.cpus.0, task.memory.0, place.share.0) == (0, 0, 1000)
            && nodes::model_of(ledger, place) == task.gpu.models.first()
            && quota::check(ledger, (job, 0), &[own], &[]).is_ok()
    };
    let waits = |(id, job): (&JobId, &LedgerJob)| {
        let mut ready =
            job.elements.iter().filter(|(_, element)| is_ready(ledger, job, element, at));
        let is_it = is_single_device(job)
            && job.spec.tier == Tier::Normal
            && lasts(job) <= lasts(gang)
            && places.iter().all(|place| could_be(job, place));
        let (index, _) = ready.next().filter(|_| is_it)?;
        Some(ElementId { job: *id, index: *index })
    };
    ledger.jobs.iter().find_map(waits)
}

/// Returns whether the job is one task on one device of one model, without constraints.
fn is_single_device(job: &LedgerJob) -> bool {
    let spec = &job.spec;
    let [group] = &spec.groups[..] else { return false };
    let gpu = &group.task.gpu;
    let constraint = &spec.constraint;
    let is_one = (gpu.devices == 1 || gpu.share.0 > 0) && gpu.models.len() == 1;
    let is_free = constraint.labels.is_empty() && constraint.exclude.is_empty();
    (group.min_tasks, group.max_tasks) == (1, 1)
        && is_one
        && is_free
        && group.task.extras.is_empty()
        && constraint.topology.is_none()
        && constraint.advance_reservation.is_none()
        && spec.array.is_none()
        && spec.service().is_none()
        && spec.protect == Protection::None
}

/// Returns whether the element may start, has never been tried, and no limit of its queues applies.
fn is_ready(ledger: &Ledger, job: &LedgerJob, element: &LedgerElement, at: Time) -> bool {
    let ElementPhase::Pending { held: false, not_before } = element.phase else { return false };
    let unlimited = path_of(ledger, job).iter().all(|(_, queue)| {
        let limits = &queue.limits;
        limits.running_jobs.is_none()
            && limits.gpus_per_user.is_none()
            && limits.borrowed_time.is_none()
            && limits.time.is_none()
            && queue.priority.is_none()
            && queue.budget.is_none()
    });
    unlimited
        && element.is_new()
        && at >= not_before.max(job.spec.begin.unwrap_or_default())
        && ledger.is_free(job)
}

/// Returns whether an attempt may lose so much work that a job which has just been submitted must wait for it. Saved
/// progress is ignored.
fn may_be_exempt(ledger: &Ledger, job: &LedgerJob, attempt: &LedgerAttempt, at: Time) -> bool {
    let asked = job.spec.groups.iter().map(|group| {
        let gpu = &group.task.gpu;
        u64::from(group.max_tasks) * (u64::from(gpu.devices) * 1000 + u64::from(gpu.share.0))
    });
    let asked: u64 = asked.sum();
    let held: u64 = quota::by_model(ledger, &attempt.placement).values().sum();
    let ran = attempt.ran_from.map_or(Span(0), |from| at.since(from));
    held.saturating_mul(ran.0) > held.min(asked).saturating_mul(ledger.queues.reclaim_after.0)
}

/// Returns whether another job of the leaf may wait for an attempt that loses much work, so that quota is held back
/// for it.
fn may_be_held_back(ledger: &Ledger, (id, job): (JobId, &LedgerJob), at: Time) -> bool {
    let is_pending = |other: &LedgerJob| {
        let is_pending =
            |element: &LedgerElement| matches!(element.phase, ElementPhase::Pending { .. });
        other.elements.values().any(is_pending)
    };
    let mut others = ledger.jobs.iter().filter(|(other, _)| **other != id);
    others.any(|(_, other)| {
        other.leaf == job.leaf
            && is_pending(other)
            && ledger.active().any(|(_, attempt)| may_be_exempt(ledger, other, attempt, at))
    })
}

/// Returns whether the job would fit in the place of this attempt and its queue is eligible to
/// reclaim it.
fn is_reclaimable(
    ledger: &Ledger,
    job: &LedgerJob,
    (other, attempt): (&LedgerJob, &LedgerAttempt),
    at: Time,
) -> bool {
    let task = &job.spec.groups[0].task;
    let Some(model) = task.gpu.models.first() else { return false };
    let requested = if task.gpu.devices > 0 { 1000 } else { u64::from(task.gpu.share.0) };
    // 1. It fits.
    let fits = |place: &TaskPlacement| {
        let theirs = other.spec.groups.get(usize::from(place.group)).map(|group| &group.task);
        let Some(host) = ledger.nodes.get(place.node.0 as usize) else { return false };
        let is_open = host.up && host.closes(place.devices).is_none();
        let taken = host.foreign.devices.or(host.foreign.drained);
        let is_enough =
            theirs.is_some_and(|their| their.cpus >= task.cpus && their.memory >= task.memory);
        is_open
            && is_enough
            && place.devices.and(taken).is_empty()
            && u64::from(place.share.0) >= requested
            && nodes::model_of(ledger, place) == Some(model)
    };
    if !attempt.placement.iter().any(fits)
        || attempt.leaving.is_some()
        || may_be_exempt(ledger, job, attempt, at)
    {
        return false;
    }
    // 2. It is eligible, since everything the attempt holds is borrowed.
    let of_queue = path_of(ledger, other).iter().rev().find_map(|(_, queue)| queue.protect);
    let is_safe = |one: Protection| one.until(attempt.held_from) > at;
    let held = quota::by_model(ledger, &attempt.placement);
    !is_safe(quota::protection(other, attempt.id.element.index))
        && !of_queue.is_some_and(is_safe)
        && held.len() == 1
        && nominations::may_reclaim_all(
            ledger,
            (job, other),
            model,
            requested,
            held.get(model).copied().unwrap_or(0),
        )
        && attempt.placement.iter().filter(|place| fits(place)).any(|place| {
            let devices = place.devices.lowest(1);
            let own = TaskPlacement {
                group: 0,
                devices,
                share: GpuMilli(requested as u32),
                ..place.clone()
            };
            quota::check(ledger, (job, 0), &[own], &[attempt.id]).is_ok()
        })
}

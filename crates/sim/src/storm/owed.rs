//! Does a lender get back what is its own? Judged where the answer is sure: one task on one device
//! that would fit in the very place of one who borrows, whom nothing protects, with nobody else to
//! be considered. And does nobody grow into what such a task waits for? It shares no code with the
//! engine.

use muster_model::queue::Backfill;
use muster_model::{ElementId, GpuMilli, JobId, Protection, Span, TaskPlacement, Tier, Time};

use super::attempt::Attempt;
use super::book::{Book, Element, Job, Phase};
use super::claims;
use super::holdings::{self, path_of};
use super::quota;

/// Who waits, though somebody could be made to go for it.
pub(crate) fn waits_in_vain(book: &Book, at: Time) -> Option<(ElementId, ElementId)> {
    if !book.queues.preemption.reclaim
        || book.queues.backfill == Backfill::None
        || !book.claims.of.is_empty()
        || !book.windows.is_empty()
    {
        return None;
    }
    for (id, job) in &book.jobs {
        for (index, element) in &job.elements {
            if !is_plain(job) || !is_ready(book, job, element, at) {
                continue;
            }
            let mut borrowers = book.active().filter(|(_, attempt)| attempt.is_running());
            let found = borrowers.find(|one| could_go(book, job, *one, at));
            if let Some((_, attempt)) = found {
                return Some((ElementId { job: *id, index: *index }, attempt.id.element));
            }
        }
    }
    None
}

/// Who waits, and could as well be where a gang gets larger: on any of those places, for no longer,
/// and within its quota even beside all of the gang.
pub(crate) fn is_passed_by(
    book: &Book,
    gang: &Job,
    places: &[TaskPlacement],
    at: Time,
) -> Option<ElementId> {
    if book.queues.backfill == Backfill::None || !book.windows.is_empty() || places.is_empty() {
        return None;
    }
    let lasts =
        |job: &Job| job.spec.time_limit.map_or(Span(u64::MAX), |limit| limit + job.spec.grace);
    let could_be = |job: &Job, place: &TaskPlacement| {
        let task = &job.spec.groups[0].task;
        let own = TaskPlacement { group: 0, devices: place.devices.lowest(1), ..place.clone() };
        (task.cpus.0, task.memory.0, place.share.0) == (0, 0, 1000)
            && holdings::model_of(book, place) == task.gpu.models.first()
            && quota::judge(book, (job, 0), &[own], &[]).is_ok()
    };
    let waits = |(id, job): (&JobId, &Job)| {
        let mut ready = job.elements.iter().filter(|(_, element)| is_ready(book, job, element, at));
        let is_it = is_plain(job)
            && job.spec.tier == Tier::Usual
            && lasts(job) <= lasts(gang)
            && places.iter().all(|place| could_be(job, place));
        let (index, _) = ready.next().filter(|_| is_it)?;
        Some(ElementId { job: *id, index: *index })
    };
    book.jobs.iter().find_map(waits)
}

/// One task on one device of one model, wherever that is.
fn is_plain(job: &Job) -> bool {
    let spec = &job.spec;
    let [group] = &spec.groups[..] else { return false };
    let (gpu, constraint) = (&group.task.gpu, &spec.constraint);
    let is_one = (gpu.devices == 1 || gpu.share.0 > 0) && gpu.models.len() == 1;
    let is_free = constraint.labels.is_empty() && constraint.exclude.is_empty();
    (group.min_tasks, group.max_tasks) == (1, 1)
        && is_one
        && is_free
        && group.task.extras.is_empty()
        && constraint.topology.is_none()
        && constraint.window.is_none()
        && spec.array.is_none()
        && spec.service().is_none()
        && spec.protect == Protection::None
}

/// It may start, has not failed to, and no limit of its queues counts it.
fn is_ready(book: &Book, job: &Job, element: &Element, at: Time) -> bool {
    let Phase::Waits { held: false, not_before } = element.phase else { return false };
    let unlimited = path_of(book, job).iter().all(|(_, queue)| {
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
        && book.is_free(job)
}

/// Would it fit where this one is, and has its queue a right to that?
fn could_go(book: &Book, job: &Job, (other, attempt): (&Job, &Attempt), at: Time) -> bool {
    let task = &job.spec.groups[0].task;
    let Some(model) = task.gpu.models.first() else { return false };
    let asked = if task.gpu.devices > 0 { 1000 } else { u64::from(task.gpu.share.0) };
    // 1. The place.
    let fits = |place: &TaskPlacement| {
        let theirs = other.spec.groups.get(usize::from(place.group)).map(|group| &group.task);
        let Some(host) = book.nodes.get(place.node.0 as usize) else { return false };
        let is_open = host.up && host.closes(place.devices).is_none();
        let taken = host.foreign.devices.or(host.foreign.drained);
        let is_enough =
            theirs.is_some_and(|their| their.cpus >= task.cpus && their.memory >= task.memory);
        is_open
            && is_enough
            && place.devices.and(taken).is_empty()
            && u64::from(place.share.0) >= asked
            && holdings::model_of(book, place) == Some(model)
    };
    if !attempt.placement.iter().any(fits) || attempt.leaving.is_some() {
        return false;
    }
    // 2. The right, with everything that it holds being borrowed.
    let of_queue = path_of(book, other).iter().rev().find_map(|(_, queue)| queue.protect);
    let is_safe = |one: Protection| one.until(attempt.held_from) > at;
    let held = quota::by_model(book, &attempt.placement);
    !is_safe(quota::protection(other, attempt.id.element.index))
        && !of_queue.is_some_and(is_safe)
        && held.len() == 1
        && claims::owes_whole(
            book,
            (job, other),
            model,
            asked,
            held.get(model).copied().unwrap_or(0),
        )
        && attempt.placement.iter().filter(|place| fits(place)).any(|place| {
            let devices = place.devices.lowest(1);
            let own =
                TaskPlacement { group: 0, devices, share: GpuMilli(asked as u32), ..place.clone() };
            quota::judge(book, (job, 0), &[own], &[attempt.id]).is_ok()
        })
}

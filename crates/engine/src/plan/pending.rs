//! Pending allocations in a pass: their capacity is kept free for the nominated element, which
//! starts as soon as all of it is free; a nomination that has become impossible is revoked. Runs
//! before everything else, in every round.

use std::sync::Arc;

use muster_model::{AttemptId, Decision, ElementId, Span, TaskPlacement, Time, TopologyRule};

use super::PlanningPass;
use super::PolicyChange;
use crate::pool::ends::HoldingEnd;
use crate::pool::node::{Interval, WHOLE};
use crate::pool::shape::Shape;
use crate::state::attempt::attempt_id;
use crate::state::entries::EntryOwner;
use crate::state::job::{PendingAllocation, Phase};

/// Placement of a nominated element, kept free in every round.
#[derive(Clone, Debug)]
pub(super) struct PendingPlacement {
    pub(super) element: ElementId,
    pub(super) until: Time,
    pub(super) shape: Arc<Shape>,
    pub(super) placement: Arc<[TaskPlacement]>,
    /// For a nomination of this pass: the attempt that a start makes, and its longest duration.
    pub(super) new_attempt: Option<(AttemptId, Option<Span>)>,
}

/// Decision of a pass about a pending allocation.
enum PendingOutcome {
    Start,
    Wait,
    Revoke,
}

/// Starts, keeps or revokes the pending allocations of earlier passes.
pub(super) fn process_pending_allocations(pass: &mut PlanningPass<'_>) {
    for (_, id, ordinal) in pass.state.pending_allocations.in_order(&pass.state.jobs) {
        let job = &pass.state.jobs[&id];
        let element = ElementId { job: id, index: job.record.index_of(ordinal) };
        let known = &job.record.elements[&ordinal];
        let Some(allocation) = known.pending_allocation.as_deref().cloned() else { continue };
        let attempt = known.attempt + 1;
        let leaf = job.record.leaf;
        let user = job.user;
        let duration = pass.planned_duration(&job.record);
        let shape = Arc::clone(pass.state.classes.shape(job.class));
        let until = duration.map_or(Time::NEVER, |span| pass.now + span);
        match pending_outcome(pass, element, &allocation, &shape, until) {
            PendingOutcome::Start => {
                // The cap of its array already counts the nomination.
                if let Some(slot) =
                    pass.state.entries.slot(EntryOwner { job: id, ordinal: Some(ordinal) })
                {
                    *pass.scratch.started.by_slot.entry(slot).or_default() += 1;
                }
                let id = attempt_id(id, element.index, attempt);
                let placement = Arc::clone(&allocation.placement);
                pass.decisions.push(Decision::Start { id, placement, backfilled: false });
                pass.changed_order = true;
            }
            PendingOutcome::Wait => {
                let placement = Arc::clone(&allocation.placement);
                let slack = last_eviction_end(pass, element, &allocation)
                    .map_or(Span(0), |last| last.since(pass.now));
                let until = until + slack;
                protect_pending(
                    pass,
                    PendingPlacement { element, until, shape, placement, new_attempt: None },
                );
            }
            PendingOutcome::Revoke => {
                pass.state.policy.undo_hold(leaf, user, &allocation.gpus);
                pass.scratch.policy_changes.push(PolicyChange::Removed {
                    leaf,
                    user,
                    gpus: allocation.gpus,
                });
                let is_active =
                    pass.state.jobs.element(element).is_some_and(|one| one.phase == Phase::Active);
                *pass.revoked.entry(id).or_default() += u32::from(!is_active);
                pass.decisions.push(Decision::Revoke { element });
            }
        }
    }
}

/// Keeps the capacity of a nomination free, in this round and those that follow.
pub(super) fn protect_pending(pass: &mut PlanningPass<'_>, pending: PendingPlacement) {
    pass.nominated.insert(pending.element);
    book_pending(pass, &pending);
    pass.pending_placements.push(pending);
}

/// Books all pending placements again at the beginning of a round, the oldest first. A
/// nomination of this pass becomes a start if all its capacity is free: then its victims are
/// evicted because of what they count for in quota, not because they occupy its devices.
pub(super) fn rebook_pending(pass: &mut PlanningPass<'_>) {
    for pending in std::mem::take(&mut pass.pending_placements) {
        match pending.new_attempt {
            Some((id, duration)) if try_start_pending(pass, &pending, duration) => {
                let placement = Arc::clone(&pending.placement);
                pass.decisions.push(Decision::Start { id, placement, backfilled: false });
            }
            _ => {
                book_pending(pass, &pending);
                pass.pending_placements.push(pending);
            }
        }
    }
}

/// Starts the element on scratch if its whole placement is free.
fn try_start_pending(
    pass: &mut PlanningPass<'_>,
    pending: &PendingPlacement,
    duration: Option<Span>,
) -> bool {
    let until = duration.map_or(Time::NEVER, |span| pass.now + span);
    let outer = pass.state.pool.view_inside(pending.shape.reservation.as_ref());
    let starts = hold_exactly(pass, pending.element, &pending.placement, &pending.shape, until);
    pass.state.pool.set_view(outer);
    starts
}

fn book_pending(pass: &mut PlanningPass<'_>, pending: &PendingPlacement) {
    let shape = Arc::clone(&pending.shape);
    let placement = Arc::clone(&pending.placement);
    pass.state.pool.book(pending.element, (pass.now, pending.until), shape, placement);
}

/// Decides whether a nominated element starts (on scratch), waits or loses its nomination. An
/// element that changes its size must have ended first.
fn pending_outcome(
    pass: &mut PlanningPass<'_>,
    element: ElementId,
    allocation: &PendingAllocation,
    shape: &Arc<Shape>,
    until: Time,
) -> PendingOutcome {
    let outer = pass.state.pool.view_inside(shape.reservation.as_ref());
    let is_over = pass.state.jobs.element(element).is_none_or(|known| known.phase != Phase::Active);
    // The advance reservation that it names may have been deleted or moved.
    let is_active =
        pass.state.reservation_start(&pass.state.jobs[&element.job], pass.now) <= pass.now;
    let is_valid = is_active && is_still_valid(pass, &allocation.placement, shape, until);
    let starts =
        is_over && is_valid && hold_exactly(pass, element, &allocation.placement, shape, until);
    pass.state.pool.set_view(outer);
    if starts {
        return PendingOutcome::Start;
    }
    if is_valid && last_eviction_end(pass, element, allocation).is_some() {
        PendingOutcome::Wait
    } else {
        PendingOutcome::Revoke
    }
}

/// Returns true if the nodes and devices of a placement are and stay in service, whether held
/// or not, and satisfy the topology of the shape.
pub(super) fn is_still_valid(
    pass: &PlanningPass<'_>,
    placement: &[TaskPlacement],
    shape: &Shape,
    until: Time,
) -> bool {
    let pool = &pass.state.pool;
    let is_usable = placement.iter().all(|task| {
        let availability = &pool.node(task.node).availability;
        let usable =
            pool.node(task.node).usable.minus(availability.unavailable_during(pass.now, until));
        let is_active =
            pool.node(task.node).accepts_work() && !availability.is_unavailable(pass.now, until);
        is_active && task.devices.minus(usable).is_empty()
    });
    is_usable && satisfies_topology(pass, placement, shape)
}

/// Returns true if a placement satisfies the topology of a shape: nodes may have changed
/// domains.
fn satisfies_topology(pass: &PlanningPass<'_>, placement: &[TaskPlacement], shape: &Shape) -> bool {
    let Some(topology) = &shape.topology else { return true };
    let in_one = |tasks: &[&TaskPlacement], level: &str| {
        let Some(level) = pass.state.pool.domains.level(level) else { return false };
        let mut domains = tasks.iter().map(|task| pass.state.pool.scope_at(task.node, level));
        let first = domains.next().flatten();
        tasks.is_empty() || first.is_some() && domains.all(|domain| domain == first)
    };
    let all: Vec<&TaskPlacement> = placement.iter().collect();
    let is_one = match &topology.rule {
        TopologyRule::Required(level) => in_one(&all, level),
        TopologyRule::Anywhere | TopologyRule::Preferred(_) | TopologyRule::Spread(_) => true,
    };
    // Ranks of a group follow each other.
    let groups = all.chunk_by(|one, next| one.group == next.group);
    is_one
        && topology.segment.as_ref().is_none_or(|segment| {
            let mut slices = groups.flat_map(|tasks| tasks.chunks(segment.tasks.max(1) as usize));
            slices.all(|slice| in_one(slice, &segment.level))
        })
}

/// Holds exactly this placement on scratch, if all of it is free.
pub(super) fn hold_exactly(
    pass: &mut PlanningPass<'_>,
    element: ElementId,
    placement: &Arc<[TaskPlacement]>,
    shape: &Arc<Shape>,
    until: Time,
) -> bool {
    let interval = Interval { now: pass.now, from: pass.now, until };
    let end = match until {
        Time::NEVER => HoldingEnd::Never,
        _ => HoldingEnd::After(until.since(pass.now)),
    };
    let pool = &mut pass.state.pool;
    let mark = pool.mark();
    let key = pool.open(element, end, Arc::clone(shape));
    for task in placement.iter() {
        let node = pool.node(task.node);
        let has_devices = match task.share.0 as u16 {
            WHOLE => task.devices.minus(node.free_during(interval)).is_empty(),
            share => task.devices.iter().all(|device| node.share_during(device, interval) >= share),
        };
        let scalars = &shape.groups[usize::from(task.group)].scalars;
        if !node.accepts_work() || !has_devices || node.scalar_fits(scalars, interval) == 0 {
            pool.rollback(mark);
            return false;
        }
        pool.grant(key, task);
    }
    pool.close(key, Arc::clone(placement));
    true
}

/// Returns the latest end of the evictions that the placement waits for: those made for it, and
/// those of attempts on its nodes, which may hold devices of it that were free before.
fn last_eviction_end(
    pass: &PlanningPass<'_>,
    of: ElementId,
    allocation: &PendingAllocation,
) -> Option<Time> {
    let own = pass.state.jobs.evictions_for(allocation).map(|(id, _)| id.element).chain([of]);
    let nodes = allocation.placement.iter().map(|task| pass.state.pool.node(task.node));
    let on_its_nodes =
        nodes.flat_map(|node| &node.holds).map(|hold| pass.state.pool.holding(hold.key).element);
    let runs = own.chain(on_its_nodes).filter_map(|id| pass.state.jobs.element(id)?.run.as_ref());
    let evicted = runs.filter(|run| run.eviction.is_some());
    evicted.map(|run| HoldingEnd::from(run.end).at(pass.now)).max()
}

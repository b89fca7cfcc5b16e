//! Checks head reservations: only elements that have been queue heads for the tree's patience have
//! one, no other element gets these places, and no job behind such a head starts while the head
//! could have a reservation and has none.
//!
//! The last rule is checked only where it can be decided without planning: a queue tree without
//! quotas, limits and budgets, a leaf in which one user waits, a gang of one group of whole
//! devices, and nodes without unavailability intervals.

use std::collections::BTreeMap;

use muster_model::{Decision, ElementId, NodeId, Plan, QueueSpec, TaskPlacement, Time};
use muster_policy::EntryAge;
use rustc_hash::FxHashMap;

use super::gang::{check_gang, check_startable, check_tasks, needs_of};
use super::ledger::{NodeSum, offered};
use super::{Violation, counted};
use crate::pool::ends::HoldingEnd;
use crate::pool::node::Node;
use crate::state::State;
use crate::state::entries::{EntryOwner, seq};
use crate::state::job::{Job, Phase};

/// Queue head that waits.
struct WaitingHead<'a> {
    element: ElementId,
    job: &'a Job,
    order: i32,
}

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    for id in &plan.heads {
        check_head(state, now, plan, *id, found);
    }
    for reserved in &plan.head_reservations {
        let Some(job) = state.jobs.get(&reserved.element.job) else {
            found.push(Violation::Unknown(reserved.element));
            continue;
        };
        check_gang(job, reserved.element, &reserved.placement, found);
        check_tasks(state, job, reserved.element, &reserved.placement, found);
        let refused = match may_reserve_from(state, plan, now, reserved.element) {
            None => Some("it is not a queue head"),
            Some(from) if from > now => Some("its patience is not over"),
            Some(_)
                if starts_and_nominations(plan).any(|(element, _)| element == reserved.element) =>
            {
                Some("it starts")
            }
            Some(_) => None,
        };
        found.extend(refused.map(|why| Violation::NoHeadReservation(reserved.element, why)));
    }
    check_reserved_places(state, now, plan, found);
    check_passed(state, now, plan, found);
}

/// Only an element that waits and may start becomes a head, once.
fn check_head(state: &State, now: Time, plan: &Plan, id: ElementId, found: &mut Vec<Violation>) {
    let Some(job) = state.jobs.get(&id.job) else {
        found.push(Violation::Unknown(id));
        return;
    };
    check_startable(job, now, id, false, found);
    let refused = match () {
        () if state.heads.since(&state.jobs, id).is_some() => Some("it is a queue head already"),
        () if plan.heads.iter().filter(|other| **other == id).count() > 1 => {
            Some("it is listed twice")
        }
        () if starts_and_nominations(plan).any(|(element, _)| element == id) => Some("it starts"),
        () => None,
    };
    found.extend(refused.map(|why| Violation::NoHeadReservation(id, why)));
}

/// Returns the instant from which a head may have a reservation.
fn may_reserve_from(state: &State, plan: &Plan, now: Time, id: ElementId) -> Option<Time> {
    let since =
        state.heads.since(&state.jobs, id).or_else(|| plan.heads.contains(&id).then_some(now))?;
    state.policy.tree().patience.map(|patience| since + patience)
}

/// Returns the elements that a plan starts or nominates, with their places.
fn starts_and_nominations(plan: &Plan) -> impl Iterator<Item = (ElementId, &[TaskPlacement])> {
    plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Start { id, placement, .. } => Some((id.element, &**placement)),
        Decision::Nominate { element, placement, .. } => Some((*element, &**placement)),
        Decision::Revoke { .. } => None,
    })
}

/// On every node of a head reservation, its places, pending allocations and starts behind the head
/// must fit together once all present holdings have ended. A start before the head in the order may
/// take places for which the head then waits.
fn check_reserved_places(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    for reserved in &plan.head_reservations {
        let Some(job) = state.jobs.get(&reserved.element.job) else { continue };
        let mut sums: BTreeMap<NodeId, (NodeSum, NodeSum)> = BTreeMap::new();
        for task in reserved.placement.iter() {
            let (requested, all) = sums.entry(task.node).or_default();
            if let Some(needs) = needs_of(job, task) {
                requested.add(task, needs);
                all.add(task, needs);
            }
        }
        let pending = counted::all_pending(state).filter(|one| {
            !plan.decisions.contains(&Decision::Revoke { element: one.element })
                && !starts_and_nominations(plan).any(|(element, _)| element == one.element)
        });
        let pending = pending.map(|one| (one.element, &**one.placement));
        let other_heads =
            plan.head_reservations.iter().filter(|other| other.element != reserved.element);
        let other_heads = other_heads.map(|other| (other.element, &*other.placement));
        let behind = starts_and_nominations(plan)
            .filter(|(element, _)| is_after(state, now, plan, *element, reserved.element));
        for (element, placement) in behind.chain(pending).chain(other_heads) {
            let Some(job) = state.jobs.get(&element.job) else { continue };
            for task in placement {
                if let (Some((_, all)), Some(needs)) =
                    (sums.get_mut(&task.node), needs_of(job, task))
                {
                    all.add(task, needs);
                }
            }
        }
        for (node, (requested, all)) in sums {
            if !all.excess(&requested, node, &state.pool, false).is_empty() {
                found.push(Violation::HeadReservationTaken { element: reserved.element, node });
            }
        }
    }
}

/// Returns true when a start is certainly after a head that had a head reservation then. A new
/// pending allocation counts as after it: it must not collide with head reservations. An old one
/// that starts now does not: it takes its places before any reservation is made, and the head may
/// wait for it as for any running job.
///
/// The order is known only if the head is the first of its leaf before the plan, and every start of
/// the plan is behind it there. Behind another element, which may have a planned start, it may have
/// had no reservation when the start was made. A start of another leaf, or of the head's user,
/// changes the order of the elements that follow. It may also take the capacity of the head's
/// planned start, on which an earlier round of the same plan relied when it backfilled behind the
/// head. A start that passed a planned start may have passed this head's, in such a round.
fn is_after(state: &State, now: Time, plan: &Plan, started: ElementId, head: ElementId) -> bool {
    let is_nominated = |id: ElementId| {
        plan.decisions.iter().any(
            |decision| matches!(decision, Decision::Nominate { element, .. } if *element == id),
        )
    };
    let was_nominated = |id: ElementId| {
        let ordinal = state.jobs.ordinal_of(id);
        ordinal
            .is_some_and(|ordinal| state.pending_allocations.elements.contains(&(id.job, ordinal)))
    };
    if is_nominated(started) {
        return true;
    }
    // With a patience of zero a head keeps capacity in the plan that names it. A job that started
    // earlier in that plan had no head before it.
    if was_nominated(started) || is_backfilled(plan, started) || plan.heads.contains(&head) {
        return false;
    }
    let Some(head_job) = state.jobs.get(&head.job) else { return false };
    if !is_first(state, now, head) {
        return false;
    }
    let lane =
        |job: &Job| (job.record.leaf, job.record.spec.constraint.advance_reservation.clone());
    starts_and_nominations(plan).all(|(element, _)| {
        let is_behind = state.jobs.get(&element.job).is_some_and(|job| {
            lane(job) == lane(head_job)
                && (element == started || job.user != head_job.user)
                && precedes(state, now, head, element)
        });
        is_behind || is_nominated(element) || was_nominated(element)
    })
}

/// Returns true for a start that passed an element with a planned start.
fn is_backfilled(plan: &Plan, started: ElementId) -> bool {
    plan.decisions.iter().any(|decision| {
        matches!(decision, Decision::Start { id, backfilled: true, .. } if id.element == started)
    })
}

/// Returns true if no other job of its leaf has an element before this one in the order.
fn is_first(state: &State, now: Time, head: ElementId) -> bool {
    let leaf = state.jobs.get(&head.job).map(|job| job.record.leaf);
    let others = state.jobs.iter().filter(|(id, _)| **id != head.job);
    others.filter(|(_, job)| Some(job.record.leaf) == leaf).all(|(id, job)| {
        let record = &job.record;
        let known = record.elements.iter();
        let known =
            known.filter(|(_, one)| matches!(one.phase, Phase::Waiting { held: false, .. }));
        let unknown = (!record.held && record.unrecorded() > 0).then_some(record.next);
        let waiting = known.map(|(ordinal, _)| *ordinal).chain(unknown);
        let element = |ordinal| ElementId { job: *id, index: record.index_of(ordinal) };
        waiting.into_iter().all(|ordinal| !precedes(state, now, element(ordinal), head))
    })
}

/// Returns true if an element precedes another of its leaf in the order.
fn precedes(state: &State, now: Time, one: ElementId, other: ElementId) -> bool {
    let entry = |id: ElementId| {
        let job = state.jobs.get(&id.job)?;
        let ordinal = job.record.ordinal_of(id.index)?;
        let is_single = job.record.elements.contains_key(&ordinal);
        let owner = EntryOwner { job: id.job, ordinal: is_single.then_some(ordinal) };
        let age = EntryAge { seq: seq(owner, 0), submitted: job.record.submitted };
        Some((job.record.leaf, (job.user, job.record.spec.order_of(ordinal), age)))
    };
    let (Some((leaf, one)), Some((other_leaf, other))) = (entry(one), entry(other)) else {
        return false;
    };
    leaf == other_leaf && state.policy.precedes(now, leaf, one, other)
}

/// No job behind a head starts if the head could have a reservation and has none.
fn check_passed(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    if state.heads.is_empty()
        || plan.decisions.is_empty()
        || !state.policy.tree().queues.iter().all(is_plain)
    {
        return;
    }
    let all: Vec<WaitingHead<'_>> =
        state.heads.iter().filter_map(|(job, ordinal, _)| head(state, job, ordinal)).collect();
    for head in &all {
        let is_over =
            may_reserve_from(state, plan, now, head.element).is_some_and(|from| from <= now);
        let is_served =
            plan.head_reservations.iter().any(|reserved| reserved.element == head.element)
                || plan.reservations.iter().any(|one| one.element == head.element)
                || starts_and_nominations(plan).any(|(element, _)| element == head.element);
        if !is_over
            || is_served
            || !is_first_by_simple_rule(state, plan, head)
            || !could_be_placed(state, head)
        {
            continue;
        }
        let is_behind = |element: &ElementId| {
            state.jobs.get(&element.job).is_some_and(|job| {
                let ordinal = job.record.ordinal_of(element.index).unwrap_or(0);
                job.record.leaf == head.job.record.leaf
                    && job.record.spec.order_of(ordinal) <= head.order
                    && element.job > head.element.job
                    && !state.pending_allocations.elements.contains(&(element.job, ordinal))
            })
        };
        let takes_devices =
            |places: &[TaskPlacement]| places.iter().any(|task| !task.devices.is_empty());
        let passes = starts_and_nominations(plan)
            .filter(|(_, places)| takes_devices(places))
            .map(|(element, _)| element);
        if let Some(by) = passes.into_iter().find(is_behind) {
            found.push(Violation::HeadPassed { element: head.element, by });
        }
    }
}

/// True when no queue has quotas, budgets or limits.
fn is_plain(queue: &QueueSpec) -> bool {
    let limits = &queue.limits;
    queue.quota.is_empty()
        && queue.budget.is_none()
        && limits.running_jobs.is_none()
        && limits.gpus_per_user.is_none()
        && limits.time.is_none()
        && limits.borrowed_time.is_none()
        && queue.queues.iter().all(is_plain)
}

fn head(state: &State, id: muster_model::JobId, ordinal: u32) -> Option<WaitingHead<'_>> {
    let job = state.jobs.get(&id)?;
    let element = ElementId { job: id, index: job.record.index_of(ordinal) };
    Some(WaitingHead { element, job, order: job.record.spec.order_of(ordinal) })
}

/// True when the head is first in its leaf by the simplest rule: no element of a higher priority,
/// of another user, or older waits there.
fn is_first_by_simple_rule(state: &State, plan: &Plan, head: &WaitingHead<'_>) -> bool {
    if head.job.record.spec.constraint.advance_reservation.is_some()
        || state.policy.queues().has_budgets()
    {
        return false;
    }
    let starts = |job: muster_model::JobId| {
        starts_and_nominations(plan).any(|(element, _)| element.job == job)
    };
    state.jobs.iter().all(|(id, job)| {
        let is_before = job.user != head.job.user
            || job.record.spec.order_of(0) > head.order
            || *id < head.element.job && job.record.spec.order_of(0) == head.order;
        // Replicas above the guaranteed ones wait too, though `has_waiting` does not count them.
        let waits = job.record.has_waiting() || job.record.waiting_unheld() > 0 || starts(*id);
        *id == head.element.job || job.record.leaf != head.job.record.leaf || !waits || !is_before
    })
}

/// True when the gang is one group of whole devices, and enough of them are on nodes without
/// unavailability intervals once all holdings with a limit have ended.
fn could_be_placed(state: &State, head: &WaitingHead<'_>) -> bool {
    let spec = &head.job.record.spec;
    let ordinal = head.job.record.ordinal_of(head.element.index);
    let known = ordinal.and_then(|ordinal| head.job.record.elements.get(&ordinal));
    let may_start = known.is_none_or(|known| {
        matches!(known.phase, Phase::Waiting { held: false, .. })
            && known.avoid.is_empty()
            && known.pending_allocation.is_none()
    });
    let [group] = &spec.groups[..] else { return false };
    let devices = group.task.gpu.devices;
    if !may_start || devices == 0 || spec.constraint.topology.is_some() || spec.array.is_some() {
        return false;
    }
    let capacity = |node: &Node| {
        let labels = &spec.constraint.labels;
        let is_available = node.accepts_work()
            && node.availability.upcoming.is_empty()
            && node
                .holds
                .iter()
                .all(|hold| hold.end != HoldingEnd::Never || !is_service(state, hold.key))
            && !spec.constraint.exclude.contains(&node.spec.name)
            && labels.iter().all(|(key, value)| node.spec.labels.get(key) == Some(value));
        if !is_available || node.usable.len() < node.spec.devices.len() as u32 {
            return 0;
        }
        let accepts =
            |model| group.task.gpu.models.is_empty() || group.task.gpu.models.contains(model);
        let mut by_model: FxHashMap<&str, u64> = FxHashMap::default();
        for device in node.spec.devices.iter().filter(|device| accepts(&device.model)) {
            *by_model.entry(&device.model.0).or_default() += 1;
        }
        let tasks: u64 = by_model.values().map(|count| count / u64::from(devices)).sum();
        let quantities = match (u64::from(group.task.cpus.0), group.task.memory.0) {
            _ if !group.task.extras.is_empty() => 0,
            (cpus, memory) => {
                let of = |all: u64, each: u64| all.checked_div(each).unwrap_or(u64::MAX);
                let (free_cpus, free_memory) = offered(node);
                of(free_cpus, cpus).min(of(free_memory, memory))
            }
        };
        match (group.tasks_per_node.map(u64::from), tasks.min(quantities)) {
            (Some(block), tasks) if tasks >= block && by_model.len() == 1 => block,
            (Some(_), _) => 0,
            (None, tasks) => tasks,
        }
    };
    let pending = counted::all_pending(state).next().is_some();
    !pending && state.pool.nodes().iter().map(capacity).sum::<u64>() >= u64::from(group.min_tasks)
}

fn is_service(state: &State, key: crate::pool::HoldKey) -> bool {
    let element = state.pool.holding(key).element;
    state.jobs.get(&element.job).is_some_and(|job| job.record.spec.service().is_some())
}

//! Judges what is kept for heads: only those keep places that have waited as heads for the tree's
//! patience, nothing else gets these places, and no job behind a head starts while that could keep
//! places and does not.
//!
//! The last can be told without planning where order and room are plain: a queue tree without
//! quotas, limits and budgets, a leaf in which one user waits, a gang of one group of whole
//! devices, and nodes that nothing closes. There it is judged.

use std::collections::BTreeMap;

use muster_model::{Decision, ElementId, NodeId, Plan, QueueSpec, TaskPlacement, Time};
use rustc_hash::FxHashMap;

use super::Violation;
use super::counted;
use super::ledger::Sum;
use super::plan::{check_gang, check_startable, check_tasks, needs_of};
use crate::state::State;
use crate::state::ends::End;
use crate::state::entries::{Owner, seq};
use crate::state::job::{Job, Phase};
use crate::state::node::Node;

/// A head that waits.
struct Head<'a> {
    element: ElementId,
    job: &'a Job,
    order: i32,
}

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    for id in &plan.heads {
        check_head(state, now, plan, *id, found);
    }
    for keep in &plan.keeps {
        let Some(job) = state.jobs.get(&keep.element.job) else {
            found.push(Violation::Unknown(keep.element));
            continue;
        };
        check_gang(job, keep.element, &keep.placement, found);
        check_tasks(state, job, keep.element, &keep.placement, found);
        let refused = match may_keep_from(state, plan, now, keep.element) {
            None => Some("it is no head"),
            Some(from) if from > now => Some("its patience is not over"),
            Some(_) if comes(plan).any(|(element, _)| element == keep.element) => Some("it starts"),
            Some(_) => None,
        };
        found.extend(refused.map(|why| Violation::NotPatient(keep.element, why)));
    }
    check_kept(state, now, plan, found);
    check_overtaken(state, now, plan, found);
}

/// Only what waits and may start becomes a head, once.
fn check_head(state: &State, now: Time, plan: &Plan, id: ElementId, found: &mut Vec<Violation>) {
    let Some(job) = state.jobs.get(&id.job) else {
        found.push(Violation::Unknown(id));
        return;
    };
    check_startable(job, now, id, false, found);
    let refused = match () {
        () if state.head_since(id).is_some() => Some("it is a head already"),
        () if plan.heads.iter().filter(|other| **other == id).count() > 1 => {
            Some("it is a head twice")
        }
        () if comes(plan).any(|(element, _)| element == id) => Some("it starts"),
        () => None,
    };
    found.extend(refused.map(|why| Violation::NotPatient(id, why)));
}

/// From when on a head may keep places.
fn may_keep_from(state: &State, plan: &Plan, now: Time, id: ElementId) -> Option<Time> {
    let since = state.head_since(id).or_else(|| plan.heads.contains(&id).then_some(now))?;
    state.policy.tree().patience.map(|patience| since + patience)
}

/// What a plan starts or promises.
fn comes(plan: &Plan) -> impl Iterator<Item = (ElementId, &[TaskPlacement])> {
    plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Start { id, placement, .. } => Some((id.element, &**placement)),
        Decision::Claim { element, placement, .. } => Some((*element, &**placement)),
        Decision::Unclaim { .. } => None,
    })
}

/// On every node of what is kept: this, what was promised, and what comes behind it fit together,
/// once what runs there has ended. What starts before a head in the order may take places that the
/// head then waits for.
fn check_kept(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    for keep in &plan.keeps {
        let Some(job) = state.jobs.get(&keep.element.job) else { continue };
        let mut kept: BTreeMap<NodeId, (Sum, Sum)> = BTreeMap::new();
        for task in keep.placement.iter() {
            let (asked, all) = kept.entry(task.node).or_default();
            if let Some(needs) = needs_of(job, task) {
                asked.add(task, needs);
                all.add(task, needs);
            }
        }
        let promised = counted::all_promised(state).filter(|one| {
            !plan.decisions.contains(&Decision::Unclaim { element: one.element })
                && !comes(plan).any(|(element, _)| element == one.element)
        });
        let promised = promised.map(|one| (one.element, &**one.placement));
        let kept_too = plan.keeps.iter().filter(|other| other.element != keep.element);
        let kept_too = kept_too.map(|other| (other.element, &*other.placement));
        let behind =
            comes(plan).filter(|(element, _)| is_after(state, now, plan, *element, keep.element));
        for (element, placement) in behind.chain(promised).chain(kept_too) {
            let Some(job) = state.jobs.get(&element.job) else { continue };
            for task in placement {
                if let (Some((_, all)), Some(needs)) =
                    (kept.get_mut(&task.node), needs_of(job, task))
                {
                    all.add(task, needs);
                }
            }
        }
        for (node, (asked, all)) in kept {
            if !all.excess(&asked, node, &state.pool, false).is_empty() {
                found.push(Violation::Kept { element: keep.element, node });
            }
        }
    }
}

/// Returns true when what comes is certainly after a head in the order. What is promised now counts
/// as well: it must be clear of all that is kept. What was promised before and starts now does not:
/// it takes its places before anything is kept, and the head may wait for it as for any job that
/// runs. Between two leaves, and where the head's user starts something else, the order is not
/// known.
fn is_after(state: &State, now: Time, plan: &Plan, comes_now: ElementId, head: ElementId) -> bool {
    let is_claim = |decision: &Decision| matches!(decision, Decision::Claim { element, .. } if *element == comes_now);
    let was_promised = |id: ElementId| {
        let ordinal = state.jobs.get(&id.job).and_then(|job| job.record.ordinal_of(id.index));
        ordinal.is_some_and(|ordinal| state.claims.of.contains(&(id.job, ordinal)))
    };
    if plan.decisions.iter().any(is_claim) {
        return true;
    }
    if was_promised(comes_now) {
        return false;
    }
    let (Some(one), Some(other)) = (state.jobs.get(&comes_now.job), state.jobs.get(&head.job))
    else {
        return false;
    };
    let is_changed = comes(plan).any(|(element, _)| {
        let job = state.jobs.get(&element.job);
        element != comes_now
            && job.is_some_and(|job| job.record.leaf == other.record.leaf && job.user == other.user)
    });
    let lane = |job: &Job| (job.record.leaf, job.record.spec.constraint.window.clone());
    lane(one) == lane(other)
        && !is_changed
        && position(state, now, comes_now) > position(state, now, head)
}

/// Place of an element in its leaf.
fn position(state: &State, now: Time, id: ElementId) -> Option<u32> {
    let job = state.jobs.get(&id.job)?;
    let ordinal = job.record.ordinal_of(id.index)?;
    let is_single = job.record.elements.contains_key(&ordinal);
    let owner = Owner { job: id.job, ordinal: is_single.then_some(ordinal) };
    let order = job.record.spec.order_of(ordinal);
    Some(state.policy.position(now, job.record.leaf, job.user, order, seq(owner, 0)).0)
}

/// No job behind a head starts where that could keep places and does not.
fn check_overtaken(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    if state.heads.is_empty()
        || plan.decisions.is_empty()
        || !state.policy.tree().queues.iter().all(is_plain)
    {
        return;
    }
    let all: Vec<Head<'_>> =
        state.heads.iter().filter_map(|(job, ordinal, _)| head(state, job, ordinal)).collect();
    for head in &all {
        let is_over = may_keep_from(state, plan, now, head.element).is_some_and(|from| from <= now);
        let is_served = plan.keeps.iter().any(|keep| keep.element == head.element)
            || plan.reservations.iter().any(|one| one.element == head.element)
            || comes(plan).any(|(element, _)| element == head.element);
        if !is_over
            || is_served
            || !is_alone_in_front(state, plan, head)
            || !becomes_whole(state, head)
        {
            continue;
        }
        let is_behind = |element: &ElementId| {
            state.jobs.get(&element.job).is_some_and(|job| {
                let ordinal = job.record.ordinal_of(element.index).unwrap_or(0);
                job.record.leaf == head.job.record.leaf
                    && job.record.spec.order_of(ordinal) <= head.order
                    && element.job > head.element.job
                    && !state.claims.of.contains(&(element.job, ordinal))
            })
        };
        let takes_devices =
            |places: &[TaskPlacement]| places.iter().any(|task| !task.devices.is_empty());
        let passes =
            comes(plan).filter(|(_, places)| takes_devices(places)).map(|(element, _)| element);
        if let Some(by) = passes.into_iter().find(is_behind) {
            found.push(Violation::Overtaken { element: head.element, by });
        }
    }
}

/// No queue says more than where jobs wait.
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

fn head(state: &State, id: muster_model::JobId, ordinal: u32) -> Option<Head<'_>> {
    let job = state.jobs.get(&id)?;
    let element = ElementId { job: id, index: job.record.index_of(ordinal) };
    Some(Head { element, job, order: job.record.spec.order_of(ordinal) })
}

/// It is the first of its leaf by the plainest rule: nothing of a higher order, of another user, or
/// older waits there.
fn is_alone_in_front(state: &State, plan: &Plan, head: &Head<'_>) -> bool {
    if head.job.record.spec.constraint.window.is_some() || state.policy.has_budgets() {
        return false;
    }
    let starts = |job: muster_model::JobId| comes(plan).any(|(element, _)| element.job == job);
    state.jobs.iter().all(|(id, job)| {
        let is_before = job.user != head.job.user
            || job.record.spec.order_of(0) > head.order
            || *id < head.element.job && job.record.spec.order_of(0) == head.order;
        // A service waits with the replicas above its floor too, which `has_waiting` leaves out.
        let waits = job.record.has_waiting() || job.record.waiting_unheld() > 0 || starts(*id);
        *id == head.element.job || job.record.leaf != head.job.record.leaf || !waits || !is_before
    })
}

/// One group of whole devices, for which there are enough on nodes that nothing closes once all
/// that ends by itself has ended.
fn becomes_whole(state: &State, head: &Head<'_>) -> bool {
    let spec = &head.job.record.spec;
    let ordinal = head.job.record.ordinal_of(head.element.index);
    let known = ordinal.and_then(|ordinal| head.job.record.elements.get(&ordinal));
    let may_start = known.is_none_or(|known| {
        matches!(known.phase, Phase::Waiting { held: false, .. })
            && known.avoid.is_empty()
            && known.claim.is_none()
    });
    let [group] = &spec.groups[..] else { return false };
    let devices = group.task.gpu.devices;
    if !may_start || devices == 0 || spec.constraint.topology.is_some() || spec.array.is_some() {
        return false;
    }
    let room = |node: &Node| {
        let labels = &spec.constraint.labels;
        let is_open = node.hosts()
            && node.walls.ahead.is_empty()
            && node.holds.iter().all(|hold| hold.end != End::Never || !is_service(state, hold.key))
            && !spec.constraint.exclude.contains(&node.spec.name)
            && labels.iter().all(|(key, value)| node.spec.labels.get(key) == Some(value));
        if !is_open || node.usable.len() < node.spec.devices.len() as u32 {
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
                of(u64::from(node.spec.cpus.0), cpus).min(of(node.spec.memory.0, memory))
            }
        };
        match (group.tasks_per_node.map(u64::from), tasks.min(quantities)) {
            (Some(block), tasks) if tasks >= block && by_model.len() == 1 => block,
            (Some(_), _) => 0,
            (None, tasks) => tasks,
        }
    };
    let promised = counted::all_promised(state).next().is_some();
    !promised && state.pool.nodes().iter().map(room).sum::<u64>() >= u64::from(group.min_tasks)
}

fn is_service(state: &State, key: crate::state::pool::HoldKey) -> bool {
    let element = state.pool.holding(key).element;
    state.jobs.get(&element.job).is_some_and(|job| job.record.spec.service().is_some())
}

//! Checks a plan: each element may start, its gang is complete and correct, everything fits, and
//! limits, quotas and reservations are respected.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::job::{Resources, TaskGroup};
use muster_model::{
    AttemptId, Decision, Effect, ElementId, JobId, NodeId, Plan, TaskPlacement, Time,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::ledger::NodeSum;
use super::resized::Relocations;
use super::{
    Violation, advance_reservations, borrowed, budget, drained, head_reservations,
    pending_allocations, quota, reserved, topology,
};
use crate::state::State;
use crate::state::job::{Job, Phase};
use crate::state::node::Node;

/// Tasks that a plan starts, with their nodes and jobs.
type Tasks<'a> = SmallVec<[(NodeId, &'a Job, &'a TaskPlacement); 4]>;

/// Checks a plan; returns everything that is wrong with it.
pub(crate) fn check(state: &State, now: Time, plan: &Plan) -> Result<(), Vec<Violation>> {
    if plan.is_empty() && plan.reservations.is_empty() && plan.head_reservations.is_empty() {
        return Ok(());
    }
    let mut found = Vec::new();
    // 1. Each decision by itself.
    let mut held = check_decisions(state, now, plan, &mut found);
    // 2. All starts together: enough resources?
    check_free_capacity(state, &mut held, &mut found);
    // 3. Pending allocations, limits, quotas, reservations.
    let once = &without_nominated_starts(plan);
    pending_allocations::check(state, now, once, &mut found);
    quota::check(state, once, &mut found);
    borrowed::check(state, once, &mut found);
    budget::check(state, now, once, &mut found);
    reserved::check(state, now, once, &mut found);
    head_reservations::check(state, now, once, &mut found);
    check_unavailable(state, now, plan, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Checks each decision by itself; returns the tasks that start.
fn check_decisions<'a>(
    state: &'a State,
    now: Time,
    plan: &'a Plan,
    found: &mut Vec<Violation>,
) -> Tasks<'a> {
    let mut held = Tasks::with_capacity(plan.decisions.len());
    let mut seen: SmallVec<[ElementId; 4]> = SmallVec::new();
    let mut started_of: FxHashMap<JobId, u32> = FxHashMap::default();
    let relocations = Relocations::of(plan);
    let revoked = revoked(state, plan);
    let mut nominated: FxHashMap<ElementId, &Arc<[TaskPlacement]>> = FxHashMap::default();
    for decision in &plan.decisions {
        let (element, placement) = match decision {
            Decision::Start { id, placement, .. } => (id.element, placement),
            Decision::Nominate { element, placement, .. } => (*element, placement),
            Decision::Revoke { .. } => continue,
        };
        let Some(job) = state.jobs.get(&element.job) else {
            found.push(Violation::Unknown(element));
            continue;
        };
        // An allocation nominated by this plan may start at once, on its places only; the
        // nomination was checked.
        if let Decision::Start { id, .. } = decision
            && let Some(places) = nominated.remove(&element)
        {
            found.extend((places != placement).then_some(Violation::NotAsNominated(element)));
            check_attempt(job, *id, found);
            held.extend(placement.iter().map(|task| (task.node, job, task)));
            continue;
        }
        if matches!(decision, Decision::Nominate { .. }) {
            nominated.insert(element, placement);
        }
        // 1. It may start, with the next attempt number.
        seen.push(element);
        let is_relocated = relocations.has(state, element);
        check_startable(job, now, element, is_relocated, found);
        if let Some(cap) = job.record.spec.array.as_ref().and_then(|array| array.max_running) {
            let more = started_of.entry(element.job).or_default();
            *more += u32::from(!is_relocated && !has_pending_allocation(job, element));
            let revoked = revoked.get(&element.job).copied().unwrap_or(0);
            check_cap(state, job, element.job, (*more, cap + revoked), found);
        }
        if let Decision::Start { id, .. } = decision {
            check_attempt(job, *id, found);
        }
        // 2. Its gang is complete.
        check_gang(job, element, placement, found);
        // 3. Its tasks get what they ask for, on nodes that they may use.
        check_tasks(state, job, element, placement, found);
        topology::check(state, job, element, placement, found);
        topology::check_spread(state, job, element, placement, plan, found);
        if matches!(decision, Decision::Start { .. }) {
            held.extend(placement.iter().map(|task| (task.node, job, task)));
        }
    }
    seen.sort_unstable();
    found.extend(
        seen.windows(2).filter(|two| two[0] == two[1]).map(|two| Violation::StartedTwice(two[0])),
    );
    held
}

/// Checks drains and advance reservations, now and when reservations begin.
fn check_unavailable(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    drained::check(state, now, plan, found);
    advance_reservations::check(state, now, plan, found);
    topology::check_reserved(state, plan, found);
}

/// Returns, by job, the number of elements that give up their pending allocation and hold nothing;
/// elements that hold resources count anyway.
fn revoked(state: &State, plan: &Plan) -> FxHashMap<JobId, u32> {
    let holds = |id: ElementId| state.element(id).is_some_and(|one| one.phase == Phase::Active);
    let mut revoked: FxHashMap<JobId, u32> = FxHashMap::default();
    for decision in &plan.decisions {
        if let Decision::Revoke { element } = decision
            && !holds(*element)
        {
            *revoked.entry(element.job).or_default() += 1;
        }
    }
    revoked
}

/// Returns the plan without starts of allocations that it nominates itself: the nomination counts.
fn without_nominated_starts(plan: &Plan) -> Cow<'_, Plan> {
    if !plan.decisions.iter().any(|decision| matches!(decision, Decision::Nominate { .. })) {
        return Cow::Borrowed(plan);
    }
    let mut nominated = FxHashSet::default();
    let mut plan = plan.clone();
    plan.decisions.retain(|decision| match decision {
        Decision::Nominate { element, .. } => {
            nominated.insert(*element);
            true
        }
        Decision::Start { id, .. } => !nominated.contains(&id.element),
        Decision::Revoke { .. } => true,
    });
    Cow::Owned(plan)
}

/// Every start of a plan must have an effect.
pub(crate) fn starts_have_effects(plan: &Plan, effects: &[Effect]) -> Vec<Violation> {
    let prepared: BTreeSet<AttemptId> = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Prepare { .. }))
        .map(Effect::id)
        .collect();
    plan.starts()
        .map(|(id, ..)| id)
        .filter(|id| !prepared.contains(id))
        .map(Violation::NoEffect)
        .collect()
}

/// Attempts are numbered consecutively.
fn check_attempt(job: &Job, id: AttemptId, found: &mut Vec<Violation>) {
    let record = &job.record;
    let known =
        record.ordinal_of(id.element.index).and_then(|ordinal| record.elements.get(&ordinal));
    let expected = known.map_or(0, |known| known.attempt) + 1;
    if id.attempt.0 != expected {
        found.push(Violation::WrongAttempt { id, expected });
    }
}

/// True when the element had a pending allocation before.
fn has_pending_allocation(job: &Job, element: ElementId) -> bool {
    let ordinal = job.record.ordinal_of(element.index);
    let known = ordinal.and_then(|ordinal| job.record.elements.get(&ordinal));
    known.is_some_and(|known| known.pending_allocation.is_some())
}

/// Checks that an element may start; `goes_on` is true if it is only relocated or resized.
pub(super) fn check_startable(
    job: &Job,
    now: Time,
    element: ElementId,
    is_relocated: bool,
    found: &mut Vec<Violation>,
) {
    let record = &job.record;
    let Some(ordinal) = record.ordinal_of(element.index) else {
        found.push(Violation::Unknown(element));
        return;
    };
    let known = record.elements.get(&ordinal);
    let refused = match known.map(|known| &known.phase) {
        Some(Phase::Active) if is_relocated => None,
        Some(Phase::Active) => Some("it is active"),
        Some(Phase::Ended { .. }) => Some("it has ended"),
        Some(Phase::Waiting { held: true, .. }) => Some("it is on hold"),
        Some(Phase::Waiting { not_before, .. }) if *not_before > now => {
            Some("its back-off is not over")
        }
        None if record.rest.as_ref().is_some_and(|rest| ordinal >= rest.from) => {
            Some("it has ended")
        }
        None if record.held => Some("it is on hold"),
        _ if record.spec.begin.is_some_and(|begin| begin > now) => Some("its begin time is later"),
        _ if !record.waits_for.is_empty() => Some("its dependencies are not satisfied"),
        _ => None,
    };
    found.extend(refused.map(|why| Violation::NotStartable(element, why)));
}

/// Checks the limit on running elements of an array: `more` is the number of elements that the plan
/// starts or nominates so far without those that count before; `cap` is the limit plus the
/// allocations that the plan gives up.
fn check_cap(
    state: &State,
    job: &Job,
    id: JobId,
    (more, cap): (u32, u32),
    found: &mut Vec<Violation>,
) {
    let record = &job.record;
    // An array may have a million elements, of which few have a pending allocation.
    let pending = || {
        let allocations = state.pending_allocations.elements.range((id, 0)..=(id, u32::MAX));
        let known = allocations.filter_map(|(_, ordinal)| record.elements.get(ordinal));
        known
            .filter(|known| known.phase != Phase::Active && known.pending_allocation.is_some())
            .count() as u32
    };
    if more > 0 && record.active + pending() + more > cap {
        found.push(Violation::ArrayCap(id));
    }
}

pub(super) fn check_gang(
    job: &Job,
    element: ElementId,
    placement: &[TaskPlacement],
    found: &mut Vec<Violation>,
) {
    if let Some(rank) = placement.windows(2).position(|pair| pair[0].group > pair[1].group) {
        found.push(Violation::WrongTask {
            element,
            rank: rank as u32 + 1,
            what: "groups are out of order",
        });
    }
    for (index, group) in job.record.spec.groups.iter().enumerate() {
        let tasks = placement.iter().filter(|task| usize::from(task.group) == index);
        let count = tasks.clone().count() as u32;
        let min = group.min_tasks;
        let max = group.max_tasks;
        if count < min || count > max {
            found.push(Violation::PartialGang {
                element,
                group: index as u16,
                tasks: count,
                min,
                max,
            });
        }
        let Some(block) = group.tasks_per_node else { continue };
        let mut per_node: FxHashMap<NodeId, u32> = FxHashMap::default();
        tasks.for_each(|task| *per_node.entry(task.node).or_default() += 1);
        if let Some(node) =
            per_node.iter().filter(|(_, count)| **count != block).map(|(node, _)| *node).min()
        {
            found.push(Violation::WrongNode {
                element,
                node,
                what: "it has the wrong number of tasks",
            });
        }
    }
}

pub(super) fn check_tasks(
    state: &State,
    job: &Job,
    element: ElementId,
    placement: &[TaskPlacement],
    found: &mut Vec<Violation>,
) {
    let spec = &job.record.spec;
    for (rank, task) in placement.iter().enumerate() {
        let rank = rank as u32;
        let Some(group) = spec.groups.get(usize::from(task.group)) else {
            found.push(Violation::WrongTask { element, rank, what: "no such group" });
            continue;
        };
        let Some(node) = state.pool.get(task.node) else {
            found.push(Violation::WrongNode { element, node: task.node, what: "no such node" });
            continue;
        };
        let labels = &spec.constraint.labels;
        let refused = match () {
            () if !node.up => Some("it is lost"),
            () if spec.constraint.exclude.contains(&node.spec.name) => Some("the job excludes it"),
            () if labels.iter().any(|(key, value)| node.spec.labels.get(key) != Some(value)) => {
                Some("its labels do not match")
            }
            () => None,
        };
        found.extend(refused.map(|what| Violation::WrongNode { element, node: task.node, what }));
        if let Some(what) = wrong_devices(state, group, task) {
            found.push(Violation::WrongTask { element, rank, what });
        }
    }
}

/// Returns what is wrong with a task's devices.
fn wrong_devices(state: &State, group: &TaskGroup, task: &TaskPlacement) -> Option<&'static str> {
    let request = &group.task.gpu;
    let (count, share) = match (request.devices, request.share.0) {
        (0, 0) => (0, 0),
        (0, share) => (1, share),
        (devices, _) => (devices, 1000),
    };
    if task.devices.len() != count {
        return Some("it has the wrong number of devices");
    }
    if task.share.0 != share {
        return Some("it has the wrong share");
    }
    let node = state.pool.node(task.node);
    let mut models =
        task.devices.iter().map(|device| node.spec.devices.get(device).map(|device| &device.model));
    let first = models.next()?;
    let Some(model) = first else { return Some("the node has no such device") };
    if !request.models.is_empty() && !request.models.contains(model) {
        return Some("it does not accept the model");
    }
    models.any(|other| other != Some(model)).then_some("its devices are not of one model")
}

/// Checks on every node that present holdings and new starts fit.
fn check_free_capacity(state: &State, held: &mut Tasks<'_>, found: &mut Vec<Violation>) {
    held.sort_by_key(|(node, ..)| *node);
    for tasks in held.chunk_by(|(one, ..), (next, ..)| one == next) {
        let id = tasks[0].0;
        let Some(node) = state.pool.get(id) else { continue };
        let mut all = held_quantities(state, node);
        let mut added = NodeSum::default();
        for (_, job, task) in tasks {
            let Some(needs) = needs_of(job, task) else { continue };
            for device in task.devices.iter() {
                all.devices.entry(device, || u64::from(node.held_of(device)));
            }
            all.add(task, needs);
            added.add(task, needs);
        }
        found.extend(all.excess(&added, id, &state.pool, true));
    }
}

/// Returns the quantities held on a node; devices are added where they matter.
fn held_quantities(state: &State, node: &Node) -> NodeSum {
    let extras = node.used.extras.iter();
    NodeSum {
        cpus: node.used.cpus,
        memory: node.used.memory,
        extras: extras
            .filter_map(|(id, count)| Some((Arc::clone(state.pool.extra_name(*id)?), *count)))
            .collect(),
        ..NodeSum::default()
    }
}

/// Returns the request of one task.
pub(super) fn needs_of<'j>(job: &'j Job, task: &TaskPlacement) -> Option<&'j Resources> {
    job.record.spec.groups.get(usize::from(task.group)).map(|group| &group.task)
}

//! Checks a plan: each element may start, its gang is complete and correct, everything fits, and
//! limits, quotas and reservations are respected.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{
    AttemptId, Decision, Effect, ElementId, JobId, NodeId, Plan, TaskPlacement, Time,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::gang::{check_gang, check_startable, check_tasks, needs_of};
use super::ledger::NodeSum;
use super::resized::Relocations;
use super::{
    Violation, advance_reservations, borrowed, budget, drained, head_reservations,
    pending_allocations, quota, reserved, topology,
};
use crate::pool::node::Node;
use crate::state::State;
use crate::state::job::{Job, Phase};

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
    let holds =
        |id: ElementId| state.jobs.element(id).is_some_and(|one| one.phase == Phase::Active);
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

//! Judges a plan: may each element start, is its gang whole and right, does everything fit, are
//! limits, quotas and reservations kept?

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::job::{Resources, TaskGroup};
use muster_model::{
    AttemptId, Decision, Effect, ElementId, JobId, NodeId, Plan, TaskPlacement, Time,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::ledger::Sum;
use super::resized::GoingOn;
use super::{
    Violation, borrowed, budget, claims, drained, patience, quota, reserved, topology, windows,
};
use crate::state::State;
use crate::state::job::{Job, Phase};
use crate::state::node::Node;

/// What a plan starts: on which node, whose task.
type Tasks<'a> = SmallVec<[(NodeId, &'a Job, &'a TaskPlacement); 4]>;

/// Everything that is wrong with a plan.
pub(crate) fn check(state: &State, now: Time, plan: &Plan) -> Result<(), Vec<Violation>> {
    if plan.is_empty() && plan.reservations.is_empty() && plan.keeps.is_empty() {
        return Ok(());
    }
    let mut found = Vec::new();
    let mut held = Tasks::with_capacity(plan.decisions.len());
    let mut seen: SmallVec<[ElementId; 4]> = SmallVec::new();
    let mut started_of: FxHashMap<JobId, u32> = FxHashMap::default();
    let (going_on, given_up) = (GoingOn::of(plan), given_up(state, plan));
    let mut promised: FxHashMap<ElementId, &Arc<[TaskPlacement]>> = FxHashMap::default();
    for decision in &plan.decisions {
        let (element, placement) = match decision {
            Decision::Start { id, placement, .. } => (id.element, placement),
            Decision::Claim { element, placement, .. } => (*element, placement),
            Decision::Unclaim { .. } => continue,
        };
        let Some(job) = state.jobs.get(&element.job) else {
            found.push(Violation::Unknown(element));
            continue;
        };
        // What was just promised may start at once, there and nowhere else; judged is the promise.
        if let Decision::Start { id, .. } = decision
            && let Some(places) = promised.remove(&element)
        {
            found.extend((places != placement).then_some(Violation::NotAsClaimed(element)));
            check_attempt(job, *id, &mut found);
            held.extend(placement.iter().map(|task| (task.node, job, task)));
            continue;
        }
        if matches!(decision, Decision::Claim { .. }) {
            promised.insert(element, placement);
        }
        // 1. May it start, and is it a new attempt?
        seen.push(element);
        let goes_on = going_on.has(state, element);
        check_startable(job, now, element, goes_on, &mut found);
        if let Some(cap) = job.record.spec.array.as_ref().and_then(|array| array.max_running) {
            let more = started_of.entry(element.job).or_default();
            *more += u32::from(!goes_on && !is_claimed(job, element));
            let given_up = given_up.get(&element.job).copied().unwrap_or(0);
            check_cap(state, job, element.job, (*more, cap + given_up), &mut found);
        }
        if let Decision::Start { id, .. } = decision {
            check_attempt(job, *id, &mut found);
        }
        // 2. Is the gang whole, and each task right?
        check_gang(job, element, placement, &mut found);
        // 3. Does each task go where it may?
        check_tasks(state, job, element, placement, &mut found);
        topology::check(state, job, element, placement, &mut found);
        topology::check_spread(state, job, element, placement, plan, &mut found);
        if matches!(decision, Decision::Start { .. }) {
            held.extend(placement.iter().map(|task| (task.node, job, task)));
        }
    }
    seen.sort_unstable();
    found.extend(
        seen.windows(2).filter(|two| two[0] == two[1]).map(|two| Violation::StartedTwice(two[0])),
    );
    // 4. Is there enough of everything?
    check_room(state, &mut held, &mut found);
    // 5. Claims, limits, quotas, reservations.
    let once = &without_starts_of_promises(plan);
    claims::check(state, now, once, &mut found);
    quota::check(state, once, &mut found);
    borrowed::check(state, once, &mut found);
    budget::check(state, now, once, &mut found);
    reserved::check(state, now, once, &mut found);
    patience::check(state, now, once, &mut found);
    check_unavailable(state, now, plan, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// What is out of service or set aside, now and when reservations begin.
fn check_unavailable(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    drained::check(state, now, plan, found);
    windows::check(state, now, plan, found);
    topology::check_reserved(state, plan, found);
}

/// How many elements of each job give up what they were promised, and hold nothing: what does
/// counts all the same.
fn given_up(state: &State, plan: &Plan) -> FxHashMap<JobId, u32> {
    let holds = |id: ElementId| state.element(id).is_some_and(|one| one.phase == Phase::Active);
    let mut given_up: FxHashMap<JobId, u32> = FxHashMap::default();
    for decision in &plan.decisions {
        if let Decision::Unclaim { element } = decision
            && !holds(*element)
        {
            *given_up.entry(element.job).or_default() += 1;
        }
    }
    given_up
}

/// A plan without the starts of what it promises itself: a promise counts as much.
fn without_starts_of_promises(plan: &Plan) -> Cow<'_, Plan> {
    if !plan.decisions.iter().any(|decision| matches!(decision, Decision::Claim { .. })) {
        return Cow::Borrowed(plan);
    }
    let mut promised = FxHashSet::default();
    let mut plan = plan.clone();
    plan.decisions.retain(|decision| match decision {
        Decision::Claim { element, .. } => {
            promised.insert(*element);
            true
        }
        Decision::Start { id, .. } => !promised.contains(&id.element),
        Decision::Unclaim { .. } => true,
    });
    Cow::Owned(plan)
}

/// Every start of a plan must have left as an effect.
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

/// Attempts are numbered one by one.
fn check_attempt(job: &Job, id: AttemptId, found: &mut Vec<Violation>) {
    let record = &job.record;
    let known =
        record.ordinal_of(id.element.index).and_then(|ordinal| record.elements.get(&ordinal));
    let expected = known.map_or(0, |known| known.attempt) + 1;
    if id.attempt.0 != expected {
        found.push(Violation::WrongAttempt { id, expected });
    }
}

/// Was it promised places before?
fn is_claimed(job: &Job, element: ElementId) -> bool {
    let ordinal = job.record.ordinal_of(element.index);
    let known = ordinal.and_then(|ordinal| job.record.elements.get(&ordinal));
    known.is_some_and(|known| known.claim.is_some())
}

/// May it start at all? `goes_on`: it only changes its size.
pub(super) fn check_startable(
    job: &Job,
    now: Time,
    element: ElementId,
    goes_on: bool,
    found: &mut Vec<Violation>,
) {
    let record = &job.record;
    let Some(ordinal) = record.ordinal_of(element.index) else {
        found.push(Violation::Unknown(element));
        return;
    };
    let known = record.elements.get(&ordinal);
    let refused = match known.map(|known| &known.phase) {
        Some(Phase::Active) if goes_on => None,
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
        _ if record.spec.begin.is_some_and(|begin| begin > now) => Some("its time has not come"),
        _ if !record.waits_for.is_empty() => Some("it waits for another job"),
        _ => None,
    };
    found.extend(refused.map(|why| Violation::NotStartable(element, why)));
}

/// `more` is how many elements of a job the plan starts or promises places, up to one of them, and
/// without those that count before; `cap` is what may run beside what gives up a promise.
fn check_cap(
    state: &State,
    job: &Job,
    id: JobId,
    (more, cap): (u32, u32),
    found: &mut Vec<Violation>,
) {
    let record = &job.record;
    // An array may have a million elements, of which few are promised anything.
    let promised = || {
        let claims = state.claims.of.range((id, 0)..=(id, u32::MAX));
        let known = claims.filter_map(|(_, ordinal)| record.elements.get(ordinal));
        known.filter(|known| known.phase != Phase::Active && known.claim.is_some()).count() as u32
    };
    if more > 0 && record.active + promised() + more > cap {
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
        let (min, max) = (group.min_tasks, group.max_tasks);
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
                what: "it has not the tasks of one block",
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

/// What is wrong with a task's devices.
fn wrong_devices(state: &State, group: &TaskGroup, task: &TaskPlacement) -> Option<&'static str> {
    let request = &group.task.gpu;
    let (count, share) = match (request.devices, request.share.0) {
        (0, 0) => (0, 0),
        (0, share) => (1, share),
        (devices, _) => (devices, 1000),
    };
    if task.devices.len() != count {
        return Some("it has not the number of devices that it asks for");
    }
    if task.share.0 != share {
        return Some("it has not the share that it asks for");
    }
    let node = state.pool.node(task.node);
    let mut models =
        task.devices.iter().map(|device| node.spec.devices.get(device).map(|device| &device.model));
    let first = models.next()?;
    let Some(model) = first else { return Some("the node has no such device") };
    if !request.models.is_empty() && !request.models.contains(model) {
        return Some("the model is not among those that it accepts");
    }
    models.any(|other| other != Some(model)).then_some("its devices are not of one model")
}

/// On every node, what is held already and what starts there.
fn check_room(state: &State, held: &mut Tasks<'_>, found: &mut Vec<Violation>) {
    held.sort_by_key(|(node, ..)| *node);
    for tasks in held.chunk_by(|(one, ..), (next, ..)| one == next) {
        let id = tasks[0].0;
        let Some(node) = state.pool.get(id) else { continue };
        let (mut all, mut added) = (held_quantities(state, node), Sum::default());
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

/// Quantities that a node's holders have; devices are added where they matter.
fn held_quantities(state: &State, node: &Node) -> Sum {
    let extras = node.used.extras.iter();
    Sum {
        cpus: node.used.cpus,
        memory: node.used.memory,
        extras: extras
            .filter_map(|(id, count)| Some((Arc::clone(state.pool.extra_name(*id)?), *count)))
            .collect(),
        ..Sum::default()
    }
}

/// What one task asks for.
pub(super) fn needs_of<'j>(job: &'j Job, task: &TaskPlacement) -> Option<&'j Resources> {
    job.record.spec.groups.get(usize::from(task.group)).map(|group| &group.task)
}

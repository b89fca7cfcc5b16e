//! Checks pending allocations: victims may be evicted for the stated cause, everything allocated
//! fits once they have ended, and no victim could have stayed.

use std::collections::BTreeMap;

use muster_model::{
    Decision, ElementId, Eviction, EvictionCause, GpuModel, NodeId, Plan, Protection, QueueName,
    QueueSpec, TaskPlacement, Tier, Time,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::counted::{self, CountedAllocation, model_of, pending};
use super::gang::{needs_of, priority_and_protection};
use super::ledger::NodeSum;
use super::{Violation, borrowed, quota, resized};
use crate::state::State;
use crate::state::job::{Job, Run, RunStage};

/// Maximum number of victims for which the quota check is repeated: each repetition walks the tree.
const MAX_QUOTA_CHECKS: usize = 32;

pub(super) fn check(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    check_nominated_starts(state, plan, found);
    let is_nomination = |decision: &Decision| matches!(decision, Decision::Nominate { .. });
    if state.pending_allocations.elements.is_empty() && !plan.decisions.iter().any(is_nomination) {
        return;
    }
    check_eligibility(state, now, plan, found);
    resized::check_moves(state, now, plan, found);
    let after = after_evictions(state, plan);
    for (node, (all, asked)) in &after {
        found.extend(all.excess(asked, *node, &state.pool, true));
    }
    check_needed(state, plan, &after, found);
}

/// A pending allocation starts on its places and nowhere else.
fn check_nominated_starts(state: &State, plan: &Plan, found: &mut Vec<Violation>) {
    for (id, placement, _) in plan.starts() {
        let is_kept = counted::pending_unless_revoked(state, plan, id.element)
            .is_none_or(|allocation| allocation.placement == placement);
        if !is_kept {
            found.push(Violation::NotAsNominated(id.element));
        }
    }
    for decision in &plan.decisions {
        let element = match decision {
            Decision::Nominate { element, .. }
                if counted::pending_unless_revoked(state, plan, *element).is_some() =>
            {
                element
            }
            Decision::Revoke { element } if pending(state, *element).is_none() => element,
            _ => continue,
        };
        found.push(Violation::NotAsNominated(*element));
    }
}

/// Use of each queue and model, as the decisions of a plan change it one by one.
struct QueueUses<'a> {
    state: &'a State,
    by_queue: BTreeMap<(QueueName, GpuModel), u64>,
}

impl<'a> QueueUses<'a> {
    /// Uses the policy's counters; whether they are right is a check of the state, not of a plan.
    fn before(state: &'a State) -> Self {
        let views = state.policy.queue_views(Time(0)).into_iter();
        let rows = views.flat_map(|view| {
            let name = view.name;
            view.gpus.into_iter().map(move |row| ((name.clone(), row.model), u64::from(row.used.0)))
        });
        Self { state, by_queue: rows.collect() }
    }

    fn add_start(&mut self, job: &Job, gpus: &BTreeMap<GpuModel, u64>) {
        for (model, milli) in gpus {
            self.add(leaf_of(self.state, job), model, *milli, true);
        }
    }

    fn remove(&mut self, one: &CountedAllocation<'_>) {
        for (model, milli) in one.gpus {
            let model = self.state.policy.models().name(*model);
            self.add(leaf_of(self.state, one.job), model, *milli, false);
        }
    }

    fn add(&mut self, leaf: &QueueName, model: &GpuModel, milli: u64, adds: bool) {
        for queue in path(leaf) {
            let used = self.by_queue.entry((queue, model.clone())).or_default();
            *used = if adds { *used + milli } else { used.saturating_sub(milli) };
        }
    }

    fn of(&self, queue: &QueueName, model: &GpuModel) -> u64 {
        self.by_queue.get(&(queue.clone(), model.clone())).copied().unwrap_or(0)
    }
}

/// Checks that the victims of a plan are eligible for eviction.
fn check_eligibility(state: &State, now: Time, plan: &Plan, found: &mut Vec<Violation>) {
    let mut uses = QueueUses::before(state);
    let mut gone = FxHashSet::default();
    let mut smaller = FxHashSet::default();
    for decision in &plan.decisions {
        match decision {
            Decision::Start { id, placement, .. }
                if counted::pending_unless_revoked(state, plan, id.element).is_none() =>
            {
                let Some(job) = state.jobs.get(&id.element.job) else { continue };
                uses.add_start(job, &by_model(state, placement));
            }
            Decision::Start { .. } => {}
            Decision::Revoke { element } => {
                if let Some(allocation) = pending(state, *element) {
                    uses.remove(&allocation);
                }
            }
            Decision::Nominate { element, placement, evict } => {
                let Some(candidate) = state.jobs.get(&element.job) else { continue };
                let asked = by_model(state, placement);
                for eviction in evict {
                    let is_new = gone.insert(eviction.id);
                    let victim = counted::running(state, eviction.id).filter(|_| is_new);
                    let Some(victim) = victim.filter(|victim| !is_stopping(state, victim.element))
                    else {
                        found.push(Violation::NotEvictable(eviction.id, "it is not running"));
                        continue;
                    };
                    let requester = (candidate, *element);
                    let wrong = wrong_eviction(
                        (state, now, plan),
                        *eviction,
                        &victim,
                        requester,
                        &asked,
                        &uses,
                    );
                    found.extend(wrong.map(|why| Violation::NotEvictable(eviction.id, why)));
                    let needed = asked.values().sum();
                    if eviction.cause == EvictionCause::Reclaimed
                        && is_exempt(state, now, &victim, needed, requester)
                    {
                        found.push(Violation::LosesMuchWork(eviction.id));
                    }
                    uses.remove(&victim);
                    // A victim that shrinks continues to count with its remaining tasks.
                    if eviction.cause == EvictionCause::Shrunk {
                        let kept = resized::nominated(plan, eviction.id).unwrap_or_default();
                        uses.add_start(victim.job, &by_model(state, kept));
                        smaller.insert(victim.element);
                    }
                }
                if !smaller.contains(element) {
                    uses.add_start(candidate, &asked);
                }
            }
        }
    }
}

fn is_stopping(state: &State, id: ElementId) -> bool {
    let run = state.jobs.element(id).and_then(|element| element.run.as_ref());
    run.is_some_and(|run| matches!(run.stage, RunStage::Stopping(_)))
}

/// Returns why an attempt may not be evicted.
fn wrong_eviction(
    (state, now, plan): (&State, Time, &Plan),
    eviction: Eviction,
    victim: &CountedAllocation<'_>,
    (candidate, element): (&Job, ElementId),
    asked: &BTreeMap<GpuModel, u64>,
    uses: &QueueUses<'_>,
) -> Option<&'static str> {
    let tree = state.policy.tree();
    let to = leaf_of(state, candidate);
    let from = leaf_of(state, victim.job);
    if eviction.cause == EvictionCause::Grown {
        return resized::wrong_growth(state, now, plan, eviction.id, element);
    }
    let is_move = eviction.cause == EvictionCause::Moved;
    if !candidate.record.spec.preempts && !is_move {
        return Some("the candidate preempts no job");
    }
    // 1. Protection by its job or its queue.
    let of_queue = path(from).rev().find_map(|queue| find(&tree.queues, &queue)?.protect);
    let terms = (
        priority_and_protection(victim.job, victim.element),
        priority_and_protection(candidate, element),
    );
    let ((order, protect), (candidate_order, _)) = terms;
    let safe = [protect, of_queue.unwrap_or_default()];
    let run = state.jobs.element(victim.element).and_then(|found| found.run.as_ref());
    let began = run.map_or(victim.from, Run::since);
    if safe.into_iter().any(|one: Protection| one.until(began) > now) {
        return Some("it is protected");
    }
    // 2. Eligibility for the stated cause.
    match eviction.cause {
        EvictionCause::Grown => None,
        EvictionCause::Moved => resized::wrong_move(state, plan, eviction.id, candidate_order),
        EvictionCause::Shrunk => resized::wrong_shrink(state, plan, eviction.id, candidate_order),
        EvictionCause::Opportunistic => {
            let is_right = Tier::of_order(order) == Tier::Opportunistic
                && Tier::of_order(candidate_order) == Tier::Normal;
            let is_on = tree.preemption.priority || tree.preemption.reclaim;
            (!is_right || !is_on).then_some(
                "it is not opportunistic, the candidate is opportunistic, or preemption is off",
            )
        }
        EvictionCause::Outranked => {
            let is_right = tree.preemption.priority && to == from && order < candidate_order;
            (!is_right).then_some("it is not of lower priority in the same queue")
        }
        EvictionCause::Reclaimed if !tree.preemption.reclaim => Some("reclaim is off"),
        EvictionCause::Reclaimed if Tier::of_order(candidate_order) != Tier::Normal => {
            Some("the candidate is opportunistic")
        }
        EvictionCause::Reclaimed => {
            let held =
                |model| victim.gpus.iter().any(|(id, _)| state.policy.models().name(*id) == model);
            let is_owed = asked.iter().any(|(model, milli)| {
                held(model) && is_reclaimable(&tree.queues, (to, from), model, *milli, uses)
            });
            (!is_owed).then_some("its queue has nothing that the candidate's queue may reclaim")
        }
    }
}

/// True while a victim of a reclaim would lose more than `reclaim-after` for each GPU that the candidate takes from
/// it, and the candidate has waited less than that.
fn is_exempt(
    state: &State,
    now: Time,
    victim: &CountedAllocation<'_>,
    needed_milli: u64,
    (candidate, element): (&Job, ElementId),
) -> bool {
    let after = state.policy.tree().reclaim_after;
    let run = |element| state.jobs.element(element).and_then(|found| found.run.as_ref());
    let last_end = run(element).and_then(|run| run.ended);
    if now >= last_end.unwrap_or(candidate.record.submitted) + after {
        return false;
    }
    let unsaved = state.jobs.element(victim.element).and_then(|found| found.unsaved_since());
    let unsaved_ms = unsaved.map_or(0, |since| now.since(since).0);
    let held_milli: u64 = victim.gpus.iter().map(|(_, milli)| milli).sum();
    u128::from(held_milli) * u128::from(unsaved_ms)
        > u128::from(held_milli.min(needed_milli)) * u128::from(after.0)
}

/// True when the candidate's side stays within its nominal quota and the victim's side exceeds its
/// own, at every level below the common ancestor.
fn is_reclaimable(
    queues: &[QueueSpec],
    (to, from): (&QueueName, &QueueName),
    model: &GpuModel,
    milli: u64,
    uses: &QueueUses<'_>,
) -> bool {
    let nominal = |queue: &QueueName| find(queues, queue).map_or(0, |spec| nominal(spec, model));
    let to: Vec<_> = path(to).collect();
    let from: Vec<_> = path(from).collect();
    let shared = to.iter().zip(&from).take_while(|(one, other)| one == other).count();
    let Some(side) = to.get(shared) else { return false };
    uses.of(side, model) + milli <= nominal(side)
        && from.len() > shared
        && from[shared..].iter().all(|queue| uses.of(queue, model) > nominal(queue))
}

/// Returns, by node on which an element starts, what is held there once all victims have ended, and
/// what the elements to be started need.
fn after_evictions(state: &State, plan: &Plan) -> FxHashMap<NodeId, (NodeSum, NodeSum)> {
    let mut after: FxHashMap<NodeId, (NodeSum, NodeSum)> = FxHashMap::default();
    // 1. Starts and pending allocations.
    let mut starting = FxHashSet::default();
    for decision in &plan.decisions {
        let (element, placement) = match decision {
            Decision::Start { id, placement, .. } => (&id.element, placement),
            Decision::Nominate { element, placement, .. } => (element, placement),
            Decision::Revoke { .. } => continue,
        };
        starting.insert(*element);
        let Some(job) = state.jobs.get(&element.job) else { continue };
        for task in placement.iter() {
            let Some(needs) = needs_of(job, task) else { continue };
            let (all, asked) = after.entry(task.node).or_default();
            all.add(task, needs);
            asked.add(task, needs);
        }
    }
    // 2. Holdings that stay. Older pending allocations are not required to fit: nodes may have
    //    changed since.
    let gone: FxHashSet<ElementId> =
        counted::removed(state, plan).iter().map(|one| one.element).collect();
    let nodes: FxHashSet<NodeId> = after.keys().copied().collect();
    let stays = |one: &CountedAllocation<'_>| {
        !gone.contains(&one.element) && !starting.contains(&one.element)
    };
    for one in counted::on(state, &nodes).filter(stays) {
        for task in one.placement.iter() {
            let Some((all, _)) = after.get_mut(&task.node) else { continue };
            let Some(needs) = needs_of(one.job, task) else { continue };
            all.add(task, needs);
        }
    }
    after
}

/// No victim could have stayed: with it, the allocations do not fit, possibly beside reservations,
/// or a quota is exceeded.
fn check_needed(
    state: &State,
    plan: &Plan,
    after: &FxHashMap<NodeId, (NodeSum, NodeSum)>,
    found: &mut Vec<Violation>,
) {
    let mut asked = 0;
    for (at, decision) in plan.decisions.iter().enumerate() {
        let Decision::Nominate { evict, .. } = decision else { continue };
        for eviction in evict {
            let Some(victim) = counted::running(state, eviction.id) else { continue };
            // An element that is not moved needs no new places.
            let stays = (eviction.cause == EvictionCause::Moved).then(|| {
                let mut plan = plan.clone();
                let is_own = |one: &Decision| {
                    let id = eviction.id.element;
                    matches!(one, Decision::Nominate { element, .. } if *element == id)
                };
                plan.decisions.retain(|decision| !is_own(decision));
                after_evictions(state, &plan)
            });
            let after = stays.as_ref().unwrap_or(after);
            if eviction.cause == EvictionCause::Grown
                || conflicts(state, plan, &victim, *eviction, after)
            {
                continue;
            }
            asked += 1;
            let is_needed = || {
                exceeds_quota(state, plan, at, *eviction)
                    || conflicts(
                        state,
                        plan,
                        &victim,
                        *eviction,
                        &including_evicted(state, plan, at, after),
                    )
            };
            if asked <= MAX_QUOTA_CHECKS && !is_needed() {
                found.push(Violation::NotEvictable(eviction.id, "its eviction is not needed"));
            }
        }
    }
}

/// Returns the sums including all that is being evicted for other allocations: one allocation
/// cannot count on the evictions for another.
fn including_evicted(
    state: &State,
    plan: &Plan,
    allocation: usize,
    after: &FxHashMap<NodeId, (NodeSum, NodeSum)>,
) -> FxHashMap<NodeId, (NodeSum, NodeSum)> {
    let mut with = after.clone();
    let others = plan.decisions.iter().enumerate().filter(|(at, _)| *at != allocation);
    let evicted = others.filter_map(|(_, decision)| match decision {
        Decision::Nominate { evict, .. } => Some(evict),
        Decision::Start { .. } | Decision::Revoke { .. } => None,
    });
    let victims = evicted.flatten().filter_map(|eviction| counted::running(state, eviction.id));
    for one in victims.chain(counted::being_evicted(state)) {
        for task in one.placement.iter() {
            let (Some((all, _)), Some(needs)) = (with.get_mut(&task.node), needs_of(one.job, task))
            else {
                continue;
            };
            all.add(task, needs);
        }
    }
    with
}

fn conflicts(
    state: &State,
    plan: &Plan,
    victim: &CountedAllocation<'_>,
    eviction: Eviction,
    after: &FxHashMap<NodeId, (NodeSum, NodeSum)>,
) -> bool {
    let mut with: FxHashMap<NodeId, NodeSum> = FxHashMap::default();
    for task in resized::places_given_up(plan, victim, eviction.id, eviction.cause) {
        let Some((all, _)) = after.get(&task.node) else { continue };
        let Some(needs) = needs_of(victim.job, task) else { continue };
        with.entry(task.node).or_insert_with(|| all.clone()).add(task, needs);
    }
    for reservation in &plan.reservations {
        let Some(job) = state.jobs.get(&reservation.element.job) else { continue };
        for task in reservation.placement.iter() {
            let (Some(all), Some(needs)) = (with.get_mut(&task.node), needs_of(job, task)) else {
                continue;
            };
            all.add(task, needs);
        }
    }
    // It may also have collided with a reservation of an earlier round: later rounds of the pass
    // replace reservations.
    if !plan.reservations.is_empty() && !with.is_empty() {
        return true;
    }
    with.iter().any(|(node, all)| {
        let asked = &after[node].1;
        !all.excess(asked, *node, &state.pool, true).is_empty()
    })
}

/// True when without this eviction a quota is exceeded, after the plan or right after this
/// decision: a later decision may evict another element that frees more than needed.
fn exceeds_quota(state: &State, plan: &Plan, at: usize, spared: Eviction) -> bool {
    let mut plan = plan.clone();
    if let Decision::Nominate { evict, .. } = &mut plan.decisions[at] {
        evict.retain(|eviction| *eviction != spared);
    }
    let breaks = |plan: &Plan| {
        let mut found = Vec::new();
        quota::check(state, plan, &mut found);
        borrowed::check(state, plan, &mut found);
        !found.is_empty()
    };
    let in_the_end = breaks(&plan);
    plan.decisions.truncate(at + 1);
    in_the_end || breaks(&plan)
}

/// Returns the thousandths of GPUs by model that a placement holds.
fn by_model(state: &State, placement: &[TaskPlacement]) -> BTreeMap<GpuModel, u64> {
    let mut sums: BTreeMap<GpuModel, u64> = BTreeMap::new();
    for task in placement {
        if let Some(model) = model_of(state, task) {
            let milli = u64::from(task.devices.len()) * u64::from(task.share.0);
            *sums.entry(model.clone()).or_default() += milli;
        }
    }
    sums
}

fn leaf_of<'s>(state: &'s State, job: &Job) -> &'s QueueName {
    state.policy.queues().leaf_name(job.record.leaf)
}

/// Returns the queues from the top level down to a leaf.
fn path(leaf: &QueueName) -> impl DoubleEndedIterator<Item = QueueName> {
    let text = leaf.as_str();
    let ends = text.match_indices('/').map(|(at, _)| at).chain([text.len()]);
    ends.map(|end| QueueName::from(&text[..end])).collect::<Vec<_>>().into_iter()
}

fn find<'q>(queues: &'q [QueueSpec], path: &QueueName) -> Option<&'q QueueSpec> {
    let mut level = queues;
    let mut found = None;
    for name in path.as_str().split('/') {
        let queue = level.iter().find(|queue| &*queue.name == name)?;
        (found, level) = (Some(queue), &queue.queues);
    }
    found
}

/// Returns the quota of a queue, or the sum of its children's.
fn nominal(queue: &QueueSpec, model: &GpuModel) -> u64 {
    match queue.quota.get(model) {
        Some(gpus) => gpus.saturating_mul(1000),
        None => queue.queues.iter().map(|child| nominal(child, model)).sum(),
    }
}

//! Defragmentation: moves running jobs together for a gang that only scattered GPUs keep pending:
//! enough are free, but not on whole nodes, or not in one domain. The moved jobs save a checkpoint
//! and are nominated, by the same plan, for other nodes, on which they restart at once; the gang is
//! nominated for what they leave. Off unless the queue file enables it.
//!
//! **Victims**: running jobs of any queue that take checkpoints and are not protected; node by
//! node, the cheapest first, and no more than needed. **No victim returns to its queue**: moves
//! count only if every moved job has a new placement, so each plan starts one pending job and stops
//! none, and there are no loops. **Cost**: in GPU time, the moves cost less than the gang would
//! otherwise wait, and at most what is left of the budget for moves.

use std::cmp::Reverse;
use std::sync::Arc;

use muster_model::view::NotMovedReason;
use muster_model::{ElementId, EvictionCause, TaskPlacement, Tier, Time, WorkloadKind};
use muster_policy::{EntrySlot, LeafId, PER_GPU_HOUR, PER_GPU_SEC};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::PlanningPass;
use super::cache::classes::ClassCache;
use super::candidate::Candidate;
use super::elastic::{elastic_tasks, place_within_limits};
use super::pending::hold_exactly;
use super::preempt::{EvictionPlan, commit_eviction_plan, find_eviction_plan};
use super::victim::{Victim, VictimQueue};
use crate::place::classes::ClassId;
use crate::place::request::ModelChoice;
use crate::pool::shape::Shape;
use crate::state::attempt::gpus_by_model;
use crate::state::entries::UNLIMITED;
use crate::state::move_budget;

/// Most victims found to have no other placement before the search for a candidate ends.
const MAX_UNPLACEABLE: usize = 8;

/// Moves of one pass: their cost, and the candidates for which moving failed.
#[derive(Clone, Debug, Default)]
pub(super) struct PassMoves {
    /// Cost of the moves of this pass, in thousandths of GPUs × milliseconds.
    spent: u64,
    /// Candidates for which no job could be moved in this round (`None`), or only at too high a
    /// cost for one that otherwise starts by this time.
    pub(super) failed: FxHashMap<(LeafId, ClassId), Option<Time>>,
}

impl PassMoves {
    fn is_known_to_fail(&self, kind: (LeafId, ClassId), starts: Option<Time>) -> bool {
        let known = self.failed.get(&kind);
        known.is_some_and(|known| {
            known.is_none_or(|known| starts.is_some_and(|starts| starts <= known))
        })
    }
}

/// Moves running jobs together for a candidate. `starts` is its start without the move; `None`
/// if there is no reservation.
pub(super) fn defragment(
    pass: &mut PlanningPass<'_>,
    slot: EntrySlot,
    candidate: &Candidate,
    cached: &ClassCache,
    starts: Option<Time>,
) -> bool {
    let kind = (candidate.leaf, candidate.class);
    let is_off = pass.state.policy.tree().defragment.is_none();
    let is_opportunistic = Tier::of_order(candidate.priority) == Tier::Opportunistic;
    if is_off || is_opportunistic || pass.moves.is_known_to_fail(kind, starts) {
        return false;
    }
    let mut is_too_costly = false;
    for choice in cached.choices.iter() {
        let Some(eviction_plan) = find_moves(pass, candidate, cached, choice) else { continue };
        let cost = total_cost(&eviction_plan);
        match move_refusal(pass, candidate, &eviction_plan, starts) {
            None => {
                pass.moves.spent = pass.moves.spent.saturating_add(cost);
                commit_eviction_plan(pass, slot, candidate, eviction_plan);
                return true;
            }
            Some(NotMovedReason::BudgetSpent { refills_at, .. }) => {
                refills_at.into_iter().for_each(|at| pass.eligibility.replan_at(at));
            }
            Some(NotMovedReason::TooCostly { .. }) => is_too_costly = true,
            Some(NotMovedReason::Disabled) => {}
        }
    }
    pass.moves.failed.insert(kind, starts.filter(|_| is_too_costly));
    false
}

/// Returns an eviction plan, on the models of a choice, in which every moved job has a new
/// placement. Victims without one stay, and others are tried.
fn find_moves(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    cached: &ClassCache,
    choice: &ModelChoice,
) -> Option<EvictionPlan> {
    if !has_scattered_capacity(pass, &candidate.shape, choice) {
        return None;
    }
    let mut unplaceable = Vec::new();
    while unplaceable.len() < MAX_UNPLACEABLE {
        let order = movable_victims(pass, choice, &unplaceable);
        let mut eviction_plan =
            find_eviction_plan(pass, (candidate, cached, choice), order, |search, order| {
                search.evict_all_by_node(order)
            })?;
        match place_victims(pass, candidate, &mut eviction_plan) {
            None => return Some(eviction_plan),
            Some(element) => unplaceable.push(element),
        }
    }
    None
}

/// Returns true if as many whole devices are free as a gang needs, wherever they are.
fn has_scattered_capacity(
    pass: &mut PlanningPass<'_>,
    shape: &Shape,
    choice: &ModelChoice,
) -> bool {
    let devices =
        shape.groups.iter().map(|group| u64::from(group.tasks) * u64::from(group.devices));
    let asked: u64 = devices.sum();
    let mut models: SmallVec<[_; 2]> = choice.models.iter().flatten().copied().collect();
    models.sort_unstable();
    models.dedup();
    let index = pass.state.pool.index();
    let indexes = models.into_iter().filter_map(|model| index.model(model));
    let sizes = indexes.flat_map(|index| index.clear.sizes().chain(index.booked.sizes()));
    asked > 0 && sizes.map(|(free, nodes)| free * nodes).sum::<u64>() >= asked
}

/// Returns the running jobs on the models of a choice that may be moved, the cheapest first.
fn movable_victims(
    pass: &mut PlanningPass<'_>,
    choice: &ModelChoice,
    unplaceable: &[ElementId],
) -> VictimQueue {
    let mut order = Vec::new();
    let state = &*pass.state;
    let now = pass.now;
    for ((leaf, priority), attempts) in &state.preemptable.attempts {
        if state.policy.queues().is_budgeted(*leaf) {
            continue;
        }
        let of_queue = state.policy.queues().protection(*leaf);
        for (element, attempt) in attempts {
            let record = &state.jobs[&element.job].record;
            let takes_checkpoints =
                record.spec.checkpoint.is_some() && attempt.unsaved_since.is_some();
            let may_restart = !record.held && record.spec.kind == WorkloadKind::Task;
            let is_on_models = attempt
                .gpus
                .iter()
                .any(|(model, _)| choice.models.iter().flatten().any(|one| one == model));
            let is_excluded = pass.evicted.contains(&attempt.key) || unplaceable.contains(element);
            if !takes_checkpoints || !may_restart || !is_on_models || is_excluded {
                continue;
            }
            let safe_until = attempt.protect.max(of_queue).until(attempt.held_from);
            if pass.eligibility.is_protected(now, safe_until) {
                continue;
            }
            let cost = attempt.cost_of_move(now);
            let age = Reverse((attempt.held_from, *element));
            order.push(Reverse(((EvictionCause::Moved, *priority, cost, age, Reverse(0)), *leaf)));
        }
    }
    order.into()
}

/// Finds a new placement beside the candidate for every moved job, the largest first. Returns
/// the first element without one.
fn place_victims(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    eviction_plan: &mut EvictionPlan,
) -> Option<ElementId> {
    let mark = pass.state.pool.mark();
    // 1. Evict the victims and place the candidate.
    eviction_plan.evicted.sort_by_key(|evicted| Reverse(evicted.victim.milli()));
    let delay = eviction_plan.delay();
    for evicted in &eviction_plan.evicted {
        pass.state.pool.park(evicted.victim.key);
        evicted.victim.count_evicted(&mut pass.state.policy, true);
    }
    let until = candidate.duration.map_or(Time::NEVER, |span| pass.now + delay + span);
    let outer = pass.state.pool.view_inside(candidate.shape.reservation.as_ref());
    let is_placed =
        hold_exactly(pass, candidate.element, &eviction_plan.placement, &candidate.shape, until);
    debug_assert!(is_placed, "the plan was found with this placement");
    pass.state.pool.set_view(outer);
    let gpus = gpus_by_model(&pass.state.pool, &eviction_plan.placement);
    pass.state.policy.try_hold(candidate.leaf, candidate.user, &gpus);
    // 2. Place the victims one after the other.
    let mut placed = Vec::new();
    let mut unplaceable = None;
    for evicted in &mut eviction_plan.evicted {
        let victim = &evicted.victim;
        let Some(placement) = new_placement(pass, victim) else {
            unplaceable = Some(victim.id.element);
            break;
        };
        let gpus = gpus_by_model(&pass.state.pool, &placement);
        pass.state.policy.try_hold(victim.leaf, victim.user, &gpus);
        placed.push((victim.leaf, victim.user, gpus));
        evicted.restart_placement = Some(placement);
    }
    // 3. Undo everything; the decision is made from what was found.
    placed.iter().for_each(|(leaf, user, gpus)| pass.state.policy.undo_hold(*leaf, *user, gpus));
    pass.state.policy.undo_hold(candidate.leaf, candidate.user, &gpus);
    eviction_plan
        .evicted
        .iter()
        .for_each(|evicted| evicted.victim.count_evicted(&mut pass.state.policy, false));
    pass.state.pool.rollback(mark);
    unplaceable
}

/// Returns a placement on which a victim restarts in its present size, within its limits and
/// quota.
fn new_placement(pass: &mut PlanningPass<'_>, victim: &Victim) -> Option<Arc<[TaskPlacement]>> {
    let ElementId { job: id, index } = victim.id.element;
    let job = &pass.state.jobs[&id];
    let ordinal = job.record.ordinal_of(index)?;
    let run = job.record.elements.get(&ordinal)?.run.as_ref()?;
    let size =
        job.record.spec.elastic().map(|elastic| (elastic.group, elastic_tasks(run, elastic)));
    let mut candidate = pass.candidate_of(id, job, ordinal);
    candidate.delay(victim.delay);
    if let Some((group, tasks)) = size {
        candidate.shape = Arc::new(candidate.shape.resized(group, tasks));
    }
    place_within_limits(pass, &candidate).map(|(_, placement)| placement)
}

/// Returns the jobs that would have to move for a candidate, the cost in thousandths of GPUs ×
/// milliseconds, and the objection; `None` if no set of moves helps, or nothing objects.
pub(crate) fn why_not_moved(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    starts: Option<Time>,
) -> Option<(Vec<ElementId>, u64, NotMovedReason)> {
    if Tier::of_order(candidate.priority) == Tier::Opportunistic {
        return None;
    }
    let cached = pass.class_cache(candidate.class).clone();
    let eviction_plans =
        cached.choices.iter().filter_map(|choice| find_moves(pass, candidate, &cached, choice));
    let eviction_plan = eviction_plans.min_by_key(total_cost)?;
    let why = move_refusal(pass, candidate, &eviction_plan, starts)?;
    Some((
        eviction_plan.evicted.iter().map(|evicted| evicted.victim.id.element).collect(),
        total_cost(&eviction_plan),
        why,
    ))
}

/// Checks that moves are enabled, within the budget, and cheaper than what the candidate's GPUs
/// would have done until it starts otherwise.
fn move_refusal(
    pass: &PlanningPass<'_>,
    candidate: &Candidate,
    eviction_plan: &EvictionPlan,
    starts: Option<Time>,
) -> Option<NotMovedReason> {
    let Some(terms) = pass.state.policy.tree().defragment else {
        return Some(NotMovedReason::Disabled);
    };
    let cost = total_cost(eviction_plan);
    let left = pass.state.move_budget.left(terms, pass.now).saturating_sub(pass.moves.spent);
    if cost > left {
        let is_within = cost <= terms.gpu_hours.saturating_mul(PER_GPU_HOUR);
        let refills_at = is_within.then(|| move_budget::refill(terms, pass.now));
        return Some(NotMovedReason::BudgetSpent { left_gpu_secs: left / PER_GPU_SEC, refills_at });
    }
    let delay = eviction_plan.delay();
    let wait = starts.map_or(UNLIMITED, |starts| starts.since(pass.now + delay));
    let worth = candidate.shape.milli().saturating_mul(wait.0);
    (cost >= worth).then_some(NotMovedReason::TooCostly { worth_gpu_secs: worth / PER_GPU_SEC })
}

/// Returns the cost of all moves together.
fn total_cost(eviction_plan: &EvictionPlan) -> u64 {
    eviction_plan.evicted.iter().fold(0, |sum, evicted| evicted.victim.cost.saturating_add(sum))
}

//! Shrinking elastic gangs: their tasks beyond the minimum are preempted by any pending normal
//! entry, before whole attempts are: the last tasks first, as few as needed. Such a gang is evicted
//! and, by the same plan, nominated for what remains of its placement. This module splits its
//! holding into parts and merges evicted parts; `preempt.rs` chooses the victims.

use std::cmp::Reverse;
use std::sync::Arc;

use muster_model::{
    Elastic, ElementId, EvictionCause, JobId, Preemption, TaskPlacement, Tier, Time,
};
use muster_policy::ModelId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::PlanningPass;
use super::candidate::Candidate;
use super::elastic::elastic_tasks;
use super::pending::is_still_valid;
use super::victim::{RankedVictim, Victim, VictimPart};
use crate::pool::{HoldKey, Pool};
use crate::state::State;
use crate::state::attempt::gpus_by_model;

/// Holding of an elastic gang split into parts, on scratch.
#[derive(Clone, Debug)]
pub(super) struct GangPieces {
    base: GangPiece,
    steps: Vec<GangPiece>,
}

#[derive(Clone, Debug)]
pub(super) struct GangPiece {
    pub(super) key: HoldKey,
    pub(super) gpus: SmallVec<[(ModelId, u64); 1]>,
}

impl GangPieces {
    pub(super) fn of(&self, part: VictimPart) -> &GangPiece {
        match part {
            VictimPart::Step(step) => &self.steps[step as usize],
            VictimPart::Base | VictimPart::Whole => &self.base,
        }
    }
}

/// Returns how a running element can shrink, and by how many steps; `None` at its minimum.
fn removable_steps(state: &State, id: JobId, ordinal: u32) -> Option<(Elastic, u32)> {
    let record = &state.jobs.get(&id)?.record;
    let elastic = record.spec.elastic()?;
    let run = record.elements.get(&ordinal)?.run.as_ref()?;
    let steps = elastic_tasks(run, elastic).saturating_sub(elastic.min) / elastic.step;
    (steps > 0).then_some((elastic, steps))
}

/// Returns true if any elastic gang runs with more than its minimum.
pub(super) fn has_removable_steps(state: &State) -> bool {
    let mut elastic = state.preemptable.elastic.iter();
    elastic.any(|(id, ordinal)| removable_steps(state, *id, *ordinal).is_some())
}

/// Adds the steps of elastic gangs that may be evicted for a candidate.
pub(super) fn shrinkable_victims(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    order: &mut Vec<RankedVictim>,
) {
    let terms = pass.state.policy.tree().preemption;
    if terms == Preemption::OFF || Tier::of_order(candidate.priority) != Tier::Normal {
        return;
    }
    let elastic: Vec<(JobId, u32)> = pass.state.preemptable.elastic.iter().copied().collect();
    for (id, ordinal) in elastic {
        let Some((_, steps)) = removable_steps(pass.state, id, ordinal) else { continue };
        let element = ElementId { job: id, index: pass.state.jobs[&id].record.index_of(ordinal) };
        let Some(((leaf, priority), attempt)) =
            pass.state.preemptable.get(&pass.state.jobs, element)
        else {
            continue;
        };
        if pass.evicted.contains(&attempt.key) {
            continue;
        }
        let safe_until = attempt
            .protect
            .max(pass.state.policy.queues().protection(leaf))
            .until(attempt.held_from);
        if pass.eligibility.is_protected(pass.now, safe_until) {
            continue;
        }
        let rank = (attempt.unsaved_gpu_time(pass.now), Reverse((attempt.held_from, element)));
        if !may_restart(pass, id, ordinal) {
            continue;
        }
        let cause = EvictionCause::Shrunk;
        let ranked = |step| Reverse(((cause, priority, rank.0, rank.1, Reverse(step)), leaf));
        order.extend((0..steps).map(ranked));
    }
}

/// Returns true if limits, quota and its nodes let a gang restart as it is, and so with less.
/// False for a job on hold, and in a queue with a budget, since every start charges a whole run
/// again.
fn may_restart(pass: &mut PlanningPass<'_>, id: JobId, ordinal: u32) -> bool {
    if pass.state.jobs[&id].record.held {
        return false;
    }
    let candidate = pass.candidate_of(id, &pass.state.jobs[&id], ordinal);
    let Some(run) = pass.state.jobs[&id].record.elements[&ordinal].run.as_ref() else {
        return false;
    };
    let gpus = run.gpus.clone();
    let placement = Arc::clone(&run.placement);
    let until = candidate.duration.map_or(Time::NEVER, |span| pass.now + span);
    let outer = pass.state.pool.view_inside(candidate.shape.reservation.as_ref());
    let is_valid = is_still_valid(pass, &placement, &candidate.shape, until);
    pass.state.pool.set_view(outer);
    let policy = &mut pass.state.policy;
    policy.undo_hold(candidate.leaf, candidate.user, &gpus);
    let verdict = candidate.requester().check(policy, &gpus, candidate.limit);
    policy.try_hold(candidate.leaf, candidate.user, &gpus);
    is_valid && verdict.is_ok() && !pass.state.policy.queues().is_budgeted(candidate.leaf)
}

/// Splits a holding into parts on scratch; all of it stays held.
pub(super) fn split_holding(pool: &mut Pool, key: HoldKey, elastic: Elastic) -> GangPieces {
    let holding = pool.holding(key);
    let element = holding.element;
    let end = holding.end;
    let shape = Arc::clone(&holding.shape);
    let placement = Arc::clone(&holding.placement);
    pool.park(key);
    let mut piece = |tasks: Vec<TaskPlacement>| {
        let key = pool.open(element, end, Arc::clone(&shape));
        tasks.iter().for_each(|task| pool.grant(key, task));
        let gpus = gpus_by_model(pool, &tasks);
        pool.close(key, tasks.into());
        GangPiece { key, gpus }
    };
    let (base, others) = split(&placement, elastic);
    let steps = others
        .chunks(elastic.step as usize)
        .map(<[TaskPlacement]>::to_vec)
        .map(&mut piece)
        .collect();
    GangPieces { base: piece(base), steps }
}

/// Splits a placement into the minimum tasks and the others; each by rank.
fn split(
    placement: &[TaskPlacement],
    elastic: Elastic,
) -> (Vec<TaskPlacement>, Vec<TaskPlacement>) {
    let mut left = elastic.min;
    placement.iter().cloned().partition(|task| {
        let is_base = task.group != elastic.group || left > 0;
        left -= u32::from(is_base && task.group == elastic.group);
        is_base
    })
}

/// Evicted attempt, and the placement on which it restarts.
pub(super) struct EvictedAttempt {
    pub(super) victim: Victim,
    /// Placement, by rank, on which it restarts: what remains of its own, or another. `None` if it
    /// returns to its queue.
    pub(super) restart_placement: Option<Arc<[TaskPlacement]>>,
}

/// Merges evicted parts, attempt by attempt.
pub(super) fn merge_victims(state: &State, removed: Vec<Victim>) -> Vec<EvictedAttempt> {
    let mut whole: Vec<Victim> = Vec::new();
    let mut steps: FxHashMap<ElementId, Vec<u32>> = FxHashMap::default();
    for victim in removed {
        let element = victim.id.element;
        match victim.part {
            VictimPart::Step(step) => steps.entry(element).or_default().push(step),
            VictimPart::Whole | VictimPart::Base => {}
        }
        match whole.iter().position(|known| known.id == victim.id) {
            // A whole eviction includes the steps. It is decided only now: the victims before it were chosen while the
            // rest of the gang still counted.
            Some(at) if !matches!(victim.part, VictimPart::Step(_)) => {
                whole.remove(at);
                whole.push(victim);
            }
            Some(_) => {}
            None => whole.push(victim),
        }
    }
    let evicted_attempt = |mut victim: Victim| {
        let element = victim.id.element;
        let is_step = matches!(victim.part, VictimPart::Step(_));
        if victim.part != VictimPart::Whole
            && let Some((_, attempt)) = state.preemptable.get(&state.jobs, element)
        {
            // On scratch it was held under the keys of its parts.
            (victim.key, victim.gpus) = (attempt.key, attempt.gpus.clone());
        }
        let restart_placement = steps
            .get(&element)
            .filter(|_| is_step)
            .and_then(|removed| remaining_placement(state, element, removed));
        EvictedAttempt { victim, restart_placement }
    };
    whole.into_iter().map(evicted_attempt).collect()
}

/// Returns the placement of a gang without some of its steps.
fn remaining_placement(
    state: &State,
    id: ElementId,
    removed: &[u32],
) -> Option<Arc<[TaskPlacement]>> {
    let record = &state.jobs.get(&id.job)?.record;
    let elastic = record.spec.elastic()?;
    let run = state.jobs.element(id)?.run.as_ref()?;
    let mut index = 0;
    let remains = |task: &&TaskPlacement| {
        if task.group != elastic.group {
            return true;
        }
        index += 1;
        let beyond = (index - 1u32).checked_sub(elastic.min);
        beyond.is_none_or(|beyond| !removed.contains(&(beyond / elastic.step)))
    };
    Some(run.placement.iter().filter(remains).cloned().collect())
}

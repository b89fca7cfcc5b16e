//! Grows elastic gangs into idle capacity, after all entries were considered: gangs that start in
//! this pass start larger, running gangs are evicted and restarted with more tasks. Pending entries
//! come first: a gang starts with its minimum, reservations are respected, and tasks beyond the
//! minimum are preempted for any pending normal entry (`shrink.rs`).
//!
//! A running gang grows only if it takes checkpoints, since it restarts; only after it has run for
//! some time at its size, since a restart costs; and not in a queue with a budget, since every
//! start charges a whole run again.

use std::cmp::Reverse;
use std::sync::Arc;

use muster_model::queue::PlacementPolicy;
use muster_model::{
    Decision, Elastic, ElementId, Eviction, EvictionCause, JobId, Span, TaskPlacement, Time,
};

use super::candidate::Candidate;
use super::pending::{PendingPlacement, protect_pending};
use super::{PlanningPass, PolicyChange, admission};
use crate::place::request::model_choices;
use crate::pool::HoldKey;
use crate::pool::shape::Shape;
use crate::state::attempt::{attempt_id, gpus_by_model};
use crate::state::job::{Run, RunStage};
use crate::state::preemptable::PreemptableAttempt;

/// Elastic gang that starts in this pass with its minimum number of tasks.
#[derive(Clone, Debug)]
pub(super) struct ElasticStart {
    candidate: Candidate,
    elastic: Elastic,
    key: HoldKey,
    /// Index of its change in the policy changes of the pass.
    policy_change: usize,
}

/// Elastic gang placed in a larger size.
struct EnlargedGang {
    key: HoldKey,
    placement: Arc<[TaskPlacement]>,
    shape: Arc<Shape>,
}

/// Records a start that may grow, right after its change of the policy was recorded.
pub(super) fn note_elastic_start(pass: &mut PlanningPass<'_>, candidate: &Candidate, key: HoldKey) {
    let spec = &pass.state.jobs[&candidate.job].record.spec;
    if let Some(elastic) = spec.elastic() {
        let policy_change = pass.scratch.policy_changes.len() - 1;
        pass.elastic_starts.push(ElasticStart {
            candidate: candidate.clone(),
            elastic,
            key,
            policy_change,
        });
    }
}

/// Grows elastic gangs, first those that start in this pass. Returns true if one grew: that
/// changes the fair shares and so the order, or frees capacity elsewhere or sooner, so other
/// entries need another round.
pub(super) fn grow(pass: &mut PlanningPass<'_>) -> bool {
    let mut grew = false;
    for start in std::mem::take(&mut pass.elastic_starts) {
        grew |= grow_start(pass, &start);
    }
    if grew {
        // An entry that now comes first may make it shrink again: the next pass checks.
        pass.changed_order = true;
        pass.cache.release_holdings();
        pass.request_round();
    }
    let mut running: Vec<(JobId, u32)> = pass.state.preemptable.elastic.iter().copied().collect();
    running
        .sort_by_key(|(id, ordinal)| Reverse(pass.state.jobs[id].record.spec.order_of(*ordinal)));
    let decided = pass.decisions.len();
    for (id, ordinal) in running {
        grow_running(pass, id, ordinal);
    }
    grew || pass.decisions.len() > decided
}

/// Enlarges a start as far as possible. Returns true if it grew.
fn grow_start(pass: &mut PlanningPass<'_>, start: &ElasticStart) -> bool {
    let candidate = &start.candidate;
    let PolicyChange::Added { leaf, user, gpus, milli, charge } =
        &pass.scratch.policy_changes[start.policy_change]
    else {
        return false;
    };
    let leaf = *leaf;
    let user = *user;
    let gpus = gpus.clone();
    let milli = *milli;
    let charge = *charge;
    let mark = pass.state.pool.mark();
    pass.state.pool.retract(start.key);
    pass.state.policy.queues_mut().undo_charge(leaf, user, milli, charge);
    pass.state.policy.undo_hold(leaf, user, &gpus);
    let Some(larger) = largest_that_fits(pass, candidate, start.elastic, start.elastic.min) else {
        pass.state.pool.rollback(mark);
        pass.state.policy.try_hold(leaf, user, &gpus);
        pass.state.policy.queues_mut().try_charge(leaf, user, milli, charge);
        return false;
    };
    let gpus = gpus_by_model(&pass.state.pool, &larger.placement);
    let milli = larger.shape.milli();
    pass.state.policy.try_hold(leaf, user, &gpus);
    pass.state.policy.queues_mut().try_charge(leaf, user, milli, charge);
    let attempts_of_leaf = pass.pass_starts.attempts.get_mut(&(leaf, candidate.priority));
    if let Some(attempt) =
        attempts_of_leaf.and_then(|attempts| attempts.get_mut(&candidate.element))
    {
        (attempt.key, attempt.gpus) = (larger.key, gpus.clone());
    }
    pass.scratch.policy_changes[start.policy_change] =
        PolicyChange::Added { leaf, user, gpus, milli, charge };
    enlarge_decision(pass, candidate.element, larger.placement);
    true
}

/// Enlarges the start of an element and moves it to the end of the decisions: it was judged after
/// all of them, and some may be within a quota only without it.
fn enlarge_decision(pass: &mut PlanningPass<'_>, element: ElementId, larger: Arc<[TaskPlacement]>) {
    let is_its = |decision: &Decision| matches!(decision, Decision::Start { id, .. } if id.element == element);
    let Some(at) = pass.decisions.iter().position(is_its) else { return };
    let mut decision = pass.decisions.remove(at);
    if let Decision::Start { placement, .. } = &mut decision {
        *placement = larger;
    }
    pass.decisions.push(decision);
}

/// Evicts a running gang and nominates it for a larger placement, if there is one.
fn grow_running(pass: &mut PlanningPass<'_>, id: JobId, ordinal: u32) {
    let job = &pass.state.jobs[&id];
    let spec = Arc::clone(&job.record.spec);
    let (Some(elastic), Some(after)) = (spec.elastic(), spec.grow_after) else { return };
    let element = &job.record.elements[&ordinal];
    let Some(run) = element.run.as_ref().filter(|run| may_grow(run, elastic)) else { return };
    let is_free = spec.checkpoint.is_some()
        && !job.record.held
        && !pass.evicted.contains(&run.key)
        && !pass.state.policy.queues().is_budgeted(job.record.leaf);
    if !is_free {
        return;
    }
    // 1. Not too soon after its last change.
    let may_grow_at = run.started.map_or(Time::NEVER, |started| started + after);
    if may_grow_at > pass.now {
        pass.eligibility.replan_at(may_grow_at);
        return;
    }
    // 2. With its own holding released on scratch: is there a larger placement?
    let mut candidate = pass.candidate_of(id, job, ordinal);
    let delay = PreemptableAttempt::eviction_delay(&spec, true);
    candidate.delay(delay);
    let key = run.key;
    let held = run.gpus.clone();
    let size = elastic_tasks(run, elastic);
    let leaf = candidate.leaf;
    let user = candidate.user;
    let old = attempt_id(id, candidate.element.index, element.attempt);
    let mark = pass.state.pool.mark();
    pass.state.pool.park(key);
    pass.state.policy.undo_hold(leaf, user, &held);
    let larger = largest_that_fits(pass, &candidate, elastic, size);
    pass.state.pool.rollback(mark);
    let Some(larger) = larger else {
        pass.state.policy.try_hold(leaf, user, &held);
        return;
    };
    // 3. Evict it and keep its new placement free.
    pass.evicted.insert(key);
    pass.scratch.policy_changes.push(PolicyChange::Removed { leaf, user, gpus: held });
    pass.state.pool.shorten(key, pass.now + delay);
    pass.request_round();
    let evict = vec![Eviction { id: old, cause: EvictionCause::Grown }];
    nominate(pass, &candidate, larger.placement, larger.shape, evict);
}

/// Nominates an evicted element for a restart on other nodes, or on what remains of its own.
pub(super) fn nominate_restart(
    pass: &mut PlanningPass<'_>,
    id: ElementId,
    delay: Span,
    placement: Arc<[TaskPlacement]>,
) {
    let job = &pass.state.jobs[&id.job];
    let Some(ordinal) = job.record.ordinal_of(id.index) else { return };
    let mut candidate = pass.candidate_of(id.job, job, ordinal);
    candidate.delay(delay);
    let shape = match job.record.spec.elastic() {
        None => Arc::clone(&candidate.shape),
        Some(elastic) => {
            let tasks = placement.iter().filter(|task| task.group == elastic.group).count() as u32;
            Arc::new(candidate.shape.resized(elastic.group, tasks))
        }
    };
    nominate(pass, &candidate, placement, shape, Vec::new());
}

/// Nominates a running element for the placement on which it restarts.
fn nominate(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    placement: Arc<[TaskPlacement]>,
    shape: Arc<Shape>,
    evict: Vec<Eviction>,
) {
    let leaf = candidate.leaf;
    let user = candidate.user;
    let element = candidate.element;
    let gpus = gpus_by_model(&pass.state.pool, &placement);
    let charge = pass.budget_charge(candidate.limit);
    let milli = shape.milli();
    pass.state.policy.try_hold(leaf, user, &gpus);
    pass.state.policy.queues_mut().try_charge(leaf, user, milli, charge);
    pass.scratch.policy_changes.push(PolicyChange::Added { leaf, user, gpus, milli, charge });
    let until = candidate.duration.map_or(Time::NEVER, |span| pass.now + span);
    protect_pending(
        pass,
        PendingPlacement {
            element,
            until,
            shape,
            placement: Arc::clone(&placement),
            new_attempt: None,
        },
    );
    pass.decisions.push(Decision::Nominate { element, placement, evict });
}

/// Returns the largest placement beyond `size` that fits now; held on scratch. If fewer tasks
/// do not fit, more never do (except where several groups compete), so sizes are bisected.
fn largest_that_fits(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    elastic: Elastic,
    size: u32,
) -> Option<EnlargedGang> {
    let steps = (elastic.max - size) / elastic.step;
    if let Some(larger) = place_with_tasks(pass, candidate, elastic, size + steps * elastic.step) {
        return Some(larger);
    }
    let mut fits = 0;
    let mut fails = steps;
    while fails > fits + 1 {
        let middle = fits + (fails - fits) / 2;
        let mark = pass.state.pool.mark();
        match place_with_tasks(pass, candidate, elastic, size + middle * elastic.step) {
            Some(_) => fits = middle,
            None => fails = middle,
        }
        pass.state.pool.rollback(mark);
    }
    (fits > 0)
        .then(|| place_with_tasks(pass, candidate, elastic, size + fits * elastic.step))
        .flatten()
}

/// Places a gang with this number of tasks, on scratch.
fn place_with_tasks(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    elastic: Elastic,
    tasks: u32,
) -> Option<EnlargedGang> {
    let shape = Arc::new(candidate.shape.resized(elastic.group, tasks));
    let (key, placement) =
        place_within_limits(pass, &Candidate { shape: Arc::clone(&shape), ..candidate.clone() })?;
    Some(EnlargedGang { key, placement, shape })
}

/// Places an element in the size of its shape, within its limits and quota; held on scratch.
pub(super) fn place_within_limits(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
) -> Option<(HoldKey, Arc<[TaskPlacement]>)> {
    let eligible = pass.class_cache(candidate.class).eligible.clone();
    let shape = &candidate.shape;
    let uses_scoring = pass.state.policy.tree().placement != PlacementPolicy::Pack;
    let choices = model_choices(&pass.state.pool, shape, uses_scoring);
    let charge = pass.budget_charge(candidate.limit);
    let admitted = admission::admitted_choices(
        &pass.state.policy,
        candidate.requester(),
        shape,
        charge,
        &choices,
    )
    .ok()?;
    admitted.iter().find_map(|one| {
        pass.place_and_hold(candidate.node_preferences(), shape, one, &eligible, candidate.duration)
    })
}

/// Returns true if an attempt runs with fewer tasks than its maximum.
fn may_grow(run: &Run, elastic: Elastic) -> bool {
    run.stage == RunStage::Running
        && run.fate.is_none()
        && elastic_tasks(run, elastic) < elastic.max
}

/// Returns the number of tasks of the elastic group.
pub(super) fn elastic_tasks(run: &Run, elastic: Elastic) -> u32 {
    run.placement.iter().filter(|task| task.group == elastic.group).count() as u32
}

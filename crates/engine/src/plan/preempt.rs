//! Preemption. A queue within its nominal quota reclaims what others borrow; within a leaf queue, a
//! higher priority preempts a lower one; and opportunistic jobs ([`Tier::Opportunistic`]) are
//! preempted by any normal entry, of any queue. **No victim is evicted unless the candidate then
//! starts**: everything is tried on scratch, with the placement and the verdicts of every other
//! start.
//!
//! # Choice of victims
//!
//! Possible victims are in one order: opportunistic before borrowed before owned, lower priority,
//! least GPU time lost since the last checkpoint, the youngest first. The set is the
//! shortest prefix of that order with which the candidate starts; then victims that need not be
//! evicted are removed from it, the most valuable first. Since more free capacity never
//! makes a start impossible, this is the feasible set whose most valuable member is the least
//! valuable possible, then its second, and so on; no member of it can stay.
//!
//! No more is reclaimed from a queue than it borrows, so the first victims in order may use that up
//! for capacity that does not help. If that happened and the candidate does not start,
//! `evict_by_node.rs` searches again, node by node.
//!
//! # Why there are no loops
//!
//! Reclaiming needs the candidate's side to be within its nominal quota with the start, and the
//! other side beyond its own; afterwards the former still is, so nothing can be reclaimed from it
//! in turn. Preemption by priority strictly raises the priorities that the leaf runs, and
//! preempting opportunistic jobs strictly raises the number of normal jobs that run. An evicted job
//! starts again only on free capacity, or by its own preemption of others.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use muster_model::{
    Decision, ElementId, Eviction, EvictionCause, NodeId, Reason, Span, TaskPlacement, Time,
};
use muster_policy::{EntrySlot, ModelId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cache::classes::ClassCache;
use super::candidate::Candidate;
use super::elastic::nominate_restart;
use super::eligibility::{may_try_preemption, note_failed_preemption, preemption_cause};
use super::limited::matters_how_long;
use super::pass_starts::defer;
use super::pending::{PendingPlacement, hold_exactly, protect_pending};
use super::shrink::{EvictedAttempt, GangPieces, merge_victims, shrinkable_victims, split_holding};
use super::victim::{Victim, VictimPart, VictimQueue};
use super::{PlanningPass, PolicyChange};
use crate::place::capacity_bound::{CapacityBound, NodeFilter};
use crate::place::request::{AdmittedChoice, ModelChoice};
use crate::pool::{HoldKey, Pool};
use crate::state::attempt::{attempt_id, gpus_by_model};
use crate::state::entries::UNLIMITED;

/// Victims to evict, and the placement that the candidate then gets.
pub(super) struct EvictionPlan {
    pub(super) placement: Arc<[TaskPlacement]>,
    pub(super) evicted: Vec<EvictedAttempt>,
}

impl EvictionPlan {
    /// Returns the longest time from now until all victims have ended.
    pub(super) fn delay(&self) -> Span {
        self.evicted.iter().map(|evicted| evicted.victim.delay).max().unwrap_or(Span(0))
    }
}

/// Evicts others for a candidate, if it then starts.
pub(super) fn preempt(
    pass: &mut PlanningPass<'_>,
    slot: EntrySlot,
    candidate: &Candidate,
    cached: &ClassCache,
) -> bool {
    let duration = candidate.duration.unwrap_or(UNLIMITED);
    if !may_try_preemption(pass, candidate, duration) {
        return false;
    }
    let mut depends_on_wait = false;
    let mut waits_for: &[(ModelId, u64)] = &[];
    for choice in cached.choices.iter() {
        let (order, has_exempt) = victims(pass, candidate, choice);
        if has_exempt && !depends_on_wait {
            waits_for = choice.exact.as_deref().unwrap_or(&[]);
        }
        depends_on_wait |= has_exempt;
        let find = |search: &mut PreemptionSearch<'_, '_>, order| {
            search.evict_in_order(order) || search.evict_by_node()
        };
        let Some(eviction_plan) =
            find_eviction_plan(pass, (candidate, cached, choice), order, find)
        else {
            continue;
        };
        let started =
            eviction_plan.evicted.iter().filter(|evicted| evicted.victim.started_this_pass);
        let started: Vec<ElementId> = started.map(|evicted| evicted.victim.id.element).collect();
        if started.is_empty() {
            commit_eviction_plan(pass, slot, candidate, eviction_plan)
        } else {
            defer(pass, candidate, choice, &started)
        }
        return true;
    }
    pass.eligibility.hold_back(candidate.leaf, waits_for);
    if candidate.avoid.is_empty() {
        // What budgets or limits refuse by its time limit they may grant to others with a lower one.
        let by_limit = matters_how_long(pass, candidate.leaf);
        let duration = if by_limit { candidate.limit.unwrap_or(UNLIMITED) } else { duration };
        note_failed_preemption(pass, candidate, duration, depends_on_wait);
    }
    false
}

/// Returns the eviction plan, on the models of a choice, with victims of an order; `find`
/// evicts them until the candidate starts.
pub(super) fn find_eviction_plan(
    pass: &mut PlanningPass<'_>,
    (candidate, cached, choice): (&Candidate, &ClassCache, &ModelChoice),
    order: VictimQueue,
    find: impl FnOnce(&mut PreemptionSearch<'_, '_>, VictimQueue) -> bool,
) -> Option<EvictionPlan> {
    if order.is_empty() {
        return None;
    }
    let shape = Arc::clone(&candidate.shape);
    let node_filter =
        NodeFilter { shape: &shape, eligible: &cached.eligible, avoid: &candidate.avoid };
    let mark = pass.state.pool.mark();
    let outer = pass.state.pool.view_inside(shape.reservation.as_ref());
    let bound = CapacityBound::new(&mut pass.state.pool, node_filter);
    let mut search = PreemptionSearch {
        pass,
        candidate,
        cached,
        choice,
        node_filter,
        bound,
        split_gangs: FxHashMap::default(),
        tried: Vec::new(),
        order: Vec::new(),
        found: None,
    };
    if find(&mut search, order) {
        let evicted: Vec<usize> =
            (0..search.tried.len()).filter(|at| search.tried[*at].1).collect();
        search.restore_unneeded(&evicted);
        search.try_beside_victims();
        search.restore_not_in_the_way();
    }
    let found = search.found.take();
    let tried = std::mem::take(&mut search.tried);
    // Each victim was reclaimable when it was evicted; it still is if others of its queue have been restored since.
    let in_order = search.order.iter().map(|at| &tried[*at]);
    let evicted = in_order.filter(|(_, is_evicted)| *is_evicted).map(|(victim, _)| victim.clone());
    let evicted: Vec<Victim> = evicted.collect();
    // Undo everything; the decision is made from what was found.
    evicted.iter().for_each(|victim| victim.count_evicted(&mut pass.state.policy, false));
    pass.state.pool.rollback(mark);
    pass.state.pool.set_view(outer);
    let placement = found.filter(|_| !evicted.is_empty())?;
    Some(EvictionPlan { placement, evicted: merge_victims(pass.state, evicted) })
}

/// Returns the possible victims for a candidate, in order; and whether others are exempt while it has not waited long
/// enough.
fn victims(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    choice: &ModelChoice,
) -> (VictimQueue, bool) {
    let mut order = Vec::new();
    shrinkable_victims(pass, candidate, &mut order);
    let state = &*pass.state;
    let now = pass.now;
    let requested = choice.exact.as_deref().unwrap_or(&[]);
    let reclaim_after = state.policy.tree().reclaim_after;
    let milli = candidate.shape.milli();
    let mut has_exempt = false;
    for ((leaf, priority), attempts) in
        state.preemptable.attempts.iter().chain(&pass.pass_starts.attempts)
    {
        let Ok(cause) = preemption_cause(&state.policy, candidate, requested, (*leaf, *priority))
        else {
            continue;
        };
        let of_queue = state.policy.queues().protection(*leaf);
        let eligibility = &pass.eligibility;
        let is_reclaimable = |(model, milli): &&(ModelId, u64)| {
            let milli = *milli + eligibility.held_back(candidate.leaf, *model);
            state.policy.queues().reclaimable(candidate.leaf, *leaf, *model, milli) > 0
        };
        let reclaimable: SmallVec<[ModelId; 2]> =
            requested.iter().filter(is_reclaimable).map(|(model, _)| *model).collect();
        for (element, attempt) in attempts {
            let safe_until = attempt.protect.max(of_queue).until(attempt.held_from);
            let helps = cause != EvictionCause::Reclaimed
                || attempt.gpus.iter().any(|(model, _)| reclaimable.contains(model));
            if !helps || pass.evicted.contains(&attempt.key) {
                continue;
            }
            if pass.eligibility.is_protected(now, safe_until) {
                continue;
            }
            let exempt_until = (cause == EvictionCause::Reclaimed)
                .then(|| attempt.exempt_until(now, reclaim_after, (milli, candidate.waits_since)));
            if let Some(until) = exempt_until.flatten() {
                pass.eligibility.replan_at(until);
                has_exempt = true;
                continue;
            }
            let priority = *priority;
            let lost = attempt.unsaved_gpu_time(now);
            let age = Reverse((attempt.held_from, *element));
            order.push(Reverse(((cause, priority, lost, age, Reverse(0)), *leaf)));
        }
    }
    (order.into(), has_exempt)
}

/// Commits an eviction plan, on scratch: the victims no longer count, the candidate does, and
/// its placement is kept free.
pub(super) fn commit_eviction_plan(
    pass: &mut PlanningPass<'_>,
    slot: EntrySlot,
    candidate: &Candidate,
    eviction_plan: EvictionPlan,
) {
    let leaf = candidate.leaf;
    let user = candidate.user;
    let delay = eviction_plan.delay();
    let mut evict = Vec::with_capacity(eviction_plan.evicted.len());
    for EvictedAttempt { victim, .. } in &eviction_plan.evicted {
        evict.push(Eviction { id: victim.id, cause: victim.cause });
        pass.evicted.insert(victim.key);
        pass.state.policy.undo_hold(victim.leaf, victim.user, &victim.gpus);
        let gpus = victim.gpus.clone();
        pass.scratch.policy_changes.push(PolicyChange::Removed {
            leaf: victim.leaf,
            user: victim.user,
            gpus,
        });
        pass.state.pool.shorten(victim.key, pass.now + victim.delay);
    }
    let gpus = gpus_by_model(&pass.state.pool, &eviction_plan.placement);
    let charge = pass.budget_charge(candidate.limit);
    let milli = candidate.shape.milli();
    pass.state.policy.try_hold(leaf, user, &gpus);
    pass.state.policy.queues_mut().try_charge(leaf, user, milli, charge);
    pass.scratch.policy_changes.push(PolicyChange::Added { leaf, user, gpus, milli, charge });
    let placement = Arc::clone(&eviction_plan.placement);
    pass.decisions.push(Decision::Nominate {
        element: candidate.element,
        placement: eviction_plan.placement,
        evict,
    });
    let until = candidate.duration.map_or(Time::NEVER, |span| pass.now + delay + span);
    let element = candidate.element;
    let id = attempt_id(element.job, element.index, candidate.attempt);
    let shape = Arc::clone(&candidate.shape);
    protect_pending(
        pass,
        PendingPlacement {
            element,
            until,
            shape,
            placement,
            new_attempt: Some((id, candidate.duration)),
        },
    );
    let capped = pass.capped_job(candidate.job);
    pass.scratch.started.count(slot, capped);
    for EvictedAttempt { victim, restart_placement: placement } in eviction_plan.evicted {
        if let Some(placement) = placement {
            nominate_restart(pass, victim.id.element, victim.delay, placement);
        }
    }
    pass.request_round();
}

/// Search for victims, on scratch.
pub(super) struct PreemptionSearch<'r, 's> {
    pub(super) pass: &'r mut PlanningPass<'s>,
    candidate: &'r Candidate,
    cached: &'r ClassCache,
    choice: &'r ModelChoice,
    pub(super) node_filter: NodeFilter<'r>,
    pub(super) bound: CapacityBound<'r>,
    /// Holdings of elastic gangs that may shrink, split into parts.
    split_gangs: FxHashMap<ElementId, GangPieces>,
    /// Victims tried, in order, and whether each is evicted. A victim that is not
    /// evicted had no borrowed quota left to reclaim when it was tried.
    pub(super) tried: Vec<(Victim, bool)>,
    /// Indices of the victims that were evicted, in the order of their first evictions.
    pub(super) order: Vec<usize>,
    /// Placement of the candidate with the present evictions.
    found: Option<Arc<[TaskPlacement]>>,
}

impl PreemptionSearch<'_, '_> {
    /// Evicts one victim after the other until the candidate starts. If an attempt to place it
    /// fails although the bound allows it, the next attempt is made after twice as many.
    fn evict_in_order(&mut self, mut order: VictimQueue) -> bool {
        let mut stride = 1;
        loop {
            let mut more = 1;
            if self.might_start() {
                if self.try_start() {
                    return true;
                }
                (more, stride) = (stride, stride * 2);
            }
            let mut newly_evicted = 0;
            while newly_evicted < more {
                let Some(victim) = self.next_victim(&mut order) else {
                    // A last attempt with all victims evicted, unless it was just made.
                    return newly_evicted > 0 && self.might_start() && self.try_start();
                };
                self.tried.push((victim, false));
                let at = self.tried.len() - 1;
                if self.is_reclaimable(at) {
                    self.evict_first(at);
                    newly_evicted += 1;
                }
            }
        }
    }

    /// Evicts the victims of an order node by node, until the candidate starts.
    pub(super) fn evict_all_by_node(&mut self, mut order: VictimQueue) -> bool {
        while let Some(victim) = self.next_victim(&mut order) {
            self.tried.push((victim, false));
        }
        self.evict_by_node()
    }

    /// Returns the next possible victim.
    fn next_victim(&mut self, order: &mut VictimQueue) -> Option<Victim> {
        let Reverse(((cause, priority, _, Reverse((_, element)), Reverse(step)), leaf)) =
            order.pop()?;
        let state = &mut *self.pass.state;
        let started = self.pass.pass_starts.attempt(leaf, priority, element);
        let (attempt, started_this_pass) = match started {
            Some(started) => (started, true),
            None => (&state.preemptable.attempts[&(leaf, priority)][&element], false),
        };
        let cost = match cause {
            EvictionCause::Moved => attempt.cost_of_move(self.pass.now),
            _ => attempt.gpus.iter().map(|(_, milli)| milli).sum(),
        };
        let mut victim = Victim {
            cost,
            id: attempt_id(element.job, element.index, attempt.attempt),
            cause,
            part: VictimPart::Whole,
            key: attempt.key,
            leaf,
            user: attempt.user,
            gpus: attempt.gpus.clone(),
            delay: attempt.delay,
            started_this_pass,
        };
        // Shrinking comes before whole evictions in the order, so an attempt with both is split by
        // now.
        if cause == EvictionCause::Shrunk
            && let Entry::Vacant(entry) = self.split_gangs.entry(element)
        {
            let elastic = state.jobs.get(&element.job)?.record.spec.elastic()?;
            entry.insert(split_holding(&mut state.pool, victim.key, elastic));
        }
        if let Some(pieces) = self.split_gangs.get(&element) {
            victim.part = if cause == EvictionCause::Shrunk {
                VictimPart::Step(step)
            } else {
                VictimPart::Base
            };
            let piece = pieces.of(victim.part);
            (victim.key, victim.gpus) = (piece.key, piece.gpus.clone());
        }
        Some(victim)
    }

    /// Returns false if nothing is reclaimable any more from the queue of a victim by reclaim.
    pub(super) fn is_reclaimable(&self, at: usize) -> bool {
        let victim = &self.tried[at].0;
        let requested = self.choice.exact.as_deref().unwrap_or(&[]);
        let policy = &self.pass.state.policy;
        let leaf = self.candidate.leaf;
        let is_reclaimable = |(model, milli): &(ModelId, u64)| {
            let milli = *milli + self.pass.eligibility.held_back(leaf, *model);
            victim.gpus.iter().any(|(held, _)| held == model)
                && policy.queues().reclaimable(leaf, victim.leaf, *model, milli) > 0
        };
        victim.cause != EvictionCause::Reclaimed || requested.iter().any(is_reclaimable)
    }

    /// Restores the victims that need not be evicted, the last in order first: all that the bound
    /// allows at once, or else by halves.
    fn restore_unneeded(&mut self, indices: &[usize]) {
        let mut restored = Vec::new();
        for at in indices.iter().rev() {
            self.restore(*at);
            if self.might_start() { restored.push(*at) } else { self.evict(*at) }
        }
        if restored.is_empty() || self.try_start() {
            return;
        }
        restored.iter().for_each(|at| self.evict(*at));
        if indices.len() > 1 {
            let (first, last) = indices.split_at(indices.len() / 2);
            self.restore_unneeded(last);
            self.restore_unneeded(first);
        }
    }

    /// Restores the victims that do not overlap the placement that was found. Needed because a
    /// search that finds another placement with them present, or none, does not prove that they
    /// overlap.
    fn restore_not_in_the_way(&mut self) {
        let Some(placement) = self.found.clone() else { return };
        let by_model = gpus_by_model(&self.pass.state.pool, &placement);
        for at in (0..self.tried.len()).rev() {
            if !self.tried[at].1 {
                continue;
            }
            self.restore(at);
            let allows = |caps: &[(ModelId, u64)]| {
                let held = |model| {
                    by_model.iter().find(|(known, _)| known == model).map_or(0, |(_, milli)| *milli)
                };
                caps.iter().all(|(model, most)| held(model) <= *most)
            };
            let is_admitted =
                self.admitted().is_ok_and(|admitted| admitted.iter().any(|one| allows(&one.caps)));
            if !is_admitted || !self.fits_beside(at, &placement) {
                self.evict(at);
            }
        }
    }

    /// Tries to start the candidate on capacity that is free beside the victims: those evicted only
    /// because they count in quota need not overlap it.
    fn try_beside_victims(&mut self) {
        let evicted: Vec<usize> = (0..self.tried.len()).filter(|at| self.tried[*at].1).collect();
        for at in &evicted {
            self.restore(*at);
            let victim = &self.tried[*at].0;
            victim.count_evicted(&mut self.pass.state.policy, true);
            // Still counts as evicted: the duration of the candidate includes the delay of its
            // victims.
            self.tried[*at].1 = true;
        }
        if self.might_start() {
            self.try_start();
        }
        for at in evicted {
            let victim = &self.tried[at].0;
            victim.count_evicted(&mut self.pass.state.policy, false);
            self.evict(at);
        }
    }

    /// Returns true if all of a placement is free on the nodes of a restored victim.
    fn fits_beside(&mut self, at: usize, placement: &[TaskPlacement]) -> bool {
        let evicted = self.tried.iter().filter(|(_, is_evicted)| *is_evicted);
        let delay = evicted.map(|(victim, _)| victim.delay).max().unwrap_or(Span(0));
        let until =
            self.candidate.duration.map_or(Time::NEVER, |span| self.pass.now + span + delay);
        let nodes = self.nodes_of(at);
        let there = placement.iter().filter(|task| nodes.binary_search(&task.node).is_ok());
        let there: Arc<[TaskPlacement]> = there.cloned().collect();
        let mark = self.pass.state.pool.mark();
        let element = self.candidate.element;
        let shape = &self.candidate.shape;
        let fits = hold_exactly(self.pass, element, &there, shape, until);
        self.pass.state.pool.rollback(mark);
        fits
    }

    /// Returns the nodes of a victim that the candidate may use.
    pub(super) fn nodes_of(&self, at: usize) -> SmallVec<[NodeId; 8]> {
        let pool = &self.pass.state.pool;
        let tasks = pool.holding(self.tried[at].0.key).placement.iter();
        let mut nodes: SmallVec<[NodeId; 8]> = tasks.map(|task| task.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|node| self.node_filter.admits(pool, *node));
        nodes
    }

    /// Evicts a victim that was not evicted before.
    pub(super) fn evict_first(&mut self, at: usize) {
        self.order.push(at);
        self.evict(at);
    }

    fn evict(&mut self, at: usize) {
        let (victim, is_evicted) = &mut self.tried[at];
        *is_evicted = true;
        victim.count_evicted(&mut self.pass.state.policy, true);
        self.change_holding(at, Pool::park);
    }

    pub(super) fn restore(&mut self, at: usize) {
        let (victim, is_evicted) = &mut self.tried[at];
        *is_evicted = false;
        victim.count_evicted(&mut self.pass.state.policy, false);
        self.change_holding(at, Pool::unpark);
    }

    /// Applies a change to a holding, and updates the bound.
    fn change_holding(&mut self, at: usize, change: impl FnOnce(&mut Pool, HoldKey)) {
        let nodes = self.nodes_of(at);
        let pool = &mut self.pass.state.pool;
        for node in &nodes {
            self.bound.remove_node(pool.node(*node));
        }
        change(pool, self.tried[at].0.key);
        for node in &nodes {
            self.bound.add_node(pool.node(*node));
        }
    }

    /// Returns false if the candidate certainly would not start.
    pub(super) fn might_start(&self) -> bool {
        self.bound.suffices() && self.admitted().is_ok()
    }

    fn admitted(&self) -> Result<SmallVec<[AdmittedChoice<'_>; 1]>, Reason> {
        self.pass.admitted_choices(self.candidate, std::slice::from_ref(self.choice))
    }

    /// Returns true if the candidate would start, and records the placement.
    pub(super) fn try_start(&mut self) -> bool {
        let candidate = self.candidate;
        let cached = self.cached;
        let choice = self.choice;
        let Ok(admitted) = self.pass.admitted_choices(candidate, std::slice::from_ref(choice))
        else {
            return false;
        };
        let delay = self
            .tried
            .iter()
            .filter(|(_, is_evicted)| *is_evicted)
            .map(|(victim, _)| victim.delay)
            .max();
        let duration = candidate.duration.map(|span| span + delay.unwrap_or(Span(0)));
        let mark = self.pass.state.pool.mark();
        let found = admitted.iter().find_map(|one| {
            self.pass.place(
                candidate.node_preferences(),
                &candidate.shape,
                one,
                &cached.eligible,
                duration,
            )
        });
        self.pass.state.pool.rollback(mark);
        let starts = found.is_some();
        if starts {
            self.found = found;
        }
        starts
    }
}

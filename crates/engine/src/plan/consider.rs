//! Handles one entry of a pass: checks limits and quota, then tries a start now, preemption, and a
//! reservation.

use std::sync::Arc;

use muster_model::{Decision, Reason};
use muster_policy::EntrySlot;

use super::cache::classes::ClassCache;
use super::candidate::Candidate;
use super::defragment::defragment;
use super::elastic::note_elastic_start;
use super::eligibility::has_possible_victims;
use super::head_reservation::wait_as_head;
use super::infeasible::{is_full, is_infeasible, note_infeasible};
use super::limited::limit_key;
use super::pass_starts::{note_start, would_start};
use super::preempt::preempt;
use super::{EntryVerdict, PlanningPass, PolicyChange};
use crate::place::capacity_bound::NodeFilter;
use crate::place::request::AdmittedChoice;
use crate::place::reserve::{self, ReservationRequest};
use crate::state::attempt::{attempt_id, gpus_by_model};
use crate::state::entries::UNLIMITED;

/// Decides about one entry: start it, preempt for it, reserve for it, or leave it blocked.
pub(super) fn consider(pass: &mut PlanningPass<'_>, slot: EntrySlot) -> EntryVerdict {
    let Some(candidate) = pass.candidate(slot) else { return EntryVerdict::Exhausted };
    let candidate = &candidate;
    let cached = pass.class_cache(candidate.class).clone();
    // 1. Limits, budgets and quota, for each model it could use.
    let admitted = match pass.admitted_choices(candidate, &cached.choices) {
        Ok(admitted) => admitted,
        Err(reason) => {
            // Preemption may make it admissible; whether that suffices depends on more than its
            // limit class.
            let depends_on_others = matches!(
                reason,
                Reason::Quota { .. }
                    | Reason::BorrowedTime { .. }
                    | Reason::MayNotBorrow { .. }
                    | Reason::RunningJobs { .. }
                    | Reason::GpusPerUser { .. }
            );
            let may_preempt =
                depends_on_others && has_possible_victims(pass, candidate.leaf, candidate.priority);
            let is_deferred = pass.pass_starts.is_deferred(candidate);
            if may_preempt && !is_deferred && preempt(pass, slot, candidate, &cached) {
                return EntryVerdict::Started;
            }
            // A refusal of an element that must not borrow does not hold for the others of its
            // class.
            if !may_preempt && !candidate.own_quota_only() {
                let key = limit_key(
                    pass,
                    candidate.leaf,
                    candidate.user,
                    candidate.limit,
                    cached.limit_class,
                );
                pass.cache.limits.insert(key, &reason);
            }
            return EntryVerdict::Limited;
        }
    };
    // 2. A placement now.
    let duration = candidate.duration.unwrap_or(UNLIMITED);
    let is_deferred = pass.pass_starts.is_deferred(candidate);
    if !is_infeasible(pass, candidate.class, duration)
        && !is_full(pass, candidate, &cached, &admitted)
    {
        if is_deferred && would_start(pass, candidate, &cached, &admitted) {
            return EntryVerdict::Blocked;
        }
        if !is_deferred && start(pass, candidate, &cached, &admitted) {
            let capped = pass.capped_job(candidate.job);
            pass.scratch.started.count(slot, capped);
            return EntryVerdict::Started;
        }
        note_infeasible(pass, candidate, &cached, &admitted, duration);
    }
    // 3. A placement after preemption.
    if !is_deferred && preempt(pass, slot, candidate, &cached) {
        return EntryVerdict::Started;
    }
    // 4. A reservation, unless running jobs are moved together for it.
    if pass.may_reserve(&pass.lane(candidate.leaf, candidate.class))
        && reserve(pass, slot, candidate, &cached, &admitted)
    {
        return EntryVerdict::Started;
    }
    EntryVerdict::Blocked
}

/// Tries to start a candidate now, on scratch.
fn start(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    cached: &ClassCache,
    admitted: &[AdmittedChoice<'_>],
) -> bool {
    for one in admitted {
        let Some((key, placement)) = pass.place_and_hold(
            candidate.node_preferences(),
            &candidate.shape,
            one,
            &cached.eligible,
            candidate.duration,
        ) else {
            continue;
        };
        let gpus = match &one.choice.exact {
            Some(exact) => exact.clone(),
            None => gpus_by_model(&pass.state.pool, &placement),
        };
        debug_assert_eq!(
            pass.state.policy.check_start(candidate.leaf, candidate.user, &gpus, candidate.limit),
            Ok(())
        );
        pass.state.policy.try_hold(candidate.leaf, candidate.user, &gpus);
        let charge = pass.budget_charge(candidate.limit);
        let milli = candidate.shape.milli();
        pass.state.policy.queues_mut().try_charge(candidate.leaf, candidate.user, milli, charge);
        let leaf = candidate.leaf;
        let user = candidate.user;
        note_start(pass, candidate, key, &gpus);
        pass.scratch.policy_changes.push(PolicyChange::Added { leaf, user, gpus, milli, charge });
        let id = attempt_id(candidate.element.job, candidate.element.index, candidate.attempt);
        let reservation = &candidate.shape.reservation;
        let blocked = pass.state.pool.bookings().iter();
        let mut blocked = blocked.filter(|one| {
            !pass.nominated.contains(&one.element) && !pass.head_reservations.has(one.element)
        });
        let backfilled = blocked.any(|one| one.shape.reservation == *reservation);
        note_elastic_start(pass, candidate, key);
        pass.decisions.push(Decision::Start { id, placement, backfilled });
        return true;
    }
    false
}

/// Reserves a future start. Returns true if the candidate starts now after all, because running
/// jobs are moved for it.
fn reserve(
    pass: &mut PlanningPass<'_>,
    slot: EntrySlot,
    candidate: &Candidate,
    cached: &ClassCache,
    admitted: &[AdmittedChoice<'_>],
) -> bool {
    pass.scratch.heads.push(candidate.element);
    let lane = pass.lane(candidate.leaf, candidate.class);
    let lane_state = pass.scratch.lane_reservations.entry(lane.clone()).or_default();
    lane_state.visited += 1;
    let is_head = lane_state.visited == 1;
    let by_limits = if is_head { pass.plan_head_by_limits(candidate) } else { None };
    let candidate = by_limits.as_ref().unwrap_or(candidate);
    let lane_state = pass.scratch.lane_reservations.entry(lane.clone()).or_default();
    if lane_state.unreservable.contains(&candidate.class) {
        return false;
    }
    let request = ReservationRequest {
        element: candidate.element,
        shape: &candidate.shape,
        choices: admitted,
        node_filter: NodeFilter {
            shape: &candidate.shape,
            eligible: &cached.eligible,
            avoid: &candidate.avoid,
        },
        last_nodes: &candidate.last_nodes,
        duration: candidate.duration,
    };
    let found = find_reservation(pass, &request, admitted.len() == cached.choices.len());
    let starts = found.as_ref().map(|(start, ..)| *start);
    if !pass.pass_starts.is_deferred(candidate) && defragment(pass, slot, candidate, cached, starts)
    {
        return true;
    }
    match found {
        Some((start, end, placement)) => {
            let capped = pass.capped_job(candidate.job);
            pass.scratch.waiting.count(slot, capped);
            pass.scratch.lane_reservations.entry(lane).or_default().booked += 1;
            pass.state.pool.book(
                candidate.element,
                (start, end),
                Arc::clone(&candidate.shape),
                placement,
            );
        }
        None => {
            let is_head = {
                let lane_state = pass.scratch.lane_reservations.entry(lane.clone()).or_default();
                lane_state.unreservable.push(candidate.class);
                lane_state.booked == 0 && !lane_state.has_head
            };
            if is_head && wait_as_head(pass, slot, candidate, cached) {
                pass.scratch.lane_reservations.entry(lane).or_default().has_head = true;
            }
        }
    }
    false
}

/// Returns the earliest future start; the one of the pass before, if nothing has changed since.
fn find_reservation(
    pass: &mut PlanningPass<'_>,
    request: &ReservationRequest<'_>,
    is_free: bool,
) -> Option<reserve::FutureStart> {
    let is_free = is_free && request.choices.iter().all(|one| one.caps.is_empty());
    let key = (request.element, request.duration, is_free && request.node_filter.avoid.is_empty());
    let pool = &mut pass.state.pool;
    let forecast = &mut pass.scratch.forecast;
    if let Some((found, steps)) = pass.cache.reuse_reservation(pool, key) {
        debug_assert_eq!(found, reserve::earliest(&mut forecast.clone(), pool, pass.now, request));
        forecast.steps += steps;
        return found;
    }
    let before = forecast.steps;
    let found = reserve::earliest(forecast, pool, pass.now, request);
    pass.cache.insert_reservation(pool, key, found.clone(), forecast.steps - before);
    found
}

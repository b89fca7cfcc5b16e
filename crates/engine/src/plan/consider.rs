//! Handles one entry of a pass: checks limits and quota, then tries a start now, preemption, and a
//! reservation.

use std::sync::Arc;

use muster_model::queue::Backfill;
use muster_model::{
    Decision, ElementId, JobId, NodeId, Protection, Reason, Span, TaskPlacement, Time,
};
use muster_policy::{BudgetCharge, EntrySlot, LeafId, UserId};
use smallvec::SmallVec;

use super::admission::{self, Requester};
use super::cache::classes::ClassCache;
use super::defragment::defragment;
use super::elastic::note_elastic_start;
use super::eligibility::has_possible_victims;
use super::head_reservation::wait_as_head;
use super::infeasible::{is_full, is_infeasible, note_infeasible};
use super::limited::limit_key;
use super::pass_starts::{note_start, would_start};
use super::preempt::preempt;
use super::quick_reject::EntryVerdict;
use super::scratch::ReservationLane;
use super::{PlanningPass, PolicyChange};
use crate::place::capacity_bound::NodeFilter;
use crate::place::classes::ClassId;
use crate::place::gang;
use crate::place::gang::search::MAX_STEPS;
use crate::place::request::{AdmittedChoice, ModelChoice, PlacementRequest};
use crate::place::reserve::{self, ReservationRequest};
use crate::place::score::Scoring;
use crate::pool::ends::HoldingEnd;
use crate::pool::node::Interval;
use crate::pool::scope::Scope;
use crate::pool::shape::{Eligible, Shape};
use crate::pool::{HoldKey, Pool};
use crate::state::attempt::{attempt_id, gpus_by_model};
use crate::state::entries::UNLIMITED;
use crate::state::job::{Element, Job};

/// Most lookahead steps of a round for all its reservations together: a step is one node inspected
/// at one instant. About a tenth of a second. The first entries in order have their reservations by
/// then; 20 queues on 5,000 nodes never reach it.
const MAX_LOOKAHEAD: usize = 500_000;

/// One pending element, with all that a pass needs to place it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) job: JobId,
    pub(crate) element: ElementId,
    /// Number of the attempt that a start would create.
    pub(crate) attempt: u32,
    pub(crate) leaf: LeafId,
    pub(crate) user: UserId,
    pub(crate) class: ClassId,
    pub(crate) priority: i32,
    /// Protection from preemption. An element that cannot be preempted once it runs starts on its
    /// queue's own quota only.
    pub(crate) protect: Protection,
    pub(crate) shape: Arc<Shape>,
    pub(crate) avoid: SmallVec<[NodeId; 1]>,
    /// Nodes on which it ran last, by name.
    pub(crate) last_nodes: SmallVec<[NodeId; 1]>,
    /// Time limit and grace; `None` is unlimited.
    pub(crate) duration: Option<Span>,
}

/// Element to place, with the nodes that it avoids and prefers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodePreferences<'a> {
    pub(crate) element: ElementId,
    pub(crate) avoid: &'a [NodeId],
    pub(crate) last_nodes: &'a [NodeId],
}

impl Candidate {
    pub(crate) fn requester(&self) -> Requester {
        Requester { leaf: self.leaf, user: self.user, own_quota_only: self.own_quota_only() }
    }

    /// Returns true if it must not borrow, because it cannot be preempted once it runs.
    pub(crate) fn own_quota_only(&self) -> bool {
        self.protect != Protection::None
    }

    pub(crate) fn node_preferences(&self) -> NodePreferences<'_> {
        NodePreferences { element: self.element, avoid: &self.avoid, last_nodes: &self.last_nodes }
    }
}

impl PlanningPass<'_> {
    /// Returns the next element of a slot; `None` if none is left or the array's cap is reached.
    pub(crate) fn candidate(&self, slot: EntrySlot) -> Option<Candidate> {
        let owner = self.state.entries.owner(slot);
        let job = &self.state.jobs[&owner.job];
        let started = &self.scratch.started;
        let waiting = &self.scratch.waiting;
        let handled = started.of_slot(slot) + waiting.of_slot(slot);
        let record = &job.record;
        let revoked = self.revoked.get(&owner.job).copied().unwrap_or(0);
        let more = started.of_job(owner.job) + waiting.of_job(owner.job);
        if record.cap_remaining().saturating_add(revoked) <= more {
            return None;
        }
        let ordinal = match owner.ordinal {
            Some(ordinal) if handled == 0 => ordinal,
            Some(_) => return None,
            None => record.nth_unrecorded(handled)?,
        };
        Some(self.candidate_of(owner.job, job, ordinal))
    }

    /// Returns the job if it limits how many of its elements run at once.
    pub(super) fn capped_job(&self, job: JobId) -> Option<JobId> {
        let array = self.state.jobs[&job].record.spec.array.as_ref()?;
        array.max_running.map(|_| job)
    }

    /// Returns the candidate for an element.
    pub(super) fn candidate_of(&self, id: JobId, job: &Job, ordinal: u32) -> Candidate {
        let record = &job.record;
        let known = record.elements.get(&ordinal);
        let avoid = known.filter(|known| known.avoid_epoch == self.state.pool.epoch());
        Candidate {
            job: id,
            element: ElementId { job: id, index: record.index_of(ordinal) },
            attempt: known.map_or(0, |known| known.attempt) + 1,
            leaf: record.leaf,
            user: job.user,
            class: job.class,
            priority: record.spec.order_of(ordinal),
            protect: record.spec.protect_of(ordinal),
            shape: Arc::clone(self.state.classes.shape(job.class)),
            avoid: avoid.map(|known| known.avoid.clone()).unwrap_or_default(),
            last_nodes: known.map(|known| self.last_nodes(known)).unwrap_or_default(),
            duration: record.duration(),
        }
    }

    /// Returns the nodes on which an element ran last, by name.
    fn last_nodes(&self, known: &Element) -> SmallVec<[NodeId; 1]> {
        let placement = known.run.as_ref().map(|run| &run.placement[..]).unwrap_or_default();
        let mut nodes: SmallVec<[NodeId; 1]> = placement.iter().map(|task| task.node).collect();
        nodes.sort_unstable_by_key(|id| self.state.pool.node(*id).rank);
        nodes.dedup();
        nodes
    }

    /// Places a gang from now on, on scratch.
    pub(crate) fn place(
        &mut self,
        preferences: NodePreferences<'_>,
        shape: &Arc<Shape>,
        one: &AdmittedChoice<'_>,
        eligible: &Eligible,
        duration: Option<Span>,
    ) -> Option<Arc<[TaskPlacement]>> {
        self.place_and_hold(preferences, shape, one, eligible, duration)
            .map(|(_, placement)| placement)
    }

    /// As [`PlanningPass::place`]; also returns the key of its holding.
    pub(super) fn place_and_hold(
        &mut self,
        preferences: NodePreferences<'_>,
        shape: &Arc<Shape>,
        one: &AdmittedChoice<'_>,
        eligible: &Eligible,
        duration: Option<Span>,
    ) -> Option<(HoldKey, Arc<[TaskPlacement]>)> {
        let scoring = Scoring::new(self.state.policy.tree().placement, &self.state.mix);
        let request = PlacementRequest {
            scoring,
            ..placement_request(preferences, shape, one, eligible, (self.now, duration))
        };
        let end = duration.map_or(HoldingEnd::Never, HoldingEnd::After);
        gang::place(&mut self.state.pool, request, preferences.element, end, shape)
    }

    /// Returns true if a gang fits from now on by one of the choices. Changes nothing.
    pub(super) fn has_placement(
        &mut self,
        preferences: NodePreferences<'_>,
        shape: &Arc<Shape>,
        admitted: &[AdmittedChoice<'_>],
        eligible: &Eligible,
        duration: Option<Span>,
    ) -> bool {
        let now = self.now;
        let fits = |pool: &mut Pool, one| {
            gang::fits(pool, &placement_request(preferences, shape, one, eligible, (now, duration)))
        };
        if let Some(fits) = admitted.first().and_then(|one| fits(&mut self.state.pool, one)) {
            return fits;
        }
        let mark = self.state.pool.mark();
        let fits = admitted
            .iter()
            .any(|one| self.place(preferences, shape, one, eligible, duration).is_some());
        self.state.pool.rollback(mark);
        fits
    }

    /// Returns true while its lane has fewer reservations than the backfill policy makes. An entry
    /// that waits for a drained node or behind jobs without a time limit cannot get one, and does
    /// not use up those of the entries behind it. With very many queues only the first entries in
    /// order get reservations: see [`MAX_LOOKAHEAD`].
    pub(crate) fn may_reserve(&self, lane: &ReservationLane) -> bool {
        let depth = match self.state.policy.tree().backfill {
            Backfill::None | Backfill::Easy => 1,
            Backfill::Conservative { depth } => depth,
        };
        let scratch = &self.scratch;
        let may_reserve_more = scratch
            .lane_reservations
            .get(lane)
            .is_none_or(|lane_state| lane_state.may_reserve_more(depth));
        may_reserve_more && scratch.forecast.steps < MAX_LOOKAHEAD
    }

    /// Returns the budget charge of a start now.
    pub(super) fn budget_charge(&self, duration: Option<Span>) -> BudgetCharge {
        BudgetCharge { from: self.now, length: duration }
    }

    /// Returns the choices that limits, budgets and quota admit; the first refusal if there is
    /// none.
    pub(crate) fn admitted_choices<'p>(
        &self,
        candidate: &Candidate,
        choices: &'p [ModelChoice],
    ) -> Result<SmallVec<[AdmittedChoice<'p>; 1]>, Reason> {
        let requester = candidate.requester();
        let charge = self.budget_charge(candidate.duration);
        let policy = &self.state.policy;
        admission::admitted_choices(policy, requester, &candidate.shape, charge, choices)
    }
}

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
                    candidate.duration,
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
            pass.state.policy.judge_start(
                candidate.leaf,
                candidate.user,
                &gpus,
                candidate.duration
            ),
            Ok(())
        );
        pass.state.policy.try_hold(candidate.leaf, candidate.user, &gpus);
        let charge = pass.budget_charge(candidate.duration);
        let milli = candidate.shape.milli();
        pass.state.policy.try_charge(candidate.leaf, candidate.user, milli, charge);
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

/// Returns the request for a start now, anywhere in the cluster.
fn placement_request<'a>(
    preferences: NodePreferences<'a>,
    shape: &'a Shape,
    one: &'a AdmittedChoice<'_>,
    eligible: &'a Eligible,
    (now, duration): (Time, Option<Span>),
) -> PlacementRequest<'a> {
    let until = duration.map_or(Time::NEVER, |span| now + span);
    PlacementRequest {
        shape,
        scope: Scope::Cluster,
        choice: one.choice,
        caps: &one.caps,
        eligible,
        avoid: preferences.avoid,
        last_nodes: preferences.last_nodes,
        interval: Interval { now, from: now, until },
        released: None,
        max_steps: MAX_STEPS,
        scoring: None,
    }
}

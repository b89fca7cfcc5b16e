//! Candidates: one pending element each, with all that a pass needs to place it, and its placement on
//! scratch.

use std::sync::Arc;

use muster_model::{ElementId, JobId, NodeId, Protection, Reason, Span, TaskPlacement, Time};
use muster_policy::{BudgetCharge, EntrySlot, LeafId, UserId};
use smallvec::SmallVec;

use super::PlanningPass;
use super::admission::{self, Requester};
use crate::place::classes::ClassId;
use crate::place::gang;
use crate::place::gang::search::MAX_STEPS;
use crate::place::request::{AdmittedChoice, ModelChoice, PlacementRequest};
use crate::place::score::Scoring;
use crate::pool::ends::HoldingEnd;
use crate::pool::node::Interval;
use crate::pool::scope::Scope;
use crate::pool::shape::{Eligible, Shape};
use crate::pool::{HoldKey, Pool};
use crate::state::job::{Element, Job};

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
    /// Time for which planning takes it to hold resources, at most `limit`; `None` is unlimited.
    pub(crate) duration: Option<Span>,
    /// Time limit and grace, by which limits and budgets go; `None` is unlimited.
    pub(crate) limit: Option<Span>,
    /// Time since which it waits.
    pub(crate) waits_since: Time,
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

    /// Adds the time that it waits for others to end, while its places are kept.
    pub(super) fn delay(&mut self, delay: Span) {
        self.duration = self.duration.map(|span| span + delay);
        self.limit = self.limit.map(|span| span + delay);
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
            duration: self.planned_duration(record),
            limit: record.duration(),
            waits_since: record.waits_since(ordinal),
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
        let charge = self.budget_charge(candidate.limit);
        let policy = &self.state.policy;
        admission::admitted_choices(policy, requester, &candidate.shape, charge, choices)
    }
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

//! Head reservations: keep capacity that becomes free for an element that has been first in its
//! queue for too long.
//!
//! A head is the first element of a leaf that is blocked by capacity and for which no start can be
//! planned, because jobs without a time limit block it: small jobs behind it would take every
//! device as it frees. Once it has been a head for the tree's `patience`, a placement of its whole
//! gang is kept free of every element behind it, within its queue's own quota.
//!
//! # Which placement
//!
//! The one on which it would start if the jobs that have held their devices longest had ended, and
//! as few of them as possible. Services without a time limit never end by themselves and are not
//! counted on: a gang that needs their devices keeps nothing.
//!
//! # Why the wait is bounded
//!
//! Let `h` be the latest start among the jobs that a head waits for. What is kept for it is free,
//! or held by jobs that started at `h` or before; no element behind it gets any of it. So in the
//! next pass the jobs that started by `h` suffice again, and `h` never grows: the head starts when
//! all jobs have ended that ran when its reservation began, unless an element before it in the
//! order takes capacity. If every job has a time limit, each head has a planned start, and nothing
//! here has an effect.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use muster_model::{ElementId, HeadReservation, NodeId, TaskPlacement, Tier, Time};
use muster_policy::EntrySlot;
use smallvec::SmallVec;

use super::PlanningPass;
use super::admission::{self, Requester};
use super::cache::classes::ClassCache;
use super::candidate::Candidate;
use crate::place::capacity_bound::{CapacityBound, NodeFilter};
use crate::place::request::AdmittedChoice;
use crate::pool::ends::HoldingEnd;
use crate::pool::{HoldKey, Holding, Pool};
use crate::state::State;

/// Queue heads and their reservations in one round.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadReservations {
    /// Heads that the state has not recorded yet.
    pub(super) heads: Vec<ElementId>,
    /// Capacity kept for heads that have waited longer than `patience`.
    pub(super) reservations: Vec<HeadReservation>,
    /// Next time at which a head has waited longer than `patience`.
    pub(super) patience_expiry: Option<Time>,
}

impl HeadReservations {
    /// Returns true if an element has a head reservation.
    pub(super) fn has(&self, element: ElementId) -> bool {
        self.reservations.iter().any(|reservation| reservation.element == element)
    }
}

impl PlanningPass<'_> {
    /// Returns the head reservations of this round.
    pub(crate) fn head_reservations(&self) -> &[HeadReservation] {
        &self.head_reservations.reservations
    }
}

/// Clears the head reservations for a new round. What failed may have failed because of them,
/// and others may be made now.
pub(super) fn clear_head_reservations(pass: &mut PlanningPass<'_>) {
    if !pass.head_reservations.reservations.is_empty() {
        pass.cache.release_holdings();
    }
    pass.head_reservations = HeadReservations::default();
}

/// Records an element that is first in its leaf and has no planned start as its head. Returns
/// false if it cannot be one: another element of the leaf may.
pub(super) fn wait_as_head(
    pass: &mut PlanningPass<'_>,
    slot: EntrySlot,
    candidate: &Candidate,
    cached: &ClassCache,
) -> bool {
    let Some(patience) = pass.state.policy.tree().patience else { return false };
    if Tier::of_order(candidate.priority) == Tier::Opportunistic {
        return false;
    }
    // 1. Borrowed capacity could be reclaimed from it, so none is kept for it.
    let requester = Requester { own_quota_only: true, ..candidate.requester() };
    let charge = pass.budget_charge(candidate.limit);
    let admitted = admission::admitted_choices(
        &pass.state.policy,
        requester,
        &candidate.shape,
        charge,
        &cached.choices,
    );
    let Ok(admitted) = admitted else { return false };
    // 2. Has it waited longer than `patience`?
    let since = pass.state.heads.since(&pass.state.jobs, candidate.element);
    let due = since.unwrap_or(pass.now) + patience;
    if due <= pass.now {
        let Some(placement) = find_head_placement(pass, candidate, cached, &admitted) else {
            return false;
        };
        reserve_for_head(pass, slot, candidate, placement);
    } else {
        pass.head_reservations.patience_expiry =
            Some(pass.head_reservations.patience_expiry.map_or(due, |known| known.min(due)));
    }
    if since.is_none() {
        pass.head_reservations.heads.push(candidate.element);
    }
    true
}

/// Keeps a placement free of every element behind the head, in this round.
fn reserve_for_head(
    pass: &mut PlanningPass<'_>,
    slot: EntrySlot,
    candidate: &Candidate,
    placement: Arc<[TaskPlacement]>,
) {
    let capped = pass.capped_job(candidate.job);
    pass.scratch.waiting.count(slot, capped);
    let element = candidate.element;
    let shape = Arc::clone(&candidate.shape);
    // Reservations of the pass before did not have to avoid this placement.
    pass.cache.release_reservations();
    pass.state.pool.book(element, (pass.now, Time::NEVER), shape, Arc::clone(&placement));
    pass.head_reservations.reservations.push(HeadReservation { element, placement });
}

/// Returns the placement on which a head would start if as few jobs as possible had ended,
/// those that have held their devices longest.
fn find_head_placement(
    pass: &mut PlanningPass<'_>,
    candidate: &Candidate,
    cached: &ClassCache,
    choices: &[AdmittedChoice<'_>],
) -> Option<Arc<[TaskPlacement]>> {
    let shape = Arc::clone(&candidate.shape);
    let node_filter =
        NodeFilter { shape: &shape, eligible: &cached.eligible, avoid: &candidate.avoid };
    let mark = pass.state.pool.mark();
    let outer = pass.state.pool.view_inside(shape.reservation.as_ref());
    let order = longest_held(pass, node_filter);
    let bound = CapacityBound::new(&mut pass.state.pool, node_filter);
    let released = Vec::new();
    let mut search = HeadSearch {
        pass,
        candidate,
        cached,
        admitted: choices,
        node_filter,
        bound,
        released,
        found: None,
    };
    if search.release_in_order(order) {
        let all: Vec<usize> = (0..search.released.len()).collect();
        search.restore_unneeded(&all);
    }
    let found = search.found;
    pass.state.pool.rollback(mark);
    pass.state.pool.set_view(outer);
    found
}

/// Returns the holdings that end by themselves, on nodes that a gang may use, the oldest first.
/// One may be listed several times, consecutively.
fn longest_held(pass: &PlanningPass<'_>, node_filter: NodeFilter<'_>) -> HoldingQueue {
    let pool = &pass.state.pool;
    let ids = (0..pool.nodes().len() as u32).map(NodeId).filter(|id| node_filter.admits(pool, *id));
    let keys = ids.flat_map(|id| pool.node(id).holds.iter().map(|hold| hold.key));
    let ends = keys.filter(|key| ends_by_itself(pass.state, pool.holding(*key)));
    let order: Vec<_> = ends
        .map(|key| {
            let element = pool.holding(key).element;
            let run = pass.state.jobs.element(element).and_then(|element| element.run.as_ref());
            // A start of this pass has no attempt yet.
            let from = run.filter(|run| run.key == key).map_or(pass.now, |run| run.held_from);
            Reverse((from, element, key))
        })
        .collect();
    order.into()
}

/// Holdings, the oldest first.
type HoldingQueue = BinaryHeap<Reverse<(Time, ElementId, HoldKey)>>;

/// Returns false for a replica of a service without a time limit, which stays until the service is
/// cancelled.
fn ends_by_itself(state: &State, holding: &Holding) -> bool {
    holding.end != HoldingEnd::Never
        || state
            .jobs
            .get(&holding.element.job)
            .is_some_and(|job| job.record.spec.service().is_none())
}

/// Search for the placement to keep. Holdings are released on scratch.
struct HeadSearch<'r, 's> {
    pass: &'r mut PlanningPass<'s>,
    candidate: &'r Candidate,
    cached: &'r ClassCache,
    admitted: &'r [AdmittedChoice<'r>],
    node_filter: NodeFilter<'r>,
    bound: CapacityBound<'r>,
    /// Released holdings, the oldest first.
    released: Vec<HoldKey>,
    found: Option<Arc<[TaskPlacement]>>,
}

impl HeadSearch<'_, '_> {
    /// Releases one holding after the other until the gang fits. If it does not fit although the
    /// bound allows it, the next attempt is made after twice as many.
    fn release_in_order(&mut self, mut order: HoldingQueue) -> bool {
        let mut stride = 1;
        loop {
            let mut more = 1;
            if self.bound.suffices() {
                if self.fits() {
                    return true;
                }
                (more, stride) = (stride, stride * 2);
            }
            let mut released_now = 0;
            while released_now < more {
                let Some(Reverse((_, _, key))) = order.pop() else {
                    return released_now > 0 && self.bound.suffices() && self.fits();
                };
                if self.released.last() != Some(&key) {
                    self.released.push(key);
                    self.change_holding(key, Pool::park);
                    released_now += 1;
                }
            }
        }
    }

    /// Restores the holdings that need not be released, the youngest first: all that the bound
    /// allows at once, or else by halves.
    fn restore_unneeded(&mut self, indices: &[usize]) {
        let mut restored: SmallVec<[usize; 16]> = SmallVec::new();
        for at in indices.iter().rev() {
            let key = self.released[*at];
            self.change_holding(key, Pool::unpark);
            if self.bound.suffices() {
                restored.push(*at)
            } else {
                self.change_holding(key, Pool::park)
            }
        }
        if restored.is_empty() || self.fits() {
            return;
        }
        for at in restored {
            self.change_holding(self.released[at], Pool::park);
        }
        if indices.len() > 1 {
            let (first, last) = indices.split_at(indices.len() / 2);
            self.restore_unneeded(last);
            self.restore_unneeded(first);
        }
    }

    /// Applies a change to a holding, and updates the bound.
    fn change_holding(&mut self, key: HoldKey, change: impl FnOnce(&mut Pool, HoldKey)) {
        let pool = &mut self.pass.state.pool;
        let tasks = pool.holding(key).placement.iter();
        let mut nodes: SmallVec<[NodeId; 8]> = tasks.map(|task| task.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|node| self.node_filter.admits(pool, *node));
        for node in &nodes {
            self.bound.remove_node(pool.node(*node));
        }
        change(pool, key);
        for node in &nodes {
            self.bound.add_node(pool.node(*node));
        }
    }

    /// Returns true if the gang fits beside the holdings that are not released, and records the
    /// placement.
    fn fits(&mut self) -> bool {
        let candidate = self.candidate;
        let cached = self.cached;
        let mark = self.pass.state.pool.mark();
        let found = self.admitted.iter().find_map(|one| {
            let preferences = candidate.node_preferences();
            let duration = candidate.duration;
            self.pass.place(preferences, &candidate.shape, one, &cached.eligible, duration)
        });
        self.pass.state.pool.rollback(mark);
        let fits = found.is_some();
        if fits {
            self.found = found;
        }
        fits
    }
}

//! Planning: one scheduling pass over all pending entries, in the policy's order, on scratch. The
//! result is a [`Plan`]; at the end the state is rolled back. `consider.rs` handles a single entry.
//!
//! A pass has rounds. Starts change fair shares, and with them the order of entries and the entry
//! that gets the first reservation; so after a round that started something while other capacity
//! was reserved, another round runs with new reservations. A pass ends with a round that changes
//! nothing: planning again after its commit decides nothing, unless the plan decided something and
//! asks to be repeated one millisecond later ([`planner::WakeTimes`]).

pub(crate) mod admission;
pub(crate) mod advance_reservation;
mod by_limits;
pub(crate) mod cache;
mod candidate;
mod consider;
pub(crate) mod defragment;
mod elastic;
pub(crate) mod eligibility;
mod evict_by_node;
mod head_reservation;
pub(crate) mod infeasible;
mod limited;
mod pass_starts;
mod pending;
mod planner;
mod preempt;
mod quick_reject;
pub(crate) mod scratch;
mod shrink;
#[cfg(test)]
mod tests;
mod victim;

pub(crate) use candidate::{Candidate, NodePreferences};
pub(crate) use planner::{Outlook, Planner};

use std::sync::Arc;

use muster_model::queue::{Backfill, PlacementPolicy};
use muster_model::{Decision, ElementId, JobId, Plan, Reservation, Tier, Time};
use muster_policy::{BudgetCharge, EntrySlot, LeafId, ModelId, Pass, UserId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::place::classes::ClassId;
use crate::pool::{HoldKey, ScratchMark};
use crate::state::State;
use crate::state::entries::{EntryRank, EntryStanding};
use cache::PlanCache;
use defragment::PassMoves;
use elastic::ElasticStart;
use eligibility::PreemptionEligibility;
use head_reservation::{HeadReservations, clear_head_reservations};
use infeasible::{is_leaf_infeasible, is_user_infeasible};
use limited::is_user_limited;
use pass_starts::PassStarts;
use pending::{PendingPlacement, process_pending_allocations, rebook_pending};
use quick_reject::{RejectedKinds, verdict};
use scratch::{LaneReservations, ReservationLane, Scratch};

/// Most lookahead steps of a round for all its reservations together: a step is one node inspected
/// at one instant. About a tenth of a second. The first entries in order have their reservations by
/// then; 20 queues on 5,000 nodes never reach it.
const MAX_LOOKAHEAD: usize = 500_000;

/// Decision of a pass about one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryVerdict {
    /// The element starts, or is nominated to start.
    Started,
    /// No element of the entry is left to consider: all are handled, or the array's cap is reached.
    Exhausted,
    /// A limit or quota of its queue refuses it; other users and queues are not affected.
    Limited,
    /// Capacity blocks it: it does not fit now without taking held or reserved capacity.
    Blocked,
}

/// Entries of a leaf with the same requirements and priority.
type EntryKind = (LeafId, ClassId, i32);

/// Result of a round: whether another one is needed.
enum RoundOutcome {
    Again,
    Last,
    Stopped,
}

/// Change of the policy's counters that the pass made on scratch and undoes at its end.
#[derive(Debug)]
enum PolicyChange {
    /// An element starts, or is nominated to start.
    Added {
        leaf: LeafId,
        user: UserId,
        gpus: SmallVec<[(ModelId, u64); 1]>,
        milli: u64,
        charge: BudgetCharge,
    },
    /// An attempt is evicted, or an element's nomination is revoked.
    Removed { leaf: LeafId, user: UserId, gpus: SmallVec<[(ModelId, u64); 1]> },
}

/// A scheduling pass in progress. All its changes of the state are on scratch.
pub(crate) struct PlanningPass<'s> {
    pub(crate) state: &'s mut State,
    cache: &'s mut PlanCache,
    pub(crate) scratch: &'s mut Scratch,
    pub(crate) now: Time,
    mark: ScratchMark,
    /// True if victims were evicted in this round.
    has_evictions: bool,
    /// True if strict order ended the reading of a leaf in this round.
    has_stopped: bool,
    /// Pending allocations, whose capacity no other element gets.
    pending_placements: Vec<PendingPlacement>,
    /// True if a change of this pass may alter the order of entries: a pending allocation starts,
    /// or an elastic gang has grown. The next pass then checks again.
    changed_order: bool,
    /// Elements that have a pending allocation.
    nominated: FxHashSet<ElementId>,
    /// Number of elements of each job whose nomination this pass revokes: they no longer count
    /// towards the job's cap.
    revoked: FxHashMap<JobId, u32>,
    /// Holdings evicted in this pass.
    evicted: FxHashSet<HoldKey>,
    eligibility: PreemptionEligibility,
    moves: PassMoves,
    pass_starts: PassStarts,
    head_reservations: HeadReservations,
    /// True if planning goes by time limits, whatever run times are expected.
    plans_by_limits: bool,
    /// Leaf that is read to its end even if none of its entries can start: `explain` asks about one
    /// of them.
    pub(crate) asked_about: Option<LeafId>,
    decisions: Vec<Decision>,
    /// Elastic gangs that start with their minimum number of tasks and may grow.
    elastic_starts: Vec<ElasticStart>,
    /// Disables quick rejection, for comparison in tests.
    #[cfg(test)]
    visits_all: bool,
}

impl<'s> PlanningPass<'s> {
    pub(crate) fn new(state: &'s mut State, planner: &'s mut Planner, now: Time) -> Self {
        let Planner { cache, scratch, .. } = planner;
        let uses_scoring = state.policy.tree().placement != PlacementPolicy::Pack;
        let basis = (state.pool.epoch(), uses_scoring, state.classes.forgotten());
        let keep_results =
            state.pending_allocations.elements.is_empty() && !state.policy.queues().has_budgets();
        cache.begin_pass(&state.pool, now, basis, keep_results);
        state.pool.set_planned_at(None);
        scratch.clear();
        let mark = state.pool.mark();
        Self {
            state,
            cache,
            scratch,
            now,
            mark,
            has_evictions: false,
            has_stopped: false,
            pending_placements: Vec::new(),
            changed_order: false,
            nominated: FxHashSet::default(),
            revoked: FxHashMap::default(),
            evicted: FxHashSet::default(),
            eligibility: PreemptionEligibility::default(),
            moves: PassMoves::default(),
            pass_starts: PassStarts::default(),
            head_reservations: HeadReservations::default(),
            plans_by_limits: false,
            asked_about: None,
            decisions: Vec::new(),
            elastic_starts: Vec::new(),
            #[cfg(test)]
            visits_all: false,
        }
    }

    /// True unless a test disabled quick rejection.
    #[cfg_attr(
        not(test),
        expect(clippy::unused_self, reason = "tests read a field of the planner")
    )]
    fn may_quick_reject(&self) -> bool {
        #[cfg(test)]
        return !self.visits_all;
        #[cfg(not(test))]
        true
    }

    /// Considers every entry in order, until `stop` returns true for the next one. Returns whether
    /// it stopped so.
    pub(crate) fn run(&mut self, stop: impl Fn(EntrySlot) -> bool) -> bool {
        process_pending_allocations(self);
        self.rounds(stop)
    }

    /// Runs rounds until one changes nothing or `stop` returns true.
    fn rounds(&mut self, stop: impl Fn(EntrySlot) -> bool) -> bool {
        loop {
            match self.round(&stop) {
                RoundOutcome::Again => {}
                RoundOutcome::Last if self.pass_starts.next_phase() => {}
                RoundOutcome::Last => return false,
                RoundOutcome::Stopped => return true,
            }
            self.begin_round();
        }
    }

    /// Clears the reservations and round-scoped caches for a new round.
    fn begin_round(&mut self) {
        self.state.pool.clear_bookings();
        rebook_pending(self);
        self.scratch.clear_round();
        self.has_evictions = false;
        self.has_stopped = false;
        self.cache.begin_round();
        clear_head_reservations(self);
        self.eligibility.begin_round();
        self.moves.failed.clear();
    }

    /// Requests another round after an eviction: it may unblock entries that were refused before.
    fn request_round(&mut self) {
        self.has_evictions = true;
        self.cache.release_counters();
        self.eligibility.clear();
        self.pass_starts.forget_borrowing();
    }

    /// Returns the reservation lane of a class in a leaf.
    pub(crate) fn lane(&self, leaf: LeafId, class: ClassId) -> ReservationLane {
        ReservationLane { leaf, reservation: self.state.classes.shape(class).reservation.clone() }
    }

    /// Returns true while its lane has fewer reservations than the backfill policy makes. An entry
    /// that waits for a drained node or behind jobs without a time limit cannot get one, and does
    /// not use up those of the entries behind it. With very many queues only the first entries in
    /// order get reservations: see [`MAX_LOOKAHEAD`].
    pub(crate) fn may_reserve(&self, lane: &ReservationLane) -> bool {
        let lane_state = self.scratch.lane_reservations.get(lane);
        lane_state.is_none_or(|lane_state| self.may_reserve_more(lane_state))
            && self.scratch.forecast.steps < MAX_LOOKAHEAD
    }

    /// Returns true until an entry of the lane has asked for a reservation.
    pub(crate) fn is_first_in(&self, lane: &ReservationLane) -> bool {
        !self.scratch.lane_reservations.contains_key(lane)
    }

    fn may_reserve_more(&self, lane_state: &LaneReservations) -> bool {
        lane_state.may_reserve_more(match self.state.policy.tree().backfill {
            Backfill::None | Backfill::Easy => 1,
            Backfill::Conservative { depth } => depth,
        })
    }

    /// Runs one round, which visits every entry once.
    fn round(&mut self, stop: &impl Fn(EntrySlot) -> bool) -> RoundOutcome {
        let mut pass = std::mem::take(&mut self.scratch.pass);
        let mut blocked = std::mem::take(&mut self.scratch.blocked);
        pass.restart(&self.state.policy, self.now);
        blocked.clear();
        let round = self.visit_entries(&mut pass, &mut blocked, stop);
        (self.scratch.pass, self.scratch.blocked) = (pass, blocked);
        round
    }

    /// Visits every entry in the order of `pass`; `blocked` counts blocked entries per leaf.
    fn visit_entries(
        &mut self,
        pass: &mut Pass,
        blocked: &mut Vec<u32>,
        stop: &impl Fn(EntrySlot) -> bool,
    ) -> RoundOutcome {
        let is_strict = self.state.policy.tree().backfill == Backfill::None;
        let mut started: SmallVec<[EntrySlot; 8]> = SmallVec::new();
        // Leaves whose head is blocked while strict order applies; entries in an advance
        // reservation are exempt.
        let mut stopped: SmallVec<[LeafId; 4]> = SmallVec::new();
        let mut rejected = RejectedKinds::default();
        let mut tier = Tier::Normal;
        while let Some(slot) = pass.next(&self.state.policy) {
            let rank = *self.state.entries.rank(slot);
            let EntryRank { leaf, user, class, priority, .. } = rank;
            let in_strict_order = is_strict && self.lane(leaf, class).reservation.is_none();
            if in_strict_order && stopped.contains(&leaf) {
                continue;
            }
            // Opportunistic entries take only idle capacity: all others have had all their rounds
            // before.
            if tier != Tier::of_order(priority) {
                tier = Tier::of_order(priority);
                if self.needs_another_round(&mut started) {
                    return RoundOutcome::Again;
                }
            }
            if stop(slot) {
                return RoundOutcome::Stopped;
            }
            if self.is_nominated(slot) {
                continue;
            }
            let verdict = verdict(self, slot, rank, is_strict, &mut rejected);
            if self.pass_starts.retry_with.is_some() {
                return RoundOutcome::Stopped;
            }
            match verdict {
                EntryVerdict::Started => {
                    started.push(slot);
                    pass.note_start(&self.state.policy, leaf, user);
                }
                EntryVerdict::Blocked if in_strict_order => {
                    self.stop_leaf(leaf, pass, &mut stopped);
                }
                EntryVerdict::Blocked if is_leaf_infeasible(self, blocked, leaf, priority) => {
                    pass.skip_leaf(&self.state.policy, leaf);
                }
                EntryVerdict::Blocked
                    if is_user_infeasible(self, (leaf, user), priority, rejected.consecutive) =>
                {
                    pass.skip_user(&self.state.policy, leaf, user);
                }
                EntryVerdict::Limited if is_user_limited(self, leaf, user, priority) => {
                    pass.skip_user(&self.state.policy, leaf, user)
                }
                EntryVerdict::Blocked | EntryVerdict::Limited | EntryVerdict::Exhausted => {}
            }
        }
        if self.needs_another_round(&mut started) {
            RoundOutcome::Again
        } else {
            RoundOutcome::Last
        }
    }

    /// Skips the rest of a leaf in strict order, except entries in an advance reservation.
    fn stop_leaf(&mut self, leaf: LeafId, pass: &mut Pass, stopped: &mut SmallVec<[LeafId; 4]>) {
        self.has_stopped = true;
        if self.state.pool.has_advance_reservations() {
            stopped.push(leaf);
        } else {
            pass.skip_leaf(&self.state.policy, leaf);
        }
    }

    /// Returns true if a round started so much that another one may start more. `started` has one
    /// item per started element and gets sorted. Starts change the order, and so which entries get
    /// reservations and which are queue heads, also where the first entries got none and those
    /// behind them were not visited. Where a quota is used up, an entry that blocked a leaf in
    /// strict order does so no more. An array whose tickets were all used may have further
    /// elements.
    fn needs_another_round(&self, started: &mut [EntrySlot]) -> bool {
        let depends_on_order = || {
            self.has_evictions
                || self.has_stopped
                || !self.state.pool.bookings().is_empty()
                || self.head_reservations.patience_expiry.is_some()
                || self.scratch.forecast.steps >= MAX_LOOKAHEAD
                || !self
                    .scratch
                    .lane_reservations
                    .values()
                    .all(|lane_state| self.may_reserve_more(lane_state))
        };
        if !started.is_empty() && depends_on_order() {
            return true;
        }
        started.sort_unstable();
        let mut entries = started.chunk_by(|one, next| one == next);
        entries.any(|same| self.may_have_more(same[0], same.len() as u32))
    }

    /// Returns true if an entry waits for its pending allocation.
    fn is_nominated(&self, slot: EntrySlot) -> bool {
        if self.nominated.is_empty() {
            return false;
        }
        let owner = self.state.entries.owner(slot);
        let record = &self.state.jobs[&owner.job].record;
        let element = |ordinal| ElementId { job: owner.job, index: record.index_of(ordinal) };
        owner.ordinal.is_some_and(|ordinal| self.nominated.contains(&element(ordinal)))
    }

    fn may_have_more(&self, slot: EntrySlot, started: u32) -> bool {
        let owner = self.state.entries.owner(slot);
        let tickets = match self.state.entries.standing(owner) {
            EntryStanding::Queued(tickets) => tickets,
            EntryStanding::Out | EntryStanding::Sleeping(_) => 0,
        };
        owner.ordinal.is_none()
            && tickets > 1
            && started == tickets
            && self.candidate(slot).is_some()
    }

    /// Returns the elements that were blocked by capacity and have a reservation, in order.
    pub(crate) fn blocked_heads(&self) -> &[ElementId] {
        &self.scratch.heads
    }

    /// Returns true if every decision is a start in the size that was placed, and no earlier
    /// nomination or head reservation has an effect.
    fn decides_only_starts(&self) -> bool {
        let is_start = |decision: &Decision| matches!(decision, Decision::Start { .. });
        let starts = self
            .scratch
            .policy_changes
            .iter()
            .filter(|change| matches!(change, PolicyChange::Added { .. }))
            .count();
        self.decisions.iter().all(is_start)
            && (starts, starts) == (self.scratch.policy_changes.len(), self.decisions.len())
            && self.pending_placements.is_empty()
            && self.nominated.is_empty()
            && self.head_reservations.reservations.is_empty()
            && !self.changed_order
    }

    /// Returns the reservations made so far.
    fn reservations(&self) -> Vec<Reservation> {
        let bookings = self.state.pool.bookings().iter();
        bookings
            .filter(|booking| {
                !self.nominated.contains(&booking.element)
                    && !self.head_reservations.has(booking.element)
            })
            .map(|booking| Reservation {
                element: booking.element,
                start: booking.start,
                end: booking.end,
                placement: Arc::clone(&booking.placement),
            })
            .collect()
    }

    /// Ends the pass: returns the plan and restores the state.
    pub(crate) fn finish(mut self) -> Plan {
        let reservations = self.reservations();
        self.state.pool.rollback(self.mark);
        let policy = &mut self.state.policy;
        for change in self.scratch.policy_changes.drain(..).rev() {
            match change {
                PolicyChange::Added { leaf, user, gpus, milli, charge } => {
                    policy.queues_mut().undo_charge(leaf, user, milli, charge);
                    policy.undo_hold(leaf, user, &gpus);
                }
                PolicyChange::Removed { leaf, user, gpus } => policy.try_hold(leaf, user, &gpus),
            }
        }
        let HeadReservations { heads, reservations: head_reservations, .. } =
            std::mem::take(&mut self.head_reservations);
        Plan {
            decisions: std::mem::take(&mut self.decisions),
            heads,
            head_reservations,
            reservations,
        }
    }
}

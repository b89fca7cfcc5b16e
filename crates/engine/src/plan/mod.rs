//! Planning: one pass over what waits, in the policy's order, on scratch. The result is a value; at
//! the end everything is rolled back. What a pass does with one entry is in `consider.rs`.
//!
//! A pass has rounds. Starts change shares, and with them the order and whose reservation comes
//! first; so if something started while something else was reserved or kept back, another round
//! looks again with fresh reservations. A pass ends with a round that changes nothing: planning
//! again after its commit decides nothing, or the pass says that the next is to come a moment
//! later, which it does only if it decides something.

pub(crate) mod ask;
mod claims;
mod clear;
pub(crate) mod closest;
mod consider;
mod defragment;
mod elastic;
mod forecast;
mod fresh;
pub(crate) mod gang;
pub(crate) mod gauge;
pub(crate) mod hope;
pub(crate) mod idle;
mod limited;
pub(crate) mod lore;
mod patience;
mod plain;
mod preempt;
pub(crate) mod reserve;
pub(crate) mod rights;
pub(crate) mod score;
mod search;
mod share;
mod shrink;
pub(crate) mod slate;
pub(crate) mod terms;
#[cfg(test)]
mod tests;
mod topology;
mod unit;
mod walk;
mod whole;
pub(crate) mod window;

pub(crate) use consider::{Candidate, Seat};

use std::sync::Arc;

use muster_model::queue::{Backfill, PlacementPolicy};
use muster_model::{Decision, ElementId, JobId, Plan, Reservation, Span, Tier, Time};
use muster_policy::{LeafId, ModelId, Pass, Promise, Slot, UserId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::state::State;
use crate::state::entries::{Rank, Standing};
use crate::state::pool::{Checkpoint, HoldKey};
use crate::state::shape::ClassId;
use claims::Kept;
use defragment::Moves;
use elastic::Seed;
use fresh::{Fresh, MOST_TRIES, Turns};
use hope::MOMENT;
use limited::Limited;
use patience::Patience;
use rights::Rights;
use slate::Lane;

/// Makes a plan and leaves the state as it was.
pub(crate) fn plan(state: &mut State, now: Time) -> Plan {
    state.wake(now);
    state.looks = Looks::default();
    if state.entries.is_idle() && state.claims.of.is_empty() && state.elastic.is_empty() {
        state.reservations.clear();
        state.keeps.clear();
        return Plan::default();
    }
    let (looks, plan) = passes(state, now, |_| {});
    state.looks = looks;
    state.reservations.clone_from(&plan.reservations);
    state.keeps.clone_from(&plan.keeps);
    plan
}

/// When planning again may come to something else, though nothing happens. Derived by each pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looks {
    /// The first refill of a budget that refused an element.
    pub(crate) refill: Option<Time>,
    /// The first end of a protection that kept an element from making room.
    pub(crate) thaw: Option<Time>,
    /// The first end of a head's patience.
    pub(crate) patience: Option<Time>,
}

/// Passes until one starts nothing that the next would take back.
fn passes(state: &mut State, now: Time, prepare: impl Fn(&mut Planner<'_>)) -> (Looks, Plan) {
    let mut turns = Turns::default();
    for tries in 1.. {
        let mut planner = Planner::new(state, now);
        planner.fresh = Fresh::watched(turns);
        planner.fresh.is_watched = tries < MOST_TRIES;
        prepare(&mut planner);
        planner.run(|_| false);
        while planner.fresh.again.is_none() && planner.grow() {
            planner.begin_round();
            planner.rounds(|_| false);
        }
        // Somebody may have come meanwhile with a right against whom a promise is kept to, and who
        // never started here may after what did: the next pass looks at that.
        let is_settled =
            planner.decisions.is_empty() || planner.fresh.is_settled() && !planner.keeps;
        let thaw = if is_settled { planner.rights.thaw } else { Some(now + MOMENT) };
        let looks =
            Looks { refill: planner.limited.refill(), thaw, patience: planner.patience.due };
        let again = planner.fresh.again.take();
        let (only_starts, held) = (planner.only_starts(), planner.state.pool.version());
        let plan = planner.finish();
        if only_starts {
            state.lore.settle(&mut state.pool, now, &plan, held);
        }
        match again {
            Some(next) => turns = next,
            None => return (looks, plan),
        }
    }
    unreachable!("a try that is not watched is the last")
}

/// What a pass decided about one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It starts.
    Started,
    /// Nothing of it is left to be considered: all is dealt with, or its array's cap is reached.
    Nothing,
    /// A limit or quota of its queue stands against it; nobody else is affected.
    Limited,
    /// It does not fit now without touching what others hold or have reserved.
    Blocked,
}

/// Whether a round changed so much that another one is needed.
enum Round {
    Again,
    Last,
    Stopped,
}

/// What the policy was told on scratch.
#[derive(Debug)]
enum Planned {
    /// Somebody starts, or will.
    Came {
        leaf: LeafId,
        user: UserId,
        gpus: SmallVec<[(ModelId, u64); 1]>,
        milli: u64,
        promise: Promise,
    },
    /// Somebody goes, or gives up what it was promised.
    Left { leaf: LeafId, user: UserId, gpus: SmallVec<[(ModelId, u64); 1]> },
}

/// Entries of a leaf that need the same and stand at the same priority.
type Kind = (LeafId, ClassId, i32);

/// What was passed over in a round since somebody was considered last.
#[derive(Clone, Debug, Default)]
struct PassedOver {
    /// The shortest of each kind: what lasts as long is passed over as well.
    shortest: SmallVec<[(Kind, Span); PassedOver::MOST]>,
    /// Whose entry was the last.
    whose: Option<(LeafId, UserId)>,
    /// How many of theirs came one after the other.
    in_turn: u32,
}

impl PassedOver {
    /// So many kinds are known at most; entries of all others are looked at one by one.
    const MOST: usize = 8;

    fn has(&self, kind: Kind, duration: Span) -> bool {
        self.shortest.iter().any(|(known, shortest)| *known == kind && *shortest <= duration)
    }

    fn add(&mut self, kind: Kind, duration: Span) {
        if let Some((_, shortest)) = self.shortest.iter_mut().find(|(known, _)| *known == kind) {
            *shortest = duration;
        } else if self.shortest.len() < Self::MOST {
            self.shortest.push((kind, duration));
        }
    }

    fn count(&mut self, leaf: LeafId, user: UserId) {
        self.in_turn = if self.whose == Some((leaf, user)) { self.in_turn + 1 } else { 1 };
        self.whose = Some((leaf, user));
    }

    fn clear(&mut self) {
        self.shortest.clear();
        (self.whose, self.in_turn) = (None, 0);
    }
}

/// A pass under way. Everything it does to the state is on scratch.
pub(crate) struct Planner<'s> {
    pub(crate) state: &'s mut State,
    pub(crate) now: Time,
    checkpoint: Checkpoint,
    limited: Limited,
    /// Others were told to go in this round.
    has_room: bool,
    /// Places that were promised: nobody else gets them.
    kept: Vec<Kept>,
    /// What was promised before starts.
    keeps: bool,
    /// Whose they are.
    claimed: FxHashSet<ElementId>,
    /// How many elements of a job give up what they were promised, in this pass: they no longer
    /// count for its cap.
    given_up: FxHashMap<JobId, u32>,
    /// Who was told to go in this pass.
    evicted: FxHashSet<HoldKey>,
    rights: Rights,
    moves: Moves,
    fresh: Fresh,
    patience: Patience,
    /// A leaf that is read to its end even when nothing of it can start: somebody asks about an
    /// entry of it.
    pub(crate) asked_about: Option<LeafId>,
    decisions: Vec<Decision>,
    /// Gangs that start at their fewest, and may be larger.
    seeds: Vec<Seed>,
    /// A planner that passes nobody over unseen, to compare with.
    #[cfg(test)]
    looks_at_all: bool,
}

impl<'s> Planner<'s> {
    pub(crate) fn new(state: &'s mut State, now: Time) -> Self {
        let weighs = state.policy.tree().placement != PlacementPolicy::Pack;
        let basis = (state.pool.epoch(), weighs, state.classes.forgotten());
        let carries_on = state.claims.of.is_empty() && !state.policy.has_budgets();
        state.lore.begin_pass(&state.pool, now, basis, carries_on);
        state.pool.foresee(None);
        state.slate.wipe();
        let checkpoint = state.pool.checkpoint();
        Self {
            state,
            now,
            checkpoint,
            limited: Limited::default(),
            has_room: false,
            kept: Vec::new(),
            keeps: false,
            claimed: FxHashSet::default(),
            given_up: FxHashMap::default(),
            evicted: FxHashSet::default(),
            rights: Rights::default(),
            moves: Moves::default(),
            fresh: Fresh::default(),
            patience: Patience::default(),
            asked_about: None,
            decisions: Vec::new(),
            seeds: Vec::new(),
            #[cfg(test)]
            looks_at_all: false,
        }
    }

    /// Entries may be passed over unseen: always but where that is compared with.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests ask the planner"))]
    fn passes_over(&self) -> bool {
        #[cfg(test)]
        return !self.looks_at_all;
        #[cfg(not(test))]
        true
    }

    /// Considers every entry in order, until `stop` says so of the next one.
    /// Answers whether it stopped so.
    pub(crate) fn run(&mut self, stop: impl Fn(Slot) -> bool) -> bool {
        self.keep_claims();
        self.rounds(stop)
    }

    /// Round after round, until one changes nothing or `stop` says so.
    fn rounds(&mut self, stop: impl Fn(Slot) -> bool) -> bool {
        loop {
            match self.round(&stop) {
                Round::Again => {}
                Round::Last if self.fresh.next_turn() => {}
                Round::Last => return false,
                Round::Stopped => return true,
            }
            self.begin_round();
        }
    }

    /// Forgets what a round has planned ahead.
    fn begin_round(&mut self) {
        self.state.pool.clear_bookings();
        self.keep_again();
        self.state.slate.wipe_round();
        self.has_room = false;
        self.state.lore.begin_round();
        self.forget_keeps();
        self.rights.begin_round();
        self.moves.in_vain.clear();
        self.limited.count_again();
    }

    /// The lane of a class in a leaf.
    pub(crate) fn lane(&self, leaf: LeafId, class: ClassId) -> Lane {
        Lane { leaf, window: self.state.classes.shape(class).window.clone() }
    }

    /// One round: every entry once.
    fn round(&mut self, stop: &impl Fn(Slot) -> bool) -> Round {
        let mut pass = std::mem::take(&mut self.state.slate.pass);
        let mut blocked = std::mem::take(&mut self.state.slate.blocked);
        pass.begin_again(&self.state.policy, self.now);
        blocked.clear();
        let round = self.read(&mut pass, &mut blocked, stop);
        (self.state.slate.pass, self.state.slate.blocked) = (pass, blocked);
        round
    }

    /// Every entry in the order of `pass`; `blocked` counts those that are.
    fn read(
        &mut self,
        pass: &mut Pass,
        blocked: &mut Vec<u32>,
        stop: &impl Fn(Slot) -> bool,
    ) -> Round {
        let strict = self.state.policy.tree().backfill == Backfill::None;
        let mut started: SmallVec<[Slot; 8]> = SmallVec::new();
        // Leaves whose head is blocked, in strict order; what runs in a window goes on.
        let mut stopped: SmallVec<[LeafId; 4]> = SmallVec::new();
        let mut passed_over = PassedOver::default();
        let mut tier = Tier::Usual;
        while let Some(slot) = pass.next(&self.state.policy) {
            let rank = *self.state.entries.rank(slot);
            let Rank { leaf, user, class, priority, .. } = rank;
            let keeps_order = strict && self.lane(leaf, class).window.is_none();
            if keeps_order && stopped.contains(&leaf) {
                continue;
            }
            // What comes last takes what is idle: everything else has had all its rounds before.
            if tier != Tier::of_order(priority) {
                tier = Tier::of_order(priority);
                if self.goes_on(&mut started) {
                    return Round::Again;
                }
            }
            if stop(slot) {
                return Round::Stopped;
            }
            if self.is_claimed(slot) {
                continue;
            }
            let verdict = self.glance(slot, rank, strict, &mut passed_over);
            if self.fresh.again.is_some() {
                return Round::Stopped;
            }
            match verdict {
                Verdict::Started => {
                    started.push(slot);
                    pass.started(&self.state.policy, leaf, user);
                }
                Verdict::Blocked if keeps_order => match self.state.pool.has_windows() {
                    true => stopped.push(leaf),
                    false => pass.skip_leaf(&self.state.policy, leaf),
                },
                Verdict::Blocked if self.is_leaf_hopeless(blocked, leaf, priority) => {
                    pass.skip_leaf(&self.state.policy, leaf);
                }
                Verdict::Blocked
                    if self.passes_over()
                        && self.is_user_hopeless((leaf, user), priority, passed_over.in_turn) =>
                {
                    pass.skip_user(&self.state.policy, leaf, user);
                }
                Verdict::Limited if self.is_user_limited(leaf, user, priority) => {
                    pass.skip_user(&self.state.policy, leaf, user)
                }
                Verdict::Blocked | Verdict::Limited | Verdict::Nothing => {}
            }
        }
        if self.goes_on(&mut started) { Round::Again } else { Round::Last }
    }

    /// What comes of an entry. Most of a long queue end without a look at their job: a call for
    /// each costs a replay of KTH 2 %.
    #[inline(always)]
    fn glance(
        &mut self,
        slot: Slot,
        rank: Rank,
        strict: bool,
        passed_over: &mut PassedOver,
    ) -> Verdict {
        let Rank { leaf, user, class, duration, priority, .. } = rank;
        let kind = (leaf, class, priority);
        if passed_over.has(kind, duration) && self.passes_over() {
            passed_over.count(leaf, user);
            Verdict::Blocked
        } else if !self.may_reserve(&self.lane(leaf, class))
            && !self.may_preempt(leaf, class, priority, duration)
            && (self.is_hopeless(class, duration) || !strict && self.is_class_full(class))
        {
            passed_over.add(kind, duration);
            passed_over.count(leaf, user);
            Verdict::Blocked
        } else if self.is_limited(leaf, user, class, duration) && !self.has_rights(leaf, priority) {
            Verdict::Limited
        } else {
            passed_over.clear();
            self.consider(slot)
        }
    }

    /// Did a round start so much that another one may find more? `started` has an entry for each
    /// element, and is put in order. Starts change the order, and with that what is reserved for
    /// which element and which one is a head. An array whose tickets were all used up may have
    /// more, too.
    fn goes_on(&self, started: &mut [Slot]) -> bool {
        let is_kept =
            self.has_room || !self.state.pool.bookings().is_empty() || self.patience.due.is_some();
        if !started.is_empty() && is_kept {
            return true;
        }
        started.sort_unstable();
        let mut entries = started.chunk_by(|one, next| one == next);
        entries.any(|same| self.may_have_more(same[0], same.len() as u32))
    }

    /// True when an entry waits for places that it was promised.
    fn is_claimed(&self, slot: Slot) -> bool {
        if self.claimed.is_empty() {
            return false;
        }
        let owner = self.state.entries.owner(slot);
        let record = &self.state.jobs[&owner.job].record;
        let element = |ordinal| ElementId { job: owner.job, index: record.index_of(ordinal) };
        owner.ordinal.is_some_and(|ordinal| self.claimed.contains(&element(ordinal)))
    }

    fn may_have_more(&self, slot: Slot, started: u32) -> bool {
        let owner = self.state.entries.owner(slot);
        let tickets = match self.state.entries.standing(owner) {
            Standing::Queued(tickets) => tickets,
            Standing::Out | Standing::Sleeping(_) => 0,
        };
        owner.ordinal.is_none()
            && tickets > 1
            && started == tickets
            && self.candidate(slot).is_some()
    }

    /// Entries that were blocked by capacity and are protected, in order.
    pub(crate) fn blocked_heads(&self) -> &[ElementId] {
        &self.state.slate.heads
    }

    /// Nothing was decided but to start some, with the size that they were found a place for, and
    /// nothing promised before is kept.
    fn only_starts(&self) -> bool {
        let is_start = |decision: &Decision| matches!(decision, Decision::Start { .. });
        let starts = self
            .state
            .slate
            .planned
            .iter()
            .filter(|planned| matches!(planned, Planned::Came { .. }))
            .count();
        self.decisions.iter().all(is_start)
            && (starts, starts) == (self.state.slate.planned.len(), self.decisions.len())
            && self.kept.is_empty()
            && self.claimed.is_empty()
            && self.patience.keeps.is_empty()
            && !self.keeps
    }

    /// The reservations made so far.
    fn reservations(&self) -> Vec<Reservation> {
        let bookings = self.state.pool.bookings().iter();
        bookings
            .filter(|booking| {
                !self.claimed.contains(&booking.element)
                    && !self.patience.keeps_for(booking.element)
            })
            .map(|booking| Reservation {
                element: booking.element,
                start: booking.start,
                end: booking.end,
                placement: Arc::clone(&booking.placement),
            })
            .collect()
    }

    /// Ends the pass: the plan, and the state as it was.
    pub(crate) fn finish(mut self) -> Plan {
        let reservations = self.reservations();
        self.state.pool.rollback(self.checkpoint);
        let State { policy, slate, .. } = &mut *self.state;
        for planned in slate.planned.drain(..).rev() {
            match planned {
                Planned::Came { leaf, user, gpus, milli, promise } => {
                    policy.undo_promise(leaf, user, milli, promise);
                    policy.undo_hold(leaf, user, &gpus);
                }
                Planned::Left { leaf, user, gpus } => policy.try_hold(leaf, user, &gpus),
            }
        }
        let Patience { heads, keeps, .. } = std::mem::take(&mut self.patience);
        Plan { decisions: std::mem::take(&mut self.decisions), heads, keeps, reservations }
    }
}

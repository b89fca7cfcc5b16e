//! What passes know, so that they need not find it out again: what may be tried for a class,
//! whether it failed, and which dates were found for those who wait. It must not decide anything: a
//! pass without it comes to the same plan.
//!
//! **Within a round nothing is given back**, so what did not fit once does not fit later, nor for
//! longer.
//!
//! **From one pass to the next** this holds as well where the first decided nothing, or only starts
//! that were committed, and nothing was given back since: then all that is held, and until when, is
//! as the first left it, and time has only gone on. What did not fit even without reservations does
//! not fit. As long as all ends and promised dates still lie ahead, who waited first is promised
//! the same date at the same place; and who was kept back by such promises would last into them now
//! even sooner. It holds for gangs of one group without a topology alone: others are searched for,
//! and a search may give up. With windows, drains ahead or claims, whose part in it time changes, a
//! pass begins anew; and with budgets, since it is to be asked who is refused by one, and until
//! when. Where a round has started somebody after it gave a date, as it may after one that was not
//! found, no date is kept.

use std::sync::Arc;

use muster_model::{ElementId, Plan, Span, TaskPlacement, Time};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::ask::Pick;
use super::hope::MOMENT;
use super::reserve::Slot;
use crate::state::pool::Pool;
use crate::state::shape::{ClassId, Eligible, Shape};

/// Classes that limits and quota cannot tell apart: the same models, the same numbers of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms(u32);

/// What is known of a class.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    pub(crate) picks: Arc<[Pick]>,
    pub(crate) eligible: Eligible,
    pub(super) terms: Terms,
    /// One group without a topology: what did not fit is known for certain.
    is_exact: bool,
    /// When it did not fit even without reservations.
    never: Stamp,
    /// When it did not fit for so long, since something is reserved.
    kept_back: (Stamp, Span),
}

/// When something was learnt; the first is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp(u64);

/// What memos are true of: the pool's epoch, whether places are weighed, and how often classes were
/// forgotten.
pub(super) type Basis = (u64, bool, u64);

/// The answer that somebody got who asked for a date.
#[derive(Clone, Debug)]
struct Dated {
    element: ElementId,
    duration: Option<Span>,
    /// Neither limits nor what it did before had a part in it.
    is_certain: bool,
    found: Option<Slot>,
    /// How many looks ahead it took.
    looks: usize,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Lore {
    basis: Option<Basis>,
    memos: FxHashMap<ClassId, Memo>,
    terms: FxHashMap<(Arc<[Pick]>, u64), Terms>,
    /// The last that was given out.
    stamp: Stamp,
    /// Since when nothing was given back, this pass, and its round.
    era: Stamp,
    pass: Stamp,
    round: Stamp,
    /// The last pass decided nothing but what was committed, and so much had been given back by
    /// then.
    still: Option<u64>,
    /// What the last pass decided, if it was to start and nothing else.
    awaited: Option<Awaited>,
    /// The dates of the last pass in order, if they are still true; and the round in which they
    /// were given.
    dates: Vec<Dated>,
    dates_of: Stamp,
    /// What was held then: who starts in a pass changes the dates that come after.
    dates_with: u64,
    /// How many of them this round has come to, one after the other, and those that it gave itself.
    met: usize,
    own: Vec<Dated>,
    /// What was held when the first of either was given in this round.
    dated_with: Option<u64>,
}

/// Starts that are all that a pass decided.
#[derive(Debug)]
struct Awaited {
    now: Time,
    /// Of what is held without them, and how much had been given back.
    version: u64,
    returned: u64,
    placements: SmallVec<[Arc<[TaskPlacement]>; 2]>,
}

/// A copy knows nothing: it finds out anew.
impl Clone for Lore {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Lore {
    /// A pass begins. Unless it `carries_on`, nothing of the pass before counts for it.
    pub(super) fn begin_pass(&mut self, pool: &Pool, now: Time, basis: Basis, carries_on: bool) {
        self.awaited = None;
        if self.basis != Some(basis) {
            (self.basis, self.still) = (Some(basis), None);
            self.memos.clear();
            self.terms.clear();
        }
        let is_still =
            self.still.take() == Some(pool.returned()) && is_timeless(pool) && carries_on;
        self.pass = self.next_stamp();
        if !is_still {
            self.era = self.next_stamp();
        }
        // Dates depend on no end having been passed, too.
        let is_ahead = |one: &Dated| one.found.as_ref().is_none_or(|(start, ..)| *start > now);
        if !is_still || !pool.ends().are_after(now) || !self.dates.iter().all(is_ahead) {
            self.forget_dates();
        }
        self.begin_round();
    }

    /// A round begins: what failed only because of reservations may fit.
    pub(super) fn begin_round(&mut self) {
        self.round = self.next_stamp();
        self.met = 0;
        self.own.clear();
        self.dated_with = None;
    }

    /// Something was given back in this pass: what did not fit may now.
    pub(super) fn forget_failures(&mut self) {
        (self.era, self.pass) = (self.next_stamp(), self.next_stamp());
        self.round = self.next_stamp();
        self.forget_dates();
    }

    /// From here on no date of the pass before is true.
    pub(super) fn forget_dates(&mut self) {
        self.dates.clear();
        self.dates_of = Stamp::default();
    }

    /// The pass that ends decides to start some and nothing else, or nothing at all: what it knows
    /// may be true in the next. `held` is the version of what it held in the end.
    pub(super) fn settle(&mut self, pool: &mut Pool, now: Time, plan: &Plan, held: u64) {
        self.dates.truncate(self.met);
        self.dates.append(&mut self.own);
        self.dates_of = self.round;
        if self.dated_with != Some(held) {
            self.forget_dates();
        }
        if plan.decisions.is_empty() {
            return self.stand_still(pool, now);
        }
        let placements = plan.starts().map(|(_, placement, _)| Arc::clone(placement)).collect();
        let (version, returned) = (pool.version(), pool.returned());
        self.awaited = Some(Awaited { now, version, returned, placements });
    }

    /// What a plan decides is about to be done. Answers from when it was planned, if it is what the
    /// last pass decided and nothing else has happened since.
    pub(crate) fn awaits(&mut self, pool: &Pool, plan: &Plan) -> Option<Time> {
        let now = (pool.version(), pool.returned());
        let awaited =
            self.awaited.take().filter(|awaited| (awaited.version, awaited.returned) == now)?;
        let placements = plan.starts().map(|(_, placement, _)| placement);
        let is_same = awaited.placements.len() == plan.decisions.len()
            && awaited
                .placements
                .iter()
                .zip(placements)
                .all(|(one, other)| Arc::ptr_eq(one, other));
        is_same.then_some(awaited.now)
    }

    /// All is held as the last pass, which was at `now`, has left it.
    pub(crate) fn stand_still(&mut self, pool: &mut Pool, now: Time) {
        self.still = is_timeless(pool).then(|| pool.returned());
        pool.foresee(Some(now));
        self.dates_with = pool.version();
    }

    fn next_stamp(&mut self) -> Stamp {
        self.stamp.0 += 1;
        self.stamp
    }

    // ---- classes ----

    /// What is known of a class, if anything is.
    pub(super) fn known(&self, class: ClassId) -> Option<&Memo> {
        self.memos.get(&class)
    }

    /// What is known of a class; `learn` finds out what may be tried for it, and where.
    pub(super) fn memo(
        &mut self,
        class: ClassId,
        learn: impl FnOnce() -> (Arc<[Pick]>, Eligible, Arc<Shape>),
    ) -> &mut Memo {
        let terms = &mut self.terms;
        self.memos.entry(class).or_insert_with(|| {
            let (picks, eligible, shape) = learn();
            let next = Terms(terms.len() as u32);
            let terms = *terms.entry((Arc::clone(&picks), shape.milli())).or_insert(next);
            let is_exact = shape.groups.len() == 1 && shape.topology.is_none();
            let (never, kept_back) = (Stamp::default(), (Stamp::default(), Span(0)));
            Memo { picks, eligible, terms, is_exact, never, kept_back }
        })
    }

    /// A class did not fit, not even without reservations.
    pub(super) fn fail(&mut self, class: ClassId) {
        let (era, pass) = (self.era, self.pass);
        let Some(memo) = self.memos.get_mut(&class) else { return };
        if memo.never != era {
            memo.never = if memo.is_exact { era } else { pass };
        }
    }

    /// A class did not fit for so long, since something is reserved.
    pub(super) fn keep_back(&mut self, pool: &Pool, class: ClassId, duration: Span) {
        let round = self.round;
        let Some(memo) = self.memos.get(&class) else { return };
        let shortest = self.kept_back(pool, memo).map_or(duration, |known| known.min(duration));
        let Some(memo) = self.memos.get_mut(&class) else { return };
        memo.kept_back = (round, shortest);
    }

    /// True when a class is known not to fit for that long.
    pub(super) fn is_hopeless(&self, pool: &Pool, class: ClassId, duration: Span) -> bool {
        let Some(memo) = self.memos.get(&class) else { return false };
        let is_full = memo.never == self.era || memo.never == self.pass;
        is_full && duration >= MOMENT
            || self.kept_back(pool, memo).is_some_and(|shortest| shortest <= duration)
    }

    /// For how long a class is known to be kept back: what the last pass learnt counts once all
    /// that it promised is promised again.
    fn kept_back(&self, pool: &Pool, memo: &Memo) -> Option<Span> {
        let (stamp, shortest) = memo.kept_back;
        let is_known = stamp == self.round
            || memo.is_exact
                && stamp == self.dates_of
                && self.is_same(pool)
                && self.met == self.dates.len();
        (is_known && stamp != Stamp::default()).then_some(shortest)
    }

    // ---- dates ----

    /// True while all dates of this round are those of the pass before, and whoever held something
    /// then holds it for as long.
    fn is_same(&self, pool: &Pool) -> bool {
        self.own.is_empty() && self.dates_with == pool.version()
    }

    /// The date that somebody was given in the last pass, if all those before were the same; and
    /// how many looks it took.
    pub(super) fn date(
        &mut self,
        pool: &Pool,
        whose: (ElementId, Option<Span>, bool),
    ) -> Option<(Option<Slot>, usize)> {
        let is_same = self.is_same(pool);
        let known = self.dates.get(self.met).filter(|_| is_same)?;
        if !known.is_certain || (known.element, known.duration, true) != whose {
            return None;
        }
        self.met += 1;
        self.dated_with.get_or_insert(pool.version());
        Some((known.found.clone(), known.looks))
    }

    /// How many dates of the pass before were given again in this one's last round.
    #[cfg(test)]
    pub(super) fn met(&self) -> usize {
        self.met
    }

    /// Somebody is given a date.
    pub(super) fn give_date(
        &mut self,
        pool: &Pool,
        (element, duration, is_certain): (ElementId, Option<Span>, bool),
        found: Option<Slot>,
        looks: usize,
    ) {
        self.dated_with.get_or_insert(pool.version());
        self.own.push(Dated { element, duration, is_certain, found, looks });
    }
}

/// True when time changes nothing of what may be placed but by the ends of what is held.
fn is_timeless(pool: &Pool) -> bool {
    !pool.has_windows() && !pool.has_drains_ahead()
}

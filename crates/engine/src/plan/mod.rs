//! Planning: one pass over what waits, in the policy's order, on scratch. The result is a value; at the end everything
//! is rolled back. What a pass does with one entry is in [`Planner::consider`].
//!
//! A pass has rounds. Starts change shares, and with them the order and whose reservation comes first; so if something
//! started while something else was kept back by a reservation alone, another round looks again with fresh
//! reservations. A pass ends with a round that changes nothing: planning again after its commit decides nothing.

pub(crate) mod ask;
pub(crate) mod gang;
pub(crate) mod idle;
mod plain;
pub(crate) mod reserve;
mod share;
mod terms;
mod walk;
mod whole;

use std::sync::Arc;

use muster_model::queue::Backfill;
use muster_model::{
    Decision, ElementId, JobId, NodeId, Plan, Reason, Reservation, Span, TaskPlacement, Time,
};
use muster_policy::{LeafId, ModelId, Slot, UserId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::state::State;
use crate::state::attempt::{attempt_id, gpus_by_model};
use crate::state::ends::End;
use crate::state::entries::Standing;
use crate::state::node::Window;
use crate::state::pool::Checkpoint;
use crate::state::shape::{ClassId, Eligible, Shape};
use ask::{Ask, Pick, picks};
use reserve::Wish;
use terms::Admitted;

/// Makes a plan and leaves the state as it was.
pub(crate) fn plan(state: &mut State, now: Time) -> Plan {
    state.wake(now);
    if state.entries.is_idle() {
        state.reservations.clear();
        return Plan::default();
    }
    let mut planner = Planner::new(state, now);
    planner.run(|_| false);
    let plan = planner.finish();
    state.reservations.clone_from(&plan.reservations);
    plan
}

/// What a pass decided about one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It starts.
    Started,
    /// A limit or quota of its queue stands against it; nobody else is affected.
    Limited(Reason),
    /// It does not fit now without touching what others hold or have reserved.
    Blocked,
}

/// Blocked entries of a leaf after which it is worth a look whether any of the others has hope.
const LOOK_AFTER: u32 = 16;

/// One element as the pass sees it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) job: JobId,
    pub(crate) element: ElementId,
    /// Number of the attempt that a start would make.
    pub(crate) attempt: u32,
    pub(crate) leaf: LeafId,
    pub(crate) user: UserId,
    pub(crate) class: ClassId,
    pub(crate) shape: Arc<Shape>,
    pub(crate) avoid: SmallVec<[NodeId; 1]>,
    /// Limit and grace; `None` is endless.
    pub(crate) duration: Option<Span>,
}

/// Whether a round changed so much that another one is needed.
enum Round {
    Again,
    Last,
    Stopped,
}

/// A start on scratch.
struct Planned {
    leaf: LeafId,
    user: UserId,
    gpus: SmallVec<[(ModelId, u64); 1]>,
}

/// What is known of a class in this pass.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    pub(crate) picks: Arc<[Pick]>,
    pub(crate) eligible: Eligible,
    /// It did not fit until this instant; during a round nothing is given back, so it fits no longer window either.
    /// One instant from now when it would not fit even without reservations; that holds for the whole pass.
    failed: Option<Time>,
}

/// Elements that a pass has dealt with.
#[derive(Clone, Debug, Default)]
struct Taken {
    by_slot: FxHashMap<Slot, u32>,
    by_job: FxHashMap<JobId, u32>,
}

impl Taken {
    fn count(&mut self, slot: Slot, job: JobId) {
        *self.by_slot.entry(slot).or_default() += 1;
        *self.by_job.entry(job).or_default() += 1;
    }

    fn of_slot(&self, slot: Slot) -> u32 {
        self.by_slot.get(&slot).copied().unwrap_or(0)
    }

    fn of_job(&self, job: JobId) -> u32 {
        self.by_job.get(&job).copied().unwrap_or(0)
    }
}

/// A pass under way. Everything it does to the state is on scratch.
pub(crate) struct Planner<'s> {
    pub(crate) state: &'s mut State,
    pub(crate) now: Time,
    checkpoint: Checkpoint,
    memos: FxHashMap<ClassId, Memo>,
    /// Elements started in this pass.
    started: Taken,
    /// Elements reserved in this round.
    waiting: Taken,
    /// Something was kept back in this round by a reservation alone.
    contested: bool,
    /// Strict order: who blocks a queue in this round.
    heads: Vec<ElementId>,
    /// Reservations per leaf.
    reserved: FxHashMap<LeafId, u32>,
    planned: Vec<Planned>,
    decisions: Vec<Decision>,
}

impl<'s> Planner<'s> {
    pub(crate) fn new(state: &'s mut State, now: Time) -> Self {
        let checkpoint = state.pool.checkpoint();
        Self {
            state,
            now,
            checkpoint,
            memos: FxHashMap::default(),
            started: Taken::default(),
            waiting: Taken::default(),
            contested: false,
            heads: Vec::new(),
            reserved: FxHashMap::default(),
            planned: Vec::new(),
            decisions: Vec::new(),
        }
    }

    /// Considers every entry in order, until `stop` says so of the next one.
    /// Answers whether it stopped so.
    pub(crate) fn run(&mut self, stop: impl Fn(Slot) -> bool) -> bool {
        loop {
            match self.round(&stop) {
                Round::Again => {}
                Round::Last => return false,
                Round::Stopped => return true,
            }
            self.state.pool.clear_bookings();
            self.reserved.clear();
            self.waiting = Taken::default();
            self.contested = false;
            self.heads.clear();
            let for_good = self.now + Span(1);
            for memo in self.memos.values_mut() {
                memo.failed = memo.failed.filter(|failed| *failed <= for_good);
            }
        }
    }

    /// One round: every entry once.
    fn round(&mut self, stop: &impl Fn(Slot) -> bool) -> Round {
        let strict = self.state.policy.tree().backfill == Backfill::None;
        let mut pass = self.state.policy.begin_pass(self.now);
        let mut started: FxHashMap<Slot, u32> = FxHashMap::default();
        let mut blocked: FxHashMap<LeafId, u32> = FxHashMap::default();
        while let Some(slot) = pass.next(&self.state.policy) {
            if stop(slot) {
                return Round::Stopped;
            }
            let Some(candidate) = self.candidate(slot) else { continue };
            match self.consider(slot, &candidate) {
                Verdict::Started => {
                    *started.entry(slot).or_default() += 1;
                    pass.started(&self.state.policy, candidate.leaf, candidate.user);
                }
                Verdict::Blocked if strict => {
                    self.heads.push(candidate.element);
                    pass.skip_leaf(candidate.leaf);
                }
                Verdict::Blocked if self.is_leaf_hopeless(&mut blocked, candidate.leaf) => {
                    pass.skip_leaf(candidate.leaf);
                }
                Verdict::Blocked | Verdict::Limited(_) => {}
            }
        }
        // An array whose tickets were all used up may have more to start, too.
        let again = !started.is_empty() && self.contested
            || started.iter().any(|(slot, count)| self.may_have_more(*slot, *count));
        if again { Round::Again } else { Round::Last }
    }

    /// True when nothing of a leaf can start or reserve any more in this round. Asked for every blocked entry, it looks
    /// only each time that their number has doubled.
    fn is_leaf_hopeless(&self, blocked: &mut FxHashMap<LeafId, u32>, leaf: LeafId) -> bool {
        let count = blocked.entry(leaf).or_default();
        *count += 1;
        if *count < LOOK_AFTER || !count.is_power_of_two() || self.may_reserve(leaf) {
            return false;
        }
        self.state.entries.all_in_leaf(leaf, |class, duration| {
            let until = self.now + duration;
            self.memos.get(&class).and_then(|memo| memo.failed).is_some_and(|failed| failed <= until)
        })
    }

    fn may_have_more(&self, slot: Slot, started: u32) -> bool {
        let owner = self.state.entries.owner(slot);
        let tickets = match self.state.entries.standing(owner) {
            Standing::Queued(tickets) => tickets,
            Standing::Out | Standing::Sleeping(_) => 0,
        };
        owner.ordinal.is_none() && tickets > 1 && started == tickets && self.candidate(slot).is_some()
    }

    /// The next element of a slot, unless there is none or the array's cap is reached.
    pub(crate) fn candidate(&self, slot: Slot) -> Option<Candidate> {
        let owner = self.state.entries.owner(slot);
        let job = &self.state.jobs[&owner.job];
        let taken = self.started.of_slot(slot) + self.waiting.of_slot(slot);
        let record = &job.record;
        if record.cap_room() <= self.started.of_job(owner.job) + self.waiting.of_job(owner.job) {
            return None;
        }
        let ordinal = match owner.ordinal {
            Some(ordinal) if taken == 0 => ordinal,
            Some(_) => return None,
            None => record.nth_fresh(taken)?,
        };
        let known = record.elements.get(&ordinal);
        let avoid = known.filter(|known| known.avoid_epoch == self.state.pool.epoch());
        Some(Candidate {
            job: owner.job,
            element: ElementId { job: owner.job, index: record.index_of(ordinal) },
            attempt: known.map_or(0, |known| known.attempt) + 1,
            leaf: record.leaf,
            user: job.user,
            class: job.class,
            shape: Arc::clone(self.state.classes.shape(job.class)),
            avoid: avoid.map(|known| known.avoid.clone()).unwrap_or_default(),
            duration: record.duration(),
        })
    }

    /// Decides about one entry: start, reserve, or pass it over.
    fn consider(&mut self, slot: Slot, candidate: &Candidate) -> Verdict {
        let until = candidate.duration.map_or(Time::NEVER, |span| self.now + span);
        let memo = self.memo(candidate.class).clone();
        let hopeless = memo.failed.is_some_and(|failed| failed <= until);
        let reserves = self.may_reserve(candidate.leaf);
        // 1. Its class has failed and it may not reserve: nothing to do.
        if hopeless && !reserves {
            return Verdict::Blocked;
        }
        // 2. Limits and quota, for each model it could use.
        let tries = match self.admitted(candidate, &memo.picks) {
            Ok(tries) => tries,
            Err(reason) => return Verdict::Limited(reason),
        };
        // 3. A place now.
        if !hopeless {
            if self.start(candidate, &memo, &tries) {
                self.started.count(slot, candidate.job);
                return Verdict::Started;
            }
            self.learn(candidate, &memo, &tries, until);
        }
        // 4. A place later.
        if reserves {
            self.reserve(slot, candidate, &memo.eligible, &tries);
        }
        Verdict::Blocked
    }

    /// Remembers that a candidate did not fit, for everybody else of its class.
    fn learn(&mut self, candidate: &Candidate, memo: &Memo, tries: &[Admitted<'_>], until: Time) {
        // Would it fit for a moment, before any reservation begins?
        let moment = Span(1);
        let checkpoint = self.state.pool.checkpoint();
        let is_kept_back = !self.state.pool.bookings().is_empty()
            && tries.iter().any(|one| {
                self.place(candidate, &candidate.shape, one, &memo.eligible, Some(moment)).is_some()
            });
        self.state.pool.rollback(checkpoint);
        self.contested |= is_kept_back;
        let until = if is_kept_back { until } else { self.now + moment };
        let is_free = tries.len() == memo.picks.len() && tries.iter().all(|one| one.caps.is_empty());
        if candidate.avoid.is_empty() && is_free {
            let memo = self.memo(candidate.class);
            memo.failed = Some(memo.failed.map_or(until, |failed| failed.min(until)));
        }
    }

    /// Tries to start on scratch.
    fn start(&mut self, candidate: &Candidate, memo: &Memo, tries: &[Admitted<'_>]) -> bool {
        for one in tries {
            let Some(placement) =
                self.place(candidate, &candidate.shape, one, &memo.eligible, candidate.duration)
            else {
                continue;
            };
            let gpus = match &one.pick.exact {
                Some(exact) => exact.clone(),
                None => gpus_by_model(&self.state.pool, &placement),
            };
            debug_assert_eq!(self.state.policy.judge_start(candidate.leaf, candidate.user, &gpus), Ok(()));
            self.state.policy.try_hold(candidate.leaf, candidate.user, &gpus);
            self.planned.push(Planned { leaf: candidate.leaf, user: candidate.user, gpus });
            let id = attempt_id(candidate.element.job, candidate.element.index, candidate.attempt);
            let backfilled = !self.state.pool.bookings().is_empty();
            self.decisions.push(Decision::Start { id, placement, backfilled });
            return true;
        }
        false
    }

    /// Places a gang from now on, on scratch.
    pub(crate) fn place(
        &mut self,
        candidate: &Candidate,
        shape: &Arc<Shape>,
        one: &Admitted<'_>,
        eligible: &Eligible,
        duration: Option<Span>,
    ) -> Option<Arc<[TaskPlacement]>> {
        let until = duration.map_or(Time::NEVER, |span| self.now + span);
        let window = Window { now: self.now, from: self.now, until };
        let (pick, caps, avoid) = (one.pick, &one.caps, &candidate.avoid);
        let ask = Ask { shape, pick, caps, eligible, avoid, window, freed: None };
        let end = duration.map_or(End::Never, End::After);
        gang::place(&mut self.state.pool, ask, candidate.element, end, shape).map(|(_, placement)| placement)
    }

    fn reserve(&mut self, slot: Slot, candidate: &Candidate, eligible: &Eligible, tries: &[Admitted<'_>]) {
        *self.reserved.entry(candidate.leaf).or_default() += 1;
        let wish = Wish {
            element: candidate.element,
            shape: &candidate.shape,
            tries,
            eligible,
            avoid: &candidate.avoid,
            duration: candidate.duration,
        };
        if let Some((start, end, placement)) = reserve::earliest(&mut self.state.pool, self.now, &wish) {
            self.waiting.count(slot, candidate.job);
            self.state.pool.book(candidate.element, (start, end), Arc::clone(&candidate.shape), placement);
        }
    }

    /// True while its leaf has fewer blocked entries with a reservation than backfill protects.
    pub(crate) fn may_reserve(&self, leaf: LeafId) -> bool {
        let depth = match self.state.policy.tree().backfill {
            Backfill::None | Backfill::Easy => 1,
            Backfill::Conservative { depth } => depth,
        };
        self.reserved.get(&leaf).copied().unwrap_or(0) < depth
    }

    /// Tries that limits and quota admit; the first refusal when there is none.
    pub(crate) fn admitted<'p>(
        &self,
        candidate: &Candidate,
        picks: &'p [Pick],
    ) -> Result<SmallVec<[Admitted<'p>; 1]>, Reason> {
        let whose = (candidate.leaf, candidate.user);
        terms::admitted(&self.state.policy, whose, &candidate.shape, picks)
    }

    pub(crate) fn memo(&mut self, class: ClassId) -> &mut Memo {
        let state = &mut *self.state;
        self.memos.entry(class).or_insert_with(|| {
            let shape = Arc::clone(state.classes.shape(class));
            let eligible = state.classes.eligible(class, &state.pool);
            let picks = picks(&state.pool, &shape);
            Memo { picks: picks.into_iter().collect(), eligible, failed: None }
        })
    }

    /// Strict order: who blocks a queue.
    pub(crate) fn blocked_heads(&self) -> &[ElementId] {
        &self.heads
    }

    /// The reservations made so far.
    fn reservations(&self) -> Vec<Reservation> {
        let bookings = self.state.pool.bookings().iter();
        bookings
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
        for planned in self.planned.drain(..).rev() {
            self.state.policy.undo_hold(planned.leaf, planned.user, &planned.gpus);
        }
        Plan { decisions: std::mem::take(&mut self.decisions), reservations }
    }
}

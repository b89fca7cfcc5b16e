//! Planning: one pass over what waits, in the policy's order, on scratch. The result is a value; at the end everything
//! is rolled back. What a pass does with one entry is in [`Planner::consider`].

pub(crate) mod ask;
pub(crate) mod gang;
pub(crate) mod idle;
mod plain;
pub(crate) mod reserve;
mod share;
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
    /// It did not fit until this instant; during a pass nothing is given back, so it fits no longer window either.
    failed: Option<Time>,
}

/// A pass under way. Everything it does to the state is on scratch.
pub(crate) struct Planner<'s> {
    pub(crate) state: &'s mut State,
    pub(crate) now: Time,
    checkpoint: Checkpoint,
    memos: FxHashMap<ClassId, Memo>,
    /// Elements of a slot that were started or reserved in this pass.
    taken: FxHashMap<Slot, u32>,
    /// Elements of an array that were started or reserved in this pass, individual ones included.
    taken_of_job: FxHashMap<JobId, u32>,
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
            taken: FxHashMap::default(),
            taken_of_job: FxHashMap::default(),
            reserved: FxHashMap::default(),
            planned: Vec::new(),
            decisions: Vec::new(),
        }
    }

    /// Considers every entry in order, until `stop` says so of the next one.
    pub(crate) fn run(&mut self, stop: impl Fn(Slot) -> bool) {
        let strict = self.state.policy.tree().backfill == Backfill::None;
        loop {
            let mut pass = self.state.policy.begin_pass(self.now);
            let mut started: FxHashMap<Slot, u32> = FxHashMap::default();
            while let Some(slot) = pass.next(&self.state.policy) {
                if stop(slot) {
                    return;
                }
                let Some(candidate) = self.candidate(slot) else { continue };
                match self.consider(slot, &candidate) {
                    Verdict::Started => {
                        *started.entry(slot).or_default() += 1;
                        pass.started(&self.state.policy, candidate.leaf, candidate.user);
                    }
                    Verdict::Blocked if strict => pass.skip_leaf(candidate.leaf),
                    Verdict::Blocked | Verdict::Limited(_) => {}
                }
            }
            // An array whose tickets were all used up may have more to start: go round again.
            if !started.iter().any(|(slot, count)| self.may_have_more(*slot, *count)) {
                return;
            }
        }
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
        let taken = self.taken.get(&slot).copied().unwrap_or(0);
        let record = &job.record;
        if record.cap_room() <= self.taken_of_job.get(&owner.job).copied().unwrap_or(0) {
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
        let allowed = match self.allowed(candidate, &memo.picks) {
            Ok(allowed) => allowed,
            Err(reason) => return Verdict::Limited(reason),
        };
        // 3. A place now.
        if !hopeless {
            match self.start(candidate, &memo, &allowed) {
                Ok(()) => {
                    self.take(slot, candidate.job);
                    return Verdict::Started;
                }
                Err(Some(reason)) => return Verdict::Limited(reason),
                Err(None) => {}
            }
            if candidate.avoid.is_empty() && allowed.len() == memo.picks.len() {
                let memo = self.memo(candidate.class);
                memo.failed = Some(memo.failed.map_or(until, |failed| failed.min(until)));
            }
        }
        // 4. A place later.
        if reserves {
            self.reserve(slot, candidate, &memo.eligible, &allowed);
        }
        Verdict::Blocked
    }

    /// Tries to start on scratch. An error carries the quota's reason when only quota stood against it.
    fn start(&mut self, candidate: &Candidate, memo: &Memo, allowed: &[&Pick]) -> Result<(), Option<Reason>> {
        let mut refused = None;
        for pick in allowed {
            let checkpoint = self.state.pool.checkpoint();
            let Some(placement) =
                self.place(candidate, &candidate.shape, pick, &memo.eligible, candidate.duration)
            else {
                continue;
            };
            let gpus = match &pick.exact {
                Some(exact) => exact.clone(),
                None => gpus_by_model(&self.state.pool, &placement),
            };
            if pick.exact.is_none()
                && let Err(reason) = self.state.policy.judge_start(candidate.leaf, candidate.user, &gpus)
            {
                self.state.pool.rollback(checkpoint);
                refused = Some(reason);
                continue;
            }
            self.state.policy.try_hold(candidate.leaf, candidate.user, &gpus);
            self.planned.push(Planned { leaf: candidate.leaf, user: candidate.user, gpus });
            let id = attempt_id(candidate.element.job, candidate.element.index, candidate.attempt);
            let backfilled = !self.state.pool.bookings().is_empty();
            self.decisions.push(Decision::Start { id, placement, backfilled });
            return Ok(());
        }
        Err(refused)
    }

    /// Places a gang from now on, on scratch.
    pub(crate) fn place(
        &mut self,
        candidate: &Candidate,
        shape: &Arc<Shape>,
        pick: &Pick,
        eligible: &Eligible,
        duration: Option<Span>,
    ) -> Option<Arc<[TaskPlacement]>> {
        let until = duration.map_or(Time::NEVER, |span| self.now + span);
        let window = Window { now: self.now, from: self.now, until };
        let ask = Ask { shape, pick, eligible, avoid: &candidate.avoid, window, freed: None };
        let end = duration.map_or(End::Never, End::After);
        gang::place(&mut self.state.pool, ask, candidate.element, end, shape).map(|(_, placement)| placement)
    }

    fn reserve(&mut self, slot: Slot, candidate: &Candidate, eligible: &Eligible, allowed: &[&Pick]) {
        *self.reserved.entry(candidate.leaf).or_default() += 1;
        let wish = Wish {
            element: candidate.element,
            shape: &candidate.shape,
            picks: allowed,
            eligible,
            avoid: &candidate.avoid,
            duration: candidate.duration,
        };
        if let Some((start, end, placement)) = reserve::earliest(&mut self.state.pool, self.now, &wish) {
            self.take(slot, candidate.job);
            self.state.pool.book(candidate.element, (start, end), Arc::clone(&candidate.shape), placement);
        }
    }

    /// True while its leaf has fewer blocked entries with a reservation than backfill protects.
    fn may_reserve(&self, leaf: LeafId) -> bool {
        let depth = match self.state.policy.tree().backfill {
            Backfill::None | Backfill::Easy => 1,
            Backfill::Conservative { depth } => depth,
        };
        self.reserved.get(&leaf).copied().unwrap_or(0) < depth
    }

    /// Tries that limits and quota admit; the first refusal when there is none.
    pub(crate) fn allowed<'p>(
        &self,
        candidate: &Candidate,
        picks: &'p [Pick],
    ) -> Result<SmallVec<[&'p Pick; 2]>, Reason> {
        let mut allowed = SmallVec::new();
        let mut refused = None;
        for pick in picks {
            let gpus = pick.exact.as_deref().unwrap_or(&[]);
            match self.state.policy.judge_start(candidate.leaf, candidate.user, gpus) {
                Ok(()) => allowed.push(pick),
                Err(reason) => {
                    refused.get_or_insert(reason);
                }
            }
        }
        match refused {
            Some(reason) if allowed.is_empty() => Err(reason),
            _ => Ok(allowed),
        }
    }

    fn take(&mut self, slot: Slot, job: JobId) {
        *self.taken.entry(slot).or_default() += 1;
        *self.taken_of_job.entry(job).or_default() += 1;
    }

    pub(crate) fn memo(&mut self, class: ClassId) -> &mut Memo {
        let state = &mut *self.state;
        self.memos.entry(class).or_insert_with(|| {
            let shape = Arc::clone(state.classes.shape(class));
            let eligible = state.classes.eligible(class, &state.pool);
            let picks = picks(&shape, state.pool.index.models());
            Memo { picks: picks.into_iter().collect(), eligible, failed: None }
        })
    }

    /// The reservations made so far.
    pub(crate) fn reservations(&self) -> Vec<Reservation> {
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

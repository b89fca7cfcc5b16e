//! What a pass does with one entry: limits and quota, a place now, a place later.

use std::sync::Arc;

use muster_model::queue::Backfill;
use muster_model::{
    Decision, ElementId, JobId, NodeId, Protection, Reason, Span, TaskPlacement, Time,
};
use muster_policy::{LeafId, Promise, Slot, UserId};
use smallvec::SmallVec;

use super::ask::{Ask, Pick};
use super::gauge::Reach;
use super::lore::Memo;
use super::reserve::{self, Wish};
use super::score::Scoring;
use super::search::EFFORT;
use super::slate::Lane;
use super::terms::{self, Admitted, Whose};
use super::{Planned, Planner, Verdict, gang};
use crate::state::State;
use crate::state::attempt::{attempt_id, gpus_by_model};
use crate::state::ends::End;
use crate::state::entries::ENDLESS;
use crate::state::job::{Element, Job};
use crate::state::node::Window;
use crate::state::pool::{HoldKey, Pool};
use crate::state::shape::{ClassId, Eligible, Shape};
use crate::state::topology::Scope;

/// How much a round looks ahead for all its reservations together, in instants at which some node
/// is looked at: about a tenth of a second. The first in order have theirs by then; 20 queues on
/// 5,000 nodes never come to it.
const LOOKS_AHEAD: usize = 500_000;

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
    pub(crate) priority: i32,
    /// Where it may not be made to go once it runs, it starts on its queue's own quota only.
    pub(crate) protect: Protection,
    pub(crate) shape: Arc<Shape>,
    pub(crate) avoid: SmallVec<[NodeId; 1]>,
    /// Where it ran last, by name.
    pub(crate) home: SmallVec<[NodeId; 1]>,
    /// Limit and grace; `None` is endless.
    pub(crate) duration: Option<Span>,
}

/// For whom a place is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat<'a> {
    pub(crate) element: ElementId,
    pub(crate) avoid: &'a [NodeId],
    pub(crate) home: &'a [NodeId],
}

impl Candidate {
    pub(crate) fn whose(&self) -> Whose {
        Whose { leaf: self.leaf, user: self.user, owns: self.owns() }
    }

    /// It may not be made to go once it runs.
    pub(crate) fn owns(&self) -> bool {
        self.protect != Protection::None
    }

    pub(crate) fn seat(&self) -> Seat<'_> {
        Seat { element: self.element, avoid: &self.avoid, home: &self.home }
    }
}

impl Planner<'_> {
    /// The next element of a slot, unless there is none or the array's cap is reached.
    pub(crate) fn candidate(&self, slot: Slot) -> Option<Candidate> {
        let owner = self.state.entries.owner(slot);
        let job = &self.state.jobs[&owner.job];
        let (started, waiting) = (&self.state.slate.started, &self.state.slate.waiting);
        let taken = started.of_slot(slot) + waiting.of_slot(slot);
        let record = &job.record;
        let given_up = self.given_up.get(&owner.job).copied().unwrap_or(0);
        let more = started.of_job(owner.job) + waiting.of_job(owner.job);
        if record.cap_room().saturating_add(given_up) <= more {
            return None;
        }
        let ordinal = match owner.ordinal {
            Some(ordinal) if taken == 0 => ordinal,
            Some(_) => return None,
            None => record.nth_fresh(taken)?,
        };
        Some(self.candidate_of(owner.job, job, ordinal))
    }

    /// A job of which no more than so many elements may run.
    pub(super) fn capped(&self, job: JobId) -> Option<JobId> {
        let array = self.state.jobs[&job].record.spec.array.as_ref()?;
        array.max_running.map(|_| job)
    }

    /// An element as a pass sees it.
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
            home: known.map(|known| self.home(known)).unwrap_or_default(),
            duration: record.duration(),
        }
    }

    /// Where an element ran last, by name.
    fn home(&self, known: &Element) -> SmallVec<[NodeId; 1]> {
        let placement = known.run.as_ref().map(|run| &run.placement[..]).unwrap_or_default();
        let mut nodes: SmallVec<[NodeId; 1]> = placement.iter().map(|task| task.node).collect();
        nodes.sort_unstable_by_key(|id| self.state.pool.node(*id).rank);
        nodes.dedup();
        nodes
    }

    /// Decides about one entry: start, reserve, or pass it over.
    pub(super) fn consider(&mut self, slot: Slot) -> Verdict {
        let Some(candidate) = self.candidate(slot) else { return Verdict::Nothing };
        let candidate = &candidate;
        let memo = self.memo(candidate.class).clone();
        // 1. Limits, budgets and quota, for each model it could use.
        let tries = match self.admitted(candidate, &memo.picks) {
            Ok(tries) => tries,
            Err(reason) => {
                // Others may go, so that it is admitted; whether that is enough depends on more
                // than the terms.
                let depends_on_others = matches!(
                    reason,
                    Reason::Quota { .. }
                        | Reason::BorrowedTime { .. }
                        | Reason::MayNotBorrow { .. }
                        | Reason::RunningJobs { .. }
                        | Reason::GpusPerUser { .. }
                );
                let may_preempt =
                    depends_on_others && self.has_rights(candidate.leaf, candidate.priority);
                let is_put_off = self.fresh.is_put_off(candidate);
                if may_preempt && !is_put_off && self.preempt(slot, candidate, &memo) {
                    return Verdict::Started;
                }
                // Nor does what one who must not borrow is refused say anything of others.
                if !may_preempt && !candidate.owns() {
                    let key = self.limit_key(
                        candidate.leaf,
                        candidate.user,
                        candidate.duration,
                        memo.terms,
                    );
                    self.limited.refuse(key, &reason);
                }
                return Verdict::Limited;
            }
        };
        // 2. A place now.
        let duration = candidate.duration.unwrap_or(ENDLESS);
        let is_put_off = self.fresh.is_put_off(candidate);
        if !self.is_hopeless(candidate.class, duration) && !self.is_full(candidate, &memo, &tries) {
            if is_put_off && self.would_start(candidate, &memo, &tries) {
                return Verdict::Blocked;
            }
            if !is_put_off && self.start(candidate, &memo, &tries) {
                let capped = self.capped(candidate.job);
                self.state.slate.started.count(slot, capped);
                return Verdict::Started;
            }
            self.learn(candidate, &memo, &tries, duration);
        }
        // 3. A place that others leave.
        if !is_put_off && self.preempt(slot, candidate, &memo) {
            return Verdict::Started;
        }
        // 4. A place later, unless others move together for it.
        if self.may_reserve(&self.lane(candidate.leaf, candidate.class))
            && self.reserve(slot, candidate, &memo, &tries)
        {
            return Verdict::Started;
        }
        Verdict::Blocked
    }

    /// Tries to start on scratch.
    fn start(&mut self, candidate: &Candidate, memo: &Memo, tries: &[Admitted<'_>]) -> bool {
        for one in tries {
            let Some((key, placement)) = self.hold(
                candidate.seat(),
                &candidate.shape,
                one,
                &memo.eligible,
                candidate.duration,
            ) else {
                continue;
            };
            let gpus = match &one.pick.exact {
                Some(exact) => exact.clone(),
                None => gpus_by_model(&self.state.pool, &placement),
            };
            debug_assert_eq!(
                self.state.policy.judge_start(
                    candidate.leaf,
                    candidate.user,
                    &gpus,
                    candidate.duration
                ),
                Ok(())
            );
            self.state.policy.try_hold(candidate.leaf, candidate.user, &gpus);
            let promise = self.promise(candidate.duration);
            let milli = candidate.shape.milli();
            self.state.policy.try_promise(candidate.leaf, candidate.user, milli, promise);
            let (leaf, user) = (candidate.leaf, candidate.user);
            self.note_start(candidate, key, &gpus);
            self.state.slate.planned.push(Planned::Came { leaf, user, gpus, milli, promise });
            let id = attempt_id(candidate.element.job, candidate.element.index, candidate.attempt);
            let window = &candidate.shape.window;
            let ahead = self.state.pool.bookings().iter();
            let mut ahead = ahead.filter(|one| {
                !self.claimed.contains(&one.element) && !self.patience.keeps_for(one.element)
            });
            let backfilled = ahead.any(|one| one.shape.window == *window);
            self.sow(candidate, key);
            self.decisions.push(Decision::Start { id, placement, backfilled });
            return true;
        }
        false
    }

    /// Places a gang from now on, on scratch.
    pub(crate) fn place(
        &mut self,
        seat: Seat<'_>,
        shape: &Arc<Shape>,
        one: &Admitted<'_>,
        eligible: &Eligible,
        duration: Option<Span>,
    ) -> Option<Arc<[TaskPlacement]>> {
        self.hold(seat, shape, one, eligible, duration).map(|(_, placement)| placement)
    }

    /// As [`Planner::place`]; answers by what its places are held, too.
    pub(super) fn hold(
        &mut self,
        seat: Seat<'_>,
        shape: &Arc<Shape>,
        one: &Admitted<'_>,
        eligible: &Eligible,
        duration: Option<Span>,
    ) -> Option<(HoldKey, Arc<[TaskPlacement]>)> {
        let scoring = Scoring::new(self.state.policy.tree().placement, &self.state.mix);
        let ask = Ask { scoring, ..ask(seat, shape, one, eligible, (self.now, duration)) };
        let end = duration.map_or(End::Never, End::After);
        gang::place(&mut self.state.pool, ask, seat.element, end, shape)
    }

    /// Is there a place for a gang from now on, by one of these tries? Nothing changes.
    pub(super) fn has_place(
        &mut self,
        seat: Seat<'_>,
        shape: &Arc<Shape>,
        tries: &[Admitted<'_>],
        eligible: &Eligible,
        duration: Option<Span>,
    ) -> bool {
        let now = self.now;
        let fits = |pool: &mut Pool, one| {
            gang::fits(pool, &ask(seat, shape, one, eligible, (now, duration)))
        };
        if let Some(fits) = tries.first().and_then(|one| fits(&mut self.state.pool, one)) {
            return fits;
        }
        let checkpoint = self.state.pool.checkpoint();
        let fits =
            tries.iter().any(|one| self.place(seat, shape, one, eligible, duration).is_some());
        self.state.pool.rollback(checkpoint);
        fits
    }

    /// Books a place later. True when there is one now after all, since others are moved.
    fn reserve(
        &mut self,
        slot: Slot,
        candidate: &Candidate,
        memo: &Memo,
        tries: &[Admitted<'_>],
    ) -> bool {
        self.state.slate.heads.push(candidate.element);
        let lane = self.lane(candidate.leaf, candidate.class);
        let later = self.state.slate.later.entry(lane.clone()).or_default();
        later.looks += 1;
        if later.undatable.contains(&candidate.class) {
            return false;
        }
        let wish = Wish {
            element: candidate.element,
            shape: &candidate.shape,
            tries,
            reach: Reach {
                shape: &candidate.shape,
                eligible: &memo.eligible,
                avoid: &candidate.avoid,
            },
            home: &candidate.home,
            duration: candidate.duration,
        };
        let found = self.date(&wish, tries.len() == memo.picks.len());
        let starts = found.as_ref().map(|(start, ..)| *start);
        if !self.fresh.is_put_off(candidate) && self.defragment(slot, candidate, memo, starts) {
            return true;
        }
        match found {
            Some((start, end, placement)) => {
                let capped = self.capped(candidate.job);
                self.state.slate.waiting.count(slot, capped);
                self.state.slate.later.entry(lane).or_default().booked += 1;
                self.state.pool.book(
                    candidate.element,
                    (start, end),
                    Arc::clone(&candidate.shape),
                    placement,
                );
            }
            None => {
                let is_head = {
                    let later = self.state.slate.later.entry(lane.clone()).or_default();
                    later.undatable.push(candidate.class);
                    later.booked == 0 && !later.has_head
                };
                if is_head && self.wait_as_head(slot, candidate, memo) {
                    self.state.slate.later.entry(lane).or_default().has_head = true;
                }
            }
        }
        false
    }

    /// When it will fit: the same as in the pass before, if nothing has changed since.
    fn date(&mut self, wish: &Wish<'_>, is_free: bool) -> Option<reserve::Slot> {
        let is_free = is_free && wish.tries.iter().all(|one| one.caps.is_empty());
        let whose = (wish.element, wish.duration, is_free && wish.reach.avoid.is_empty());
        let State { lore, pool, slate, .. } = &mut *self.state;
        let forecast = &mut slate.forecast;
        if let Some((found, looks)) = lore.date(pool, whose) {
            debug_assert_eq!(found, reserve::earliest(&mut forecast.clone(), pool, self.now, wish));
            forecast.looks += looks;
            return found;
        }
        let before = forecast.looks;
        let found = reserve::earliest(forecast, pool, self.now, wish);
        lore.give_date(pool, whose, found.clone(), forecast.looks - before);
        found
    }

    /// True while its lane has fewer blocked entries with a reservation than backfill protects.
    /// What waits for a drained node or behind endless work cannot be dated, and does not use up
    /// the protection of those behind it. With very many queues only the first in order are
    /// protected: see [`LOOKS_AHEAD`].
    pub(crate) fn may_reserve(&self, lane: &Lane) -> bool {
        let depth = match self.state.policy.tree().backfill {
            Backfill::None | Backfill::Easy => 1,
            Backfill::Conservative { depth } => depth,
        };
        let slate = &self.state.slate;
        let goes_on = slate.later.get(lane).is_none_or(|later| later.goes_on(depth));
        goes_on && slate.forecast.looks < LOOKS_AHEAD
    }

    /// What a start now would promise.
    pub(super) fn promise(&self, duration: Option<Span>) -> Promise {
        Promise { from: self.now, length: duration }
    }

    /// Tries that limits, budgets and quota admit; the first refusal when there is none.
    pub(crate) fn admitted<'p>(
        &self,
        candidate: &Candidate,
        picks: &'p [Pick],
    ) -> Result<SmallVec<[Admitted<'p>; 1]>, Reason> {
        let whose = candidate.whose();
        let promise = self.promise(candidate.duration);
        terms::admitted(&self.state.policy, whose, &candidate.shape, promise, picks)
    }
}

/// What is looked for, anywhere from now on.
fn ask<'a>(
    seat: Seat<'a>,
    shape: &'a Shape,
    one: &'a Admitted<'_>,
    eligible: &'a Eligible,
    (now, duration): (Time, Option<Span>),
) -> Ask<'a> {
    let until = duration.map_or(Time::NEVER, |span| now + span);
    Ask {
        shape,
        scope: Scope::Cluster,
        pick: one.pick,
        caps: &one.caps,
        eligible,
        avoid: seat.avoid,
        home: seat.home,
        window: Window { now, from: now, until },
        freed: None,
        effort: EFFORT,
        scoring: None,
    }
}

//! A pass stopped at one element's place in the order: what comes before it has started and
//! reserved on scratch, and variants of it can be tried there.

use std::sync::Arc;

use muster_model::queue::Backfill;
use muster_model::view::{Eta, Holder, Moved, MovesView, OutOfService, SetAside};
use muster_model::{ElementId, JobSpec, Reason, Span, Time};
use muster_policy::{PER_GPU_SEC, Promise, Slot};

use super::ahead::{WallAhead, walls_ahead};
use super::{domains, gap, holders, kept, room, service};
use crate::plan::ask::{Caps, picks};
use crate::plan::gauge::Reach;
use crate::plan::lore::Memo;
use crate::plan::reserve::{self, Wish};
use crate::plan::terms::Admitted;
use crate::plan::{Candidate, Planner, Seat};
use crate::state::State;
use crate::state::attempt::gpus_by_model;
use crate::state::entries::Owner;
use crate::state::shape::Shape;

/// Refills that are looked at for an expected start: several budgets may refuse one after the
/// other.
const MOST_REFILLS: usize = 8;

/// See the module's description.
pub(super) struct Trial<'s> {
    planner: Planner<'s>,
    slot: Option<Slot>,
    /// The pass comes to it; else strict order, and somebody of its queue is blocked before it.
    reached: bool,
    /// `None` also when others of its array, started or planned before it, use up the array's cap.
    candidate: Option<Candidate>,
    pub(super) spec: Arc<JobSpec>,
}

/// What begins later where it would have a place now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ahead {
    /// The planned start of an element.
    Start(ElementId),
    /// A drain, or the beginning or end of a window.
    Wall(WallAhead),
}

/// What a trial found.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// What stands against a start; `None` when it would start now.
    pub(super) reason: Option<Reason>,
    /// Quota, where GPUs of a model are free that it keeps the element from.
    pub(super) quota: Option<Reason>,
}

impl From<Option<Reason>> for Finding {
    fn from(reason: Option<Reason>) -> Self {
        Self { reason, quota: None }
    }
}

impl<'s> Trial<'s> {
    /// Runs a pass up to an entry.
    pub(super) fn at(state: &'s mut State, now: Time, owner: Owner, id: ElementId) -> Self {
        let spec = Arc::clone(&state.jobs[&id.job].record.spec);
        let slot = state.entries.slot(owner);
        let asked_about = slot.map(|slot| state.entries.rank(slot).leaf);
        let mut planner = Planner::new(state, now);
        planner.asked_about = asked_about;
        let reached = planner.run(|other| Some(other) == slot);
        let candidate = slot.filter(|_| reached).and_then(|slot| planner.candidate(slot));
        let candidate = candidate.map(|one| Candidate { element: id, ..one });
        Self { planner, slot, reached, candidate, spec }
    }

    /// Rolls everything back. Answers what was tried.
    pub(super) fn end(self) -> Option<Candidate> {
        drop(self.planner.finish());
        self.candidate
    }

    pub(super) fn state(&self) -> &State {
        self.planner.state
    }

    /// What stands against a start now.
    pub(super) fn finding(&mut self) -> Finding {
        let Some(candidate) = self.candidate.clone() else {
            return if self.reached { self.capped() } else { self.behind() }.into();
        };
        let memo = self.planner.memo(candidate.class).clone();
        let tries = match self.planner.admitted(&candidate, &memo.picks) {
            Ok(tries) => tries,
            Err(reason) => return Some(reason).into(),
        };
        let mut fits = |duration: Option<Span>| {
            let checkpoint = self.planner.state.pool.checkpoint();
            let placed = tries.iter().any(|one| {
                self.planner
                    .place(candidate.seat(), &candidate.shape, one, &memo.eligible, duration)
                    .is_some()
            });
            self.planner.state.pool.rollback(checkpoint);
            placed
        };
        if fits(candidate.duration) {
            return None.into();
        }
        if fits(Some(Span(1))) {
            return self.outlasted(&candidate).into();
        }
        if let Some(reason) = self.kept(&candidate, &memo) {
            return Some(reason).into();
        }
        let caps = tries.last().map(|widest| widest.caps.clone()).unwrap_or_default();
        let quota = if caps.is_empty() { None } else { self.quota_in_the_way(&candidate, &memo) };
        let state = &mut *self.planner.state;
        let outer = state.pool.look_inside(candidate.shape.window.as_ref());
        let terms = gap::Terms { eligible: &memo.eligible, avoid: &candidate.avoid, caps: &caps };
        let gap = gap::now(&state.pool, state.policy.models(), &candidate.shape, terms);
        let together = domains::now(&state.pool, &candidate.shape, &memo.eligible);
        state.pool.look(outer);
        // Waiting for GPUs helps only where quota leaves a model that a task fits on.
        let could_wait = gap::is_short(&gap) && gap.gpus_total.0 > 0;
        match (could_wait, together, quota) {
            (false, _, Some(quota)) => Some(quota).into(),
            (_, Some(together), None) if !gap::is_short(&gap) => {
                Some(Reason::Topology(together)).into()
            }
            (_, _, quota) => Finding { reason: Some(Reason::Capacity(Box::new(gap))), quota },
        }
    }

    /// The head for which places are kept that it would fit on.
    fn kept(&mut self, candidate: &Candidate, memo: &Memo) -> Option<Reason> {
        let keep = self.planner.keeps().first()?.clone();
        let tries = self.planner.admitted(candidate, &memo.picks).ok()?;
        let checkpoint = self.planner.state.pool.checkpoint();
        self.planner.state.pool.clear_bookings();
        let seat = candidate.seat();
        let fits = tries.iter().any(|one| {
            self.planner
                .place(seat, &candidate.shape, one, &memo.eligible, candidate.duration)
                .is_some()
        });
        self.planner.state.pool.rollback(checkpoint);
        fits.then(|| kept::reason(self.state(), &keep, self.planner.now))
    }

    /// What quota says of the first place that there would be now if there were none.
    fn quota_in_the_way(&mut self, candidate: &Candidate, memo: &Memo) -> Option<Reason> {
        let mut places = memo.picks.iter().filter_map(|pick| {
            let checkpoint = self.planner.state.pool.checkpoint();
            let free = Admitted { pick, caps: Caps::new() };
            let (seat, duration) = (candidate.seat(), candidate.duration);
            let placed =
                self.planner.place(seat, &candidate.shape, &free, &memo.eligible, duration);
            let state = &mut *self.planner.state;
            state.pool.rollback(checkpoint);
            let gpus = gpus_by_model(&state.pool, &placed?);
            candidate.whose().judge(&state.policy, &gpus, duration).err()
        });
        places.next()
    }

    /// The reservation or wall that stands against it: the first whose beginning it may not
    /// outlast.
    fn outlasted(&mut self, candidate: &Candidate) -> Option<Reason> {
        let now = self.planner.now;
        let pool = &self.planner.state.pool;
        let bookings = pool.bookings().iter().map(|one| (one.start, Ahead::Start(one.element)));
        let mut starts: Vec<(Time, Ahead)> = bookings.collect();
        let walls = walls_ahead(pool, &candidate.shape, now).into_iter();
        starts.extend(walls.map(|(from, wall)| (from, Ahead::Wall(wall))));
        starts.sort_unstable();
        // What fits a window fits every shorter one.
        let outlasts = |trial: &mut Self, start: Time| {
            trial.starts(&trial.spec.clone(), Some(start.since(now) + Span(1)))
        };
        let (mut low, mut high) = (0, starts.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match outlasts(self, starts[middle].0) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let (start, what) = starts.get(low)?.clone();
        let grace = self.spec.grace;
        debug_assert!(candidate.duration.is_none_or(|duration| duration > start.since(now)));
        let longest = start.since(now).0.checked_sub(grace.0).filter(|limit| *limit > 0).map(Span);
        Some(match what {
            Ahead::Start(element) => {
                Reason::Reserved { element, start, fits_if_shorter_than: longest }
            }
            Ahead::Wall(wall) => wall.reason(&self.planner.state.pool, start, longest),
        })
    }

    /// The cap of its array, which others will use up before it. That they do already is among its
    /// own terms.
    fn capped(&self) -> Option<Reason> {
        let own = self.slot.map(|slot| self.state().entries.owner(slot).job)?;
        let record = &self.state().jobs.get(&own)?.record;
        let cap = self.spec.array.as_ref()?.max_running.filter(|_| record.cap_room() > 0)?;
        Some(Reason::ArrayCap { running: record.active, cap })
    }

    /// Strict order: who in its queue is blocked before it. Who runs in a reservation is in
    /// nobody's way.
    fn behind(&self) -> Option<Reason> {
        let own = self.slot.map(|slot| self.state().entries.owner(slot).job)?;
        let leaf = self.state().jobs.get(&own)?.record.leaf;
        let is_in_the_way = |head: &&ElementId| {
            let job = self.state().jobs.get(&head.job);
            job.is_some_and(|job| {
                job.record.leaf == leaf && job.record.spec.constraint.window.is_none()
            })
        };
        let head = *self.planner.blocked_heads().iter().find(is_in_the_way)?;
        debug_assert!(self.state().policy.tree().backfill == Backfill::None);
        Some(Reason::Behind { element: head })
    }

    /// Would the element start now with these terms, held for `duration` (its own when the terms'
    /// limit is meant)?
    pub(super) fn starts(&mut self, spec: &JobSpec, duration: Option<Span>) -> bool {
        let Some(candidate) = self.candidate.clone() else { return false };
        let state = &*self.planner.state;
        let shape: Arc<Shape> =
            match spec.groups == self.spec.groups && spec.constraint == self.spec.constraint {
                true => Arc::clone(&candidate.shape),
                false => Arc::new(state.shape_of(spec)),
            };
        let picks = picks(&state.pool, &shape, false);
        let eligible = shape.eligible(&state.pool);
        let leaf = candidate.leaf;
        if state.policy.judge_submission(leaf, spec).is_err() {
            return false;
        }
        let candidate = Candidate { shape: Arc::clone(&shape), duration, ..candidate };
        let Ok(tries) = self.planner.admitted(&candidate, &picks) else { return false };
        let checkpoint = self.planner.state.pool.checkpoint();
        let placed = tries.iter().any(|one| {
            self.planner.place(candidate.seat(), &shape, one, &eligible, duration).is_some()
        });
        self.planner.state.pool.rollback(checkpoint);
        placed
    }

    /// When it starts at the latest.
    pub(super) fn eta(&mut self, finding: &Finding) -> Option<Eta> {
        let now = self.planner.now;
        let (slot, candidate) = (self.slot?, self.candidate.clone()?);
        match &finding.reason {
            None => return Some(Eta { start: now, reserved: true }),
            Some(
                Reason::Capacity(_)
                | Reason::Topology(_)
                | Reason::Reserved { .. }
                | Reason::DrainAhead { .. }
                | Reason::WindowAhead { .. }
                | Reason::WindowEnds { .. },
            ) => {}
            Some(Reason::Budget { refills_at, .. }) => {
                return self.eta_refilled(&candidate, *refills_at);
            }
            Some(_) => return None,
        }
        let memo = self.planner.memo(candidate.class).clone();
        let tries = self.planner.admitted(&candidate, &memo.picks).ok()?;
        let reserved =
            self.planner.may_reserve(&self.planner.lane(candidate.leaf, candidate.class))
                && self.planner.candidate(slot).is_some();
        let wish = Wish {
            element: candidate.element,
            shape: &candidate.shape,
            tries: &tries,
            reach: Reach {
                shape: &candidate.shape,
                eligible: &memo.eligible,
                avoid: &candidate.avoid,
            },
            home: &candidate.home,
            duration: candidate.duration,
        };
        let state = &mut *self.planner.state;
        let (start, _, _) =
            reserve::earliest(&mut state.slate.forecast, &mut state.pool, now, &wish)?;
        Some(Eta { start, reserved })
    }

    /// When it starts at the latest if its budget is refilled at `refill`, and nobody else takes of
    /// it.
    fn eta_refilled(&mut self, candidate: &Candidate, refill: Time) -> Option<Eta> {
        // 1. The first refill after which no budget refuses it.
        let policy = &self.planner.state.policy;
        let milli = candidate.shape.milli();
        let judge = |from: Time| {
            let promise = Promise { from, length: candidate.duration };
            policy.judge_promise(candidate.leaf, candidate.user, milli, promise)
        };
        let refused_until = |at: &Time| match judge(*at) {
            Err(Reason::Budget { refills_at, .. }) => Some(refills_at),
            _ => None,
        };
        let mut refills = std::iter::successors(Some(refill), refused_until).take(MOST_REFILLS);
        let refilled = refills.find(|at| judge(*at).is_ok())?;
        // 2. Its place: what fits at some time fits later, too, as far as what runs and is reserved
        //    tells.
        let memo = self.planner.memo(candidate.class).clone();
        let tries: Vec<Admitted<'_>> =
            memo.picks.iter().map(|pick| Admitted { pick, caps: Caps::new() }).collect();
        let checkpoint = self.planner.state.pool.checkpoint();
        let fits_now = tries.iter().any(|one| {
            let (seat, duration) = (candidate.seat(), candidate.duration);
            self.planner.place(seat, &candidate.shape, one, &memo.eligible, duration).is_some()
        });
        self.planner.state.pool.rollback(checkpoint);
        if fits_now {
            return Some(Eta { start: refilled, reserved: false });
        }
        let wish = Wish {
            element: candidate.element,
            shape: &candidate.shape,
            tries: &tries,
            reach: Reach {
                shape: &candidate.shape,
                eligible: &memo.eligible,
                avoid: &candidate.avoid,
            },
            home: &candidate.home,
            duration: candidate.duration,
        };
        let (now, state) = (self.planner.now, &mut *self.planner.state);
        let (start, _, _) =
            reserve::earliest(&mut state.slate.forecast, &mut state.pool, now, &wish)?;
        Some(Eta { start: start.max(refilled), reserved: false })
    }

    /// The longest that budgets let it hold what it asks for; `None` is any length.
    pub(super) fn longest_promise(&self) -> Option<Span> {
        let candidate = self.candidate.as_ref()?;
        let (leaf, user, milli) = (candidate.leaf, candidate.user, candidate.shape.milli());
        self.state().policy.longest_promise(self.planner.now, leaf, user, milli)
    }

    /// What it could use and is drained, when it is capacity that it waits for.
    pub(super) fn out_of_service(&mut self, finding: &Finding) -> Vec<OutOfService> {
        match (&self.candidate, &finding.reason) {
            (
                Some(candidate),
                Some(Reason::Capacity(_) | Reason::Topology(_) | Reason::DrainAhead { .. }),
            ) => service::of(self.planner.state, &candidate.shape),
            _ => Vec::new(),
        }
    }

    /// What it could use and is set aside for others now, when it is capacity that it waits for.
    pub(super) fn set_aside(&mut self, finding: &Finding) -> Vec<SetAside> {
        match (&self.candidate, &finding.reason) {
            (Some(candidate), Some(Reason::Capacity(_) | Reason::Topology(_))) => {
                service::set_aside(self.planner.state, &candidate.shape)
            }
            _ => Vec::new(),
        }
    }

    /// Whom it would help to move together, when it is capacity that it waits for, and why that is
    /// not done.
    pub(super) fn moves(&mut self, finding: &Finding, eta: Option<Eta>) -> Option<MovesView> {
        let (Some(candidate), Some(Reason::Capacity(_) | Reason::Topology(_))) =
            (self.candidate.clone(), &finding.reason)
        else {
            return None;
        };
        // Others are moved only for who would be given a planned start.
        if !self.planner.may_reserve(&self.planner.lane(candidate.leaf, candidate.class)) {
            return None;
        }
        let (movers, cost, why) = self.planner.unmoved(&candidate, eta.map(|eta| eta.start))?;
        let name = |id: &ElementId| {
            self.state().jobs.get(&id.job).map(|job| job.record.spec.name.to_string())
        };
        let view = |id: &ElementId| Some(Moved { element: *id, name: name(id)? });
        Some(MovesView {
            jobs: movers.iter().filter_map(view).take(room::MOST).collect(),
            count: movers.len() as u32,
            cost_gpu_secs: cost.div_ceil(PER_GPU_SEC),
            why,
        })
    }

    /// Who holds GPUs that it could use, when it is capacity that it waits for.
    pub(super) fn holders(&mut self, finding: &Finding) -> Vec<Holder> {
        let Some(candidate) = &self.candidate else { return Vec::new() };
        match &finding.reason {
            Some(Reason::Capacity(_) | Reason::Topology(_)) => {
                let (state, shape) = (&mut *self.planner.state, &candidate.shape);
                let outer = state.pool.look_inside(shape.window.as_ref());
                let found = holders::of(state, self.planner.now, shape);
                state.pool.look(outer);
                found
            }
            _ => Vec::new(),
        }
    }
}

/// False when there is no place for it even if nobody started before it, nothing was promised, and
/// no quota stood against it.
pub(super) fn has_place(state: &mut State, now: Time, candidate: &Candidate) -> bool {
    let mut planner = Planner::new(state, now);
    let memo = planner.memo(candidate.class).clone();
    let seat = Seat { element: candidate.element, avoid: &[], home: &[] };
    let has_place = memo.picks.iter().any(|pick| {
        let free = Admitted { pick, caps: Caps::new() };
        planner.place(seat, &candidate.shape, &free, &memo.eligible, candidate.duration).is_some()
    });
    drop(planner.finish());
    has_place
}

//! A pass stopped at one element's place in the order: all elements before it have started or
//! reserved on scratch, and variants of the element can be tried.

use std::sync::Arc;

use muster_model::queue::Backfill;
use muster_model::view::{
    Eta, Holder, MovedJob, MovesView, OutOfService, ReservedCapacity, UsedOutside,
};
use muster_model::{ElementId, JobSpec, Reason, Span, Time};
use muster_policy::{BudgetCharge, EntrySlot, PER_GPU_SEC};

use super::upcoming::{UpcomingUnavailability, upcoming_unavailability};
use super::{head_reservation, holders, out_of_service, preemption};
use crate::place::capacity_bound::NodeFilter;
use crate::place::gap::{self, domains};
use crate::place::request::{AdmittedChoice, ModelCaps, model_choices};
use crate::place::reserve::{self, ReservationRequest};
use crate::plan::cache::classes::ClassCache;
use crate::plan::defragment::why_not_moved;
use crate::plan::{Candidate, NodePreferences, Planner, PlanningPass};
use crate::pool::shape::Shape;
use crate::state::State;
use crate::state::attempt::gpus_by_model;
use crate::state::entries::EntryOwner;

/// Maximum number of budget refills tried for an expected start: several budgets may refuse one
/// after another.
const MAX_REFILLS: usize = 8;

/// Pass stopped at one element's place in the order.
pub(super) struct PlanTrial<'s> {
    pass: PlanningPass<'s>,
    slot: Option<EntrySlot>,
    /// True when the pass reaches the element; false with strict order when an earlier element of
    /// its queue is blocked.
    reached: bool,
    /// `None` also if earlier elements of its array use up the array's limit.
    candidate: Option<Candidate>,
    pub(super) spec: Arc<JobSpec>,
}

/// Planned start, drain or advance reservation on capacity that is free now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LaterEvent {
    /// Planned start of an element.
    Start(ElementId),
    /// Begin of a drain, or begin or end of an advance reservation.
    Unavailable(UpcomingUnavailability),
}

/// Result of a trial.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// Reason that prevents a start; `None` if it would start now.
    pub(super) reason: Option<Reason>,
    /// Quota that keeps the element from GPUs that are free.
    pub(super) quota: Option<Reason>,
}

impl From<Option<Reason>> for Finding {
    fn from(reason: Option<Reason>) -> Self {
        Self { reason, quota: None }
    }
}

impl<'s> PlanTrial<'s> {
    /// Runs a pass up to an entry.
    pub(super) fn at(
        state: &'s mut State,
        planner: &'s mut Planner,
        now: Time,
        (owner, id): (EntryOwner, ElementId),
    ) -> Self {
        let spec = Arc::clone(&state.jobs[&id.job].record.spec);
        let slot = state.entries.slot(owner);
        let asked_about = slot.map(|slot| state.entries.rank(slot).leaf);
        let mut pass = PlanningPass::new(state, planner, now);
        pass.asked_about = asked_about;
        let reached = pass.run(|other| Some(other) == slot);
        let candidate = slot.filter(|_| reached).and_then(|slot| pass.candidate(slot));
        let candidate = candidate.map(|one| Candidate { element: id, ..one });
        Self { pass, slot, reached, candidate, spec }
    }

    /// Rolls everything back. Returns the tried candidate.
    pub(super) fn end(self) -> Option<Candidate> {
        drop(self.pass.finish());
        self.candidate
    }

    pub(super) fn state(&self) -> &State {
        self.pass.state
    }

    /// Returns what prevents a start now.
    pub(super) fn finding(&mut self) -> Finding {
        let Some(candidate) = self.candidate.clone() else {
            return if self.reached { self.array_limit() } else { self.behind() }.into();
        };
        let cached = self.pass.class_cache(candidate.class).clone();
        let tries = match self.pass.admitted_choices(&candidate, &cached.choices) {
            Ok(tries) => tries,
            Err(reason) => return Some(reason).into(),
        };
        let mut fits = |duration: Option<Span>| {
            let checkpoint = self.pass.state.pool.mark();
            let placed = tries.iter().any(|one| {
                self.pass
                    .place(
                        candidate.node_preferences(),
                        &candidate.shape,
                        one,
                        &cached.eligible,
                        duration,
                    )
                    .is_some()
            });
            self.pass.state.pool.rollback(checkpoint);
            placed
        };
        if fits(candidate.duration) {
            return None.into();
        }
        if fits(Some(Span(1))) {
            return self.blocking_reservation(&candidate).into();
        }
        if let Some(reason) = self.head_reservation(&candidate, &cached) {
            return Some(reason).into();
        }
        let caps = tries.last().map(|widest| widest.caps.clone()).unwrap_or_default();
        let quota = if caps.is_empty() { None } else { self.blocking_quota(&candidate, &cached) };
        let state = &mut *self.pass.state;
        let outer = state.pool.view_inside(candidate.shape.reservation.as_ref());
        let terms =
            gap::GapTerms { eligible: &cached.eligible, avoid: &candidate.avoid, caps: &caps };
        let gap = gap::now(&state.pool, state.policy.models(), &candidate.shape, terms);
        let together = domains::now(&state.pool, &candidate.shape, &cached.eligible);
        state.pool.set_view(outer);
        // Waiting for GPUs helps only if quota leaves a model on which a task fits.
        let could_wait = gap::is_short(&gap) && gap.gpus_total.0 > 0;
        match (could_wait, together, quota) {
            (false, _, Some(quota)) => Some(quota).into(),
            (_, Some(together), None) if !gap::is_short(&gap) => {
                Some(Reason::Topology(together)).into()
            }
            (_, _, quota) => Finding { reason: Some(Reason::Capacity(Box::new(gap))), quota },
        }
    }

    /// Returns the queue head whose reserved places the element would fit on.
    fn head_reservation(&mut self, candidate: &Candidate, cached: &ClassCache) -> Option<Reason> {
        let reserved = self.pass.head_reservations().first()?.clone();
        let tries = self.pass.admitted_choices(candidate, &cached.choices).ok()?;
        let checkpoint = self.pass.state.pool.mark();
        self.pass.state.pool.clear_bookings();
        let seat = candidate.node_preferences();
        let fits = tries.iter().any(|one| {
            self.pass
                .place(seat, &candidate.shape, one, &cached.eligible, candidate.duration)
                .is_some()
        });
        self.pass.state.pool.rollback(checkpoint);
        fits.then(|| head_reservation::reason(self.state(), &reserved, self.pass.now))
    }

    /// Returns the quota that refuses the first place that is free now.
    fn blocking_quota(&mut self, candidate: &Candidate, cached: &ClassCache) -> Option<Reason> {
        let mut places = cached.choices.iter().filter_map(|pick| {
            let checkpoint = self.pass.state.pool.mark();
            let free = AdmittedChoice { choice: pick, caps: ModelCaps::new() };
            let seat = candidate.node_preferences();
            let duration = candidate.duration;
            let placed = self.pass.place(seat, &candidate.shape, &free, &cached.eligible, duration);
            let state = &mut *self.pass.state;
            state.pool.rollback(checkpoint);
            let gpus = gpus_by_model(&state.pool, &placed?);
            candidate.requester().check(&state.policy, &gpus, candidate.limit).err()
        });
        places.next()
    }

    /// Returns the reservation or unavailability that prevents a start: the first whose begin the
    /// element may not outlast.
    fn blocking_reservation(&mut self, candidate: &Candidate) -> Option<Reason> {
        let now = self.pass.now;
        let pool = &self.pass.state.pool;
        let bookings =
            pool.bookings().iter().map(|one| (one.start, LaterEvent::Start(one.element)));
        let mut starts: Vec<(Time, LaterEvent)> = bookings.collect();
        let unavailable = upcoming_unavailability(pool, &candidate.shape, now).into_iter();
        starts.extend(unavailable.map(|(from, cause)| (from, LaterEvent::Unavailable(cause))));
        starts.sort_unstable();
        // A placement that fits for a period fits for every shorter one.
        let outlasts = |trial: &mut Self, start: Time| {
            trial.starts(&trial.spec.clone(), Some(start.since(now) + Span(1)))
        };
        let mut low = 0;
        let mut high = starts.len();
        while low < high {
            let middle = low + (high - low) / 2;
            if outlasts(self, starts[middle].0) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (start, what) = starts.get(low)?.clone();
        let grace = self.spec.grace;
        debug_assert!(candidate.duration.is_none_or(|duration| duration > start.since(now)));
        let longest = start.since(now).0.checked_sub(grace.0).filter(|limit| *limit > 0).map(Span);
        Some(match what {
            LaterEvent::Start(element) => {
                let predicted = self.pass.plans_by_predictions();
                Reason::Reserved { element, start, predicted, fits_if_shorter_than: longest }
            }
            LaterEvent::Unavailable(cause) => cause.reason(&self.pass.state.pool, start, longest),
        })
    }

    /// Returns the limit of its array if earlier elements will use it up. A limit that is used up
    /// already is among its own reasons.
    fn array_limit(&self) -> Option<Reason> {
        let own = self.slot.map(|slot| self.state().entries.owner(slot).job)?;
        let record = &self.state().jobs.get(&own)?.record;
        let cap = self.spec.array.as_ref()?.max_running.filter(|_| record.cap_remaining() > 0)?;
        Some(Reason::ArrayCap { running: record.active, cap })
    }

    /// Returns the blocked element before it in its queue, with strict order. Elements in a
    /// reservation block no others.
    fn behind(&self) -> Option<Reason> {
        let own = self.slot.map(|slot| self.state().entries.owner(slot).job)?;
        let leaf = self.state().jobs.get(&own)?.record.leaf;
        let is_in_the_way = |head: &&ElementId| {
            let job = self.state().jobs.get(&head.job);
            job.is_some_and(|job| {
                job.record.leaf == leaf && job.record.spec.constraint.advance_reservation.is_none()
            })
        };
        let head = *self.pass.blocked_heads().iter().find(is_in_the_way)?;
        debug_assert!(self.state().policy.tree().backfill == Backfill::None);
        Some(Reason::Behind { element: head })
    }

    /// True when the element would start now with this spec, held for `duration`.
    pub(super) fn starts(&mut self, spec: &JobSpec, duration: Option<Span>) -> bool {
        let Some(candidate) = self.candidate.clone() else { return false };
        let state = &*self.pass.state;
        let has_same_shape =
            spec.groups == self.spec.groups && spec.constraint == self.spec.constraint;
        let shape: Arc<Shape> = if has_same_shape {
            Arc::clone(&candidate.shape)
        } else {
            Arc::new(state.shape_of(spec))
        };
        let picks = model_choices(&state.pool, &shape, false);
        let eligible = shape.eligible(&state.pool);
        let leaf = candidate.leaf;
        if state.policy.check_submission(leaf, spec).is_err() {
            return false;
        }
        let candidate =
            Candidate { shape: Arc::clone(&shape), duration, limit: duration, ..candidate };
        let Ok(tries) = self.pass.admitted_choices(&candidate, &picks) else { return false };
        let checkpoint = self.pass.state.pool.mark();
        let placed = tries.iter().any(|one| {
            self.pass
                .place(candidate.node_preferences(), &shape, one, &eligible, duration)
                .is_some()
        });
        self.pass.state.pool.rollback(checkpoint);
        placed
    }

    /// Returns its latest start.
    pub(super) fn eta(&mut self, finding: &Finding) -> Option<Eta> {
        let now = self.pass.now;
        let slot = self.slot?;
        let candidate = self.candidate.clone()?;
        match &finding.reason {
            None => return Some(Eta { start: now, reserved: true, predicted: false }),
            Some(
                Reason::Capacity(_)
                | Reason::Topology(_)
                | Reason::Reserved { .. }
                | Reason::UpcomingDrain { .. }
                | Reason::UpcomingAdvanceReservation { .. }
                | Reason::AdvanceReservationEnds { .. },
            ) => {}
            Some(Reason::Budget { refills_at, .. }) => {
                return self.eta_refilled(&candidate, *refills_at);
            }
            Some(_) => return None,
        }
        let lane = self.pass.lane(candidate.leaf, candidate.class);
        let is_head = self.pass.is_first_in(&lane);
        let by_limits = if is_head { self.pass.plan_head_by_limits(&candidate) } else { None };
        let candidate = by_limits.unwrap_or(candidate);
        let cached = self.pass.class_cache(candidate.class).clone();
        let tries = self.pass.admitted_choices(&candidate, &cached.choices).ok()?;
        let reserved = self.pass.may_reserve(&lane) && self.pass.candidate(slot).is_some();
        let wish = ReservationRequest {
            element: candidate.element,
            shape: &candidate.shape,
            choices: &tries,
            node_filter: NodeFilter {
                shape: &candidate.shape,
                eligible: &cached.eligible,
                avoid: &candidate.avoid,
            },
            last_nodes: &candidate.last_nodes,
            duration: candidate.duration,
        };
        let pool = &mut self.pass.state.pool;
        let (start, _, _) = reserve::earliest(&mut self.pass.scratch.forecast, pool, now, &wish)?;
        Some(Eta { start, reserved, predicted: self.pass.plans_by_predictions() })
    }

    /// Returns its latest start if its budget is refilled at `refill` and no other job uses it.
    fn eta_refilled(&mut self, candidate: &Candidate, refill: Time) -> Option<Eta> {
        // 1. The first refill after which no budget refuses it.
        let policy = &self.pass.state.policy;
        let milli = candidate.shape.milli();
        let check = |from: Time| {
            let charge = BudgetCharge { from, length: candidate.limit };
            policy.check_charge(candidate.leaf, candidate.user, milli, charge)
        };
        let refused_until = |at: &Time| match check(*at) {
            Err(Reason::Budget { refills_at, .. }) => Some(refills_at),
            _ => None,
        };
        let mut refills = std::iter::successors(Some(refill), refused_until).take(MAX_REFILLS);
        let refilled = refills.find(|at| check(*at).is_ok())?;
        // 2. Placement. An element that fits at some time also fits later, as far as the known
        //    holdings and reservations tell.
        let cached = self.pass.class_cache(candidate.class).clone();
        let tries: Vec<AdmittedChoice<'_>> = cached
            .choices
            .iter()
            .map(|pick| AdmittedChoice { choice: pick, caps: ModelCaps::new() })
            .collect();
        let checkpoint = self.pass.state.pool.mark();
        let fits_now = tries.iter().any(|one| {
            let seat = candidate.node_preferences();
            let duration = candidate.duration;
            self.pass.place(seat, &candidate.shape, one, &cached.eligible, duration).is_some()
        });
        self.pass.state.pool.rollback(checkpoint);
        if fits_now {
            return Some(Eta { start: refilled, reserved: false, predicted: false });
        }
        let wish = ReservationRequest {
            element: candidate.element,
            shape: &candidate.shape,
            choices: &tries,
            node_filter: NodeFilter {
                shape: &candidate.shape,
                eligible: &cached.eligible,
                avoid: &candidate.avoid,
            },
            last_nodes: &candidate.last_nodes,
            duration: candidate.duration,
        };
        let now = self.pass.now;
        let pool = &mut self.pass.state.pool;
        let (start, _, _) = reserve::earliest(&mut self.pass.scratch.forecast, pool, now, &wish)?;
        let predicted = self.pass.plans_by_predictions();
        Some(Eta { start: start.max(refilled), reserved: false, predicted })
    }

    /// Returns the longest duration that budgets allow for the request of the element; `None` if
    /// they allow any.
    pub(super) fn longest_affordable(&self) -> Option<Span> {
        let candidate = self.candidate.as_ref()?;
        let leaf = candidate.leaf;
        let user = candidate.user;
        let milli = candidate.shape.milli();
        self.state().policy.queues().longest_affordable(self.pass.now, leaf, user, milli)
    }

    /// Returns drained resources that it could use, if it waits for capacity.
    pub(super) fn out_of_service(&mut self, finding: &Finding) -> Vec<OutOfService> {
        match (&self.candidate, &finding.reason) {
            (
                Some(candidate),
                Some(Reason::Capacity(_) | Reason::Topology(_) | Reason::UpcomingDrain { .. }),
            ) => out_of_service::of(self.pass.state, &candidate.shape),
            _ => Vec::new(),
        }
    }

    /// Returns devices in use outside Muster that it could use, if it waits for capacity.
    pub(super) fn used_outside(&mut self, finding: &Finding) -> Vec<UsedOutside> {
        match (&self.candidate, &finding.reason) {
            (Some(candidate), Some(Reason::Capacity(_) | Reason::Topology(_))) => {
                out_of_service::used_outside(self.pass.state, &candidate.shape)
            }
            _ => Vec::new(),
        }
    }

    /// Returns resources reserved for other jobs that it could use, if it waits for capacity.
    pub(super) fn set_aside(&mut self, finding: &Finding) -> Vec<ReservedCapacity> {
        match (&self.candidate, &finding.reason) {
            (Some(candidate), Some(Reason::Capacity(_) | Reason::Topology(_))) => {
                out_of_service::set_aside(self.pass.state, &candidate.shape)
            }
            _ => Vec::new(),
        }
    }

    /// Returns the jobs whose move would help, if it waits for capacity, and why they are not
    /// moved.
    pub(super) fn moves(&mut self, finding: &Finding, eta: Option<Eta>) -> Option<MovesView> {
        let (Some(candidate), Some(Reason::Capacity(_) | Reason::Topology(_))) =
            (self.candidate.clone(), &finding.reason)
        else {
            return None;
        };
        // Jobs are moved only for an element that may have a planned start.
        if !self.pass.may_reserve(&self.pass.lane(candidate.leaf, candidate.class)) {
            return None;
        }
        let (movers, cost, why) =
            why_not_moved(&mut self.pass, &candidate, eta.map(|eta| eta.start))?;
        let name = |id: &ElementId| {
            self.state().jobs.get(&id.job).map(|job| job.record.spec.name.to_string())
        };
        let view = |id: &ElementId| Some(MovedJob { element: *id, name: name(id)? });
        Some(MovesView {
            jobs: movers.iter().filter_map(view).take(preemption::MAX_NAMED).collect(),
            count: movers.len() as u32,
            cost_gpu_secs: cost.div_ceil(PER_GPU_SEC),
            why,
        })
    }

    /// Returns the holders of GPUs that it could use, if it waits for capacity.
    pub(super) fn holders(&mut self, finding: &Finding) -> Vec<Holder> {
        let Some(candidate) = &self.candidate else { return Vec::new() };
        match &finding.reason {
            Some(Reason::Capacity(_) | Reason::Topology(_)) => {
                let state = &mut *self.pass.state;
                let shape = &candidate.shape;
                let outer = state.pool.view_inside(shape.reservation.as_ref());
                let found = holders::of(state, self.pass.now, shape);
                state.pool.set_view(outer);
                found
            }
            _ => Vec::new(),
        }
    }
}

/// False when it has no place even with no starts before it, no pending allocations and no quotas.
pub(super) fn has_place(state: &mut State, now: Time, candidate: &Candidate) -> bool {
    let mut planner = Planner::default();
    let mut pass = PlanningPass::new(state, &mut planner, now);
    let cached = pass.class_cache(candidate.class).clone();
    let seat = NodePreferences { element: candidate.element, avoid: &[], last_nodes: &[] };
    let has_place = cached.choices.iter().any(|pick| {
        let free = AdmittedChoice { choice: pick, caps: ModelCaps::new() };
        pass.place(seat, &candidate.shape, &free, &cached.eligible, candidate.duration).is_some()
    });
    drop(pass.finish());
    has_place
}

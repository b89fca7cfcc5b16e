//! Reasons why an element is pending, in the order of the engine's checks: its own terms (hold,
//! begin time, dependencies, array limit), then its queue's limits, then capacity. Reads the state
//! after the last pass, without planning.

use muster_model::queue::Backfill;
use muster_model::reason::{CapacityGap, TopologyGap};
use muster_model::{ElementId, JobId, Protection, Reason, Reservation, Time};
use muster_policy::BudgetCharge;
use rustc_hash::FxHashMap;

use super::head_reservation;
use super::upcoming::upcoming_unavailability;
use crate::place::classes::ClassId;
use crate::place::gap::{self, domains};
use crate::place::request::{ModelCaps, model_choices};
use crate::plan::Outlook;
use crate::plan::admission::{self, Requester};
use crate::pool::ends::HoldingEnd;
use crate::state::State;
use crate::state::job::{Element, Job, Phase};

/// Missing capacity by class and remaining quota, computed once for a list of many jobs.
pub(crate) type GapCache = FxHashMap<(ClassId, ModelCaps), (CapacityGap, Option<TopologyGap>)>;

/// Reads why elements are pending, from the state after the last pass and its plan for later.
#[derive(Clone, Copy)]
pub(crate) struct PendingReasons<'a> {
    pub(crate) state: &'a State,
    pub(crate) outlook: &'a Outlook,
}

impl PendingReasons<'_> {
    /// Returns the reasons that follow from the job alone: hold, begin time, back-off, dependencies
    /// and the limit of its array.
    pub(crate) fn own_reasons(&self, now: Time, job: &Job, ordinal: u32) -> Vec<Reason> {
        let record = &job.record;
        let mut reasons = Vec::new();
        let begin = record.spec.begin.unwrap_or(Time(0));
        let (held, not_before, restarts) = match record.elements.get(&ordinal) {
            None => (record.held, Time(0), 0),
            Some(element) => match element.phase {
                Phase::Waiting { held, not_before, .. } => (held, not_before, element.restarts),
                Phase::Active | Phase::Ended { .. } => return reasons,
            },
        };
        if let Some(hold) = record.admin_hold_of(ordinal) {
            reasons.push(Reason::HeldByAdmin { by: hold.by.clone() });
        } else if held {
            reasons.push(Reason::Held);
        }
        if begin > now {
            reasons.push(Reason::NotBefore { until: begin, restarts: 0 });
        }
        if not_before > now {
            reasons.push(Reason::NotBefore { until: not_before, restarts });
        }
        for dependency in &record.waits_for {
            reasons.push(Reason::Dependency { on: dependency.job, kind: dependency.kind });
        }
        if let Some(reason) =
            self.preemption_reason(now, record.elements.get(&ordinal).map(Box::as_ref))
        {
            reasons.push(reason);
            return reasons;
        }
        if let Some(reservation) = record.spec.constraint.advance_reservation.clone() {
            match self.state.reservation_start(job, now) {
                Time::NEVER => reasons
                    .push(Reason::AdvanceReservationOver { advance_reservation: reservation }),
                begins if begins > now => reasons.push(Reason::AdvanceReservationNotActive {
                    advance_reservation: reservation,
                    begins,
                }),
                _ => {}
            }
        }
        if record.cap_remaining() == 0 {
            let cap = record.spec.array.as_ref().and_then(|array| array.max_running).unwrap_or(0);
            reasons.push(Reason::ArrayCap { running: record.active, cap });
        }
        reasons
    }

    /// Returns the first reason that keeps an element from starting.
    pub(crate) fn first(
        &self,
        now: Time,
        id: JobId,
        job: &Job,
        ordinal: u32,
        gaps: &mut GapCache,
    ) -> Option<Reason> {
        let own = self.own_reasons(now, job, ordinal);
        own.into_iter().next().or_else(|| self.outer_reason(now, id, job, ordinal, gaps))
    }

    /// Returns the reason outside the element: limits and quota, then capacity, then reservations
    /// of other elements.
    pub(crate) fn outer_reason(
        &self,
        now: Time,
        id: JobId,
        job: &Job,
        ordinal: u32,
        gaps: &mut GapCache,
    ) -> Option<Reason> {
        let caps = match self.caps(now, job) {
            Ok(caps) => caps,
            Err(reason) => return Some(reason),
        };
        if let Some((model, _)) = caps.first()
            && self.is_short_by_quota(job, &caps, gaps)
        {
            let all = [(*model, self.state.classes.shape(job.class).milli())];
            return requester(job).check(&self.state.policy, &all, job.record.duration()).err();
        }
        let (gap, together) = self.missing(job, &caps, gaps);
        if gap::is_short(gap) {
            return Some(Reason::Capacity(Box::new(gap.clone())));
        }
        if let Some(together) = together.as_ref().filter(|gap| domains::is_short(gap)) {
            return Some(Reason::Topology(together.clone()));
        }
        let element = ElementId { job: id, index: job.record.index_of(ordinal) };
        self.reserved_reason(now, job, element, gap)
    }

    /// True when the missing capacity is free, but quota keeps the element from it.
    fn is_short_by_quota(&self, job: &Job, caps: &ModelCaps, gaps: &mut GapCache) -> bool {
        gap::is_short(&self.missing(job, caps, gaps).0)
            && !gap::is_short(&self.missing(job, &ModelCaps::new(), gaps).0)
    }

    /// Returns what is missing for the class of a job within the remaining quota.
    fn missing<'g>(
        &self,
        job: &Job,
        caps: &ModelCaps,
        gaps: &'g mut GapCache,
    ) -> &'g (CapacityGap, Option<TopologyGap>) {
        gaps.entry((job.class, caps.clone())).or_insert_with(|| {
            let shape = self.state.classes.shape(job.class);
            let inside = shape
                .reservation
                .as_ref()
                .map(|reservation| self.state.pool.copy_inside(reservation));
            let pool = inside.as_ref().unwrap_or(&self.state.pool);
            let eligible = &shape.eligible(pool);
            let terms = gap::GapTerms { eligible, avoid: &[], caps };
            let gap = gap::now(pool, self.state.policy.models(), shape, terms);
            (gap, domains::now(pool, shape, eligible))
        })
    }

    /// Returns the reservation that keeps available capacity from the element.
    fn reserved_reason(
        &self,
        now: Time,
        job: &Job,
        element: ElementId,
        gap: &CapacityGap,
    ) -> Option<Reason> {
        let shape = self.state.classes.shape(job.class);
        if let Some(reserved) =
            self.outlook.head_reservations.iter().find(|reserved| reserved.element != element)
        {
            return Some(head_reservation::reason(self.state, reserved, now));
        }
        let is_beside = |one: &&Reservation| {
            let of = self
                .state
                .jobs
                .get(&one.element.job)
                .map(|job| &job.record.spec.constraint.advance_reservation);
            one.element != element && of == Some(&shape.reservation)
        };
        let other = self.outlook.reservations.iter().find(is_beside);
        if other.is_none()
            && let Some(reason) = self.unavailability_reason(now, job)
        {
            return Some(reason);
        }
        match other {
            _ if self.outlook.reservations.iter().any(|one| one.element == element) => {
                Some(Reason::Capacity(Box::new(gap.clone())))
            }
            Some(other) if self.state.policy.tree().backfill == Backfill::None => {
                Some(Reason::Behind { element: other.element })
            }
            Some(other) => Some(Reason::Reserved {
                element: other.element,
                start: other.start,
                predicted: self.state.plans_by_predictions(),
                fits_if_shorter_than: None,
            }),
            // Everything is available; the next pass starts it, unless its groups exclude each
            // other.
            None => None,
        }
    }

    /// Returns how many jobs are being evicted for its pending allocation, and until when.
    fn preemption_reason(&self, now: Time, element: Option<&Element>) -> Option<Reason> {
        let allocation = element?.pending_allocation.as_deref()?;
        let ends: Vec<Time> = self
            .state
            .jobs
            .evictions_for(allocation)
            .filter_map(|(_, element)| element.run.as_ref())
            .map(|run| HoldingEnd::from(run.end).at(now))
            .collect();
        let by = ends.iter().max().copied().unwrap_or(now);
        Some(Reason::Preempting { evicting: ends.len() as u32, by })
    }

    /// Returns the first drain or reservation of others that begins before the element would end,
    /// on nodes that it may use, or the end of its own reservation.
    fn unavailability_reason(&self, now: Time, job: &Job) -> Option<Reason> {
        let shape = self.state.classes.shape(job.class);
        let until = job.record.duration().map_or(Time::NEVER, |span| now + span);
        upcoming_unavailability(&self.state.pool, shape, now)
            .into_iter()
            .find(|(from, _)| *from < until)
            .map(|(from, cause)| cause.reason(&self.state.pool, from, None))
    }

    /// Returns the remaining quota of each model that it may use, or the first refusal by limits,
    /// budgets or quota of its queue if no model is left.
    fn caps(&self, now: Time, job: &Job) -> Result<ModelCaps, Reason> {
        let shape = self.state.classes.shape(job.class);
        let charge = BudgetCharge { from: now, length: job.record.duration() };
        let picks = model_choices(&self.state.pool, shape, false);
        let tries =
            admission::admitted_choices(&self.state.policy, requester(job), shape, charge, &picks)?;
        // The last choice is the least restricted.
        Ok(tries.last().map(|widest| widest.caps.clone()).unwrap_or_default())
    }
}

fn requester(job: &Job) -> Requester {
    let owns = job.record.spec.protect != Protection::None;
    Requester { leaf: job.record.leaf, user: job.user, own_quota_only: owns }
}

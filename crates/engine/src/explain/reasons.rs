//! Why an element waits, in the order of the engine's checks: its own terms first (held, time,
//! dependency, cap), then its queue's, then capacity. Works on the state as it stands after the
//! last pass, without planning.

use muster_model::queue::Backfill;
use muster_model::reason::{CapacityGap, TopologyGap};
use muster_model::{ElementId, JobId, Protection, Reason, Reservation, Time};
use muster_policy::Promise;
use rustc_hash::FxHashMap;

use super::ahead::walls_ahead;
use super::{domains, gap, kept};
use crate::plan::ask::{Caps, picks};
use crate::plan::terms::{self, Whose};
use crate::state::State;
use crate::state::ends::End;
use crate::state::job::{Element, Job, Phase};
use crate::state::shape::ClassId;

/// What is missing by class and what quota leaves of each model: worked out once per reading of
/// many jobs.
pub(crate) type Gaps = FxHashMap<(ClassId, Caps), (CapacityGap, Option<TopologyGap>)>;

impl State {
    /// What lies in the element's own terms.
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
        if let Some(reason) = self.making_room(now, record.elements.get(&ordinal).map(Box::as_ref))
        {
            reasons.push(reason);
            return reasons;
        }
        if let Some(window) = record.spec.constraint.window.clone() {
            match self.opens(job, now) {
                Time::NEVER => reasons.push(Reason::WindowOver { window }),
                begins if begins > now => reasons.push(Reason::WindowNotOpen { window, begins }),
                _ => {}
            }
        }
        if record.cap_room() == 0 {
            let cap = record.spec.array.as_ref().and_then(|array| array.max_running).unwrap_or(0);
            reasons.push(Reason::ArrayCap { running: record.active, cap });
        }
        reasons
    }

    /// What lies outside the element: limits and quota, then capacity, then what others have
    /// reserved.
    pub(crate) fn outer_reason(
        &self,
        now: Time,
        id: JobId,
        job: &Job,
        ordinal: u32,
        gaps: &mut Gaps,
    ) -> Option<Reason> {
        let shape = self.classes.shape(job.class);
        let caps = match self.caps(now, job) {
            Ok(caps) => caps,
            Err(reason) => return Some(reason),
        };
        let missing = |caps: &Caps| {
            let inside = shape.window.as_ref().map(|window| self.pool.inside(window));
            let pool = inside.as_ref().unwrap_or(&self.pool);
            let eligible = &shape.eligible(pool);
            let terms = gap::Terms { eligible, avoid: &[], caps };
            let gap = gap::now(pool, self.policy.models(), shape, terms);
            (gap, domains::now(pool, shape, eligible))
        };
        if let Some((model, _)) = caps.first()
            && gap::is_short(
                &gaps.entry((job.class, caps.clone())).or_insert_with(|| missing(&caps)).0,
            )
            && !gap::is_short(
                &gaps.entry((job.class, Caps::new())).or_insert_with(|| missing(&Caps::new())).0,
            )
        {
            // What it lacks is free, and quota keeps it from that.
            let all = [(*model, shape.milli())];
            return whose(job).judge(&self.policy, &all, job.record.duration()).err();
        }
        let (gap, together) =
            gaps.entry((job.class, caps.clone())).or_insert_with(|| missing(&caps));
        if gap::is_short(gap) {
            return Some(Reason::Capacity(Box::new(gap.clone())));
        }
        if let Some(together) = together.as_ref().filter(|gap| domains::is_short(gap)) {
            return Some(Reason::Topology(together.clone()));
        }
        let element = ElementId { job: id, index: job.record.index_of(ordinal) };
        if let Some(keep) = self.keeps.iter().find(|keep| keep.element != element) {
            return Some(kept::reason(self, keep, now));
        }
        let is_beside = |one: &&Reservation| {
            let of = self.jobs.get(&one.element.job).map(|job| &job.record.spec.constraint.window);
            one.element != element && of == Some(&shape.window)
        };
        let other = self.reservations.iter().find(is_beside);
        if other.is_none()
            && let Some(reason) = self.wall_reason(now, job)
        {
            return Some(reason);
        }
        match other {
            _ if self.reservations.iter().any(|one| one.element == element) => {
                Some(Reason::Capacity(Box::new(gap.clone())))
            }
            Some(other) if self.policy.tree().backfill == Backfill::None => {
                Some(Reason::Behind { element: other.element })
            }
            Some(other) => Some(Reason::Reserved {
                element: other.element,
                start: other.start,
                fits_if_shorter_than: None,
            }),
            // Everything is there; the next pass starts it, unless its groups get in each other's
            // way.
            None => None,
        }
    }

    /// Who still goes for what an element was promised, and until when.
    fn making_room(&self, now: Time, element: Option<&Element>) -> Option<Reason> {
        let claim = element?.claim.as_deref()?;
        let ends: Vec<Time> = self
            .leaving_for(claim)
            .filter_map(|(_, element)| element.run.as_ref())
            .map(|run| End::from(run.end).at(now))
            .collect();
        let by = ends.iter().max().copied().unwrap_or(now);
        Some(Reason::MakingRoom { evicting: ends.len() as u32, by })
    }

    /// The first drain, or window of others, that begins before it would have ended, on a node that
    /// it may use; or the end of its own window.
    fn wall_reason(&self, now: Time, job: &Job) -> Option<Reason> {
        let shape = self.classes.shape(job.class);
        let until = job.record.duration().map_or(Time::NEVER, |span| now + span);
        walls_ahead(&self.pool, shape, now)
            .into_iter()
            .find(|(from, _)| *from < until)
            .map(|(from, wall)| wall.reason(&self.pool, from, None))
    }

    /// What quota leaves of each model that it may use; the first refusal of its queue's limits,
    /// budgets and quota when no model gets by.
    fn caps(&self, now: Time, job: &Job) -> Result<Caps, Reason> {
        let shape = self.classes.shape(job.class);
        let promise = Promise { from: now, length: job.record.duration() };
        let picks = picks(&self.pool, shape, false);
        let tries = terms::admitted(&self.policy, whose(job), shape, promise, &picks)?;
        // The last try is the widest.
        Ok(tries.last().map(|widest| widest.caps.clone()).unwrap_or_default())
    }
}

fn whose(job: &Job) -> Whose {
    let owns = job.record.spec.protect != Protection::None;
    Whose { leaf: job.record.leaf, user: job.user, owns }
}

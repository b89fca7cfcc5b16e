//! Claims: places that an element was promised and that others are made to leave. From the decision
//! on, the element counts in its queue as if it held them, and those who go count no more; what is
//! free of its places is kept for it by every pass (`plan/claims.rs`). Whose turn it is to go is
//! decided in `plan`.
//!
//! The claimant is charged from the decision on, so nobody pays for the time in which he was told
//! to go.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{
    AttemptId, Effect, ElementId, Event, Eviction, EvictionCause, JobId, TaskPlacement, Time,
};
use muster_policy::{ModelId, Promise};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::State;
use super::attempt::{attempt_id, gpus_by_model};
use super::entries::Owner;
use super::job::{Asked, Element, Fate, Phase, RunEnd, RunStage};
use crate::fact::Fact;

/// What an element was promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// By rank.
    pub(crate) placement: Arc<[TaskPlacement]>,
    /// Thousandths of GPUs by model, as counted since `since`.
    pub(crate) gpus: SmallVec<[(ModelId, u64); 1]>,
    pub(crate) since: Time,
    /// Claims in the order in which they were decided.
    #[serde(default)]
    pub(crate) nth: u64,
    /// Who goes for it.
    pub(crate) evicted: Vec<AttemptId>,
}

/// That an attempt was told to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leaving {
    pub(crate) by: ElementId,
    pub(crate) cause: EvictionCause,
    pub(crate) at: Time,
    /// It is stopped at this instant, though it has not said that its progress is saved.
    pub(crate) due: Time,
    /// The request for a checkpoint that told it; 0 where it had nothing to save.
    #[serde(default)]
    pub(crate) request: u32,
}

/// Claims and deadlines, for those who look for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    /// Elements with a claim, by ordinal.
    pub(crate) of: BTreeSet<(JobId, u32)>,
    /// Attempts that are saving their progress before they go, by ordinal.
    saving: BTreeSet<(Time, JobId, u32)>,
}

impl Claims {
    /// When the first attempt was waited for long enough.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.saving.first().map(|(due, _, _)| *due)
    }
}

impl Claim {
    /// Thousandths of GPUs over all models.
    pub(crate) fn milli(&self) -> u64 {
        self.gpus.iter().map(|(_, milli)| milli).sum()
    }
}

impl State {
    /// An element is promised places, and others are told to leave them.
    pub(super) fn claim(
        &mut self,
        now: Time,
        id: ElementId,
        placement: &Arc<[TaskPlacement]>,
        evict: &[Eviction],
    ) {
        // 1. The element has a record, so that the promise has a place.
        let Some(ordinal) = self.single_out(id.job, id.index) else { return };
        // 2. Who goes.
        for eviction in evict {
            self.evict(now, *eviction, id);
        }
        // 3. Who comes counts from now on.
        let gpus = gpus_by_model(&self.pool, placement);
        let evicted = evict.iter().map(|eviction| eviction.id).collect();
        let nth = 1 + self.claims_in_order().last().map_or(0, |(nth, ..)| *nth);
        let claim = Claim { placement: Arc::clone(placement), gpus, since: now, nth, evicted };
        self.count_claim(now, id.job, ordinal, &claim);
        let Some(element) = self.element_mut(id.job, ordinal) else { return };
        let is_active = element.phase == Phase::Active;
        element.claim = Some(Box::new(claim));
        self.claims.of.insert((id.job, ordinal));
        if let Some(job) = self.jobs.get_mut(&id.job) {
            job.record.claims += u32::from(!is_active);
        }
        self.sync(now, Owner { job: id.job, ordinal: None });
        self.sync(now, Owner { job: id.job, ordinal: Some(ordinal) });
    }

    /// All claims, the oldest first. Who was promised places later was promised what is left beside
    /// those before him, once others have gone for him: so he starts after them.
    pub(crate) fn claims_in_order(&self) -> Vec<(u64, JobId, u32)> {
        let nth = |(job, ordinal): &(JobId, u32)| {
            let claim = self.jobs[job].record.elements.get(ordinal)?.claim.as_ref()?;
            Some((claim.nth, *job, *ordinal))
        };
        let mut claims: Vec<_> = self.claims.of.iter().filter_map(nth).collect();
        claims.sort_unstable();
        claims
    }

    /// Counts what was promised as held.
    fn count_claim(&mut self, now: Time, id: JobId, ordinal: u32, claim: &Claim) {
        let Some(job) = self.jobs.get(&id) else { return };
        debug_assert!(
            job.record.elements.contains_key(&ordinal),
            "a claim is of an element with a record"
        );
        let promise = Promise { from: claim.since, length: job.record.duration() };
        self.policy.hold(now, job.record.leaf, job.user, &claim.gpus);
        self.policy.promise(job.record.leaf, job.user, claim.milli(), promise);
    }

    /// After a restore: counts a claim again.
    pub(super) fn restore_claim(&mut self, id: JobId, ordinal: u32) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(claim) =
            job.record.elements.get(&ordinal).and_then(|element| element.claim.as_ref())
        else {
            return;
        };
        let promise = Promise { from: claim.since, length: job.record.duration() };
        self.policy.restore_hold(job.record.leaf, job.user, &claim.gpus);
        self.policy.restore_promise(job.record.leaf, job.user, claim.milli(), promise);
        self.claims.of.insert((id, ordinal));
    }

    /// A promise is given up, or kept: it counts no more.
    pub(super) fn end_claim(&mut self, now: Time, id: JobId, ordinal: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let length = job.record.duration();
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        let Some(claim) = element.claim.take() else { return };
        job.record.claims -= u32::from(element.phase != Phase::Active);
        self.claims.of.remove(&(id, ordinal));
        self.policy.release(now, job.record.leaf, job.user, &claim.gpus);
        let promise = Promise { from: claim.since, length };
        self.policy.settle(now, job.record.leaf, job.user, claim.milli(), promise);
    }

    /// A decision gives a promise up.
    pub(super) fn unclaim(&mut self, now: Time, id: ElementId) {
        let Some(ordinal) = self.jobs.get(&id.job).and_then(|job| job.record.ordinal_of(id.index))
        else {
            return;
        };
        self.end_claim(now, id.job, ordinal);
        self.sync(now, Owner { job: id.job, ordinal: None });
        self.sync(now, Owner { job: id.job, ordinal: Some(ordinal) });
    }

    /// Tells an attempt to go: first to save its progress, where its job does that, then to end.
    fn evict(&mut self, now: Time, eviction: Eviction, by: ElementId) {
        let Eviction { id, cause } = eviction;
        if cause == EvictionCause::Moved {
            self.pay_for_move(now, id.element);
        }
        let Some(job) = self.jobs.get_mut(&id.element.job) else { return };
        let record = &mut job.record;
        let Some(ordinal) = record.ordinal_of(id.element.index) else { return };
        let (length, grace, terms) = (record.duration(), record.spec.grace, record.spec.checkpoint);
        let Some(element) = record.elements.get_mut(&ordinal) else { return };
        let is_current = element.phase == Phase::Active && element.attempt == id.attempt.0;
        let Some(run) = element.run.as_mut().filter(|run| is_current && run.leaving.is_none())
        else {
            return;
        };
        // 1. It counts no more.
        self.policy.release(now, record.leaf, job.user, &run.gpus);
        let promise = Promise { from: run.held_from, length };
        self.policy.settle(now, record.leaf, job.user, run.milli(), promise);
        // 2. Has it something to save?
        let lead = terms.filter(|_| run.stage == RunStage::Running).map(|terms| terms.lead);
        let due = lead.map_or(now, |lead| now + lead);
        let request = lead.map_or(0, |_| run.asked.count + 1);
        run.leaving = Some(Leaving { by, cause, at: now, due, request });
        self.facts.tell(|| Fact::Evicted { id, by, cause, at: now });
        if lead.is_some() {
            run.asked = Asked { count: request, unanswered: Some(now) };
            self.effects.push(Effect::Checkpoint { id, request });
            let by = due + grace;
            run.end = match run.end {
                RunEnd::At(time) => RunEnd::At(time.min(by)),
                RunEnd::After(_) | RunEnd::Never => RunEnd::At(by),
            };
            let (key, end) = (run.key, run.end);
            self.pool.set_end(key, end.into());
            self.claims.saving.insert((due, id.element.job, ordinal));
            self.track(id.element.job, ordinal);
        } else {
            self.stop(now, id.element.job, ordinal, Fate::Preempted);
        }
    }

    /// Attempts that were waited for long enough before they go, as events.
    pub(crate) fn evictions_due(&self, now: Time) -> Vec<Event> {
        let due = self.claims.saving.iter().take_while(|(due, _, _)| *due <= now);
        due.filter_map(|(_, job, ordinal)| {
            let record = &self.jobs.get(job)?.record;
            let attempt = record.elements.get(ordinal)?.attempt;
            Some(Event::EvictionDue { id: attempt_id(*job, record.index_of(*ordinal), attempt) })
        })
        .collect()
    }

    /// An attempt that has to go was waited for long enough.
    pub(super) fn eviction_due(&mut self, now: Time, id: AttemptId) {
        let job = id.element.job;
        let Some(ordinal) =
            self.jobs.get(&job).and_then(|job| job.record.ordinal_of(id.element.index))
        else {
            return;
        };
        let Some(element) = self.element_mut(job, ordinal) else { return };
        let is_current = element.phase == Phase::Active && element.attempt == id.attempt.0;
        if is_current && element.is_saving() {
            self.stop(now, job, ordinal, Fate::Preempted);
        }
    }

    /// An attempt saves nothing any more before it goes.
    pub(super) fn saves_no_more(&mut self, id: JobId, ordinal: u32, due: Time) {
        self.claims.saving.remove(&(due, id, ordinal));
    }

    /// After a restore: an attempt is still saving its progress before it goes.
    pub(super) fn restore_saving(&mut self, id: JobId, ordinal: u32) {
        let Some(element) = self.element_mut(id, ordinal) else { return };
        if let Some(due) = element.saving_until() {
            self.claims.saving.insert((due, id, ordinal));
        }
    }

    /// Of those who go for a claim, the ones that are not over.
    pub(crate) fn leaving_for(&self, claim: &Claim) -> impl Iterator<Item = (AttemptId, &Element)> {
        claim.evicted.iter().filter_map(|id| {
            let element = self.element(id.element)?;
            let is_current = element.phase == Phase::Active && element.attempt == id.attempt.0;
            is_current.then_some((*id, element))
        })
    }

    /// True when an attempt is on its way out, and its element has a promise of where it goes on:
    /// with another size.
    pub(super) fn goes_for_itself(&self, id: JobId, ordinal: u32) -> bool {
        let element = self.jobs.get(&id).and_then(|job| job.record.elements.get(&ordinal));
        let run = element.and_then(|element| {
            let is_active = element.phase == Phase::Active && element.claim.is_some();
            element.run.as_ref().filter(|_| is_active)
        });
        run.is_some_and(|run| {
            run.leaving.is_some() && matches!(run.fate, None | Some(Fate::Preempted))
        })
    }
}

impl Element {
    /// True while it saves its progress before it goes.
    pub(super) fn is_saving(&self) -> bool {
        self.saving_until().is_some()
    }

    fn saving_until(&self) -> Option<Time> {
        let run = self.run.as_ref().filter(|_| self.phase == Phase::Active)?;
        let leaving = run.leaving?;
        (!matches!(run.stage, RunStage::Stopping(_))).then_some(leaving.due)
    }
}

//! Pending allocations: places allocated to an element that jobs being evicted still hold
//! (nominated, as in Kubernetes). From the decision on, the element counts in its queue as if it
//! held them and the evicted jobs no longer count; every pass keeps the free part of its places for
//! it. Which jobs are evicted is decided in `plan`.
//!
//! The element is charged from the decision on, so no job pays for the time in which it is evicted.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{
    AttemptId, Effect, ElementId, Event, Eviction, EvictionCause, JobId, TaskPlacement, Time,
};
use muster_policy::BudgetCharge;

use super::State;
use super::attempt::{attempt_id, gpus_by_model};
use super::entries::EntryOwner;
use super::job::{
    AttemptFate, CheckpointRequests, Element, PendingAllocation, PendingEviction, Phase, RunEnd,
    RunStage,
};
use super::jobs::JobTable;
use crate::fact::AccountingFact;

/// Indexes over pending allocations and eviction deadlines.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingAllocations {
    /// Elements with a pending allocation, by ordinal.
    pub(crate) elements: BTreeSet<(JobId, u32)>,
    /// Attempts that save their progress before they are stopped, by deadline; elements by ordinal.
    eviction_deadlines: BTreeSet<(Time, JobId, u32)>,
}

impl PendingAllocations {
    /// Returns the first deadline of an eviction.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.eviction_deadlines.first().map(|(due, _, _)| *due)
    }

    /// Returns all pending allocations, oldest first. A later one was computed on top of the
    /// earlier ones and their evictions, so its element starts after theirs.
    pub(crate) fn in_order(&self, jobs: &JobTable) -> Vec<(u64, JobId, u32)> {
        let sequence = |(job, ordinal): &(JobId, u32)| {
            let element = jobs[job].record.elements.get(ordinal)?;
            Some((element.pending_allocation.as_ref()?.sequence, *job, *ordinal))
        };
        let mut allocations: Vec<_> = self.elements.iter().filter_map(sequence).collect();
        allocations.sort_unstable();
        allocations
    }

    /// Returns events for the evictions whose deadline has passed.
    pub(crate) fn evictions_due(&self, jobs: &JobTable, now: Time) -> Vec<Event> {
        let due = self.eviction_deadlines.iter().take_while(|(due, _, _)| *due <= now);
        due.filter_map(|(_, job, ordinal)| {
            let record = &jobs.get(job)?.record;
            let attempt = record.elements.get(ordinal)?.attempt;
            Some(Event::EvictionDue { id: attempt_id(*job, record.index_of(*ordinal), attempt) })
        })
        .collect()
    }

    /// Removes the eviction deadline of an attempt.
    pub(super) fn remove_deadline(&mut self, id: JobId, ordinal: u32, due: Time) {
        self.eviction_deadlines.remove(&(due, id, ordinal));
    }

    /// Registers the eviction deadline of an attempt that is saving its progress, after a restore.
    pub(super) fn restore_deadline(&mut self, jobs: &JobTable, id: JobId, ordinal: u32) {
        let element = jobs.get(&id).and_then(|job| job.record.elements.get(&ordinal));
        if let Some(due) = element.and_then(|element| element.saving_until()) {
            self.eviction_deadlines.insert((due, id, ordinal));
        }
    }
}

impl PendingAllocation {
    /// Returns the thousandths of GPUs, of all models.
    pub(crate) fn milli(&self) -> u64 {
        self.gpus.iter().map(|(_, milli)| milli).sum()
    }
}

impl State {
    /// Creates a pending allocation and evicts the attempts that hold its places.
    pub(super) fn nominate(
        &mut self,
        now: Time,
        id: ElementId,
        placement: &Arc<[TaskPlacement]>,
        evict: &[Eviction],
    ) {
        // 1. The element gets a record, which stores the allocation.
        let Some(ordinal) = self.jobs.record_element(id.job, id.index) else { return };
        // 2. Evict.
        for eviction in evict {
            self.evict(now, *eviction, id);
        }
        // 3. Count the allocation from now on.
        let gpus = gpus_by_model(&self.pool, placement);
        let evicted = evict.iter().map(|eviction| eviction.id).collect();
        let sequence = 1 + self
            .pending_allocations
            .in_order(&self.jobs)
            .last()
            .map_or(0, |(sequence, ..)| *sequence);
        let allocation = PendingAllocation {
            placement: Arc::clone(placement),
            gpus,
            since: now,
            sequence,
            evicted,
        };
        self.charge_pending_allocation(now, id.job, ordinal, &allocation);
        let Some(element) = self.jobs.element_mut(id.job, ordinal) else { return };
        let is_active = element.phase == Phase::Active;
        element.pending_allocation = Some(Box::new(allocation));
        self.pending_allocations.elements.insert((id.job, ordinal));
        if let Some(job) = self.jobs.get_mut(&id.job) {
            job.record.pending_allocations += u32::from(!is_active);
        }
        self.sync(now, EntryOwner { job: id.job, ordinal: None });
        self.sync(now, EntryOwner { job: id.job, ordinal: Some(ordinal) });
    }

    /// Counts a pending allocation as held.
    fn charge_pending_allocation(
        &mut self,
        now: Time,
        id: JobId,
        ordinal: u32,
        allocation: &PendingAllocation,
    ) {
        let Some(job) = self.jobs.get(&id) else { return };
        debug_assert!(
            job.record.elements.contains_key(&ordinal),
            "a pending allocation belongs to an element with a record"
        );
        let charge = BudgetCharge { from: allocation.since, length: job.record.duration() };
        self.policy.hold(now, job.record.leaf, job.user, &allocation.gpus);
        self.policy.queues_mut().charge(job.record.leaf, job.user, allocation.milli(), charge);
    }

    /// Counts a pending allocation again after a restore.
    pub(super) fn restore_pending_allocation(&mut self, id: JobId, ordinal: u32) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(allocation) = job
            .record
            .elements
            .get(&ordinal)
            .and_then(|element| element.pending_allocation.as_ref())
        else {
            return;
        };
        let charge = BudgetCharge { from: allocation.since, length: job.record.duration() };
        self.policy.restore_hold(job.record.leaf, job.user, &allocation.gpus);
        self.policy.queues_mut().restore_charge(
            job.record.leaf,
            job.user,
            allocation.milli(),
            charge,
        );
        self.pending_allocations.elements.insert((id, ordinal));
    }

    /// Removes a pending allocation, given up or turned into a start: it no longer counts.
    pub(super) fn end_pending_allocation(&mut self, now: Time, id: JobId, ordinal: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let length = job.record.duration();
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        let Some(allocation) = element.pending_allocation.take() else { return };
        job.record.pending_allocations -= u32::from(element.phase != Phase::Active);
        self.pending_allocations.elements.remove(&(id, ordinal));
        self.policy.release(now, job.record.leaf, job.user, &allocation.gpus);
        let charge = BudgetCharge { from: allocation.since, length };
        self.policy.queues_mut().settle_charge(
            now,
            job.record.leaf,
            job.user,
            allocation.milli(),
            charge,
        );
    }

    /// Applies the decision to give up a pending allocation.
    pub(super) fn revoke_allocation(&mut self, now: Time, id: ElementId) {
        let Some(ordinal) = self.jobs.ordinal_of(id) else { return };
        self.end_pending_allocation(now, id.job, ordinal);
        self.sync(now, EntryOwner { job: id.job, ordinal: None });
        self.sync(now, EntryOwner { job: id.job, ordinal: Some(ordinal) });
    }

    /// Evicts an attempt: its job saves progress first if it supports checkpoints, then it is
    /// stopped.
    fn evict(&mut self, now: Time, eviction: Eviction, by: ElementId) {
        let Eviction { id, cause } = eviction;
        if cause == EvictionCause::Moved {
            let attempt = self.preemptable.get(&self.jobs, id.element);
            let cost = attempt.map_or(0, |(_, attempt)| attempt.cost_of_move(now));
            if let Some(terms) = self.policy.tree().defragment {
                self.move_budget.charge(terms, now, cost);
            }
        }
        let Some(job) = self.jobs.get_mut(&id.element.job) else { return };
        let record = &mut job.record;
        let Some(ordinal) = record.ordinal_of(id.element.index) else { return };
        let length = record.duration();
        let grace = record.spec.grace;
        let terms = record.spec.checkpoint;
        let Some(element) = record.elements.get_mut(&ordinal) else { return };
        let is_current = element.phase == Phase::Active && element.attempt == id.attempt.0;
        let Some(run) = element.run.as_mut().filter(|run| is_current && run.eviction.is_none())
        else {
            return;
        };
        // 1. It no longer counts in its queue.
        self.policy.release(now, record.leaf, job.user, &run.gpus);
        let charge = BudgetCharge { from: run.held_from, length };
        self.policy.queues_mut().settle_charge(now, record.leaf, job.user, run.milli(), charge);
        // 2. Let it save its progress first, if it can.
        let lead = terms.filter(|_| run.stage == RunStage::Running).map(|terms| terms.lead);
        let due = lead.map_or(now, |lead| now + lead);
        let request = lead.map_or(0, |_| run.asked.count + 1);
        run.eviction = Some(PendingEviction { by, cause, at: now, due, request });
        self.facts.record(|| AccountingFact::Evicted { id, by, cause, at: now });
        if lead.is_some() {
            run.asked = CheckpointRequests { count: request, unanswered: Some(now) };
            self.effects.push(Effect::Checkpoint { id, request });
            let by = due + grace;
            run.end = match run.end {
                RunEnd::At(time) => RunEnd::At(time.min(by)),
                RunEnd::After(_) | RunEnd::Never => RunEnd::At(by),
            };
            let key = run.key;
            let end = run.end;
            self.pool.set_end(key, end.into());
            self.pending_allocations.eviction_deadlines.insert((due, id.element.job, ordinal));
            self.preemptable.update(&self.jobs, id.element.job, ordinal);
        } else {
            self.stop(now, id.element.job, ordinal, AttemptFate::Preempted);
        }
    }

    /// Stops an attempt whose eviction deadline has passed.
    pub(super) fn eviction_due(&mut self, now: Time, id: AttemptId) {
        let job = id.element.job;
        let Some(ordinal) = self.jobs.ordinal_of(id.element) else { return };
        let Some(element) = self.jobs.element_mut(job, ordinal) else { return };
        let is_current = element.phase == Phase::Active && element.attempt == id.attempt.0;
        if is_current && element.is_saving() {
            self.stop(now, job, ordinal, AttemptFate::Preempted);
        }
    }
}

impl JobTable {
    /// Returns the attempts evicted for a pending allocation that have not ended.
    pub(crate) fn evictions_for(
        &self,
        allocation: &PendingAllocation,
    ) -> impl Iterator<Item = (AttemptId, &Element)> {
        allocation.evicted.iter().filter_map(|id| {
            let element = self.element(id.element)?;
            let is_current = element.phase == Phase::Active && element.attempt == id.attempt.0;
            is_current.then_some((*id, element))
        })
    }
}

impl Element {
    /// True when an attempt is being evicted in order to restart with another size: its own element
    /// has the pending allocation.
    pub(super) fn is_relocating(&self) -> bool {
        let is_active = self.phase == Phase::Active && self.pending_allocation.is_some();
        self.run.as_ref().filter(|_| is_active).is_some_and(|run| {
            run.eviction.is_some() && matches!(run.fate, None | Some(AttemptFate::Preempted))
        })
    }

    /// True while it saves its progress before it is stopped.
    pub(super) fn is_saving(&self) -> bool {
        self.saving_until().is_some()
    }

    fn saving_until(&self) -> Option<Time> {
        let run = self.run.as_ref().filter(|_| self.phase == Phase::Active)?;
        let eviction = run.eviction?;
        (!matches!(run.stage, RunStage::Stopping(_))).then_some(eviction.due)
    }
}

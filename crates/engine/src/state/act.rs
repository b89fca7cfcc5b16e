//! User actions on jobs (cancel, requeue), and the end of elements and jobs.

use std::sync::Arc;

use muster_model::queue::IdleAction;
use muster_model::{
    AttemptId, CommandTarget, Effect, ElementId, Event, IndexRange, JobId, Outcome, StopCause,
    Time, UserName,
};

use super::State;
use super::attempt::attempt_id;
use super::entries::EntryOwner;
use super::job::{AttemptFate, CommonEnd, Element, Phase, Run, RunEnd, RunStage};
use super::view::job_view;
use crate::fact::AccountingFact;

impl State {
    /// Ends waiting elements at once, and stops active ones.
    pub(super) fn cancel(&mut self, now: Time, target: CommandTarget, by: &UserName) {
        let outcome = Outcome::Cancelled { by: by.clone() };
        match target.index {
            None => {
                let Some(job) = self.jobs.get(&target.job) else { return };
                let active: Vec<u32> = job.record.active_ordinals().collect();
                for ordinal in active {
                    self.stop(now, target.job, ordinal, AttemptFate::Cancelled(outcome.clone()));
                }
                self.end_waiting(now, target.job, &outcome);
            }
            Some(index) => {
                let Some(ordinal) = self.jobs.record_element(target.job, index) else { return };
                let Some(element) = self.jobs.element_mut(target.job, ordinal) else { return };
                match element.phase {
                    Phase::Waiting { .. } => {
                        self.end_element(now, target.job, ordinal, outcome);
                        self.sync(now, EntryOwner { job: target.job, ordinal: None });
                        self.remove_if_over(now, target.job);
                    }
                    Phase::Active => {
                        self.stop(now, target.job, ordinal, AttemptFate::Cancelled(outcome))
                    }
                    Phase::Ended { .. } => {}
                }
            }
        }
    }

    /// Stops an attempt of a sweep for good. Ignored when it is not the current one, or is being stopped or has
    /// failed already: a requeue of its user and a failure count more.
    pub(super) fn stop_early(&mut self, now: Time, id: AttemptId, step: u64, why: &Arc<str>) {
        let job = id.element.job;
        let Some(ordinal) = self.jobs.ordinal_of(id.element) else { return };
        let Some(element) = self.jobs.element_mut(job, ordinal) else { return };
        let is_current = element.phase == Phase::Active && element.attempt == id.attempt.0;
        let goes_on = element.run.as_ref().is_some_and(|run| run.fate.is_none());
        if is_current && goes_on {
            let outcome = Outcome::StoppedEarly { step, why: Arc::clone(why) };
            self.stop(now, job, ordinal, AttemptFate::Cancelled(outcome));
        }
    }

    /// Ends or requeues an attempt that leaves its GPUs idle. Ignored when it is not the current one, or is being
    /// stopped or evicted already.
    pub(super) fn gpus_idle(&mut self, now: Time, event: &Event) {
        let Event::GpusIdle { id, queue, gpus, below_percent, after, action } = event else {
            return;
        };
        let job = id.element.job;
        let Some(ordinal) = self.jobs.ordinal_of(id.element) else { return };
        let Some(element) = self.jobs.element_mut(job, ordinal) else { return };
        let is_current = element.phase == Phase::Active && element.attempt == id.attempt.0;
        let goes_on = |run: &Run| run.fate.is_none() && run.eviction.is_none();
        if !is_current || !element.run.as_ref().is_some_and(goes_on) {
            return;
        }
        let outcome = Outcome::IdleGpus {
            queue: queue.clone(),
            gpus: *gpus,
            below_percent: *below_percent,
            after: *after,
        };
        match action {
            IdleAction::Notify => {}
            IdleAction::Cancel => self.stop(now, job, ordinal, AttemptFate::Cancelled(outcome)),
            // Started again at once, it would keep the jobs behind it from the GPUs once more.
            IdleAction::Requeue => {
                let fate = AttemptFate::IdleRequeued { outcome, wait: *after };
                self.stop(now, job, ordinal, fate);
            }
        }
    }

    /// Requeues elements: they run again from the start.
    pub(super) fn requeue(&mut self, now: Time, target: CommandTarget) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        let record = &mut job.record;
        let ordinals: Vec<u32> = match target.index {
            None => record.elements.keys().copied().collect(),
            Some(index) => record.record_element(index).into_iter().collect(),
        };
        if target.index.is_none() {
            record.requeue_common_end();
        }
        // Replicas beyond the present size of a service are not requeued.
        let most = record.spec.service().map_or(u32::MAX, |service| service.replicas.max);
        for ordinal in ordinals.into_iter().filter(|ordinal| *ordinal < most) {
            let Some(job) = self.jobs.get_mut(&target.job) else { return };
            let Some(element) = job.record.elements.get_mut(&ordinal) else { continue };
            match &mut element.phase {
                // A requeue by a user skips the back-off.
                Phase::Waiting { not_before, .. } => *not_before = Time(0),
                Phase::Active => self.stop(now, target.job, ordinal, AttemptFate::Requeued),
                Phase::Ended { .. } => job.record.requeue_ended(ordinal),
            }
        }
        self.sync_job(now, target.job);
    }

    /// Ends all waiting elements of a job.
    pub(super) fn end_waiting(&mut self, now: Time, id: JobId, outcome: &Outcome) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        // 1. A single element gets a record, since users ask for it by itself.
        if record.total == 1 && record.next == 0 {
            record.elements.insert(0, Box::new(Element::waiting(false, Time(0))));
            record.advance();
        }
        // 2. Elements without a record end together.
        let unrecorded = record.unrecorded();
        if unrecorded > 0 {
            let ranges = record.unrecorded_ranges();
            let rest = CommonEnd {
                from: record.next,
                count: unrecorded,
                outcome: outcome.clone(),
                at: now,
            };
            record.rest = Some(Box::new(rest));
            record.next = record.total;
            record.failed += unrecorded;
            record.begun += unrecorded;
            for (count, IndexRange { first, last, step }) in ranges {
                self.facts.record(|| {
                    let outcome = outcome.clone();
                    AccountingFact::RestEnded {
                        job: id,
                        count,
                        first,
                        last,
                        step,
                        outcome,
                        at: now,
                    }
                });
            }
        }
        // 3. Elements with a record end one by one.
        let waiting: Vec<u32> = record
            .elements
            .iter()
            .filter(|(_, element)| matches!(element.phase, Phase::Waiting { .. }))
            .map(|(ordinal, _)| *ordinal)
            .collect();
        for ordinal in waiting {
            self.end_element(now, id, ordinal, outcome.clone());
        }
        self.sync(now, EntryOwner { job: id, ordinal: None });
        self.remove_if_over(now, id);
    }

    /// Ends an element for good.
    pub(super) fn end_element(&mut self, now: Time, id: JobId, ordinal: u32, outcome: Outcome) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        let index = record.index_of(ordinal);
        let Some(element) = record.elements.get_mut(&ordinal) else { return };
        record.begun += u32::from(!element.begun);
        element.begun = true;
        if outcome.is_success() {
            record.succeeded += 1;
        } else {
            record.failed += 1;
        }
        self.facts.record(|| AccountingFact::ElementEnded {
            element: ElementId { job: id, index },
            outcome: outcome.clone(),
            at: now,
            attempts: element.attempt,
        });
        element.phase = Phase::Ended { outcome, at: now };
        self.sync(now, EntryOwner { job: id, ordinal: Some(ordinal) });
        self.dependencies.mark_changed(id);
    }

    /// Removes a job from memory if all its elements have ended.
    pub(super) fn remove_if_over(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.record.is_over()) else { return };
        let wanted = self.facts.is_enabled();
        let view = wanted.then(|| Box::new(job_view(self, now, id, job)));
        let job = self.jobs.remove(&id).expect("it is in memory");
        let succeeded = job.record.failed == 0;
        self.remove_entries(id, &job);
        self.classes.leave(job.class);
        self.dependencies.remember(id, succeeded);
        if let Some(view) = view {
            self.facts.record(|| AccountingFact::JobEnded { job: id, at: now, succeeded, view });
        }
        self.dependencies.mark_changed(id);
    }

    /// Stops an attempt; it holds its resources until every task has ended.
    pub(super) fn stop(&mut self, now: Time, id: JobId, ordinal: u32, fate: AttemptFate) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let index = job.record.index_of(ordinal);
        let grace = job.record.spec.grace;
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        let attempt = element.attempt;
        let Some(run) = element.run.as_mut().filter(|_| element.phase == Phase::Active) else {
            return;
        };
        // 1. A cancellation overrides everything; a requeue overrides failures and preemption.
        let cause = match &fate {
            AttemptFate::Cancelled(_) => StopCause::Cancelled,
            AttemptFate::Requeued | AttemptFate::IdleRequeued { .. } => StopCause::Requeued,
            AttemptFate::Preempted => StopCause::Preempted,
            AttemptFate::Failed(_) | AttemptFate::Refused { .. } => StopCause::GangFailed,
        };
        let weight = |fate: &AttemptFate| match fate {
            AttemptFate::Failed(_) | AttemptFate::Refused { .. } => 0,
            AttemptFate::Preempted => 1,
            AttemptFate::Requeued | AttemptFate::IdleRequeued { .. } => 2,
            AttemptFate::Cancelled(_) => 3,
        };
        if run.fate.as_ref().is_none_or(|old| weight(old) < weight(&fate)) {
            run.fate = Some(fate);
        }
        // 2. One order to stop is enough.
        if matches!(run.stage, RunStage::Stopping(_)) {
            return;
        }
        let saving_until = run.eviction.map(|eviction| eviction.due);
        run.stage = RunStage::Stopping(cause);
        let by = match run.end {
            RunEnd::At(time) => time.min(now + grace),
            RunEnd::After(_) | RunEnd::Never => now + grace,
        };
        run.end = RunEnd::At(by);
        let key = run.key;
        let end = run.end;
        self.pool.set_end(key, end.into());
        self.effects.push(Effect::Stop { id: attempt_id(id, index, attempt), cause });
        if let Some(due) = saving_until {
            self.pending_allocations.remove_deadline(id, ordinal, due);
        }
        self.start_waits.update(&mut self.jobs, id, ordinal);
        self.preemptable.update(&self.jobs, id, ordinal);
    }
}

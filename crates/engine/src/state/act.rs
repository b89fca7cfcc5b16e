//! What users do to jobs: cancel, requeue; and how elements and jobs end.

use muster_model::{
    Effect, ElementId, IndexRange, JobId, Outcome, StopCause, Target, Time, UserName,
};

use super::State;
use super::attempt::attempt_id;
use super::entries::Owner;
use super::job::{Element, Fate, Phase, Rest, RunEnd, RunStage};
use crate::fact::Fact;

impl State {
    /// Ends what waits at once, and asks for the end of what is active.
    pub(super) fn cancel(&mut self, now: Time, target: Target, by: &UserName) {
        let outcome = Outcome::Cancelled { by: by.clone() };
        match target.index {
            None => {
                for ordinal in self.active_ordinals(target.job) {
                    self.stop(now, target.job, ordinal, Fate::Cancelled(outcome.clone()));
                }
                self.end_waiting(now, target.job, &outcome);
            }
            Some(index) => {
                let Some(ordinal) = self.single_out(target.job, index) else { return };
                let Some(element) = self.element_mut(target.job, ordinal) else { return };
                match element.phase {
                    Phase::Waiting { .. } => {
                        self.end_element(now, target.job, ordinal, outcome);
                        self.sync(now, Owner { job: target.job, ordinal: None });
                        self.leave_if_over(now, target.job);
                    }
                    Phase::Active => self.stop(now, target.job, ordinal, Fate::Cancelled(outcome)),
                    Phase::Ended { .. } => {}
                }
            }
        }
    }

    /// Has elements run again from the start.
    pub(super) fn requeue(&mut self, now: Time, target: Target) {
        let Some(job) = self.jobs.get(&target.job) else { return };
        let ordinals: Vec<u32> = match target.index {
            None => job.record.elements.keys().copied().collect(),
            Some(index) => self.single_out(target.job, index).into_iter().collect(),
        };
        if target.index.is_none() {
            self.revive_rest(target.job);
        }
        // What a service was scaled down by is no part of it.
        let most = self.jobs.get(&target.job).and_then(|job| job.record.spec.service());
        let most = most.map_or(u32::MAX, |service| service.replicas.ceiling);
        for ordinal in ordinals.into_iter().filter(|ordinal| *ordinal < most) {
            let Some(element) = self.element_mut(target.job, ordinal) else { continue };
            match &mut element.phase {
                // Who asks for it means now: no back-off.
                Phase::Waiting { not_before, .. } => *not_before = Time(0),
                Phase::Active => self.stop(now, target.job, ordinal, Fate::Requeued),
                Phase::Ended { .. } => self.revive(target.job, ordinal),
            }
        }
        self.sync_job(now, target.job);
    }

    /// Ends everything of a job that waits.
    pub(super) fn end_waiting(&mut self, now: Time, id: JobId, outcome: &Outcome) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        // 1. One single element gets a record, as users ask for it by itself.
        if record.total == 1 && record.next == 0 {
            record.elements.insert(0, Box::new(Element::waiting(false, Time(0))));
            record.advance();
        }
        // 2. Elements that were never touched end together.
        let fresh = record.fresh();
        if fresh > 0 {
            let ranges = record.fresh_ranges();
            let rest = Rest { from: record.next, count: fresh, outcome: outcome.clone(), at: now };
            record.rest = Some(Box::new(rest));
            record.next = record.total;
            record.failed += fresh;
            record.begun += fresh;
            for (count, IndexRange { first, last, step }) in ranges {
                self.facts.tell(|| {
                    let outcome = outcome.clone();
                    Fact::RestEnded { job: id, count, first, last, step, outcome, at: now }
                });
            }
        }
        // 3. The others one by one.
        let waiting: Vec<u32> = record
            .elements
            .iter()
            .filter(|(_, element)| matches!(element.phase, Phase::Waiting { .. }))
            .map(|(ordinal, _)| *ordinal)
            .collect();
        for ordinal in waiting {
            self.end_element(now, id, ordinal, outcome.clone());
        }
        self.sync(now, Owner { job: id, ordinal: None });
        self.leave_if_over(now, id);
    }

    /// An element is over for good.
    pub(super) fn end_element(&mut self, now: Time, id: JobId, ordinal: u32, outcome: Outcome) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        let index = record.index_of(ordinal);
        let Some(element) = record.elements.get_mut(&ordinal) else { return };
        record.begun += u32::from(!element.begun);
        element.begun = true;
        match outcome.is_success() {
            true => record.succeeded += 1,
            false => record.failed += 1,
        }
        self.facts.tell(|| Fact::ElementEnded {
            element: ElementId { job: id, index },
            outcome: outcome.clone(),
            at: now,
            attempts: element.attempt,
        });
        element.phase = Phase::Ended { outcome, at: now };
        self.sync(now, Owner { job: id, ordinal: Some(ordinal) });
        self.announce(id);
    }

    /// A job whose elements have all ended leaves memory.
    pub(super) fn leave_if_over(&mut self, now: Time, id: JobId) {
        if !self.jobs.get(&id).is_some_and(|job| job.record.is_over()) {
            return;
        }
        let wanted = self.facts.are_wanted();
        let view = wanted.then(|| Box::new(self.job_view(now, id).expect("it is in memory")));
        let job = self.jobs.remove(&id).expect("it is in memory");
        let succeeded = job.record.failed == 0;
        self.withdraw(id, &job);
        self.classes.leave(job.class);
        self.remember(id, succeeded);
        if let Some(view) = view {
            self.facts.tell(|| Fact::JobEnded { job: id, at: now, succeeded, view });
        }
        self.announce(id);
    }

    /// Asks for the end of an attempt; it holds its resources until every task is over.
    pub(super) fn stop(&mut self, now: Time, id: JobId, ordinal: u32, fate: Fate) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (index, grace) = (job.record.index_of(ordinal), job.record.spec.grace);
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        let attempt = element.attempt;
        let Some(run) = element.run.as_mut().filter(|_| element.phase == Phase::Active) else {
            return;
        };
        // 1. A cancellation overrides everything; a requeue overrides failures, and what others
        //    want.
        let cause = match &fate {
            Fate::Cancelled(_) => StopCause::Cancelled,
            Fate::Requeued => StopCause::Requeued,
            Fate::Preempted => StopCause::Preempted,
            Fate::Failed(_) | Fate::Refused { .. } => StopCause::GangFailed,
        };
        let weight = |fate: &Fate| match fate {
            Fate::Failed(_) | Fate::Refused { .. } => 0,
            Fate::Preempted => 1,
            Fate::Requeued => 2,
            Fate::Cancelled(_) => 3,
        };
        if run.fate.as_ref().is_none_or(|old| weight(old) < weight(&fate)) {
            run.fate = Some(fate);
        }
        // 2. One order to stop is enough.
        if matches!(run.stage, RunStage::Stopping(_)) {
            return;
        }
        let saving_until = run.leaving.map(|leaving| leaving.due);
        run.stage = RunStage::Stopping(cause);
        let by = match run.end {
            RunEnd::At(time) => time.min(now + grace),
            RunEnd::After(_) | RunEnd::Never => now + grace,
        };
        run.end = RunEnd::At(by);
        let (key, end) = (run.key, run.end);
        self.pool.set_end(key, end.into());
        self.effects.push(Effect::Stop { id: attempt_id(id, index, attempt), cause });
        if let Some(due) = saving_until {
            self.saves_no_more(id, ordinal, due);
        }
        self.watch(id, ordinal);
        self.track(id, ordinal);
    }

    /// Gives an element a record of its own, so that it can be treated by itself. Answers its
    /// ordinal.
    pub(super) fn single_out(&mut self, id: JobId, index: u32) -> Option<u32> {
        let record = &mut self.jobs.get_mut(&id)?.record;
        let ordinal = record.ordinal_of(index)?;
        if record.elements.contains_key(&ordinal) {
            return Some(ordinal);
        }
        let mut element = Element::waiting(false, Time(0));
        element.phase = record.waiting_phase(Time(0));
        if let Some(rest) = record.rest.as_mut().filter(|rest| ordinal >= rest.from) {
            rest.count -= 1;
            element.phase = Phase::Ended { outcome: rest.outcome.clone(), at: rest.at };
            element.begun = true;
        }
        record.elements.insert(ordinal, Box::new(element));
        record.advance();
        Some(ordinal)
    }

    /// An ended element waits again.
    pub(super) fn revive(&mut self, id: JobId, ordinal: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        let Some(element) = record.elements.get_mut(&ordinal) else { return };
        if let Phase::Ended { outcome, .. } = &element.phase {
            match outcome.is_success() {
                true => record.succeeded -= 1,
                false => record.failed -= 1,
            }
            element.restarts = 0;
            let phase = record.waiting_phase(Time(0));
            record.elements.entry(ordinal).and_modify(|element| element.phase = phase);
        }
    }

    /// What ended together waits again.
    fn revive_rest(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        if let Some(rest) = record.rest.take() {
            record.next = rest.from;
            record.failed -= rest.count;
            record.begun -= rest.count;
            record.advance();
        }
    }

    pub(super) fn active_ordinals(&self, id: JobId) -> Vec<u32> {
        let Some(job) = self.jobs.get(&id) else { return Vec::new() };
        let active =
            job.record.elements.iter().filter(|(_, element)| element.phase == Phase::Active);
        active.map(|(ordinal, _)| *ordinal).collect()
    }

    pub(super) fn element_mut(&mut self, id: JobId, ordinal: u32) -> Option<&mut Element> {
        self.jobs.get_mut(&id)?.record.elements.get_mut(&ordinal).map(Box::as_mut)
    }
}

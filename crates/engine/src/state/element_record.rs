//! Records of elements within their job: created once an element is changed by itself, and put back
//! to waiting. The queue entries of the job follow in `State::sync`; nothing here knows them.

use muster_model::job::Restart;
use muster_model::{Outcome, Span, Time};

use super::job::{Element, JobRecord, Phase};

impl JobRecord {
    /// Gives an element a record of its own, so that it can be changed individually. Returns its
    /// ordinal.
    pub(super) fn record_element(&mut self, index: u32) -> Option<u32> {
        let ordinal = self.ordinal_of(index)?;
        if self.elements.contains_key(&ordinal) {
            return Some(ordinal);
        }
        let mut element = Element::waiting(false, Time(0));
        element.phase = self.waiting_phase(Time(0));
        if let Some(rest) = self.rest.as_mut().filter(|rest| ordinal >= rest.from) {
            rest.count -= 1;
            element.phase = Phase::Ended { outcome: rest.outcome.clone(), at: rest.at };
            element.begun = true;
        }
        self.elements.insert(ordinal, Box::new(element));
        self.advance();
        Some(ordinal)
    }

    /// Returns the elements that hold resources, by ordinal.
    pub(super) fn active_ordinals(&self) -> impl Iterator<Item = u32> {
        let active = self.elements.iter().filter(|(_, element)| element.phase == Phase::Active);
        active.map(|(ordinal, _)| *ordinal)
    }

    /// Stores the outcome of an attempt that is followed by another.
    pub(super) fn store_outcome(&mut self, ordinal: u32, outcome: Outcome) {
        if let Some(element) = self.elements.get_mut(&ordinal) {
            element.last_end = Some(Box::new(outcome));
        }
    }

    /// Puts an element whose attempt has ended back to waiting, after a back-off if this is a
    /// restart. `restarts` are those used up with this one.
    pub(super) fn requeue(&mut self, now: Time, ordinal: u32, restarts: Option<u32>) {
        let restart = self.spec.restart;
        let mut phase = self.waiting_phase(Time(0));
        let Some(element) = self.elements.get_mut(&ordinal) else { return };
        if let (Some(restarts), Phase::Waiting { not_before, .. }) = (restarts, &mut phase) {
            element.restarts = restarts;
            *not_before = now + backoff(restart, restarts);
        }
        self.pending_allocations += u32::from(element.pending_allocation.is_some());
        element.phase = phase;
    }

    /// Keeps a waiting element from starting before an instant.
    pub(super) fn wait_until(&mut self, ordinal: u32, instant: Time) {
        let element = self.elements.get_mut(&ordinal);
        if let Some(Phase::Waiting { not_before, .. }) = element.map(|element| &mut element.phase) {
            *not_before = instant;
        }
    }

    /// Puts an ended element back to waiting.
    pub(super) fn requeue_ended(&mut self, ordinal: u32) {
        let phase = self.waiting_phase(Time(0));
        let Some(element) = self.elements.get_mut(&ordinal) else { return };
        if let Phase::Ended { outcome, .. } = &element.phase {
            if outcome.is_success() {
                self.succeeded -= 1;
            } else {
                self.failed -= 1;
            }
            element.restarts = 0;
            element.phase = phase;
        }
    }

    /// Puts elements that ended together back to waiting.
    pub(super) fn requeue_common_end(&mut self) {
        if let Some(rest) = self.rest.take() {
            self.next = rest.from;
            self.failed -= rest.count;
            self.begun -= rest.count;
            self.advance();
        }
    }
}

/// Returns the delay before a restart: doubles each time, up to a cap.
fn backoff(restart: Restart, restarts: u32) -> Span {
    let doublings = restarts.saturating_sub(1).min(32);
    Span(restart.backoff.0.saturating_mul(1 << doublings)).min(Restart::BACKOFF_CAP)
}

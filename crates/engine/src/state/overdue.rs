//! Starts that are not reported in time. A task that never says whether it is ready would keep its
//! gang's GPUs for ever; so an attempt that is still being prepared after a limit counts as failed
//! to start, and is stopped. A task that was never heard of, and does not answer that either, is
//! given up after the same limit again: its process never got the order to run, so nothing of the
//! user's can be running there.
//!
//! When that happens depends on a limit that is no part of the durable state: so it enters the
//! state as an event, and a replay does not depend on the limit.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::view::TaskStage;
use muster_model::{AttemptId, Event, JobId, Observation, Rank, Span, Time};

use super::State;
use super::attempt::attempt_id;
use super::job::{Fate, Phase, Run, RunEnd, RunStage};
use super::report::observe;

/// Who is waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starting {
    /// Nobody is waited for any longer than this; `None` is for ever.
    limit: Option<Span>,
    /// No wait begins before this instant: after a restart, tasks get the whole limit to be heard
    /// of again.
    since: Time,
    /// Since when, and for which element by ordinal.
    waits: BTreeSet<(Time, JobId, u32)>,
}

impl Starting {
    /// When the first wait is over.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let (from, _, _) = self.waits.first()?;
        Some((*from).max(self.since) + self.limit?)
    }

    /// A wait that has ended with its attempt.
    pub(super) fn waits_no_more(&mut self, from: Time, id: JobId, ordinal: u32) {
        self.waits.remove(&(from, id, ordinal));
    }
}

impl State {
    /// From now on nobody is waited for longer than `limit`, counted from `since` at the earliest.
    pub(crate) fn watch_starts(&mut self, since: Time, limit: Span) {
        (self.starting.since, self.starting.limit) = (since, Some(limit));
    }

    /// Waits that are over.
    pub(crate) fn overdue(&self, now: Time) -> Vec<Event> {
        let Some(after) = self.starting.limit else { return Vec::new() };
        let is_due = |from: Time| from.max(self.starting.since) + after <= now;
        let due = self.starting.waits.iter().take_while(|(from, _, _)| is_due(*from));
        due.filter_map(|(_, job, ordinal)| {
            let record = &self.jobs.get(job)?.record;
            let attempt = record.elements.get(ordinal)?.attempt;
            Some(Event::StartOverdue {
                id: attempt_id(*job, record.index_of(*ordinal), attempt),
                after,
            })
        })
        .collect()
    }

    /// Brings the wait for an element in line with where its attempt stands.
    pub(super) fn watch(&mut self, id: JobId, ordinal: u32) {
        let Some(element) = self.element_mut(id, ordinal) else { return };
        let is_active = element.phase == Phase::Active;
        let Some(run) = element.run.as_mut() else { return };
        let from = if is_active { waits_from(run) } else { None };
        let old = std::mem::replace(&mut run.watched, from);
        if old == from {
            return;
        }
        if let Some(old) = old {
            self.starting.waits.remove(&(old, id, ordinal));
        }
        if let Some(from) = from {
            self.starting.waits.insert((from, id, ordinal));
        }
    }

    /// An attempt was waited for long enough.
    pub(super) fn start_overdue(&mut self, now: Time, id: AttemptId, after: Span) {
        let job = id.element.job;
        let Some(record) = self.jobs.get(&job).map(|job| &job.record) else { return };
        let Some(ordinal) = record.ordinal_of(id.element.index) else { return };
        let Some(element) = self.element_mut(job, ordinal) else { return };
        if element.phase != Phase::Active || element.attempt != id.attempt.0 {
            return;
        }
        let Some(run) = element.run.as_mut().filter(|run| waits_from(run).is_some()) else {
            return;
        };
        let mute = (0..run.tasks.len()).filter(|at| run.tasks[*at].stage == TaskStage::Ordered);
        let mute: Vec<usize> = mute.collect();
        match (run.stage, mute.first()) {
            (RunStage::Preparing, Some(first)) => {
                let (rank, node) = (Rank(*first as u32), run.placement[*first].node);
                let reason: Arc<str> = format!("it was not ready after {after}").into();
                self.stop(now, job, ordinal, Fate::Refused { rank, reason, node });
            }
            (RunStage::Stopping(_), Some(_)) => {
                let lost = Observation::Lost { reason: "it was never heard of".into() };
                for at in mute {
                    observe(run, Rank(at as u32), &lost);
                }
                self.advance_run(now, job, ordinal);
            }
            _ => {}
        }
    }
}

/// Since when a word of the backend is missing; `None` when none is, or when a user's process may
/// be running.
fn waits_from(run: &Run) -> Option<Time> {
    match (run.stage, run.end) {
        (RunStage::Preparing, _) => Some(run.held_from),
        (RunStage::Stopping(_), RunEnd::At(by)) => {
            run.tasks.iter().any(|task| task.stage == TaskStage::Ordered).then_some(by)
        }
        _ => None,
    }
}

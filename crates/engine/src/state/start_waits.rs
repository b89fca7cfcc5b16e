//! Starts that are not reported in time. A task that never reports whether it is prepared would
//! hold its gang's GPUs for ever, so an attempt that is still preparing after a limit has failed to
//! start, and is stopped. A task that never reported anything, and does not react to the stop
//! either, is given up after the same limit again: its process was never ordered to run, so no user
//! process can be running.
//!
//! The limit is not part of the durable state, so an overdue start enters the state as an event,
//! and a replay does not depend on the limit.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::view::TaskStage;
use muster_model::{AttemptId, Event, JobId, Observation, Rank, Span, Time};

use super::State;
use super::attempt::attempt_id;
use super::job::{AttemptFate, Phase, Run, RunEnd, RunStage};
use super::jobs::JobTable;
use super::report::observe;

/// Attempts that are waited for, and the limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartWaits {
    /// Longest wait; `None` for no limit.
    limit: Option<Span>,
    /// Waits begin at this instant at the earliest: after a restart of the daemon, tasks get the
    /// whole limit to report again.
    since: Time,
    /// Begin of the wait, and the element by ordinal.
    waits: BTreeSet<(Time, JobId, u32)>,
}

impl StartWaits {
    /// Returns the instant at which the first wait is over.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let (from, _, _) = self.waits.first()?;
        Some((*from).max(self.since) + self.limit?)
    }

    /// Sets the limit for starts; waits count from `since` at the earliest.
    pub(crate) fn limit(&mut self, since: Time, limit: Span) {
        self.since = since;
        self.limit = Some(limit);
    }

    /// Returns events for the waits that are over.
    pub(crate) fn overdue(&self, jobs: &JobTable, now: Time) -> Vec<Event> {
        let Some(after) = self.limit else { return Vec::new() };
        let is_due = |from: Time| from.max(self.since) + after <= now;
        let due = self.waits.iter().take_while(|(from, _, _)| is_due(*from));
        due.filter_map(|(_, job, ordinal)| {
            let record = &jobs.get(job)?.record;
            let attempt = record.elements.get(ordinal)?.attempt;
            Some(Event::StartOverdue {
                id: attempt_id(*job, record.index_of(*ordinal), attempt),
                after,
            })
        })
        .collect()
    }

    /// Updates the wait for an element according to the stage of its attempt.
    pub(super) fn update(&mut self, jobs: &mut JobTable, id: JobId, ordinal: u32) {
        let Some(element) = jobs.element_mut(id, ordinal) else { return };
        let is_active = element.phase == Phase::Active;
        let Some(run) = element.run.as_mut() else { return };
        let from = if is_active { wait_begin(run) } else { None };
        let old = std::mem::replace(&mut run.watched, from);
        if old == from {
            return;
        }
        if let Some(old) = old {
            self.waits.remove(&(old, id, ordinal));
        }
        if let Some(from) = from {
            self.waits.insert((from, id, ordinal));
        }
    }

    /// Removes the wait of an attempt that has ended.
    pub(super) fn remove_wait(&mut self, from: Time, id: JobId, ordinal: u32) {
        self.waits.remove(&(from, id, ordinal));
    }
}

impl State {
    /// Fails the start of an attempt whose wait is over.
    pub(super) fn start_overdue(&mut self, now: Time, id: AttemptId, after: Span) {
        let job = id.element.job;
        let Some(record) = self.jobs.get(&job).map(|job| &job.record) else { return };
        let Some(ordinal) = record.ordinal_of(id.element.index) else { return };
        let Some(element) = self.jobs.element_mut(job, ordinal) else { return };
        if element.phase != Phase::Active || element.attempt != id.attempt.0 {
            return;
        }
        let Some(run) = element.run.as_mut().filter(|run| wait_begin(run).is_some()) else {
            return;
        };
        let mute = (0..run.tasks.len()).filter(|at| run.tasks[*at].stage == TaskStage::Ordered);
        let mute: Vec<usize> = mute.collect();
        match (run.stage, mute.first()) {
            (RunStage::Preparing, Some(first)) => {
                let rank = Rank(*first as u32);
                let node = run.placement[*first].node;
                let reason: Arc<str> = format!("it was not prepared within {after}").into();
                self.stop(now, job, ordinal, AttemptFate::Refused { rank, reason, node });
            }
            (RunStage::Stopping(_), Some(_)) => {
                let lost = Observation::Lost { reason: "it never reported".into() };
                for at in mute {
                    observe(run, Rank(at as u32), &lost);
                }
                self.advance_run(now, job, ordinal);
            }
            _ => {}
        }
    }
}

/// Returns the begin of the wait for a report of the backend; `None` if none is missing, or if a
/// user's process may be running.
fn wait_begin(run: &Run) -> Option<Time> {
    match (run.stage, run.end) {
        (RunStage::Preparing, _) => Some(run.held_from),
        (RunStage::Stopping(_), RunEnd::At(by)) => {
            run.tasks.iter().any(|task| task.stage == TaskStage::Ordered).then_some(by)
        }
        _ => None,
    }
}

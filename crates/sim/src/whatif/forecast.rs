//! Forecast of when pending jobs start, if no more are submitted. The engine continues from its
//! state: tasks start as soon as they are placed, end successfully when jobs like theirs usually
//! do, and stop at once. Evicted jobs with checkpoints have saved and resume from there; jobs to be
//! requeued at their limit are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use muster_engine::Engine;
use muster_model::simulation::StartTimes;
use muster_model::view::{ElementView, JobState, JobView};
use muster_model::{
    AfterCheckpoint, AttemptId, Effect, ElementId, Event, JobId, Observation, Rank, Reason, Span,
    TaskCheckpoint, TaskExit, TaskReport, Time,
};

use super::runtime_estimates::RuntimeEstimates;
use super::{Situation, WhatIfError};

/// Furthest time that is forecast.
const HORIZON: Span = Span::from_secs(400 * 86_400);

/// A forecast in progress.
#[derive(Debug)]
pub struct StartForecast<'a> {
    engine: Engine,
    usual: &'a RuntimeEstimates,
    now: Time,
    until: Time,
    ends: BinaryHeap<Reverse<(Time, AttemptId)>>,
    /// Start of running attempts, and the work saved before.
    running: BTreeMap<AttemptId, (Time, Span)>,
    /// Work that elements have saved.
    saved: BTreeMap<ElementId, Span>,
    /// Elements that have started, now or before.
    begun: BTreeSet<ElementId>,
    starts: BTreeMap<JobId, StartTimes>,
    /// Number of elements that are pending since the beginning.
    left: u64,
}

impl<'a> StartForecast<'a> {
    /// Creates a forecast from a situation.
    #[must_use]
    pub fn of(situation: &Situation, usual: &'a RuntimeEstimates) -> Self {
        let mut engine = situation.engine().clone();
        engine.disable_facts();
        let now = situation.taken;
        let jobs = engine.jobs(now);
        let waits = || {
            jobs.iter()
                .map(|job| (job.job, engine.pending_unheld(job.job)))
                .filter(|(_, count)| *count > 0)
        };
        let left = waits().map(|(_, count)| u64::from(count)).sum();
        let starts = waits().map(|(job, _)| (job, StartTimes::default())).collect();
        let saved = jobs.iter().flat_map(|job| &job.elements).filter_map(saved).collect();
        let attempts: BTreeSet<AttemptId> =
            engine.expected_tasks().into_iter().map(|(attempt, _, _)| attempt).collect();
        let mut forecast = Self {
            usual,
            now,
            until: now + HORIZON,
            ends: BinaryHeap::new(),
            running: BTreeMap::new(),
            saved,
            begun: attempts.iter().map(|attempt| attempt.element).collect(),
            starts,
            left,
            engine,
        };
        for attempt in attempts {
            let view = forecast.engine.element(now, attempt.element);
            if let Some(since) = view.and_then(|view| view.started) {
                forecast.runs(attempt, since);
            }
        }
        forecast
    }

    /// Returns the number of pending elements that have not started yet.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Returns when elements of pending jobs start, so far.
    #[must_use]
    pub fn starts(&self) -> &BTreeMap<JobId, StartTimes> {
        &self.starts
    }

    /// Returns the reasons of pending jobs, as far as the forecast has come.
    #[must_use]
    pub fn reasons(&self) -> BTreeMap<JobId, Reason> {
        let waits = |job: JobView| Some((job.job, job.waiting_for?));
        self.engine.jobs(self.now).into_iter().filter_map(waits).collect()
    }

    /// Executes outstanding orders, and makes the first decisions.
    ///
    /// # Errors
    /// A defect of the engine.
    pub fn begin(&mut self) -> Result<(), WhatIfError> {
        self.engine.advance_time(self.now);
        for effect in self.engine.outstanding() {
            self.execute(&effect);
        }
        self.decide()
    }

    /// Advances to the next event. False if there is none, or all pending elements have started.
    ///
    /// # Errors
    /// A defect of the engine.
    pub fn step(&mut self) -> Result<bool, WhatIfError> {
        let end = self.ends.peek().map(|Reverse((at, _))| *at);
        let wake = self.engine.next_wake().map(|wake| wake.max(self.now + Span(1)));
        let Some(next) = [end, wake].into_iter().flatten().min().filter(|next| *next <= self.until)
        else {
            return Ok(false);
        };
        if self.left == 0 {
            return Ok(false);
        }
        self.now = next.max(self.now);
        self.engine.advance_time(self.now);
        while let Some(Reverse((at, attempt))) = self.ends.peek().copied()
            && at <= self.now
        {
            self.ends.pop();
            // An attempt that was stopped, or resumed elsewhere, ends at another time.
            if let Some((since, _)) = self.running.remove(&attempt) {
                self.end(attempt, since);
            }
        }
        self.decide()?;
        Ok(true)
    }

    fn decide(&mut self) -> Result<(), WhatIfError> {
        for event in self.engine.due_events(self.now) {
            self.engine.apply(self.now, &event);
        }
        loop {
            let plan = self.engine.plan(self.now);
            self.engine.check(self.now, &plan).map_err(WhatIfError::BadPlan)?;
            self.engine.commit(self.now, &plan);
            let effects = self.engine.take_effects();
            effects.iter().for_each(|effect| self.execute(effect));
            // Stopped or saved attempts may free resources at this instant.
            let frees =
                |effect: &Effect| matches!(effect, Effect::Stop { .. } | Effect::Checkpoint { .. });
            if !effects.iter().any(frees) {
                return Ok(());
            }
        }
    }

    /// Ends an attempt at its time.
    fn end(&mut self, attempt: AttemptId, since: Time) {
        let Some(job) = self.engine.job_spec(attempt.element.job) else { return };
        let is_at_limit = job.time_limit.is_some_and(|limit| self.now.since(since) >= limit);
        let requeues =
            job.checkpoint.is_some_and(|checkpoint| checkpoint.then == AfterCheckpoint::Requeue);
        if is_at_limit && requeues {
            // The remaining work is unknown: assume as much again.
            self.saved.remove(&attempt.element);
            self.report(attempt, &Observation::Checkpointed(checkpoint_answer(0, true, self.now)));
            self.report(attempt, &Observation::Exited(TaskExit::TimedOut));
        } else {
            self.report(attempt, &Observation::Exited(TaskExit::Code { code: 0 }));
        }
    }

    fn execute(&mut self, effect: &Effect) {
        let attempt = effect.id();
        match effect {
            Effect::Prepare { .. } | Effect::Go { .. } => {
                if !self.running.contains_key(&attempt) {
                    self.report(attempt, &Observation::Started);
                    self.count_start(attempt.element);
                    self.runs(attempt, self.now);
                }
            }
            Effect::Checkpoint { request, .. } => {
                if let Some((since, before)) = self.running.get(&attempt) {
                    self.saved.insert(attempt.element, *before + self.now.since(*since));
                }
                self.report(
                    attempt,
                    &Observation::Checkpointed(checkpoint_answer(*request, false, self.now)),
                );
            }
            Effect::Stop { .. } => {
                self.running.remove(&attempt);
                self.report(attempt, &Observation::Exited(TaskExit::Stopped));
            }
            Effect::Forget { .. } => {}
        }
    }

    /// Runs an attempt, until jobs like it end.
    fn runs(&mut self, attempt: AttemptId, since: Time) {
        let saved = self.saved.get(&attempt.element).copied().unwrap_or(Span(0));
        self.running.insert(attempt, (since, saved));
        let Some(job) = self.engine.job_spec(attempt.element.job) else { return };
        if let Some(runtime) = self.usual.runtime(&job, self.now.since(since) + saved) {
            let left = Span(runtime.0.saturating_sub(saved.0));
            self.ends.push(Reverse(((since + left).max(self.now + Span(1)), attempt)));
        }
    }

    fn count_start(&mut self, element: ElementId) {
        if !self.begun.insert(element) {
            return;
        }
        if let Some(starts) = self.starts.get_mut(&element.job) {
            starts.begun += 1;
            starts.first.get_or_insert(self.now);
            starts.last = Some(self.now);
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Reports the same for every task of an attempt.
    fn report(&mut self, id: AttemptId, what: &Observation) {
        let tasks = self.engine.placement(id.element).map_or(0, |(_, places)| places.len() as u32);
        for rank in 0..tasks {
            let report = TaskReport { id, rank: Rank(rank), observation: what.clone() };
            self.engine.apply(self.now, &Event::Task(report));
        }
    }
}

/// Returns a checkpoint that answers this many requests, newer than any of the task's own.
fn checkpoint_answer(answers: u32, warned: bool, at: Time) -> TaskCheckpoint {
    TaskCheckpoint { count: u32::MAX / 2 + answers, answers, warned, at, label: "".into() }
}

/// Returns what a pending element has saved in its last attempt.
fn saved(element: &ElementView) -> Option<(ElementId, Span)> {
    let checkpoint =
        element.checkpoint.as_ref().filter(|saved| saved.attempt == element.attempt)?;
    let waits = matches!(element.state, JobState::Pending | JobState::Held);
    waits.then_some((element.element, checkpoint.at.since(element.started?)))
}

//! Ideal backend: tasks become ready and run as soon as ordered (or as configured for their node),
//! end as the script says or at their time limit, and are reported truthfully. It outlives the
//! daemon, as supervisors do. It checks its orders without the engine: no device twice, no process
//! before every rank is ready.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::{
    AttemptId, Effect, ElementId, JobSpec, NodeId, Observation, Rank, Span, TaskCheckpoint,
    TaskExit, TaskPlacement, TaskReport, Time,
};

use super::command::{SaveAge, ScriptCheckpoint, ScriptedBehaviour, StartBehaviour};

/// All tasks with an order to prepare and none to forget.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdealBackend {
    attempts: BTreeMap<AttemptId, BackendAttempt>,
    forgotten: BTreeSet<AttemptId>,
}

/// Terms of a job that the backend needs.
#[derive(Clone, Debug)]
pub(crate) struct TaskTerms {
    pub(crate) behaviour: ScriptedBehaviour,
    pub(crate) limit: Option<Span>,
    pub(crate) grace: Span,
    /// Time before the limit at which its tasks are warned.
    pub(crate) warning: Option<Span>,
    /// True if its tasks listen on a port as soon as they run.
    pub(crate) answers: bool,
}

impl TaskTerms {
    /// Returns the terms of a job.
    pub(crate) fn of(spec: &JobSpec, behaviour: ScriptedBehaviour) -> Self {
        let answers = spec.service().is_some_and(|service| service.port.is_some());
        let warning = spec.checkpoint.map(|checkpoint| checkpoint.lead);
        Self { behaviour, limit: spec.time_limit, grace: spec.grace, warning, answers }
    }
}

#[derive(Clone, Debug)]
struct BackendAttempt {
    placement: Arc<[TaskPlacement]>,
    terms: TaskTerms,
    /// Number of checkpoint requests so far.
    asked: u32,
    tasks: Vec<BackendTask>,
}

#[derive(Clone, Debug)]
struct BackendTask {
    /// Last observation of the task.
    seen: Option<Observation>,
    /// Next observation and its time.
    next: Option<(Time, Observation)>,
    /// Time at which it is warned of its limit.
    warned_at: Option<Time>,
    /// Newest checkpoint that was saved.
    saved: Option<TaskCheckpoint>,
    /// Checkpoints that are not reported yet.
    unheard: Vec<TaskCheckpoint>,
    /// True if it neither reports nor reacts, as on a host that hangs; no process of it runs.
    is_mute: bool,
}

impl BackendTask {
    fn is_over(&self) -> bool {
        matches!(
            self.seen,
            Some(
                Observation::Exited(_)
                    | Observation::Refused { .. }
                    | Observation::Impossible { .. }
                    | Observation::Lost { .. }
            )
        )
    }

    fn is_running(&self) -> bool {
        self.seen == Some(Observation::Started)
    }

    /// Saves a checkpoint; `asked` is the number of requests so far.
    fn save(&mut self, now: Time, asked: u32, save: &ScriptCheckpoint) {
        let newest = self.saved.as_ref().map_or(0, |saved| saved.count);
        let reported = TaskCheckpoint {
            count: if save.age == SaveAge::Old { newest.saturating_sub(1) } else { newest + 1 },
            answers: if save.age == SaveAge::Asked { asked } else { asked.saturating_sub(1) },
            warned: self.warned_at.is_some_and(|at| at <= now),
            at: Time(now.0.saturating_add_signed(save.clock)),
            label: Arc::clone(&save.label),
        };
        if save.age != SaveAge::Old {
            self.saved = Some(reported.clone());
        }
        self.unheard.push(reported);
    }
}

impl IdealBackend {
    /// Prepares tasks, each as configured for its node.
    ///
    /// # Errors
    /// An order that no correct engine gives.
    pub(crate) fn prepare(
        &mut self,
        now: Time,
        id: AttemptId,
        placement: &Arc<[TaskPlacement]>,
        terms: TaskTerms,
        starts: impl Fn(NodeId) -> StartBehaviour,
    ) -> Result<(), String> {
        if self.attempts.contains_key(&id) {
            return Ok(());
        }
        if self.forgotten.contains(&id) {
            return Err(format!(
                "{id} has ended and was forgotten, but Prepare was sent for it again"
            ));
        }
        let get_ready = |task: &TaskPlacement| {
            let next = match starts(task.node) {
                StartBehaviour::Works => Some((now, Observation::Prepared)),
                StartBehaviour::Takes(span) => Some((now + span, Observation::Prepared)),
                StartBehaviour::Fails(reason) => Some((now, Observation::Refused { reason })),
                StartBehaviour::Mute => None,
            };
            let is_mute = next.is_none();
            let unheard = Vec::new();
            BackendTask { seen: None, is_mute, next, warned_at: None, saved: None, unheard }
        };
        let tasks = placement.iter().map(get_ready).collect();
        self.attempts.insert(
            id,
            BackendAttempt { placement: Arc::clone(placement), terms, asked: 0, tasks },
        );
        self.audit_devices()
    }

    /// Executes any other order; repeated ones change nothing.
    ///
    /// # Errors
    /// An order that no correct engine gives.
    pub(crate) fn execute(&mut self, now: Time, effect: &Effect) -> Result<(), String> {
        let id = effect.id();
        let Some(attempt) = self.attempts.get_mut(&id) else { return Ok(()) };
        match effect {
            Effect::Prepare { .. } => Ok(()),
            // Tasks save when the script says so.
            Effect::Checkpoint { request, .. } => {
                attempt.asked = attempt.asked.max(*request);
                Ok(())
            }
            Effect::Go { .. } => attempt.go(now).map_err(|rank| {
                format!("Go was sent for {id} before its rank {rank} was prepared")
            }),
            Effect::Stop { .. } => {
                attempt.stop(now);
                Ok(())
            }
            Effect::Forget { .. } => {
                let is_over = attempt.tasks.iter().all(|task| task.is_over() || task.is_mute);
                self.attempts.remove(&id);
                self.forgotten.insert(id);
                if is_over {
                    Ok(())
                } else {
                    Err(format!("Forget was sent for {id} while its tasks run"))
                }
            }
        }
    }

    /// Returns the time of the next observation.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let tasks = self.attempts.values().flat_map(|attempt| &attempt.tasks);
        tasks.filter_map(|task| task.next.as_ref().map(|(at, _)| *at)).min()
    }

    /// Returns all observations up to now, in order of attempt and rank.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<TaskReport> {
        let mut reports = Vec::new();
        for (id, attempt) in &mut self.attempts {
            for (rank, task) in (0..).map(Rank).zip(&mut attempt.tasks) {
                let saved =
                    std::mem::take(&mut task.unheard).into_iter().map(Observation::Checkpointed);
                reports.extend(saved.map(|what| TaskReport { id: *id, rank, observation: what }));
                let Some((_, what)) = task.next.take_if(|(at, _)| *at <= now) else { continue };
                task.seen = Some(what.clone());
                if what == Observation::Started {
                    task.next = attempt.terms.end(now);
                    task.warned_at = attempt.terms.warns_at(now);
                }
                let answers = attempt.terms.answers && what == Observation::Started;
                reports.push(TaskReport { id: *id, rank, observation: what });
                reports.extend(answers.then_some(TaskReport {
                    id: *id,
                    rank,
                    observation: Observation::Ready,
                }));
            }
        }
        reports
    }

    /// Returns the known state of every task, for a daemon that restarts.
    pub(crate) fn task_reports(&self) -> Vec<TaskReport> {
        let mut reports = Vec::new();
        for (id, attempt) in &self.attempts {
            for (rank, task) in (0..).map(Rank).zip(&attempt.tasks) {
                let saved = task.saved.clone().map(Observation::Checkpointed);
                reports.extend(saved.map(|what| TaskReport { id: *id, rank, observation: what }));
                let what = task.seen.clone();
                let answers = attempt.terms.answers && task.is_running();
                reports.extend(what.map(|what| TaskReport { id: *id, rank, observation: what }));
                reports.extend(answers.then_some(TaskReport {
                    id: *id,
                    rank,
                    observation: Observation::Ready,
                }));
            }
        }
        reports
    }

    /// Returns the elements of a job with a running task.
    pub(crate) fn running(&self, job: muster_model::JobId) -> Vec<ElementId> {
        let runs = |attempt: &BackendAttempt| attempt.tasks.iter().any(BackendTask::is_running);
        let of_job =
            self.attempts.iter().filter(|(id, attempt)| id.element.job == job && runs(attempt));
        of_job.map(|(id, _)| id.element).collect()
    }

    /// Returns the running ranks of an attempt.
    pub(crate) fn running_ranks(&self, id: AttemptId) -> Vec<Rank> {
        let tasks = self.attempts.get(&id).map_or(&[][..], |attempt| &attempt.tasks);
        let running = (0..).map(Rank).zip(tasks).filter(|(_, task)| task.is_running());
        running.map(|(rank, _)| rank).collect()
    }

    /// Applies an observation to running tasks of an element now, without a rank to all; returns
    /// their number.
    pub(crate) fn force(
        &mut self,
        now: Time,
        element: ElementId,
        rank: Option<u32>,
        what: &Observation,
    ) -> usize {
        let attempts = self.attempts.iter_mut().filter(|(id, _)| id.element == element);
        let mut forced = 0;
        for task in attempts.flat_map(|(_, attempt)| (0..).zip(&mut attempt.tasks)) {
            if task.1.is_running() && rank.is_none_or(|rank| rank == task.0) {
                task.1.next = Some((now, what.clone()));
                forced += 1;
            }
        }
        forced
    }

    /// Saves checkpoints of running tasks of an element, without a rank of all; returns their
    /// number.
    pub(crate) fn save(
        &mut self,
        now: Time,
        element: ElementId,
        rank: Option<u32>,
        save: &ScriptCheckpoint,
    ) -> usize {
        let attempts = self.attempts.iter_mut().filter(|(id, _)| id.element == element);
        let mut saving = 0;
        for (_, attempt) in attempts {
            let asked = attempt.asked;
            let tasks =
                (0..).zip(&mut attempt.tasks).filter(|(at, _)| rank.is_none_or(|rank| rank == *at));
            for (_, task) in tasks.filter(|(_, task)| task.is_running()) {
                task.save(now, asked, save);
                saving += 1;
            }
        }
        saving
    }

    /// Loses every task on the node without a report.
    pub(crate) fn lose_node(&mut self, node: NodeId, reason: &Arc<str>) {
        for attempt in self.attempts.values_mut() {
            for (task, place) in attempt.tasks.iter_mut().zip(attempt.placement.iter()) {
                if place.node == node && !task.is_over() {
                    let lost = Observation::Lost { reason: Arc::clone(reason) };
                    (task.seen, task.next) = (Some(lost), None);
                }
            }
        }
    }

    /// Returns attempts of which a task is ready, runs, or is getting ready.
    pub(crate) fn live_attempts(&self) -> impl Iterator<Item = AttemptId> {
        let is_live = |attempt: &BackendAttempt| {
            attempt.tasks.iter().any(|task| !task.is_over() && !task.is_mute)
        };
        self.attempts.iter().filter(move |(_, attempt)| is_live(attempt)).map(|(id, _)| *id)
    }

    /// Drops attempts without a durable decision: the order to forget them was lost with a daemon.
    pub(crate) fn drop_unrecorded(&mut self, stands: impl Fn(AttemptId) -> bool) {
        self.attempts.retain(|id, _| stands(*id));
    }

    /// Returns attempts with a running process.
    pub(crate) fn busy(&self) -> Vec<AttemptId> {
        let busy = self
            .attempts
            .iter()
            .filter(|(_, attempt)| attempt.tasks.iter().any(BackendTask::is_running));
        busy.map(|(id, _)| *id).collect()
    }

    /// Gives tasks that would run for ever a successful end.
    pub(crate) fn end_endless(&mut self, by: Time) {
        for task in self.attempts.values_mut().flat_map(|attempt| &mut attempt.tasks) {
            if task.is_running() && task.next.is_none() {
                task.next = Some((by, Observation::Exited(TaskExit::Code { code: 0 })));
            }
        }
        for attempt in self.attempts.values_mut() {
            attempt.terms.behaviour.lasts.get_or_insert(Span::from_secs(30));
        }
    }

    /// Checks that no device is given to more than one task, or more than its shares.
    fn audit_devices(&self) -> Result<(), String> {
        let mut held: BTreeMap<(NodeId, usize), u32> = BTreeMap::new();
        for attempt in self.attempts.values() {
            let tasks = attempt.tasks.iter().zip(attempt.placement.iter());
            for (_, place) in tasks.filter(|(task, _)| !task.is_over() && !task.is_mute) {
                for device in place.devices.iter() {
                    *held.entry((place.node, device)).or_default() += place.share.0;
                }
            }
        }
        match held.iter().find(|(_, milli)| **milli > 1000) {
            None => Ok(()),
            Some(((node, device), milli)) => Err(format!(
                "device {device} of node number {node} is allocated {milli} thousandths"
            )),
        }
    }
}

impl TaskTerms {
    /// Returns when a task that begins now is warned of its limit.
    fn warns_at(&self, now: Time) -> Option<Time> {
        let limit = self.limit?;
        let warning = self.warning?;
        Some(now + Span(limit.0.saturating_sub(warning.0)))
    }

    /// Returns when and how a task that begins now ends by itself.
    fn end(&self, now: Time) -> Option<(Time, Observation)> {
        let grace = if self.behaviour.stubborn { self.grace } else { Span(0) };
        let limit = self.limit.map(|limit| (now + limit + grace, TaskExit::TimedOut));
        let done = self.behaviour.lasts.map(|span| (now + span, self.behaviour.exit.clone()));
        let end = match (done, limit) {
            (Some(done), Some(limit)) if limit.0 < done.0 => Some(limit),
            (done, limit) => done.or(limit),
        };
        end.map(|(at, exit)| (at, Observation::Exited(exit)))
    }
}

impl BackendAttempt {
    /// Starts every task; fails with the first that is not ready.
    fn go(&mut self, now: Time) -> Result<(), usize> {
        let unready = |task: &BackendTask| {
            task.seen.is_none() || matches!(task.seen, Some(Observation::Refused { .. }))
        };
        if let Some(rank) = self.tasks.iter().position(unready) {
            return Err(rank);
        }
        for task in self.tasks.iter_mut().filter(|task| task.seen == Some(Observation::Prepared)) {
            task.next = Some((now, Observation::Started));
        }
        Ok(())
    }

    /// Ends every task: prepared ones at once, running ones within their grace.
    fn stop(&mut self, now: Time) {
        let grace = if self.terms.behaviour.stubborn { self.terms.grace } else { Span(0) };
        for task in self.tasks.iter_mut().filter(|task| !task.is_over() && !task.is_mute) {
            let by = if task.is_running() { now + grace } else { now };
            let continues =
                |what: &Observation| matches!(what, Observation::Prepared | Observation::Started);
            if task.next.as_ref().is_none_or(|(at, what)| *at > by || continues(what)) {
                task.next = Some((by, Observation::Exited(TaskExit::Stopped)));
            }
        }
    }
}

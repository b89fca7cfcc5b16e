//! The ideal backend: tasks become ready and run as soon as they are told (or as their node is
//! arranged), end as the script says or at their time limit, and are reported truthfully. It
//! outlives the daemon, as supervisors do. It judges its orders without asking the engine: no
//! device twice, no process before every rank is ready. It must not schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::{
    AttemptId, Effect, ElementId, JobSpec, NodeId, Observation, Rank, Span, TaskCheckpoint,
    TaskExit, TaskPlacement, TaskReport, Time,
};

use super::command::{Age, Conduct, Save, Starts};

/// All tasks that somebody was asked to prepare and nobody to forget.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backend {
    attempts: BTreeMap<AttemptId, Attempt>,
    forgotten: BTreeSet<AttemptId>,
}

/// What a backend knows of a job when it is ordered.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) conduct: Conduct,
    pub(crate) limit: Option<Span>,
    pub(crate) grace: Span,
    /// How long before the limit its tasks are warned of it.
    pub(crate) warning: Option<Span>,
    /// Its tasks answer on a port as soon as they run.
    pub(crate) answers: bool,
}

impl Terms {
    /// Of a job.
    pub(crate) fn of(spec: &JobSpec, conduct: Conduct) -> Self {
        let answers = spec.service().is_some_and(|service| service.port.is_some());
        let warning = spec.checkpoint.map(|checkpoint| checkpoint.lead);
        Self { conduct, limit: spec.time_limit, grace: spec.grace, warning, answers }
    }
}

#[derive(Clone, Debug)]
struct Attempt {
    placement: Arc<[TaskPlacement]>,
    terms: Terms,
    /// Requests for a checkpoint so far.
    asked: u32,
    tasks: Vec<Task>,
}

#[derive(Clone, Debug)]
struct Task {
    /// What was seen of it last.
    seen: Option<Observation>,
    /// What will be seen of it next, and when.
    next: Option<(Time, Observation)>,
    /// When it is warned of its limit.
    warned_at: Option<Time>,
    /// The newest that it has saved.
    saved: Option<TaskCheckpoint>,
    /// What it says of its progress and nobody has heard.
    unheard: Vec<TaskCheckpoint>,
    /// It says nothing and hears nothing, as on a host that hangs; no process of it runs.
    is_mute: bool,
}

impl Task {
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

    /// It says that its progress is saved, having been asked so often.
    fn save(&mut self, now: Time, asked: u32, save: &Save) {
        let newest = self.saved.as_ref().map_or(0, |saved| saved.count);
        let told = TaskCheckpoint {
            count: if save.age == Age::Old { newest.saturating_sub(1) } else { newest + 1 },
            answers: if save.age == Age::Asked { asked } else { asked.saturating_sub(1) },
            warned: self.warned_at.is_some_and(|at| at <= now),
            at: Time(now.0.saturating_add_signed(save.clock)),
            label: Arc::clone(&save.label),
        };
        if save.age != Age::Old {
            self.saved = Some(told.clone());
        }
        self.unheard.push(told);
    }
}

impl Backend {
    /// Tasks get ready, each as its node does.
    ///
    /// # Errors
    /// An order that no correct engine gives.
    pub(crate) fn prepare(
        &mut self,
        now: Time,
        id: AttemptId,
        placement: &Arc<[TaskPlacement]>,
        terms: Terms,
        starts: impl Fn(NodeId) -> Starts,
    ) -> Result<(), String> {
        if self.attempts.contains_key(&id) {
            return Ok(());
        }
        if self.forgotten.contains(&id) {
            return Err(format!("{id} is over and forgotten, and is to be prepared again"));
        }
        let get_ready = |task: &TaskPlacement| {
            let next = match starts(task.node) {
                Starts::Works => Some((now, Observation::Prepared)),
                Starts::Takes(span) => Some((now + span, Observation::Prepared)),
                Starts::Fails(reason) => Some((now, Observation::Refused { reason })),
                Starts::Mute => None,
            };
            let (is_mute, unheard) = (next.is_none(), Vec::new());
            Task { seen: None, is_mute, next, warned_at: None, saved: None, unheard }
        };
        let tasks = placement.iter().map(get_ready).collect();
        self.attempts
            .insert(id, Attempt { placement: Arc::clone(placement), terms, asked: 0, tasks });
        self.audit_devices()
    }

    /// Carries out any other order; repeating one changes nothing.
    ///
    /// # Errors
    /// An order that no correct engine gives.
    pub(crate) fn carry_out(&mut self, now: Time, effect: &Effect) -> Result<(), String> {
        let id = effect.id();
        let Some(attempt) = self.attempts.get_mut(&id) else { return Ok(()) };
        match effect {
            Effect::Prepare { .. } => Ok(()),
            // Tasks save when the script says so.
            Effect::Checkpoint { request, .. } => {
                attempt.asked = attempt.asked.max(*request);
                Ok(())
            }
            Effect::Go { .. } => attempt
                .go(now)
                .map_err(|rank| format!("{id} is let go before its rank {rank} is ready")),
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
                    Err(format!("{id} is forgotten while tasks of it run"))
                }
            }
        }
    }

    /// When something is seen next.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let tasks = self.attempts.values().flat_map(|attempt| &attempt.tasks);
        tasks.filter_map(|task| task.next.as_ref().map(|(at, _)| *at)).min()
    }

    /// Everything that is seen up to now, in order of attempt and rank.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<TaskReport> {
        let mut reports = Vec::new();
        for (id, attempt) in &mut self.attempts {
            for (rank, task) in (0..).map(Rank).zip(&mut attempt.tasks) {
                let saved =
                    std::mem::take(&mut task.unheard).into_iter().map(Observation::Checkpointed);
                reports.extend(saved.map(|what| TaskReport { id: *id, rank, what }));
                let Some((_, what)) = task.next.take_if(|(at, _)| *at <= now) else { continue };
                task.seen = Some(what.clone());
                if what == Observation::Started {
                    task.next = attempt.terms.end(now);
                    task.warned_at = attempt.terms.warns_at(now);
                }
                let answers = attempt.terms.answers && what == Observation::Started;
                reports.push(TaskReport { id: *id, rank, what });
                reports.extend(answers.then_some(TaskReport {
                    id: *id,
                    rank,
                    what: Observation::Ready,
                }));
            }
        }
        reports
    }

    /// What is known of every task: told to a daemon that comes back.
    pub(crate) fn recall(&self) -> Vec<TaskReport> {
        let mut reports = Vec::new();
        for (id, attempt) in &self.attempts {
            for (rank, task) in (0..).map(Rank).zip(&attempt.tasks) {
                let saved = task.saved.clone().map(Observation::Checkpointed);
                reports.extend(saved.map(|what| TaskReport { id: *id, rank, what }));
                let what = task.seen.clone();
                let answers = attempt.terms.answers && task.is_running();
                reports.extend(what.map(|what| TaskReport { id: *id, rank, what }));
                reports.extend(answers.then_some(TaskReport {
                    id: *id,
                    rank,
                    what: Observation::Ready,
                }));
            }
        }
        reports
    }

    /// Elements of a job with a task that runs.
    pub(crate) fn running(&self, job: muster_model::JobId) -> Vec<ElementId> {
        let runs = |attempt: &Attempt| attempt.tasks.iter().any(Task::is_running);
        let of_job =
            self.attempts.iter().filter(|(id, attempt)| id.element.job == job && runs(attempt));
        of_job.map(|(id, _)| id.element).collect()
    }

    /// Ranks of an attempt that run.
    pub(crate) fn running_ranks(&self, id: AttemptId) -> Vec<Rank> {
        let tasks = self.attempts.get(&id).map_or(&[][..], |attempt| &attempt.tasks);
        let running = (0..).map(Rank).zip(tasks).filter(|(_, task)| task.is_running());
        running.map(|(rank, _)| rank).collect()
    }

    /// Something happens to running tasks of an element now; answers to how many. Without a rank,
    /// to all.
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

    /// Running tasks of an element say that their progress is saved; answers to how many. Without a
    /// rank, to all.
    pub(crate) fn save(
        &mut self,
        now: Time,
        element: ElementId,
        rank: Option<u32>,
        save: &Save,
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

    /// Every task on the node is gone without a word.
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

    /// Attempts of which a task is ready, runs, or is getting ready.
    pub(crate) fn live(&self) -> impl Iterator<Item = AttemptId> {
        let is_live =
            |attempt: &Attempt| attempt.tasks.iter().any(|task| !task.is_over() && !task.is_mute);
        self.attempts.iter().filter(move |(_, attempt)| is_live(attempt)).map(|(id, _)| *id)
    }

    /// Drops what nobody stands for any more: the order to forget it was lost with a daemon.
    pub(crate) fn drop_strays(&mut self, stands: impl Fn(AttemptId) -> bool) {
        self.attempts.retain(|id, _| stands(*id));
    }

    /// Attempts with a user's process that runs.
    pub(crate) fn busy(&self) -> Vec<AttemptId> {
        let busy =
            self.attempts.iter().filter(|(_, attempt)| attempt.tasks.iter().any(Task::is_running));
        busy.map(|(id, _)| *id).collect()
    }

    /// What would run for ever ends well at an instant.
    pub(crate) fn end_endless(&mut self, by: Time) {
        for task in self.attempts.values_mut().flat_map(|attempt| &mut attempt.tasks) {
            if task.is_running() && task.next.is_none() {
                task.next = Some((by, Observation::Exited(TaskExit::Code { code: 0 })));
            }
        }
        for attempt in self.attempts.values_mut() {
            attempt.terms.conduct.lasts.get_or_insert(Span::from_secs(30));
        }
    }

    /// No device is given to more than it is.
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
                "device {device} of node number {node} is given away {milli} thousandths"
            )),
        }
    }
}

impl Terms {
    /// When a task that begins now is warned of its limit.
    fn warns_at(&self, now: Time) -> Option<Time> {
        let (limit, warning) = (self.limit?, self.warning?);
        Some(now + Span(limit.0.saturating_sub(warning.0)))
    }

    /// When and how a task that begins now ends by itself.
    fn end(&self, now: Time) -> Option<(Time, Observation)> {
        let grace = if self.conduct.stubborn { self.grace } else { Span(0) };
        let limit = self.limit.map(|limit| (now + limit + grace, TaskExit::TimedOut));
        let done = self.conduct.lasts.map(|span| (now + span, self.conduct.exit.clone()));
        let end = match (done, limit) {
            (Some(done), Some(limit)) if limit.0 < done.0 => Some(limit),
            (done, limit) => done.or(limit),
        };
        end.map(|(at, exit)| (at, Observation::Exited(exit)))
    }
}

impl Attempt {
    /// Runs every task; answers the first that is not ready.
    fn go(&mut self, now: Time) -> Result<(), usize> {
        let unready = |task: &Task| {
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

    /// Ends every task: what only was ready at once, what runs within its grace.
    fn stop(&mut self, now: Time) {
        let grace = if self.terms.conduct.stubborn { self.terms.grace } else { Span(0) };
        for task in self.tasks.iter_mut().filter(|task| !task.is_over() && !task.is_mute) {
            let by = if task.is_running() { now + grace } else { now };
            let goes_on =
                |what: &Observation| matches!(what, Observation::Prepared | Observation::Started);
            if task.next.as_ref().is_none_or(|(at, what)| *at > by || goes_on(what)) {
                task.next = Some((by, Observation::Exited(TaskExit::Stopped)));
            }
        }
    }
}

//! Reports on tasks: the two-phase start of a gang, and its stop when one task fails.

use muster_model::outcome::TaskExit;
use muster_model::view::TaskStage;
use muster_model::{
    AttemptId, Effect, JobId, NodeId, Observation, Outcome, Rank, TaskReport, Time,
};

use super::State;
use super::attempt::{attempt_id, end_of_run};
use super::job::{AttemptFate, Phase, Run, RunStage};
use crate::fact::AccountingFact;

/// SIGTERM: the signal recorded for a task that was stopped without a request of Muster.
const TERMINATED: i32 = 15;

impl State {
    /// Applies the report of a backend. Reports on attempts other than the current one, and
    /// repetitions, change nothing.
    pub(super) fn report(&mut self, now: Time, report: &TaskReport) {
        let id = report.id.element;
        let Some(job) = self.jobs.get_mut(&id.job) else { return };
        let Some(ordinal) = job.record.ordinal_of(id.index) else { return };
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        if element.phase != Phase::Active || element.attempt != report.id.attempt.0 {
            return;
        }
        if let Observation::Checkpointed(reported) = &report.observation {
            return self.checkpointed(now, id.job, ordinal, report.rank, reported);
        }
        let Some(run) = element.run.as_mut() else { return };
        if let Observation::Signalled(signalled) = &report.observation {
            return run.signalled(report.rank, *signalled);
        }
        if report.observation == Observation::Ready {
            return run.mark_ready(report.rank);
        }
        if observe(run, report.rank, &report.observation) {
            self.advance_run(now, id.job, ordinal);
        }
    }

    /// Marks all tasks of an attempt on one node as lost.
    pub(super) fn lose_tasks(
        &mut self,
        now: Time,
        job: JobId,
        ordinal: u32,
        node: NodeId,
        reason: &std::sync::Arc<str>,
    ) {
        let Some(element) = self.jobs.element_mut(job, ordinal) else { return };
        let Some(run) = element.run.as_mut().filter(|_| element.phase == Phase::Active) else {
            return;
        };
        let mut changed = false;
        for rank in 0..run.placement.len() {
            if run.placement[rank].node == node {
                let lost = Observation::Lost { reason: std::sync::Arc::clone(reason) };
                changed |= observe(run, Rank(rank as u32), &lost);
            }
        }
        if changed {
            self.advance_run(now, job, ordinal);
        }
    }

    /// Advances an attempt after a change of its tasks.
    pub(super) fn advance_run(&mut self, now: Time, id: JobId, ordinal: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let record = &mut job.record;
        let index = record.index_of(ordinal);
        let duration = record.duration();
        let Some(element) = record.elements.get_mut(&ordinal) else { return };
        let attempt = attempt_id(id, index, element.attempt);
        let Some(run) = element.run.as_mut() else { return };
        let tasks = run.tasks.len() as u32;
        // 1. All prepared: order them to run, unless they run already, as a single task may.
        if run.stage == RunStage::Preparing && run.fate.is_none() && run.prepared == tasks {
            run.stage = RunStage::Going;
            if run.running < tasks {
                self.effects.push(Effect::Go { id: attempt });
            }
        }
        // 2. All running: the time limit counts from here.
        let mut is_news = false;
        let begins = run.stage == RunStage::Going && run.running == tasks;
        if begins {
            run.stage = RunStage::Running;
            run.started = Some(now);
            run.end = end_of_run(now, duration);
            self.facts.record(|| AccountingFact::Running { id: attempt, at: now });
            is_news = !element.begun;
            record.begun += u32::from(!element.begun);
            element.begun = true;
            record.started = record.started.or(Some(now));
        }
        // 3. One failed: stop the others. All ended: finish.
        let is_over = run.over == tasks;
        let fate = run.fate.clone();
        let is_stopping = matches!(run.stage, RunStage::Stopping(_));
        if begins {
            self.update_planned_end(now, id, ordinal);
        }
        if is_news {
            self.dependencies.mark_changed(id);
        }
        self.preemptable.update(&self.jobs, id, ordinal);
        if is_over {
            self.finish(now, id, ordinal);
        } else if let Some(fate) = fate.filter(|_| !is_stopping) {
            self.stop(now, id, ordinal, fate);
        } else {
            self.start_waits.update(&mut self.jobs, id, ordinal);
        }
    }

    /// Sets an earlier start of an attempt that was found running.
    pub(super) fn running_since(&mut self, id: AttemptId, since: Time) {
        let job = id.element.job;
        let Some(ordinal) = self.jobs.ordinal_of(id.element) else { return };
        let Some(record) = self.jobs.get_mut(&job).map(|job| &mut job.record) else { return };
        let Some(element) = record.elements.get_mut(&ordinal) else { return };
        let is_current = element.phase == Phase::Active && element.attempt == id.attempt.0;
        let run = element.run.as_mut().filter(|run| is_current && run.stage == RunStage::Running);
        let Some(started) = run.and_then(|run| run.started.as_mut()) else { return };
        *started = since.min(*started);
        record.started = record.started.min(Some(since));
        self.preemptable.update(&self.jobs, job, ordinal);
    }
}

/// Applies an observation to an attempt. Returns true if anything changed.
pub(super) fn observe(run: &mut Run, rank: Rank, what: &Observation) -> bool {
    let at = rank.0 as usize;
    let Some(task) = run.tasks.get_mut(at) else { return false };
    let old = task.stage;
    let (stage, fate) = match what {
        Observation::Prepared => (TaskStage::Prepared, None),
        Observation::Started => (TaskStage::Running, None),
        Observation::Exited(exit) => (TaskStage::Ended, fate_of(rank, exit)),
        Observation::Refused { reason } => {
            let node = run.placement[at].node;
            (TaskStage::Ended, Some(AttemptFate::Refused { rank, reason: reason.clone(), node }))
        }
        Observation::Lost { reason } => (
            TaskStage::Ended,
            Some(AttemptFate::Failed(Outcome::Lost { rank, reason: reason.clone() })),
        ),
        Observation::Impossible { reason } => (
            TaskStage::Ended,
            Some(AttemptFate::Failed(Outcome::StartFailed { rank, reason: reason.clone() })),
        ),
        // These say nothing about its stage.
        Observation::Checkpointed(_) | Observation::Signalled(_) | Observation::Ready => {
            return false;
        }
    };
    if stage <= old {
        return false;
    }
    task.stage = stage;
    if let Observation::Exited(exit) = what {
        task.exit = Some(exit.clone());
    }
    // A later stage implies the earlier ones, unless the task never reached them.
    let ran = stage == TaskStage::Running || matches!(what, Observation::Exited(_));
    run.prepared += u32::from(old < TaskStage::Prepared && (ran || stage == TaskStage::Prepared));
    run.running += u32::from(old < TaskStage::Running && ran);
    run.over += u32::from(stage == TaskStage::Ended);
    // The first failure determines the outcome of the attempt.
    if run.fate.is_none() && !matches!(run.stage, RunStage::Stopping(_)) {
        // An attempt that is being evicted counts as preempted, however it ends.
        run.fate =
            fate.map(|fate| if run.eviction.is_some() { fate.while_evicted() } else { fate });
    }
    true
}

/// Returns what an exit means for the attempt; `None` if it is a success.
pub(super) fn fate_of(rank: Rank, exit: &TaskExit) -> Option<AttemptFate> {
    let outcome = match *exit {
        TaskExit::Code { code: 0 } => return None,
        TaskExit::Code { code } => Outcome::Failed { rank, code },
        TaskExit::Signal { signal } => Outcome::Signaled { rank, signal },
        TaskExit::OutOfMemory => Outcome::OutOfMemory { rank },
        TaskExit::TimedOut => Outcome::TimedOut,
        TaskExit::Idle { after } => Outcome::Idle { after },
        TaskExit::Stopped => Outcome::Signaled { rank, signal: TERMINATED },
    };
    Some(AttemptFate::Failed(outcome))
}

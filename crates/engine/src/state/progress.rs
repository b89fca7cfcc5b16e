//! Checkpoints: requests, acknowledgements of tasks, what they mean for the gang, and the GPU time
//! that would be lost without them. Ends an attempt only if its job asks for that.

use std::sync::Arc;

use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::{
    CommandTarget, Effect, JobId, Outcome, Rank, TaskCheckpoint, TaskExit, TaskSignalled, Time,
};

use super::State;
use super::attempt::attempt_id;
use super::job::{
    AttemptFate, CheckpointRequests, Element, JobRecord, PendingEviction, Phase, Run, RunStage,
    SavedProgress, TaskState,
};
use super::report::fate_of;

/// Acknowledgements of all tasks of a gang, combined.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GangCheckpoint {
    at: Time,
    label: Arc<str>,
    /// Newest request that all counting tasks have acknowledged.
    answers: u32,
    /// True when all counting tasks had received the warning before the time limit.
    warned: bool,
}

impl State {
    /// Requests a checkpoint of running elements.
    pub(super) fn ask_checkpoint(&mut self, now: Time, target: CommandTarget) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        for ordinal in job.record.running(target) {
            let index = job.record.index_of(ordinal);
            let Some(element) = job.record.elements.get_mut(&ordinal) else { continue };
            let id = attempt_id(target.job, index, element.attempt);
            let Some(run) = element.run.as_mut() else { continue };
            run.asked = CheckpointRequests { count: run.asked.count + 1, unanswered: Some(now) };
            self.effects.push(Effect::Checkpoint { id, request: run.asked.count });
        }
    }

    /// Processes the checkpoint acknowledgement of a task. Repeated or late acknowledgements change
    /// nothing.
    pub(super) fn checkpointed(
        &mut self,
        now: Time,
        id: JobId,
        ordinal: u32,
        rank: Rank,
        reported: &TaskCheckpoint,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let terms = job.record.spec.checkpoint;
        let by = terms.map_or(CheckpointBy::First, |terms| terms.by);
        let then = terms.map(|terms| terms.then);
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        let Some(run) = element.run.as_mut() else { return };
        // 1. Store the newest of the task; its time stamp is clamped to the possible range.
        let Some(task) = run.tasks.get_mut(rank.0 as usize) else { return };
        if task.checkpoint.as_ref().is_some_and(|known| known.count >= reported.count) {
            return;
        }
        let at = reported.at.max(run.held_from).min(now);
        task.checkpoint = Some(Box::new(TaskCheckpoint { at, ..reported.clone() }));
        // 2. Combine the gang, and check whether it answers the last request.
        let Some(gang) = gang_checkpoint(run, by) else { return };
        if gang.answers >= run.asked.count {
            run.asked.unanswered = None;
        }
        let goes_on = run.stage == RunStage::Running && run.fate.is_none();
        let has_saved = run.eviction.is_some() && run.asked.unanswered.is_none();
        element.saved = Some(Box::new(SavedProgress {
            at: gang.at,
            label: gang.label,
            attempt: element.attempt,
        }));
        self.preemptable.update(&self.jobs, id, ordinal);
        // 3. Stop an attempt that was only waiting for its checkpoint before eviction.
        if has_saved && goes_on {
            return self.stop(now, id, ordinal, AttemptFate::Preempted);
        }
        // 4. Apply the job's setting for what follows the last checkpoint before the time limit.
        match then.filter(|_| gang.warned && goes_on) {
            Some(AfterCheckpoint::Stop) => {
                self.stop(now, id, ordinal, AttemptFate::Failed(Outcome::TimedOut))
            }
            Some(AfterCheckpoint::Requeue) => self.stop(now, id, ordinal, AttemptFate::Requeued),
            Some(AfterCheckpoint::Continue) | None => {}
        }
    }
}

impl Run {
    /// Records whether a task has processes that handle the checkpoint signal, as its supervisor
    /// reports.
    pub(super) fn signalled(&mut self, rank: Rank, reported: TaskSignalled) {
        let Some(task) = self.tasks.get_mut(rank.0 as usize) else { return };
        let signals = &mut task.signals;
        if reported.reached == 0 {
            signals.missed = signals.missed.max(reported.request);
            return;
        }
        signals.reached = signals.reached.max(reported.request);
        signals.warned |= reported.warned;
    }

    /// True when every task exited with 0 without an acknowledgement after an eviction request had
    /// reached it. Programs exit with 0 after saving, too, so it is unknown whether its work is
    /// complete. It runs again: that is short if the work was complete, whereas treating it as
    /// complete could lose the rest of the work.
    pub(super) fn exited_without_acknowledgement(&self) -> bool {
        let reached = |eviction: &PendingEviction| {
            eviction.request > 0
                && self.tasks.iter().any(|task| task.signals.reached >= eviction.request)
        };
        self.eviction.as_ref().is_some_and(reached)
    }

    /// Returns the outcome of an attempt that failed by itself while it was being evicted.
    pub(super) fn failure_while_evicted(&self) -> Option<Outcome> {
        self.eviction?;
        let ends = (0..).map(Rank).zip(&self.tasks).filter_map(|(rank, task)| {
            let exit = task.exit.as_ref().filter(|exit| **exit != TaskExit::Stopped)?;
            fate_of(rank, exit)
        });
        ends.into_iter().find_map(|fate| match fate {
            AttemptFate::Failed(outcome) => Some(outcome),
            _ => None,
        })
    }

    /// Returns the number of tasks in which the newest request found no process that handles its
    /// signal.
    pub(crate) fn undelivered(&self) -> u32 {
        let asked = self.asked.count;
        let is_missed =
            |task: &&TaskState| task.signals.missed >= asked && task.signals.reached < asked;
        self.tasks.iter().filter(is_missed).count() as u32
    }
}

impl JobRecord {
    /// Returns the elements of a target, by ordinal, of which every task runs.
    pub(crate) fn running(&self, target: CommandTarget) -> Vec<u32> {
        let wanted = target.index.map(|index| self.ordinal_of(index));
        let runs = |element: &Element| {
            element.phase == Phase::Active
                && element.run.as_ref().is_some_and(|run| run.stage == RunStage::Running)
        };
        let running = self.elements.iter().filter(|(_, element)| runs(element));
        let ordinals = running.map(|(ordinal, _)| *ordinal);
        ordinals.filter(|ordinal| wanted.is_none_or(|wanted| wanted == Some(*ordinal))).collect()
    }
}

impl Element {
    /// True when it was warned of its time limit and its job is requeued at the limit: a failure
    /// after the warning then counts as a requeue.
    pub(super) fn is_requeued_at_limit(&self, record: &JobRecord) -> bool {
        let wants_turns =
            record.spec.checkpoint.is_some_and(|terms| terms.then == AfterCheckpoint::Requeue);
        let was_warned =
            self.run.as_ref().is_some_and(|run| run.tasks.iter().any(|task| task.signals.warned));
        wants_turns && was_warned
    }

    /// True when its current or last attempt has saved progress.
    pub(super) fn has_saved_in_its_attempt(&self) -> bool {
        self.saved.as_ref().is_some_and(|saved| saved.attempt == self.attempt)
    }

    /// Returns the GPU time that would be lost if its attempt ended now, in thousandths of a GPU
    /// times milliseconds: since its last checkpoint, or since it began to run. 0 while no user
    /// process runs.
    pub(crate) fn unsaved_gpu_millis(&self, now: Time) -> u64 {
        let Some(run) = self.run.as_ref() else { return 0 };
        let Some(since) = self.unsaved_since() else { return 0 };
        run.milli().saturating_mul(now.since(since).0)
    }

    /// Returns the instant of its last checkpoint, or at which it began to run; `None` while no
    /// user process runs.
    pub(crate) fn unsaved_since(&self) -> Option<Time> {
        let started = self.run.as_ref().filter(|_| self.phase == Phase::Active)?.started?;
        let saved = self.saved.as_ref().filter(|saved| saved.attempt == self.attempt);
        Some(saved.map_or(started, |saved| saved.at.max(started)))
    }
}

/// Combines the acknowledgements that count for the gang: that of rank 0, or those of all ranks,
/// with the time of the oldest and the label of rank 0.
fn gang_checkpoint(run: &Run, by: CheckpointBy) -> Option<GangCheckpoint> {
    let counting = match by {
        CheckpointBy::First => run.tasks.get(..1)?,
        CheckpointBy::All => &run.tasks[..],
    };
    let reported: Option<Vec<&TaskCheckpoint>> =
        counting.iter().map(|task| task.checkpoint.as_deref()).collect();
    let reported = reported?;
    Some(GangCheckpoint {
        at: reported.iter().map(|one| one.at).min()?,
        label: Arc::clone(&reported.first()?.label),
        answers: reported.iter().map(|one| one.answers).min()?,
        warned: reported.iter().all(|one| one.warned),
    })
}

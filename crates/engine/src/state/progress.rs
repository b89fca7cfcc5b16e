//! Saved progress: who is asked for it, what tasks acknowledge, what that means for their gang, and
//! what would be lost without it. Ends an attempt only where its job said so.

use std::sync::Arc;

use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::{
    Effect, JobId, Outcome, Rank, Target, TaskCheckpoint, TaskExit, TaskSignalled, Time,
};

use super::State;
use super::attempt::attempt_id;
use super::claim::Leaving;
use super::job::{Asked, Element, Fate, JobRecord, Phase, Run, RunStage, Saved, TaskState};
use super::report::fate_of;

/// What the acknowledgements of a gang's tasks come to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GangCheckpoint {
    at: Time,
    label: Arc<str>,
    /// The newest request that all who count had seen.
    answers: u32,
    /// All who count had seen the warning before the limit.
    warned: bool,
}

impl State {
    /// Asks what runs of a job to save its progress.
    pub(super) fn ask_checkpoint(&mut self, now: Time, target: Target) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        for ordinal in job.record.running(target) {
            let index = job.record.index_of(ordinal);
            let Some(element) = job.record.elements.get_mut(&ordinal) else { continue };
            let id = attempt_id(target.job, index, element.attempt);
            let Some(run) = element.run.as_mut() else { continue };
            run.asked = Asked { count: run.asked.count + 1, unanswered: Some(now) };
            self.effects.push(Effect::Checkpoint { id, request: run.asked.count });
        }
    }

    /// A process of a task says that its progress is saved. Told again, or late, it changes
    /// nothing.
    pub(super) fn checkpointed(
        &mut self,
        now: Time,
        id: JobId,
        ordinal: u32,
        rank: Rank,
        told: &TaskCheckpoint,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let terms = job.record.spec.checkpoint;
        let by = terms.map_or(CheckpointBy::First, |terms| terms.by);
        let then = terms.map(|terms| terms.then);
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        let Some(run) = element.run.as_mut() else { return };
        // 1. The newest of the task; its machine's clock is believed within what is possible.
        let Some(task) = run.tasks.get_mut(rank.0 as usize) else { return };
        if task.checkpoint.as_ref().is_some_and(|known| known.count >= told.count) {
            return;
        }
        let at = told.at.max(run.held_from).min(now);
        task.checkpoint = Some(Box::new(TaskCheckpoint { at, ..told.clone() }));
        // 2. Of the gang, and whether that is what was waited for.
        let Some(gang) = of_gang(run, by) else { return };
        if gang.answers >= run.asked.count {
            run.asked.unanswered = None;
        }
        let goes_on = run.stage == RunStage::Running && run.fate.is_none();
        let has_saved = run.leaving.is_some() && run.asked.unanswered.is_none();
        element.saved =
            Some(Box::new(Saved { at: gang.at, label: gang.label, attempt: element.attempt }));
        self.track(id, ordinal);
        // 3. It may go now, if that is what it was asked for.
        if has_saved && goes_on {
            return self.stop(now, id, ordinal, Fate::Preempted);
        }
        // 4. What the job wants after its last one before the limit.
        match then.filter(|_| gang.warned && goes_on) {
            Some(AfterCheckpoint::Stop) => {
                self.stop(now, id, ordinal, Fate::Failed(Outcome::TimedOut))
            }
            Some(AfterCheckpoint::Requeue) => self.stop(now, id, ordinal, Fate::Requeued),
            Some(AfterCheckpoint::Continue) | None => {}
        }
    }
}

impl State {
    /// The supervisor of a task has looked for processes that handle the checkpoint signal.
    pub(super) fn signalled(&mut self, id: JobId, ordinal: u32, rank: Rank, told: TaskSignalled) {
        let Some(run) = self.element_mut(id, ordinal).and_then(|element| element.run.as_mut())
        else {
            return;
        };
        let Some(task) = run.tasks.get_mut(rank.0 as usize) else { return };
        let signals = &mut task.signals;
        if told.reached == 0 {
            signals.missed = signals.missed.max(told.request);
            return;
        }
        signals.reached = signals.reached.max(told.request);
        signals.warned |= told.warned;
    }
}

impl Run {
    /// True when every task exited with 0 after the request to make room had reached it, and
    /// without an acknowledgement. Whether its work is done cannot be told: programs exit with 0
    /// when they have saved, too. It runs again, which is short if it was done, where the other
    /// mistake would lose the rest of its work.
    pub(super) fn left_without_word(&self) -> bool {
        let reached = |leaving: &Leaving| {
            leaving.request > 0
                && self.tasks.iter().any(|task| task.signals.reached >= leaving.request)
        };
        self.leaving.as_ref().is_some_and(reached)
    }

    /// How an attempt that was asked to make room ended by itself, where that was no success.
    pub(super) fn end_while_leaving(&self) -> Option<Outcome> {
        self.leaving?;
        let ends = (0..).map(Rank).zip(&self.tasks).filter_map(|(rank, task)| {
            let exit = task.exit.as_ref().filter(|exit| **exit != TaskExit::Stopped)?;
            fate_of(rank, exit)
        });
        ends.into_iter().find_map(|fate| match fate {
            Fate::Failed(outcome) => Some(outcome),
            _ => None,
        })
    }

    /// Tasks in which the newest request found no process that handles its signal.
    pub(crate) fn undelivered(&self) -> u32 {
        let asked = self.asked.count;
        let is_missed =
            |task: &&TaskState| task.signals.missed >= asked && task.signals.reached < asked;
        self.tasks.iter().filter(is_missed).count() as u32
    }
}

impl JobRecord {
    /// Elements of a target, by ordinal, of which every task runs.
    pub(super) fn running(&self, target: Target) -> Vec<u32> {
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
    /// True when it was warned of its limit, and its job wants to be queued again after that: a bad
    /// end of its own is then the program's way to make room.
    pub(super) fn takes_turns(&self, record: &JobRecord) -> bool {
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

    /// GPU time that would be lost if its attempt ended now, in thousandths of a GPU times
    /// milliseconds: all since its last checkpoint, or since it began to run. Nothing while no user
    /// process runs.
    pub(crate) fn unsaved_gpu_millis(&self, now: Time) -> u64 {
        let (Some(run), Some(since)) = (self.run.as_ref(), self.unsaved_since()) else { return 0 };
        run.milli().saturating_mul(now.since(since).0)
    }

    /// Since when work would be lost: its last checkpoint, or the moment at which it began to run.
    /// `None` while no user process runs.
    pub(crate) fn unsaved_since(&self) -> Option<Time> {
        let started = self.run.as_ref().filter(|_| self.phase == Phase::Active)?.started?;
        let saved = self.saved.as_ref().filter(|saved| saved.attempt == self.attempt);
        Some(saved.map_or(started, |saved| saved.at.max(started)))
    }
}

/// What counts for the gang: rank 0's word, or that of all ranks, which is as old as the oldest and
/// called as rank 0 calls it.
fn of_gang(run: &Run, by: CheckpointBy) -> Option<GangCheckpoint> {
    let counting = match by {
        CheckpointBy::First => run.tasks.get(..1)?,
        CheckpointBy::All => &run.tasks[..],
    };
    let told: Option<Vec<&TaskCheckpoint>> =
        counting.iter().map(|task| task.checkpoint.as_deref()).collect();
    let told = told?;
    Some(GangCheckpoint {
        at: told.iter().map(|one| one.at).min()?,
        label: Arc::clone(&told.first()?.label),
        answers: told.iter().map(|one| one.answers).min()?,
        warned: told.iter().all(|one| one.warned),
    })
}

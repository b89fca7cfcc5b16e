//! Saved progress: who is asked for it, what tasks acknowledge, what that means for their gang, and what would be lost
//! without it. Ends an attempt only where its job said so.

use std::sync::Arc;

use muster_model::job::{AfterCheckpoint, CheckpointBy};
use muster_model::{Effect, JobId, Outcome, Rank, Target, TaskCheckpoint, Time};

use super::State;
use super::attempt::attempt_id;
use super::job::{Asked, Element, Fate, JobRecord, Phase, Run, RunStage, Saved};

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

    /// A process of a task says that its progress is saved. Told again, or late, it changes nothing.
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
        element.saved = Some(Box::new(Saved { at: gang.at, label: gang.label, attempt: element.attempt }));
        self.track(id, ordinal);
        // 3. It may go now, if that is what it was asked for.
        if has_saved && goes_on {
            return self.stop(now, id, ordinal, Fate::Preempted);
        }
        // 4. What the job wants after its last one before the limit.
        match then.filter(|_| gang.warned && goes_on) {
            Some(AfterCheckpoint::Stop) => self.stop(now, id, ordinal, Fate::Failed(Outcome::TimedOut)),
            Some(AfterCheckpoint::Requeue) => self.stop(now, id, ordinal, Fate::Requeued),
            Some(AfterCheckpoint::Continue) | None => {}
        }
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
    /// GPU time that would be lost if its attempt ended now, in thousandths of a GPU times milliseconds: all since its
    /// last checkpoint, or since it began to run. Nothing while no user process runs.
    pub(crate) fn unsaved_gpu_millis(&self, now: Time) -> u64 {
        let (Some(run), Some(since)) = (self.run.as_ref(), self.unsaved_since()) else { return 0 };
        run.milli().saturating_mul(now.since(since).0)
    }

    /// Since when work would be lost: its last checkpoint, or the moment at which it began to run. `None` while no user
    /// process runs.
    pub(crate) fn unsaved_since(&self) -> Option<Time> {
        let started = self.run.as_ref().filter(|_| self.phase == Phase::Active)?.started?;
        let saved = self.saved.as_ref().filter(|saved| saved.attempt == self.attempt);
        Some(saved.map_or(started, |saved| saved.at.max(started)))
    }
}

/// What counts for the gang: rank 0's word, or that of all ranks, which is as old as the oldest and called as rank 0 calls
/// it.
fn of_gang(run: &Run, by: CheckpointBy) -> Option<GangCheckpoint> {
    let counting = match by {
        CheckpointBy::First => run.tasks.get(..1)?,
        CheckpointBy::All => &run.tasks[..],
    };
    let told: Option<Vec<&TaskCheckpoint>> = counting.iter().map(|task| task.checkpoint.as_deref()).collect();
    let told = told?;
    Some(GangCheckpoint {
        at: told.iter().map(|one| one.at).min()?,
        label: Arc::clone(&told.first()?.label),
        answers: told.iter().map(|one| one.answers).min()?,
        warned: told.iter().all(|one| one.warned),
    })
}

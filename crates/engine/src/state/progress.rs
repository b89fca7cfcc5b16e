//! Saved progress: what tasks acknowledge, what that means for their gang, and what would be lost without it. Decides
//! nothing about who is stopped.

use std::sync::Arc;

use muster_model::job::CheckpointBy;
use muster_model::{JobId, Rank, TaskCheckpoint, Time};

use super::State;
use super::job::{Element, Phase, Run, Saved};

/// What the acknowledgements of a gang's tasks come to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GangCheckpoint {
    at: Time,
    label: Arc<str>,
}

impl State {
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
        let by = job.record.spec.checkpoint.map_or(CheckpointBy::First, |checkpoint| checkpoint.by);
        let Some(element) = job.record.elements.get_mut(&ordinal) else { return };
        let Some(run) = element.run.as_mut() else { return };
        // 1. The newest of the task; its machine's clock is believed within what is possible.
        let Some(task) = run.tasks.get_mut(rank.0 as usize) else { return };
        if task.checkpoint.as_ref().is_some_and(|known| known.count >= told.count) {
            return;
        }
        let at = told.at.max(run.held_from).min(now);
        task.checkpoint = Some(Box::new(TaskCheckpoint { at, ..told.clone() }));
        // 2. Of the gang.
        if let Some(gang) = of_gang(run, by) {
            element.saved =
                Some(Box::new(Saved { at: gang.at, label: gang.label, attempt: element.attempt }));
        }
    }
}

impl Element {
    /// GPU time that would be lost if its attempt ended now, in thousandths of a GPU times milliseconds: all since its
    /// last checkpoint, or since it began to run. Nothing while no user process runs.
    pub(crate) fn unsaved_gpu_millis(&self, now: Time) -> u64 {
        let Some(run) = self.run.as_ref().filter(|_| self.phase == Phase::Active) else { return 0 };
        let Some(started) = run.started else { return 0 };
        let saved = self.saved.as_ref().filter(|saved| saved.attempt == self.attempt);
        let since = saved.map_or(started, |saved| saved.at.max(started));
        let milli: u64 = run.gpus.iter().map(|(_, milli)| *milli).sum();
        milli.saturating_mul(now.since(since).0)
    }
}

/// What counts for the gang: rank 0's word, or the oldest of all ranks' latest under rank 0's label.
fn of_gang(run: &Run, by: CheckpointBy) -> Option<GangCheckpoint> {
    let first = run.tasks.first()?.checkpoint.as_deref()?;
    let at = match by {
        CheckpointBy::First => first.at,
        CheckpointBy::All => {
            let all: Option<Vec<Time>> =
                run.tasks.iter().map(|task| task.checkpoint.as_ref().map(|known| known.at)).collect();
            all?.into_iter().min()?
        }
    };
    Some(GangCheckpoint { at, label: Arc::clone(&first.label) })
}

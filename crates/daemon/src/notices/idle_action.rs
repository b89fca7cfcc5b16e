//! Actions of queues on jobs that leave all their GPUs idle. Each is an event of the engine, which decides whether the
//! attempt still goes on. Before a requeue the job is asked for a checkpoint, if it saves some.

use std::collections::BTreeMap;

use muster_model::queue::{IdleAction, IdlePolicy};
use muster_model::unit::Time;
use muster_model::view::{ElementView, IdleView, JobState, JobView};
use muster_model::{Attempt, AttemptId, CommandTarget, Event};
use muster_report::top::IDLE_BELOW_PERCENT;

use crate::dispatch::Handle;
use crate::failure::ApiFailure;

/// Attempts that are asked for a checkpoint before their requeue, with what follows. A checkpoint may use the GPUs for
/// a moment, so they are requeued even if they are not idle any more.
#[derive(Debug, Default)]
pub(super) struct IdleActions {
    saving: BTreeMap<AttemptId, Event>,
}

impl IdleActions {
    /// Acts on jobs that have been idle for long enough. `jobs` are those that hold GPUs.
    pub(super) async fn act(
        &mut self,
        handle: &Handle,
        now: Time,
        jobs: &[JobView],
        idle: &[(IdleView, IdlePolicy)],
    ) -> Result<(), ApiFailure> {
        for event in self.saved(now, jobs) {
            handle.act_on_idle(event).await?;
        }
        for (view, policy) in idle {
            let Some((job, element)) = find(jobs, view) else { continue };
            let id = attempt(element);
            let is_new = element.state == JobState::Running && !self.saving.contains_key(&id);
            if action(job, *policy) == IdleAction::Notify || !is_new {
                continue;
            }
            let event = Event::GpusIdle {
                id,
                queue: job.queue.clone(),
                gpus: view.gpus,
                below_percent: IDLE_BELOW_PERCENT,
                after: now.since(view.since),
                action: policy.action,
            };
            let index = job.array.is_some().then_some(id.element.index);
            let checkpoint = Event::Checkpoint(CommandTarget { job: job.job, index });
            // It is refused for a job that saves none.
            let saves = policy.action == IdleAction::Requeue
                && handle.act_on_idle(checkpoint).await.is_ok();
            if saves {
                self.saving.insert(id, event);
            } else {
                handle.act_on_idle(event).await?;
            }
        }
        Ok(())
    }

    /// Removes and returns the requeues of attempts that have saved, or have had the time to.
    fn saved(&mut self, now: Time, jobs: &[JobView]) -> Vec<Event> {
        let elements = || jobs.iter().flat_map(|job| &job.elements);
        self.saving.retain(|id, _| elements().any(|element| attempt(element) == *id));
        let has_saved = |id: &AttemptId| {
            let element = elements().find(|element| attempt(element) == *id);
            let asked = element.and_then(|element| element.checkpoint_asked);
            asked.is_none_or(|asked| asked.until <= now)
        };
        let due: Vec<AttemptId> = self.saving.keys().filter(|id| has_saved(id)).copied().collect();
        due.iter().filter_map(|id| self.saving.remove(id)).collect()
    }
}

/// Returns the action of a queue on a job. A service is never stopped: its GPUs wait for requests.
pub(super) fn action(job: &JobView, policy: IdlePolicy) -> IdleAction {
    if job.service.is_some() { IdleAction::Notify } else { policy.action }
}

fn find<'j>(jobs: &'j [JobView], idle: &IdleView) -> Option<(&'j JobView, &'j ElementView)> {
    let job = jobs.iter().find(|job| job.job == idle.element.job)?;
    Some((job, job.elements.iter().find(|element| element.element == idle.element)?))
}

fn attempt(element: &ElementView) -> AttemptId {
    AttemptId { element: element.element, attempt: Attempt(element.attempt) }
}

//! Terms of the start of a workload beside its queue and its pods. Its job is in the engine, where it has
//! its place in the queue, and is held there until the terms are met.

use muster_kubernetes::group::StartTerms;
use muster_kubernetes::group::workload::Workload;
use muster_model::view::{Explanation, JobState};
use muster_model::{CommandTarget, ElementId, Event, JobId, Reason, Time};

use crate::admission::Stage;
use crate::gang::GangKey;
use crate::scheduler::Scheduler;

/// Code of the reason of a workload with an annotation that cannot be read.
const UNREADABLE: &str = "InvalidAnnotation";

impl Scheduler {
    /// Holds the pending jobs of a gang while its workload may not start, and releases them when it
    /// may.
    pub(crate) fn hold_jobs(&mut self, now: Time, key: &GangKey, stage: Stage) {
        let workload = self.groups.workload(key).filter(|_| stage == Stage::Expecting);
        let waits = workload.map(waits).unwrap_or_default();
        let is_held = !waits.is_empty() || workload.is_some_and(Workload::is_held);
        let Some(gang) = self.gangs.get_mut(key) else { return };
        gang.waits = waits;
        for job in &gang.jobs {
            let Some(batch) = self.batches.get_mut(job) else { continue };
            if batch.placed.is_some() || batch.is_held == is_held {
                continue;
            }
            batch.is_held = is_held;
            let target = CommandTarget { job: *job, index: None };
            let event = if is_held { Event::Hold(target) } else { Event::Release(target) };
            self.engine.apply(now, &event);
        }
    }

    /// Returns the instant before which a workload does not start.
    pub(crate) fn earliest_start(&self, key: &GangKey) -> Option<Time> {
        let start: &StartTerms = self.groups.workload(key)?.start.as_ref().ok()?;
        start.begin
    }

    /// Returns the engine's explanation of a job of a gang, with the reasons for which it is held
    /// there.
    pub(crate) fn engine_explanation(
        &mut self,
        now: Time,
        key: &GangKey,
        job: JobId,
    ) -> Option<Explanation> {
        let mut explanation = self.engine.explain(now, ElementId::single(job))?;
        let waits = self.gangs.get(key).map(|gang| gang.waits.clone()).unwrap_or_default();
        if explanation.state == JobState::Held
            && !self.groups.workload(key).is_some_and(Workload::is_held)
        {
            explanation.state = JobState::Pending;
            explanation.reasons.retain(|reason| *reason != Reason::Held);
        }
        if self.batches.get(&job).is_some_and(|batch| batch.is_held) {
            explanation.reasons.splice(0..0, waits);
        }
        Some(explanation)
    }
}

/// Returns the reasons beside a user's hold for which a workload may not start.
fn waits(workload: &Workload) -> Vec<Reason> {
    let reason = |code: &str, message: &str| Reason::Native {
        code: code.to_owned(),
        message: message.to_owned(),
        evidence: Vec::new(),
    };
    match &workload.start {
        Err(message) => vec![reason(UNREADABLE, message)],
        Ok(_) => Vec::new(),
    }
}

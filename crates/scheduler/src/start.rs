//! Terms of the start of a workload beside its queue and its pods. Its job is in the engine, where it has
//! its place in the queue, and is held there until the terms are met.

use std::sync::Arc;

use muster_kubernetes::group::workload::Workload;
use muster_kubernetes::group::{ObjectDependency, Progress, StartTerms, text_of_stages};
use muster_kubernetes::names;
use muster_model::view::{Explanation, JobState};
use muster_model::{CommandTarget, ElementId, Event, JobId, Reason, Time};

use crate::admission::Stage;
use crate::gang::GangKey;
use crate::observation::Action;
use crate::pending::in_words_of_pods;
use crate::scheduler::Scheduler;

/// Codes of reasons: a start that was refused, an annotation that cannot be read, an object that is
/// awaited, and one that has ended so that the workload never starts (as in Slurm, but for the second).
const RETRY: &str = "BeginTime";
const UNREADABLE: &str = "InvalidAnnotation";
const OPEN: &str = "Dependency";
const LOST: &str = "DependencyNeverSatisfied";

impl Scheduler {
    /// Holds the pending jobs of a gang while its workload may not start, and releases them when it
    /// may.
    pub(crate) fn hold_jobs(&mut self, now: Time, key: &GangKey, stage: Stage) {
        let facts = self.groups.workload_facts(key).filter(|_| stage == Stage::Expecting);
        let namespace = facts.map(|facts| Arc::clone(&facts.key.namespace)).unwrap_or_default();
        let workload = facts.and_then(|facts| facts.workload.as_ref());
        // One that was resumed and has no pods yet has met its terms.
        let suspended = workload.filter(|workload| workload.is_suspended);
        let start = suspended.map(|workload| workload.start.clone());
        let (is_held_by_user, waits) = match start {
            None => (false, Vec::new()),
            Some(Err(message)) => (false, vec![reason(UNREADABLE, message)]),
            Some(Ok(start)) => {
                self.note_stages(key, &namespace, &start);
                let obstacle = |one| self.obstacle(&namespace, &start, one);
                (start.is_held, start.after.iter().filter_map(obstacle).collect())
            }
        };
        let is_held = is_held_by_user || !waits.is_empty();
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

    /// Returns the stage that counts for a dependency: one that satisfies it counts for ever, others
    /// as long as there is no object of that name again. `None` if the object was never seen.
    fn stage_of(
        &self,
        namespace: &str,
        start: &StartTerms,
        dependency: &ObjectDependency,
    ) -> Option<Progress> {
        let noted = start.noted.get(&dependency.object).copied();
        let is_met = |stage: &Progress| stage.satisfies(dependency.kind) == Some(true);
        noted
            .filter(is_met)
            .or_else(|| self.groups.progress(namespace, &dependency.object))
            .or(noted)
    }

    /// Returns why a dependency keeps a workload from starting; `None` if it is satisfied.
    fn obstacle(
        &self,
        namespace: &str,
        start: &StartTerms,
        dependency: &ObjectDependency,
    ) -> Option<Reason> {
        let ObjectDependency { kind, object } = dependency;
        let stage = self.stage_of(namespace, start, dependency);
        match stage.map(|stage| (stage, stage.satisfies(*kind))) {
            Some((_, Some(true))) => None,
            Some((stage, Some(false))) => {
                let end = match stage {
                    Progress::Succeeded => "succeeded",
                    Progress::Deleted => "was deleted before its end was seen",
                    _ => "failed or was cancelled",
                };
                let text = format!("never starts: {object} {end} ({})", kind.word());
                Some(reason(LOST, format!("{text}; change {} of the waiting object", names::AFTER)))
            }
            Some((_, None)) => Some(reason(OPEN, format!("waits for {object} to {}", kind.verb()))),
            None => {
                let verb = kind.verb();
                Some(reason(OPEN, format!("waits for {object}, which does not exist, to {verb}")))
            }
        }
    }

    /// Has it written down on a workload what became of objects that it waits for, once that decides:
    /// they may be deleted before it starts.
    fn note_stages(&mut self, key: &GangKey, namespace: &str, start: &StartTerms) {
        let mut stages = start.noted.clone();
        stages.retain(|object, _| start.after.iter().any(|one| one.object == *object));
        for one in &start.after {
            let stage = self.stage_of(namespace, start, one);
            match stage.filter(|stage| stage.satisfies(one.kind).is_some()) {
                None => {}
                // It may be known already that it has ended.
                Some(Progress::Started) => {
                    stages.entry(one.object.clone()).or_insert(Progress::Started);
                }
                Some(end) => drop(stages.insert(one.object.clone(), end)),
            }
        }
        let Some(workload) = self.workload_id(key) else { return };
        let Some(gang) = self.gangs.get_mut(key) else { return };
        if stages == start.noted {
            gang.noting = None;
            return;
        }
        let text: Arc<str> = text_of_stages(&stages).into();
        // An older request that is repeated late may replace what a newer one has written.
        let noted = text_of_stages(&start.noted).into();
        let noting = Some([Arc::clone(&workload.uid), noted, Arc::clone(&text)]);
        if gang.noting != noting {
            gang.noting = noting;
            self.actions.push(Action::NoteStages { workload, text });
        }
    }

    /// Returns the instant before which a workload does not start.
    pub(crate) fn earliest_start(&self, key: &GangKey) -> Option<Time> {
        let suspended = self.groups.workload(key).filter(|workload| workload.is_suspended)?;
        suspended.start.as_ref().ok()?.begin
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
        let gang = self.gangs.get(key);
        let waits = gang.map(|gang| gang.waits.clone()).unwrap_or_default();
        let retry_reason = gang
            .filter(|gang| gang.retry_at.is_some_and(|at| at > now))
            .and_then(|gang| gang.retry_reason.clone());
        if explanation.state == JobState::Held
            && !self.groups.workload(key).is_some_and(Workload::is_held)
        {
            explanation.state = JobState::Pending;
            explanation.reasons.retain(|reason| *reason != Reason::Held);
        }
        if self.batches.get(&job).is_some_and(|batch| batch.is_held) {
            explanation.reasons.splice(0..0, waits);
        }
        let reasons = std::mem::take(&mut explanation.reasons);
        explanation.reasons = reasons.into_iter().map(in_words_of_pods).collect();
        if let Some(text) = retry_reason {
            explanation.reasons.insert(0, reason(RETRY, text.to_string()));
        }
        Some(explanation)
    }
}

fn reason(code: &str, message: String) -> Reason {
    Reason::Native { code: code.to_owned(), message, evidence: Vec::new() }
}

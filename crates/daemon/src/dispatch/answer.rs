//! Responses to queries, from the present state. Changes nothing durable.

use std::collections::BTreeMap;

use muster_api::types::PlannedStart;
use muster_model::unit::GpuMilli;
use muster_model::view::{ElementView, Explanation, JobState};
use muster_model::{Dependency, ElementId, JobId, NodeId, NodeName, Reason, TaskPlacement, Time};
use muster_runtime::engine::Engine;
use muster_runtime::{JobSubmission, Receipt};

use super::input::{DispatcherStatus, LiveJob, PlannedTimeline, Query, Reply};
use super::selection::{ListedJobs, PAGE};
use super::{Dispatcher, refusal};
use crate::auth::OwnerAccount;
use crate::failure::ApiFailure;
use crate::store::{StateStore, StoredCommands};

/// Returns the elements of a job that are in memory, by index.
fn elements(engine: &Engine, now: Time, job: JobId) -> Vec<ElementView> {
    let spec = engine.job_spec(job);
    let indices: Vec<u32> = match spec.as_ref().map(|spec| (&spec.array, spec.element_count())) {
        Some((Some(array), _)) => array.indices().collect(),
        Some((None, count)) => (0..count).collect(),
        None => Vec::new(),
    };
    let element = |index| engine.element(now, ElementId { job, index });
    indices.into_iter().filter_map(element).collect()
}

/// Sends a response, if the caller still waits for it.
pub(super) fn send<T>(reply: Reply<T>, answer: Result<T, ApiFailure>) {
    // The client may have closed the connection.
    let _gone = reply.send(answer);
}

impl<S: StateStore> Dispatcher<S> {
    pub(super) fn answer(&mut self, query: Query) {
        let now = self.now();
        match query {
            Query::Jobs(ids, reply) => {
                send(reply, self.read(|engine| Ok(engine.jobs_by_id(now, &ids))))
            }
            Query::Listed(wanted, reply) => {
                let listed = self.read(|engine| {
                    let (mut jobs, matched) = wanted.choose(engine);
                    let rest = jobs.split_off(jobs.len().min(PAGE));
                    Ok(ListedJobs { views: engine.jobs_by_id(now, &jobs), rest, matched })
                });
                send(reply, listed);
            }
            Query::Owner(job, reply) => {
                send(
                    reply,
                    self.read(|engine| {
                        Ok(engine.job_spec(job).map(|spec| OwnerAccount::of_job(&spec)))
                    }),
                );
            }
            Query::Job(job, reply) => {
                let answer = self.live_job(job);
                send(reply, answer);
            }
            Query::Element(element, reply) => {
                send(reply, self.read(|engine| Ok(engine.element(now, element))))
            }
            Query::Elements(job, reply) => {
                send(reply, self.read(|engine| Ok(elements(engine, now, job))))
            }
            Query::Explain(job, index, reply) => {
                let answer = self.explain(job, index);
                send(reply, answer);
            }
            Query::DryRun(submission, reply) => {
                let answer = self.dry_run(submission);
                send(reply, answer);
            }
            Query::Receipt(user, key, reply) => {
                send(reply, self.runtime.store().receipt(&user, &key).map_err(ApiFailure::Store));
            }
            Query::Queues(reply) => send(reply, self.read(|engine| Ok(engine.queues(now)))),
            Query::Nodes(reply) => send(reply, self.read(|engine| Ok(engine.nodes()))),
            Query::AdvanceReservations(reply) => {
                send(reply, self.read(|engine| Ok(engine.advance_reservations(now))))
            }
            Query::Usage(reply) => send(
                reply,
                self.read(|engine| {
                    let rows = engine.usage_decayed(now).into_iter();
                    Ok(rows.map(|(user, queue, secs)| ((user, queue), secs)).collect())
                }),
            ),
            Query::Planned(reply) => send(reply, self.read(|engine| Ok(planned(engine)))),
            Query::State(reply) => {
                send(reply, self.read(|engine| Ok((now, Box::new(engine.snapshot())))))
            }
            Query::Status(reply) => send(reply, Ok(self.status())),
        }
    }

    fn read<T>(&self, ask: impl FnOnce(&Engine) -> Result<T, ApiFailure>) -> Result<T, ApiFailure> {
        self.runtime.engine().ok_or_else(|| self.unavailable()).and_then(ask)
    }

    fn live_job(&mut self, job: JobId) -> Result<Option<LiveJob>, ApiFailure> {
        let now = self.now();
        let view = self.read(|engine| Ok(engine.job(now, job)))?;
        let Some(view) = view else { return Ok(None) };
        let payload = self.runtime.store().payload(muster_model::PayloadId(job.0))?;
        let spec = self.runtime.engine().and_then(|engine| engine.job_spec(job));
        Ok(Some(LiveJob { view, stored: payload.map(StoredCommands::from), spec }))
    }

    fn explain(&mut self, job: JobId, index: Option<u32>) -> Result<Explanation, ApiFailure> {
        let now = self.now();
        let gone = self.unavailable();
        let engine = self.runtime.engine_mut().ok_or(gone)?;
        let spec = engine.job_spec(job).ok_or_else(|| ApiFailure::no_job(job))?;
        let index = match (index, &spec.array) {
            (Some(index), _) => index,
            (None, None) => first_waiting(engine, now, job, 0..spec.element_count()).unwrap_or(0),
            (None, Some(array)) => {
                first_waiting(engine, now, job, array.indices()).unwrap_or(array.head.first)
            }
        };
        let element = ElementId { job, index };
        engine
            .explain(now, element)
            .ok_or_else(|| ApiFailure::NotFound(format!("job {job} has no element {index}")))
    }

    /// Judges the jobs as a step would, and explains each as if the others were not submitted yet.
    fn dry_run(
        &mut self,
        submission: JobSubmission,
    ) -> Result<(Receipt, Vec<Explanation>), ApiFailure> {
        let now = self.now();
        let drafts = submission.drafts.clone();
        let receipt = self.runtime.check(submission).map_err(refusal::failure)?;
        let gone = self.unavailable();
        let engine = self.runtime.engine_mut().ok_or(gone)?;
        let mut explanations = Vec::with_capacity(drafts.len());
        for (position, draft) in drafts.iter().enumerate() {
            let mut explanation = engine.explain_submission(now, &draft.spec);
            explanation.element.job = receipt.jobs.get(position).map_or(JobId(0), |job| job.job);
            for (kind, on) in &draft.after {
                let on = receipt.jobs.get(*on).map_or(JobId(0), |job| job.job);
                wait_for(&mut explanation, &Dependency { kind: *kind, job: on });
            }
            explanations.push(explanation);
        }
        Ok((receipt, explanations))
    }

    fn status(&mut self) -> DispatcherStatus {
        let mut warnings = self.warnings.clone();
        if let Some(failure) = &self.store_failure {
            warnings.push(format!(
                "{}; submissions are rejected until then, running jobs continue ({})",
                failure.error,
                failure.error.hint()
            ));
        }
        if !self.violations.is_empty() {
            warnings.push(format!(
                "a plan violated an invariant and was dropped, please report it: {}",
                self.violations.join("; ")
            ));
        }
        let now = self.now();
        let revision = *self.published.revision.borrow();
        DispatcherStatus { now, revision, warnings, counters: self.counters }
    }
}

/// Adds a dependency on a job of the same dry run, which does not exist yet: the dependent job has
/// no start of its own.
fn wait_for(explanation: &mut Explanation, dependency: &Dependency) {
    explanation.reasons.insert(0, Reason::Dependency { on: dependency.job, kind: dependency.kind });
    explanation.eta = None;
    explanation.sooner.clear();
}

fn first_waiting(
    engine: &Engine,
    now: muster_model::Time,
    job: JobId,
    mut indices: impl Iterator<Item = u32>,
) -> Option<u32> {
    indices.find(|index| {
        let view = engine.element(now, ElementId { job, index: *index });
        view.is_some_and(|view| matches!(view.state, JobState::Pending | JobState::Held))
    })
}

fn planned(engine: &Engine) -> PlannedTimeline {
    let starts = engine.reservations().iter().map(|reservation| PlannedStart {
        element: reservation.element,
        name: engine
            .job_spec(reservation.element.job)
            .map_or_else(String::new, |spec| spec.name.to_string()),
        start: reservation.start,
        predicted: engine.plans_by_predictions(),
        gpus: held(&reservation.placement),
    });
    let starts = starts.collect();
    let views = engine.nodes();
    let nodes: BTreeMap<NodeId, NodeName> = (0..)
        .map(NodeId)
        .map_while(|id| engine.node_spec(id).map(|node| (id, node.name.clone())))
        .collect();
    let devices = views
        .iter()
        .flat_map(|node| node.devices.iter().map(|device| (node.name.clone(), device.index)))
        .collect();
    PlannedTimeline { starts, nodes, devices }
}

fn held(placement: &[TaskPlacement]) -> GpuMilli {
    GpuMilli(placement.iter().map(|task| task.devices.len() * task.share.0).sum())
}

//! Answers to questions, from present state. Nothing here changes anything that lasts.

use std::collections::BTreeMap;

use muster_api::types::PlannedStart;
use muster_model::unit::GpuMilli;
use muster_model::view::{Explanation, State};
use muster_model::{Dependency, ElementId, JobId, NodeId, NodeName, Reason, TaskPlacement};
use muster_runtime::engine::Engine;
use muster_runtime::{Receipt, Submission};

use super::input::{Ask, LiveJob, Planned, Reply, Status};
use super::wanted::{Listed, PAGE};
use super::{Dispatcher, refusal};
use crate::auth::Owner;
use crate::failure::Failure;
use crate::store::{StateStore, What};

/// Sends an answer to whoever still waits for it.
pub(super) fn send<T>(reply: Reply<T>, answer: Result<T, Failure>) {
    // A client that has hung up is no concern of anybody's.
    let _gone = reply.send(answer);
}

impl<S: StateStore> Dispatcher<S> {
    pub(super) fn answer(&mut self, ask: Ask) {
        let now = self.now();
        match ask {
            Ask::Jobs(ids, reply) => {
                send(reply, self.read(|engine| Ok(engine.some_jobs(now, &ids))))
            }
            Ask::Listed(wanted, reply) => {
                let listed = self.read(|engine| {
                    let (mut jobs, matched) = wanted.choose(engine);
                    let rest = jobs.split_off(jobs.len().min(PAGE));
                    Ok(Listed { views: engine.some_jobs(now, &jobs), rest, matched })
                });
                send(reply, listed);
            }
            Ask::Owner(job, reply) => {
                send(
                    reply,
                    self.read(|engine| Ok(engine.job_spec(job).map(|spec| Owner::of_job(&spec)))),
                );
            }
            Ask::Job(job, reply) => {
                let answer = self.live_job(job);
                send(reply, answer);
            }
            Ask::Element(element, reply) => {
                send(reply, self.read(|engine| Ok(engine.element(now, element))))
            }
            Ask::Explain(job, index, reply) => {
                let answer = self.explain(job, index);
                send(reply, answer);
            }
            Ask::DryRun(submission, reply) => {
                let answer = self.dry_run(submission);
                send(reply, answer);
            }
            Ask::Receipt(user, key, reply) => {
                send(reply, self.runtime.store().receipt(&user, &key).map_err(Failure::Store));
            }
            Ask::Queues(reply) => send(reply, self.read(|engine| Ok(engine.queues(now)))),
            Ask::Nodes(reply) => send(reply, self.read(|engine| Ok(engine.nodes()))),
            Ask::Windows(reply) => send(reply, self.read(|engine| Ok(engine.windows(now)))),
            Ask::Usage(reply) => send(
                reply,
                self.read(|engine| {
                    let rows = engine.usage_decayed(now).into_iter();
                    Ok(rows.map(|(user, queue, secs)| ((user, queue), secs)).collect())
                }),
            ),
            Ask::Planned(reply) => send(reply, self.read(|engine| Ok(planned(engine)))),
            Ask::State(reply) => {
                send(reply, self.read(|engine| Ok((now, Box::new(engine.snapshot())))))
            }
            Ask::Status(reply) => send(reply, Ok(self.status())),
        }
    }

    fn read<T>(&self, ask: impl FnOnce(&Engine) -> Result<T, Failure>) -> Result<T, Failure> {
        self.runtime.engine().ok_or_else(|| self.unavailable()).and_then(ask)
    }

    fn live_job(&mut self, job: JobId) -> Result<Option<LiveJob>, Failure> {
        let now = self.now();
        let view = self.read(|engine| Ok(engine.job(now, job)))?;
        let Some(view) = view else { return Ok(None) };
        let payload = self.runtime.store().payload(muster_model::PayloadId(job.0))?;
        let spec = self.runtime.engine().and_then(|engine| engine.job_spec(job));
        Ok(Some(LiveJob { view, what: payload.map(What::from), spec }))
    }

    fn explain(&mut self, job: JobId, index: Option<u32>) -> Result<Explanation, Failure> {
        let now = self.now();
        let gone = self.unavailable();
        let engine = self.runtime.engine_mut().ok_or(gone)?;
        let spec = engine.job_spec(job).ok_or_else(|| Failure::no_job(job))?;
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
            .ok_or_else(|| Failure::NotFound(format!("job {job} has no element {index}")))
    }

    /// Judges the jobs as a step would, and explains each as if the others were not there yet.
    fn dry_run(&mut self, submission: Submission) -> Result<(Receipt, Vec<Explanation>), Failure> {
        let now = self.now();
        let drafts = submission.drafts.clone();
        let receipt = self.runtime.judge(submission).map_err(refusal::failure)?;
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

    fn status(&mut self) -> Status {
        let mut warnings = self.warnings.clone();
        if let Some(trouble) = &self.trouble {
            warnings.push(format!(
                "{}; submissions are refused until that is over, running jobs go on ({})",
                trouble.error,
                trouble.error.hint()
            ));
        }
        if !self.defects.is_empty() {
            warnings.push(format!(
                "a plan broke an invariant and was dropped, please report it: {}",
                self.defects.join("; ")
            ));
        }
        let now = self.now();
        Status { now, revision: *self.published.revision.borrow(), warnings }
    }
}

/// A job that does not exist yet cannot be asked about: what waits for it has no start of its own.
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
        view.is_some_and(|view| matches!(view.state, State::Pending | State::Held))
    })
}

fn planned(engine: &Engine) -> Planned {
    let starts = engine.reservations().iter().map(|reservation| PlannedStart {
        element: reservation.element,
        name: engine
            .job_spec(reservation.element.job)
            .map_or_else(String::new, |spec| spec.name.to_string()),
        start: reservation.start,
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
    Planned { starts, nodes, devices }
}

fn held(placement: &[TaskPlacement]) -> GpuMilli {
    GpuMilli(placement.iter().map(|task| task.devices.len() * task.share.0).sum())
}

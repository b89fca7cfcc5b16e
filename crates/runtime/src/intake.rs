//! Inputs of a step: numbers for submitted jobs, dependencies among the drafts of one submission,
//! and refusals. A submission is accepted as a whole or not at all.

use std::sync::Arc;

use muster_engine::{Engine, EventRefusal, RuntimePredictor};
use muster_model::unit::Time;
use muster_model::{
    Dependency, DependencyKind, Event, JobId, JobSpec, Payload, PayloadId, UserName,
};

use crate::journal::{Receipt, ReceiptJob};

/// One input of a step.
#[derive(Clone, Debug)]
pub enum StepInput {
    /// Anything but a submission. An observation that the engine refuses is dropped; a request gets
    /// the refusal as its answer.
    Event(Event),
    /// Jobs of one document.
    Submission(JobSubmission),
}

/// Jobs of one document, with a key that makes repetitions harmless.
#[derive(Clone, Debug)]
pub struct JobSubmission {
    /// User who submits the jobs.
    pub user: UserName,
    /// Idempotency key of the submission.
    pub key: String,
    /// Jobs in document order.
    pub drafts: Vec<JobDraft>,
    /// Warnings for the user, returned with the answer.
    pub warnings: Vec<String>,
}

/// Job without a number.
#[derive(Clone, Debug)]
pub struct JobDraft {
    /// Specification; `payload` is filled in here, `after` contains dependencies on existing jobs.
    pub spec: JobSpec,
    /// Command and environment of its tasks.
    pub payload: Payload,
    /// Dependencies on earlier drafts of the same submission, by position.
    pub after: Vec<(DependencyKind, usize)>,
}

/// Refusal of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedInput {
    /// Index of the refused draft of a submission; 0 for events.
    pub draft: usize,
    /// Reason. Boxed, since it contains many numbers and most answers are not refusals.
    pub refusal: Box<EventRefusal>,
}

/// Submission with job numbers, in document order.
pub(crate) struct NumberedSubmission {
    pub(crate) jobs: Vec<(JobId, Arc<JobSpec>, Payload)>,
    pub(crate) receipt: Receipt,
}

impl JobSubmission {
    /// Assigns numbers from `first` on and validates every job; with a predictor, also the run times
    /// by which they are planned. Changes nothing.
    pub(crate) fn number(
        self,
        engine: &Engine,
        first: u64,
        predictor: Option<&RuntimePredictor>,
    ) -> Result<NumberedSubmission, RefusedInput> {
        let id = |position: usize| JobId(first + position as u64);
        let mut receipt =
            Receipt { jobs: Vec::with_capacity(self.drafts.len()), warnings: self.warnings };
        let mut jobs = Vec::with_capacity(self.drafts.len());
        for (position, draft) in self.drafts.into_iter().enumerate() {
            let job = id(position);
            let refused = |refusal| RefusedInput { draft: position, refusal: Box::new(refusal) };
            let mut spec = JobSpec { payload: PayloadId(job.0), ..draft.spec };
            if let Some(predictor) = predictor {
                spec.expected_runtime = predictor.predict_job(&spec);
            }

            // 1. Validate without the dependencies on drafts: those jobs do not exist until all are
            //    accepted.
            let alone = Event::Submitted { job, spec: Arc::new(spec.clone()) };
            engine.validate(&alone).map_err(refused)?;

            // 2. Dependencies on drafts are valid if they name earlier ones.
            for (kind, on) in draft.after {
                if on >= position {
                    return Err(refused(EventRefusal::DependencyCycle { job, on: id(on) }));
                }
                spec.after.push(Dependency { kind, job: id(on) });
            }
            receipt.jobs.push(ReceiptJob {
                job,
                name: spec.name.to_string(),
                elements: spec.element_count(),
            });
            jobs.push((job, Arc::new(spec), draft.payload));
        }
        // 3. Limits on waiting jobs are checked for all of them together.
        let specs: Vec<Arc<JobSpec>> = jobs.iter().map(|(_, spec, _)| Arc::clone(spec)).collect();
        engine
            .validate_batch(&specs)
            .map_err(|(draft, refusal)| RefusedInput { draft, refusal: Box::new(refusal) })?;
        Ok(NumberedSubmission { jobs, receipt })
    }
}

/// True for observations of the cluster, false for requests of users. Observations are kept when
/// the store fails.
pub(crate) fn is_observation(event: &Event) -> bool {
    match event {
        Event::NodeJoined(_) | Event::NodeLost { .. } | Event::ForeignUse { .. } | Event::Task(_) => true,
        Event::NodeDrained { .. }
        | Event::DrainSet { .. }
        | Event::QueuesSet(_)
        | Event::LevelsSet(_)
        | Event::Submitted { .. }
        | Event::Hold(_)
        | Event::Release(_)
        | Event::AdminHold { .. }
        | Event::AdminRelease { .. }
        | Event::Cancel { .. }
        | Event::Requeue(_)
        | Event::Checkpoint(_)
        | Event::Scaled { .. }
        | Event::AdvanceReservationSet(_)
        | Event::AdvanceReservationRemoved { .. }
        // Computed again at the next step.
        | Event::AdvanceReservationPlaced { .. }
        | Event::RunningSince { .. }
        | Event::StartOverdue { .. }
        | Event::StopEarly { .. }
        | Event::GpusIdle { .. }
        | Event::EvictionDue { .. } => false,
    }
}

/// Returns the instant of a step: never earlier than a journalled one.
pub(crate) fn clamp(now: Time, last: Time) -> Time {
    now.max(last)
}

//! Inputs of a step, and what becomes of each: numbers for submitted jobs, dependencies among the
//! drafts of one submission, refusals. A submission is accepted whole or not at all.

use std::sync::Arc;

use muster_engine::{Engine, Refusal};
use muster_model::unit::Time;
use muster_model::{
    Dependency, DependencyKind, Event, JobId, JobSpec, Payload, PayloadId, UserName,
};

use crate::journal::{Receipt, ReceiptJob};

/// One cause of a step.
#[derive(Clone, Debug)]
pub enum Input {
    /// Anything but a submission. An observation that the engine has no use for is dropped; a
    /// request is answered with its refusal.
    Event(Event),
    /// Jobs of one text.
    Submission(Submission),
}

/// Jobs of one text, with the key that makes sending it twice harmless.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Who submits.
    pub user: UserName,
    /// Idempotency key.
    pub key: String,
    /// In document order.
    pub drafts: Vec<Draft>,
    /// Told to the user with the answer.
    pub warnings: Vec<String>,
}

/// A job that has no number yet.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Shape; `payload` is filled in here, `after` holds dependencies on jobs that exist.
    pub spec: JobSpec,
    /// Command and environment.
    pub payload: Payload,
    /// Dependencies on earlier drafts of the same submission, by position.
    pub after: Vec<(DependencyKind, usize)>,
}

/// A refused input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which draft of a submission; 0 for events.
    pub draft: usize,
    /// Why; boxed, since its reasons carry many numbers and an answer is mostly good.
    pub refusal: Box<Refusal>,
}

/// A submission with numbers, in document order.
pub(crate) struct Numbered {
    pub(crate) jobs: Vec<(JobId, Arc<JobSpec>, Payload)>,
    pub(crate) receipt: Receipt,
}

impl Submission {
    /// Gives numbers from `first` on and asks the engine about every job. Changes nothing.
    pub(crate) fn number(self, engine: &Engine, first: u64) -> Result<Numbered, Refused> {
        let id = |position: usize| JobId(first + position as u64);
        let mut receipt =
            Receipt { jobs: Vec::with_capacity(self.drafts.len()), warnings: self.warnings };
        let mut jobs = Vec::with_capacity(self.drafts.len());
        for (position, draft) in self.drafts.into_iter().enumerate() {
            let job = id(position);
            let refused = |refusal| Refused { draft: position, refusal: Box::new(refusal) };
            let mut spec = JobSpec { payload: PayloadId(job.0), ..draft.spec };

            // 1. The verdict, without the dependencies on drafts: those jobs do not exist until all
            //    are accepted.
            let alone = Event::Submitted { job, spec: Arc::new(spec.clone()) };
            engine.judge(&alone).map_err(refused)?;

            // 2. Dependencies on drafts hold by construction when they name earlier ones.
            for (kind, on) in draft.after {
                if on >= position {
                    return Err(refused(Refusal::DependencyCycle { job, on: id(on) }));
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
        // 3. Accepted one by one, they must also have room to wait together.
        let specs: Vec<Arc<JobSpec>> = jobs.iter().map(|(_, spec, _)| Arc::clone(spec)).collect();
        engine
            .judge_room(&specs)
            .map_err(|(draft, refusal)| Refused { draft, refusal: Box::new(refusal) })?;
        Ok(Numbered { jobs, receipt })
    }
}

/// True for what the world reports, false for what a person asks for. Observations are kept when
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
        | Event::WindowSet(_)
        | Event::WindowDropped { .. }
        // Found anew at the next step.
        | Event::WindowPlaced { .. }
        | Event::StartOverdue { .. }
        | Event::EvictionDue { .. } => false,
    }
}

/// The instant of a step: never before one that is journalled.
pub(crate) fn clamp(now: Time, last: Time) -> Time {
    now.max(last)
}

//! User requests, applied to the ledger: submit, hold, scale, checkpoint, cancel, requeue.
//! Permissions are not checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{
    CommandTarget, ElementId, JobId, JobSpec, Outcome, Replicas, Time, UserName, WorkloadKind,
};

use super::{ElementPhase, Ledger, LedgerElement, LedgerJob};
use crate::dst::attempt::LedgerFate;
use crate::dst::coverage::Coverage;

impl Ledger {
    pub(super) fn submitted(&mut self, id: JobId, spec: &Arc<JobSpec>) -> Result<(), String> {
        if self.has_job(id) {
            return Err(format!("the number {id} is assigned twice"));
        }
        if let Some(first) = self.names.insert(Arc::clone(&spec.name), id) {
            return Err(format!("{} is accepted twice, as {first} and as {id}", spec.name));
        }
        let indices: Vec<u32> = match (spec.service(), &spec.array) {
            (Some(service), _) => (0..service.replicas.max).collect(),
            (None, Some(array)) => array.indices().collect(),
            (None, None) => vec![0],
        };
        let elements =
            indices.into_iter().map(|index| (index, LedgerElement::new(spec.held))).collect();
        let leaf = spec.queue.clone();
        self.jobs.insert(
            id,
            LedgerJob {
                spec: Arc::clone(spec),
                leaf,
                held: spec.held,
                met: BTreeSet::new(),
                elements,
            },
        );
        Ok(())
    }

    pub(super) fn hold(&mut self, target: CommandTarget, hold: bool) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        if target.index.is_none() {
            job.held = hold;
        }
        let mut nominated = Vec::new();
        for (index, element) in targets(job, target) {
            if let ElementPhase::Pending { held, .. } = &mut element.phase {
                *held = hold;
                nominated.push(ElementId { job: target.job, index });
            }
        }
        // A held element loses its nomination.
        self.nominations.of.retain(|id, _| !hold || !nominated.contains(id));
    }

    /// Scales a service: replicas at or above the new ceiling end; those below are created or
    /// restarted.
    pub(super) fn scaled(
        &mut self,
        id: JobId,
        replicas: Replicas,
        by: &UserName,
        coverage: &mut Coverage,
    ) {
        coverage.scaled += 1;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let WorkloadKind::Service(service) = &mut Arc::make_mut(&mut job.spec).kind else { return };
        let old = std::mem::replace(&mut service.replicas, replicas);
        for index in old.max..replicas.max {
            let element = job.elements.entry(index).or_insert_with(|| LedgerElement::new(job.held));
            match &mut element.phase {
                ElementPhase::Pending { .. } => {}
                ElementPhase::Active(attempt) => attempt.resume(),
                ElementPhase::Ended(_) => element.wait_again(job.held),
            }
        }
        for index in replicas.max..old.max {
            self.cancel(CommandTarget { job: id, index: Some(index) }, by);
        }
    }

    pub(super) fn ask_checkpoint(&mut self, target: CommandTarget, coverage: &mut Coverage) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        for (_, element) in targets(job, target) {
            if let ElementPhase::Active(attempt) = &mut element.phase
                && attempt.is_running()
            {
                coverage.checkpoints += 1;
                attempt.request_checkpoint();
            }
        }
    }

    pub(super) fn cancel(&mut self, target: CommandTarget, by: &UserName) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        let mut ended = Vec::new();
        for (index, element) in targets(job, target) {
            match &mut element.phase {
                ElementPhase::Pending { .. } => ended.push(index),
                ElementPhase::Active(attempt) => attempt.stop(LedgerFate::Cancelled(by.clone())),
                ElementPhase::Ended(_) => {}
            }
        }
        for index in ended {
            self.end(ElementId { job: target.job, index }, Outcome::Cancelled { by: by.clone() });
        }
    }

    pub(super) fn requeue(&mut self, target: CommandTarget) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        let job_held = job.held;
        // Replicas above the current ceiling are no part of the service.
        let most = job.spec.service().map_or(u32::MAX, |service| service.replicas.max);
        for (_, element) in targets(job, target).filter(|(index, _)| *index < most) {
            match &mut element.phase {
                ElementPhase::Pending { not_before, .. } => *not_before = Time(0),
                ElementPhase::Active(attempt) => attempt.stop(LedgerFate::Requeued),
                ElementPhase::Ended(_) => element.wait_again(job_held),
            }
        }
    }
}

/// Returns the elements that a target selects.
fn targets(
    job: &mut LedgerJob,
    target: CommandTarget,
) -> impl Iterator<Item = (u32, &mut LedgerElement)> {
    let is_meant = move |index: u32| target.index.is_none_or(|one| one == index);
    job.elements
        .iter_mut()
        .map(|(index, element)| (*index, element))
        .filter(move |(index, _)| is_meant(*index))
}

//! What people ask for, entered in the book: submit, hold, scale, save, cancel, requeue. It does
//! not judge whether they may.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{ElementId, JobId, JobSpec, Kind, Outcome, Replicas, Target, Time, UserName};

use super::{Book, Element, Job, Phase};
use crate::storm::attempt::Fate;
use crate::storm::cover::Cover;

impl Book {
    pub(super) fn submitted(&mut self, id: JobId, spec: &Arc<JobSpec>) -> Result<(), String> {
        if self.knows(id) {
            return Err(format!("the number {id} is given twice"));
        }
        if let Some(first) = self.names.insert(Arc::clone(&spec.name), id) {
            return Err(format!("{} is accepted twice, as {first} and as {id}", spec.name));
        }
        let indices: Vec<u32> = match (spec.service(), &spec.array) {
            (Some(service), _) => (0..service.replicas.ceiling).collect(),
            (None, Some(array)) => array.indices().collect(),
            (None, None) => vec![0],
        };
        let elements = indices.into_iter().map(|index| (index, Element::new(spec.held))).collect();
        let leaf = spec.queue.clone();
        self.jobs.insert(
            id,
            Job { spec: Arc::clone(spec), leaf, held: spec.held, met: BTreeSet::new(), elements },
        );
        Ok(())
    }

    pub(super) fn hold(&mut self, target: Target, hold: bool) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        if target.index.is_none() {
            job.held = hold;
        }
        let mut promised = Vec::new();
        for (index, element) in meant(job, target) {
            if let Phase::Waits { held, .. } = &mut element.phase {
                *held = hold;
                promised.push(ElementId { job: target.job, index });
            }
        }
        // Who may not start gives up what it was promised.
        self.claims.of.retain(|id, _| !hold || !promised.contains(id));
    }

    /// A service has other numbers: replicas beyond the new ceiling end, those below it come, or
    /// come back.
    pub(super) fn scaled(
        &mut self,
        id: JobId,
        replicas: Replicas,
        by: &UserName,
        cover: &mut Cover,
    ) {
        cover.scaled += 1;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Kind::Service(service) = &mut Arc::make_mut(&mut job.spec).kind else { return };
        let old = std::mem::replace(&mut service.replicas, replicas);
        for index in old.ceiling..replicas.ceiling {
            let element = job.elements.entry(index).or_insert_with(|| Element::new(job.held));
            match &mut element.phase {
                Phase::Waits { .. } => {}
                Phase::Active(attempt) => attempt.go_on(),
                Phase::Ended(_) => element.wait_again(job.held),
            }
        }
        for index in replicas.ceiling..old.ceiling {
            self.cancel(Target { job: id, index: Some(index) }, by);
        }
    }

    pub(super) fn ask_checkpoint(&mut self, target: Target, cover: &mut Cover) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        for (_, element) in meant(job, target) {
            if let Phase::Active(attempt) = &mut element.phase
                && attempt.is_running()
            {
                cover.checkpoints += 1;
                attempt.ask();
            }
        }
    }

    pub(super) fn cancel(&mut self, target: Target, by: &UserName) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        let mut ended = Vec::new();
        for (index, element) in meant(job, target) {
            match &mut element.phase {
                Phase::Waits { .. } => ended.push(index),
                Phase::Active(attempt) => attempt.stop(Fate::Cancelled(by.clone())),
                Phase::Ended(_) => {}
            }
        }
        for index in ended {
            self.end(ElementId { job: target.job, index }, Outcome::Cancelled { by: by.clone() });
        }
    }

    pub(super) fn requeue(&mut self, target: Target) {
        let Some(job) = self.jobs.get_mut(&target.job) else { return };
        let job_held = job.held;
        // What a service was scaled down by is no part of it.
        let most = job.spec.service().map_or(u32::MAX, |service| service.replicas.ceiling);
        for (_, element) in meant(job, target).filter(|(index, _)| *index < most) {
            match &mut element.phase {
                Phase::Waits { not_before, .. } => *not_before = Time(0),
                Phase::Active(attempt) => attempt.stop(Fate::Requeued),
                Phase::Ended(_) => element.wait_again(job_held),
            }
        }
    }
}

/// The elements of a job that are meant.
fn meant(job: &mut Job, target: Target) -> impl Iterator<Item = (u32, &mut Element)> {
    let is_meant = move |index: u32| target.index.is_none_or(|one| one == index);
    job.elements
        .iter_mut()
        .map(|(index, element)| (*index, element))
        .filter(move |(index, _)| is_meant(*index))
}

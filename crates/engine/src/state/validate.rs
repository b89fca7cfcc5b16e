//! Validation of events. Read-only. A refused event never reaches the journal.

use std::sync::Arc;

use muster_model::job::JobSpec;
use muster_model::reason::Reason;
use muster_model::{
    CommandTarget, DeviceSet, ElementId, Event, JobId, NodeName, Replicas, Service,
};
use muster_policy::Policy;

use super::State;
use super::dependencies::Satisfaction;
use super::job::{JobRecord, Phase};
use crate::bounds;
use crate::explain::{domains, gap};
use crate::plan::feasibility;
use crate::refusal::EventRefusal;

impl State {
    pub(crate) fn validate(&self, event: &Event) -> Result<(), EventRefusal> {
        match event {
            Event::NodeJoined(spec) if spec.devices.len() > DeviceSet::MAX_DEVICES => {
                Err(EventRefusal::TooManyDevices {
                    node: spec.name.clone(),
                    devices: spec.devices.len(),
                })
            }
            Event::NodeJoined(_)
            | Event::LevelsSet(_)
            | Event::Task(_)
            | Event::StartOverdue { .. }
            | Event::EvictionDue { .. } => Ok(()),
            Event::NodeLost { node, .. }
            | Event::NodeDrained { node, .. }
            | Event::ForeignUse { node, .. } => self.validate_node(node),
            Event::DrainSet { node, devices, .. } => self.validate_devices(node, *devices),
            Event::QueuesSet(tree) => {
                Policy::new((**tree).clone()).map(|_| ()).map_err(EventRefusal::from)
            }
            Event::Submitted { job, spec } => self.validate_submission(*job, spec),
            Event::Hold(target) | Event::AdminHold { target, .. } => {
                self.validate_target(*target, TargetAction::Hold)
            }
            Event::AdminRelease { target, .. } => {
                self.validate_target(*target, TargetAction::Release)
            }
            Event::Release(target) => {
                self.validate_target(*target, TargetAction::Release)?;
                self.admin_hold(*target).map_or(Ok(()), |hold| {
                    Err(EventRefusal::HeldByAdmin { target: *target, by: hold.by.clone() })
                })
            }
            Event::Cancel { target, .. } => self.validate_target(*target, TargetAction::Cancel),
            Event::Requeue(target) => self.validate_target(*target, TargetAction::Requeue),
            Event::Checkpoint(target) => self.validate_checkpoint(*target),
            Event::Scaled { job, replicas, .. } => self.validate_scale(*job, *replicas),
            Event::AdvanceReservationSet(reservation) => self.validate_reservation(reservation),
            Event::AdvanceReservationPlaced { advance_reservation: reservation, .. }
            | Event::AdvanceReservationRemoved { advance_reservation: reservation, .. } => {
                self.validate_drop(reservation)
            }
        }
    }

    pub(super) fn validate_node(&self, node: &NodeName) -> Result<(), EventRefusal> {
        match self.pool.find(node) {
            Some(_) => Ok(()),
            None => Err(EventRefusal::UnknownNode(node.clone())),
        }
    }

    fn validate_devices(
        &self,
        name: &NodeName,
        devices: Option<DeviceSet>,
    ) -> Result<(), EventRefusal> {
        self.validate_node(name)?;
        let node = self.pool.find(name).map(|id| self.pool.node(id));
        let known = node.map_or(0, |node| node.spec.devices.len());
        let beyond = devices.unwrap_or_default().minus(DeviceSet::first(known)).iter().next();
        match beyond {
            None => Ok(()),
            Some(device) => Err(EventRefusal::UnknownDevice { node: name.clone(), device, known }),
        }
    }

    fn validate_submission(&self, id: JobId, spec: &JobSpec) -> Result<(), EventRefusal> {
        if self.jobs.contains_key(&id) || self.recent.get(id).is_some() {
            return Err(EventRefusal::JobExists(id));
        }
        for dependency in &spec.after {
            if dependency.job >= id {
                return Err(EventRefusal::DependencyCycle { job: id, on: dependency.job });
            }
            if self.satisfaction(dependency) == Satisfaction::Unknown {
                return Err(EventRefusal::UnknownDependency(dependency.job));
            }
        }
        self.validate_spec(spec)?;
        self.validate_one_more(spec, &[])
    }

    /// Checks whether the user may have one more waiting job, counting the earlier jobs of the same
    /// submission.
    pub(crate) fn validate_one_more(
        &self,
        spec: &JobSpec,
        before: &[Arc<JobSpec>],
    ) -> Result<(), EventRefusal> {
        let leaf = self
            .policy
            .leaf(&spec.queue)
            .ok_or_else(|| EventRefusal::UnknownQueue(spec.queue.clone()))?;
        let own = before.iter().filter(|other| other.user == spec.user);
        let beside: Vec<_> = own.filter_map(|other| self.policy.leaf(&other.queue)).collect();
        self.policy
            .judge_pending_limit(leaf, &spec.user, &beside)
            .map_err(EventRefusal::TooManyPending)
    }

    /// Checks whether a job like this could ever start.
    pub(crate) fn validate_spec(&self, spec: &JobSpec) -> Result<(), EventRefusal> {
        bounds::check_bounds(spec)?;
        if spec.min_tasks() == 0 || spec.element_count() == 0 {
            return Err(EventRefusal::NoTasks);
        }
        let leaf = self
            .policy
            .leaf(&spec.queue)
            .ok_or_else(|| EventRefusal::UnknownQueue(spec.queue.clone()))?;
        self.policy.judge_submission(leaf, spec).map_err(EventRefusal::NeverStarts)?;
        self.validate_use_of_reservation(spec)?;
        let known = self
            .classes
            .find(spec)
            .and_then(|class| self.classes.known_fit(class, self.pool.epoch()));
        if known == Some(true) {
            return Ok(());
        }
        let shape = self.shape_of(spec);
        if feasibility::fits_empty_cluster(&self.pool, &shape) {
            return Ok(());
        }
        let inside =
            shape.reservation.as_ref().map(|reservation| self.pool.copy_inside(reservation));
        let pool = inside.as_ref().unwrap_or(&self.pool);
        let gap = gap::when_idle(pool, self.policy.models(), &shape);
        let together = domains::when_idle(pool, &shape).filter(|_| !gap::is_short(&gap));
        let reason = together.map_or(Reason::NeverFits(Box::new(gap)), Reason::NeverInTopology);
        Err(EventRefusal::NeverStarts(reason))
    }

    fn validate_checkpoint(&self, target: CommandTarget) -> Result<(), EventRefusal> {
        let job = self.jobs.get(&target.job).ok_or(EventRefusal::UnknownJob(target.job))?;
        if let Some(index) = target.index {
            let id = ElementId { job: target.job, index };
            job.record.ordinal_of(index).ok_or(EventRefusal::UnknownElement(id))?;
        }
        if job.record.spec.checkpoint.is_none() {
            return Err(EventRefusal::NoCheckpoint(target.job));
        }
        if job.record.running(target).is_empty() {
            return Err(EventRefusal::NotRunning(target));
        }
        Ok(())
    }

    fn validate_scale(&self, id: JobId, replicas: Replicas) -> Result<(), EventRefusal> {
        let job = self.jobs.get(&id).ok_or(EventRefusal::UnknownJob(id))?;
        let service = job.record.spec.service().ok_or(EventRefusal::NoService(id))?;
        Ok(bounds::check_service(&Service { replicas, ..service.clone() })?)
    }

    fn validate_target(
        &self,
        target: CommandTarget,
        verb: TargetAction,
    ) -> Result<(), EventRefusal> {
        let job = self.jobs.get(&target.job).ok_or(EventRefusal::UnknownJob(target.job))?;
        let Some(index) = target.index else { return Ok(()) };
        let id = ElementId { job: target.job, index };
        let ordinal = job.record.ordinal_of(index).ok_or(EventRefusal::UnknownElement(id))?;
        match (element_phase(&job.record, ordinal), verb) {
            (
                ElementStand::Ended,
                TargetAction::Cancel | TargetAction::Hold | TargetAction::Release,
            ) => Err(EventRefusal::Ended(id)),
            (ElementStand::Active, TargetAction::Hold | TargetAction::Release) => {
                Err(EventRefusal::NotWaiting(id))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy)]
enum TargetAction {
    Hold,
    Release,
    Cancel,
    Requeue,
}

enum ElementStand {
    Waiting,
    Active,
    Ended,
}

fn element_phase(record: &JobRecord, ordinal: u32) -> ElementStand {
    match record.elements.get(&ordinal).map(|element| &element.phase) {
        Some(Phase::Waiting { .. }) => ElementStand::Waiting,
        Some(Phase::Active) => ElementStand::Active,
        Some(Phase::Ended { .. }) => ElementStand::Ended,
        None if record.rest.as_ref().is_some_and(|rest| ordinal >= rest.from) => {
            ElementStand::Ended
        }
        None => ElementStand::Waiting,
    }
}

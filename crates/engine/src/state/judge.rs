//! Would an event be accepted? Reads only. What is refused here never reaches the journal.

use std::sync::Arc;

use muster_model::job::JobSpec;
use muster_model::reason::Reason;
use muster_model::{DeviceSet, ElementId, Event, JobId, NodeName, Replicas, Service, Target};
use muster_policy::Policy;

use super::State;
use super::depend::Satisfaction;
use super::job::{JobRecord, Phase};
use crate::bounds;
use crate::explain::{domains, gap};
use crate::plan::idle;
use crate::refusal::Refusal;

impl State {
    pub(crate) fn judge(&self, event: &Event) -> Result<(), Refusal> {
        match event {
            Event::NodeJoined(spec) if spec.devices.len() > DeviceSet::MAX_DEVICES => {
                Err(Refusal::TooManyDevices {
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
            | Event::ForeignUse { node, .. } => self.judge_node(node),
            Event::DrainSet { node, devices, .. } => self.judge_devices(node, *devices),
            Event::QueuesSet(tree) => {
                Policy::new((**tree).clone()).map(|_| ()).map_err(Refusal::from)
            }
            Event::Submitted { job, spec } => self.judge_submission(*job, spec),
            Event::Hold(target) | Event::AdminHold { target, .. } => {
                self.judge_target(*target, Verb::Hold)
            }
            Event::AdminRelease { target, .. } => self.judge_target(*target, Verb::Release),
            Event::Release(target) => {
                self.judge_target(*target, Verb::Release)?;
                self.admin_hold(*target).map_or(Ok(()), |hold| {
                    Err(Refusal::HeldByAdmin { target: *target, by: hold.by.clone() })
                })
            }
            Event::Cancel { target, .. } => self.judge_target(*target, Verb::Cancel),
            Event::Requeue(target) => self.judge_target(*target, Verb::Requeue),
            Event::Checkpoint(target) => self.judge_checkpoint(*target),
            Event::Scaled { job, replicas, .. } => self.judge_scale(*job, *replicas),
            Event::WindowSet(window) => self.judge_window(window),
            Event::WindowPlaced { window, .. } | Event::WindowDropped { window, .. } => {
                self.judge_drop(window)
            }
        }
    }

    pub(super) fn judge_node(&self, node: &NodeName) -> Result<(), Refusal> {
        match self.pool.find(node) {
            Some(_) => Ok(()),
            None => Err(Refusal::UnknownNode(node.clone())),
        }
    }

    fn judge_devices(&self, name: &NodeName, devices: Option<DeviceSet>) -> Result<(), Refusal> {
        self.judge_node(name)?;
        let node = self.pool.find(name).map(|id| self.pool.node(id));
        let known = node.map_or(0, |node| node.spec.devices.len());
        let beyond = devices.unwrap_or_default().minus(DeviceSet::first(known)).iter().next();
        match beyond {
            None => Ok(()),
            Some(device) => Err(Refusal::UnknownDevice { node: name.clone(), device, known }),
        }
    }

    fn judge_submission(&self, id: JobId, spec: &JobSpec) -> Result<(), Refusal> {
        if self.jobs.contains_key(&id) || self.recent.get(id).is_some() {
            return Err(Refusal::JobExists(id));
        }
        for dependency in &spec.after {
            if dependency.job >= id {
                return Err(Refusal::DependencyCycle { job: id, on: dependency.job });
            }
            if self.satisfaction(dependency) == Satisfaction::Unknown {
                return Err(Refusal::UnknownDependency(dependency.job));
            }
        }
        self.judge_spec(spec)?;
        self.judge_one_more(spec, &[])
    }

    /// Has its user room for one more job that waits, beside those of the same submission before
    /// it?
    pub(crate) fn judge_one_more(
        &self,
        spec: &JobSpec,
        before: &[Arc<JobSpec>],
    ) -> Result<(), Refusal> {
        let leaf = self
            .policy
            .leaf(&spec.queue)
            .ok_or_else(|| Refusal::UnknownQueue(spec.queue.clone()))?;
        let own = before.iter().filter(|other| other.user == spec.user);
        let beside: Vec<_> = own.filter_map(|other| self.policy.leaf(&other.queue)).collect();
        self.policy.judge_one_more(leaf, &spec.user, &beside).map_err(Refusal::TooMany)
    }

    /// Could a job like this ever start?
    pub(crate) fn judge_spec(&self, spec: &JobSpec) -> Result<(), Refusal> {
        bounds::judge(spec)?;
        if spec.min_tasks() == 0 || spec.element_count() == 0 {
            return Err(Refusal::NoTasks);
        }
        let leaf = self
            .policy
            .leaf(&spec.queue)
            .ok_or_else(|| Refusal::UnknownQueue(spec.queue.clone()))?;
        self.policy.judge_submission(leaf, spec).map_err(Refusal::Never)?;
        self.judge_inside(spec)?;
        let known = self
            .classes
            .find(spec)
            .and_then(|class| self.classes.known_fit(class, self.pool.epoch()));
        if known == Some(true) {
            return Ok(());
        }
        let shape = self.shape_of(spec);
        match idle::fits_idle(&self.pool, &shape) {
            true => Ok(()),
            false => {
                let inside = shape.window.as_ref().map(|window| self.pool.inside(window));
                let pool = inside.as_ref().unwrap_or(&self.pool);
                let gap = gap::when_idle(pool, self.policy.models(), &shape);
                let together = domains::when_idle(pool, &shape).filter(|_| !gap::is_short(&gap));
                let reason =
                    together.map_or(Reason::NeverFits(Box::new(gap)), Reason::NeverInTopology);
                Err(Refusal::Never(reason))
            }
        }
    }

    fn judge_checkpoint(&self, target: Target) -> Result<(), Refusal> {
        let job = self.jobs.get(&target.job).ok_or(Refusal::UnknownJob(target.job))?;
        if let Some(index) = target.index {
            let id = ElementId { job: target.job, index };
            job.record.ordinal_of(index).ok_or(Refusal::UnknownElement(id))?;
        }
        if job.record.spec.checkpoint.is_none() {
            return Err(Refusal::NoCheckpoint(target.job));
        }
        match job.record.running(target).is_empty() {
            true => Err(Refusal::NotRunning(target)),
            false => Ok(()),
        }
    }

    fn judge_scale(&self, id: JobId, replicas: Replicas) -> Result<(), Refusal> {
        let job = self.jobs.get(&id).ok_or(Refusal::UnknownJob(id))?;
        let service = job.record.spec.service().ok_or(Refusal::NoService(id))?;
        Ok(bounds::judge_service(&Service { replicas, ..service.clone() })?)
    }

    fn judge_target(&self, target: Target, verb: Verb) -> Result<(), Refusal> {
        let job = self.jobs.get(&target.job).ok_or(Refusal::UnknownJob(target.job))?;
        let Some(index) = target.index else { return Ok(()) };
        let id = ElementId { job: target.job, index };
        let ordinal = job.record.ordinal_of(index).ok_or(Refusal::UnknownElement(id))?;
        match (element_phase(&job.record, ordinal), verb) {
            (Stand::Ended, Verb::Cancel | Verb::Hold | Verb::Release) => Err(Refusal::Ended(id)),
            (Stand::Active, Verb::Hold | Verb::Release) => Err(Refusal::NotWaiting(id)),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy)]
enum Verb {
    Hold,
    Release,
    Cancel,
    Requeue,
}

enum Stand {
    Waiting,
    Active,
    Ended,
}

fn element_phase(record: &JobRecord, ordinal: u32) -> Stand {
    match record.elements.get(&ordinal).map(|element| &element.phase) {
        Some(Phase::Waiting { .. }) => Stand::Waiting,
        Some(Phase::Active) => Stand::Active,
        Some(Phase::Ended { .. }) => Stand::Ended,
        None if record.rest.as_ref().is_some_and(|rest| ordinal >= rest.from) => Stand::Ended,
        None => Stand::Waiting,
    }
}

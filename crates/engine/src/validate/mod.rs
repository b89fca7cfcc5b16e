//! Validation of events. Read-only. A refused event never reaches the journal.

mod advance_reservation;

use std::sync::Arc;

use muster_model::job::JobSpec;
use muster_model::reason::{Limiting, Reason};
use muster_model::{
    CommandTarget, DeviceSet, ElementId, Event, JobId, NodeName, Replicas, Service,
};
use muster_policy::Policy;

use crate::bounds;
use crate::place::feasibility;
use crate::place::gap::{self, domains};
use crate::pool::Pool;
use crate::refusal::EventRefusal;
use crate::state::State;
use crate::state::dependencies::Satisfaction;
use crate::state::job::{JobRecord, Phase};
use advance_reservation::{validate_drop, validate_reservation, validate_use_of_reservation};

pub(crate) fn validate_event(state: &State, event: &Event) -> Result<(), EventRefusal> {
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
        | Event::RunningSince { .. }
        | Event::StartOverdue { .. }
        | Event::StopEarly { .. }
        | Event::GpusIdle { .. }
        | Event::EvictionDue { .. } => Ok(()),
        Event::NodeLost { node, .. }
        | Event::NodeDrained { node, .. }
        | Event::ForeignUse { node, .. } => validate_node(state, node),
        Event::DrainSet { node, devices, .. } => validate_devices(state, node, *devices),
        Event::QueuesSet(tree) => {
            Policy::new((**tree).clone()).map(|_| ()).map_err(EventRefusal::from)
        }
        Event::Submitted { job, spec } => validate_submission(state, *job, spec),
        Event::Hold(target) | Event::AdminHold { target, .. } => {
            validate_target(state, *target, TargetAction::Hold)
        }
        Event::AdminRelease { target, .. } => {
            validate_target(state, *target, TargetAction::Release)
        }
        Event::Release(target) => {
            validate_target(state, *target, TargetAction::Release)?;
            state.jobs.admin_hold(*target).map_or(Ok(()), |hold| {
                Err(EventRefusal::HeldByAdmin { target: *target, by: hold.by.clone() })
            })
        }
        Event::Cancel { target, .. } => validate_target(state, *target, TargetAction::Cancel),
        Event::Requeue(target) => validate_target(state, *target, TargetAction::Requeue),
        Event::Checkpoint(target) => validate_checkpoint(state, *target),
        Event::Scaled { job, replicas, .. } => validate_scale(state, *job, *replicas),
        Event::AdvanceReservationSet(reservation) => validate_reservation(state, reservation),
        Event::AdvanceReservationPlaced { advance_reservation: reservation, .. }
        | Event::AdvanceReservationRemoved { advance_reservation: reservation, .. } => {
            validate_drop(state, reservation)
        }
    }
}

pub(crate) fn validate_node(state: &State, node: &NodeName) -> Result<(), EventRefusal> {
    match state.pool.find(node) {
        Some(_) => Ok(()),
        None => Err(EventRefusal::UnknownNode(node.clone())),
    }
}

fn validate_devices(
    state: &State,
    name: &NodeName,
    devices: Option<DeviceSet>,
) -> Result<(), EventRefusal> {
    validate_node(state, name)?;
    let node = state.pool.find(name).map(|id| state.pool.node(id));
    let known = node.map_or(0, |node| node.spec.devices.len());
    let beyond = devices.unwrap_or_default().minus(DeviceSet::first(known)).iter().next();
    match beyond {
        None => Ok(()),
        Some(device) => Err(EventRefusal::UnknownDevice { node: name.clone(), device, known }),
    }
}

fn validate_submission(state: &State, id: JobId, spec: &JobSpec) -> Result<(), EventRefusal> {
    if state.jobs.contains_key(&id) || state.dependencies.recent.get(id).is_some() {
        return Err(EventRefusal::JobExists(id));
    }
    for dependency in &spec.after {
        if dependency.job >= id {
            return Err(EventRefusal::DependencyCycle { job: id, on: dependency.job });
        }
        if state.dependencies.satisfaction(&state.jobs, dependency) == Satisfaction::Unknown {
            return Err(EventRefusal::UnknownDependency(dependency.job));
        }
    }
    validate_spec(state, spec)?;
    validate_one_more(state, spec, &[])
}

/// Checks whether the user may have one more waiting job, counting the earlier jobs of the same
/// submission.
pub(crate) fn validate_one_more(
    state: &State,
    spec: &JobSpec,
    before: &[Arc<JobSpec>],
) -> Result<(), EventRefusal> {
    let leaf = state
        .policy
        .queues()
        .leaf(&spec.queue)
        .ok_or_else(|| EventRefusal::UnknownQueue(spec.queue.clone()))?;
    let own = before.iter().filter(|other| other.user == spec.user);
    let beside: Vec<_> = own.filter_map(|other| state.policy.queues().leaf(&other.queue)).collect();
    state
        .policy
        .check_pending_limit(leaf, &spec.user, &beside)
        .map_err(EventRefusal::TooManyPending)
}

/// Checks whether a job like this could ever start.
pub(crate) fn validate_spec(state: &State, spec: &JobSpec) -> Result<(), EventRefusal> {
    bounds::check_bounds(spec)?;
    if spec.min_tasks() == 0 || spec.element_count() == 0 {
        return Err(EventRefusal::NoTasks);
    }
    let leaf = state
        .policy
        .queues()
        .leaf(&spec.queue)
        .ok_or_else(|| EventRefusal::UnknownQueue(spec.queue.clone()))?;
    state.policy.check_submission(leaf, spec).map_err(EventRefusal::NeverStarts)?;
    validate_use_of_reservation(state, spec)?;
    let known = state
        .classes
        .find(spec)
        .and_then(|class| state.classes.known_fit(class, state.pool.epoch()));
    if known == Some(true) {
        return Ok(());
    }
    let shape = state.shape_of(spec);
    if feasibility::fits_empty_cluster(&state.pool, &shape) {
        return Ok(());
    }
    let inside = shape.reservation.as_ref().map(|reservation| state.pool.copy_inside(reservation));
    let pool = inside.as_ref().unwrap_or(&state.pool);
    let mut gap = gap::when_idle(pool, state.policy.models(), &shape);
    if let Some(extra) = unknown_extra(pool, spec) {
        gap.limiting = extra;
    }
    let together = domains::when_idle(pool, &shape).filter(|_| !gap::is_short(&gap));
    let reason = together.map_or(Reason::NeverFits(Box::new(gap)), Reason::NeverInTopology);
    Err(EventRefusal::NeverStarts(reason))
}

/// Returns the first extra resource of a job that no node has ever had.
fn unknown_extra(pool: &Pool, spec: &JobSpec) -> Option<Limiting> {
    let mut extras = spec.groups.iter().flat_map(|group| &group.task.extras);
    let (name, asked) = extras.find(|(name, _)| pool.find_extra(name).is_none())?;
    Some(Limiting::Extra { name: Arc::clone(name), asked: *asked, free: 0 })
}

fn validate_checkpoint(state: &State, target: CommandTarget) -> Result<(), EventRefusal> {
    let job = state.jobs.get(&target.job).ok_or(EventRefusal::UnknownJob(target.job))?;
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

fn validate_scale(state: &State, id: JobId, replicas: Replicas) -> Result<(), EventRefusal> {
    let job = state.jobs.get(&id).ok_or(EventRefusal::UnknownJob(id))?;
    let service = job.record.spec.service().ok_or(EventRefusal::NoService(id))?;
    Ok(bounds::check_service(&Service { replicas, ..service.clone() })?)
}

fn validate_target(
    state: &State,
    target: CommandTarget,
    verb: TargetAction,
) -> Result<(), EventRefusal> {
    let job = state.jobs.get(&target.job).ok_or(EventRefusal::UnknownJob(target.job))?;
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

//! Random jobs of a run and the behaviour of their programs: gangs, several groups, arrays, GPU
//! shares, services, dependencies, limits, restarts.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::payload::{Identity, TaskCommand};
use muster_model::{
    AdvanceReservationName, AfterCheckpoint, Array, Bytes, Checkpoint, CheckpointBy, CpuMilli,
    Dependency, DependencyKind, GpuMilli, JobId, JobSpec, Notebook, Payload, Protection, QueueTree,
    Replicas, Restart, Segment, Service, Span, TaskExit, TaskGroup, Time, Topology, TopologyRule,
    WorkloadKind,
};
use muster_runtime::JobDraft;

use super::ledger::reservations::Reservations;
use super::site::{MODELS, leaves};
use crate::rng::SeededRng;
use crate::scenario::command::ScriptedBehaviour;

/// Users of every run.
pub(crate) const USERS: [&str; 3] = ["ann", "bob", "cy"];

/// Returns a job of `user` with a unique name.
pub(crate) fn draft(
    rng: &mut SeededRng,
    pattern: &JobSpec,
    (tree, reservations): (&QueueTree, &Reservations),
    now: Time,
    next: JobId,
    (name, user): (&str, &str),
) -> JobDraft {
    let mut spec = pattern.clone();
    (spec.name, spec.user) = (name.into(), user.into());
    shape(rng, &mut spec);
    terms(rng, &mut spec, now);
    if rng.chance(6) {
        notebook(rng, &mut spec);
    }
    if !reservations.is_empty() && rng.chance(25) {
        let names: Vec<AdvanceReservationName> = reservations.keys().cloned().collect();
        spec.constraint.advance_reservation = Some(rng.pick(&names).clone());
        spec.time_limit = Some(Span::from_secs(rng.between(2, 40)));
    }
    spec.queue = rng.pick(&leaves(tree)).clone();
    if rng.chance(20) && next.0 > 1 {
        use DependencyKind::{After, AfterAny, AfterNotOk, AfterOk};
        for _ in 0..rng.between(1, 2) {
            let kind = *rng.pick(&[After, AfterAny, AfterOk, AfterOk, AfterNotOk]);
            let back = rng.between(1, 8).min(next.0 - 1);
            spec.after.push(Dependency { kind, job: JobId(next.0 - back) });
        }
    }
    let commands = spec
        .groups
        .iter()
        .map(|group| (group.name.clone(), TaskCommand::Script("work".to_owned())));
    let payload = Payload {
        commands: commands.collect(),
        env: BTreeMap::new(),
        workdir: "/".into(),
        umask: 0,
        identity: Identity { user: user.into(), uid: 1000, gid: 1000 },
        interactive: false,
        files: muster_model::OutputFiles::default(),
        sweep: None,
        notices: Vec::new(),
        environment: muster_model::TaskEnvironment::default(),
    };
    JobDraft { spec, payload, after: Vec::new() }
}

/// Turns the job into a notebook of one task.
fn notebook(rng: &mut SeededRng, spec: &mut JobSpec) {
    spec.groups.truncate(1);
    for group in &mut spec.groups {
        (group.min_tasks, group.max_tasks, group.tasks_per_node) = (1, 1, None);
    }
    (spec.array, spec.constraint.topology) = (None, None);
    let idle = rng.chance(70).then(|| Span::from_secs(rng.between(60, 100)));
    spec.kind = WorkloadKind::Notebook(Notebook { idle });
}

/// Turns the job into a service, which runs until it is cancelled and mostly restarts when it ends.
pub(crate) fn service(rng: &mut SeededRng, spec: &mut JobSpec) {
    let port = rng.chance(30).then_some(8000);
    spec.kind = WorkloadKind::Service(Service { replicas: replicas(rng), port });
    (spec.array, spec.protect) = (None, Protection::None);
    spec.restart = match rng.roll(6) {
        0 => Restart::NEVER,
        1 => Restart { max_restarts: 3, ..Restart::ALWAYS },
        _ => Restart::ALWAYS,
    };
    // A job in a reservation must end with it.
    if spec.constraint.advance_reservation.is_none() && rng.chance(70) {
        spec.time_limit = None;
    }
}

/// Returns a random range of replicas.
pub(crate) fn replicas(rng: &mut SeededRng) -> Replicas {
    let floor = rng.roll(4) as u32;
    Replicas { guaranteed: floor, max: (floor + rng.roll(4) as u32).max(1) }
}

/// Chooses the resources that the job requests.
fn shape(rng: &mut SeededRng, spec: &mut JobSpec) {
    let Some(pattern) = spec.groups.first().cloned() else { return };
    spec.groups = vec![group(rng, &pattern, "one")];
    if rng.chance(15) {
        spec.groups.push(group(rng, &pattern, "two"));
    }
    if rng.chance(15) {
        let last = if rng.chance(20) { rng.roll(40) } else { rng.roll(6) } as u32;
        let max_running = rng.chance(50).then(|| rng.between(1, 4) as u32);
        spec.array = Some(Array::range(0, last, rng.between(1, 2) as u32, max_running));
    }
    if rng.chance(10) {
        spec.constraint.labels.insert("zone".into(), (*rng.pick(&["east", "west"])).into());
    }
    if rng.chance(5) {
        spec.constraint.exclude.push("n5".into());
    }
    spec.constraint.topology = rng.chance(15).then(|| random_topology(rng, &spec.groups));
}

/// Chooses a topology constraint; segments only where they divide every group.
fn random_topology(rng: &mut SeededRng, groups: &[TaskGroup]) -> Topology {
    let level: Arc<str> = (*rng.pick(&["block", "leaf", "leaf", Topology::NODE])).into();
    let rule = match rng.roll(8) {
        0..=3 => TopologyRule::Required(level),
        4 | 5 => TopologyRule::Preferred(level),
        6 => TopologyRule::Spread(level),
        _ => TopologyRule::Anywhere,
    };
    let divides = |group: &TaskGroup| {
        group.min_tasks.is_multiple_of(2) && 2u32.is_multiple_of(group.tasks_per_node.unwrap_or(1))
    };
    let may_slice = groups.iter().all(divides) && !matches!(rule, TopologyRule::Spread(_));
    let segment = (may_slice && rng.chance(50)).then(|| Segment { tasks: 2, level: "leaf".into() });
    Topology { rule, segment }
}

fn group(rng: &mut SeededRng, pattern: &TaskGroup, name: &str) -> TaskGroup {
    let mut gpu = match rng.roll(10) {
        0..=5 => GpuRequest::whole(*rng.pick(&[1, 1, 1, 2, 4, 8])),
        6 | 7 => GpuRequest {
            share: GpuMilli(*rng.pick(&[100, 250, 500, 700])),
            ..GpuRequest::default()
        },
        _ => GpuRequest::default(),
    };
    if !gpu.is_none() && rng.chance(40) {
        gpu.models.push((*rng.pick(&MODELS)).into());
        if rng.chance(40) {
            gpu.models.push((*rng.pick(&MODELS[..2])).into());
            gpu.models.dedup();
        }
    }
    let tasks: u32 = *rng.pick(&[1, 1, 1, 2, 3, 4, 6]);
    let per_node =
        rng.chance(25).then(|| *rng.pick(&[1, 2])).filter(|block| tasks.is_multiple_of(*block));
    let mut task =
        Resources { gpu, cpus: CpuMilli(*rng.pick(&[0, 500, 1000, 3000])), ..Resources::default() };
    task.memory = Bytes(*rng.pick(&[0, 0, 10, 60]));
    if rng.chance(10) {
        task.extras.insert("nic".into(), 1);
    }
    let mut group = pattern.clone();
    (group.name, group.task) = (name.into(), task);
    (group.min_tasks, group.max_tasks, group.tasks_per_node) = (tasks, tasks, per_node);
    group
}

/// Chooses priority, limits, restarts, checkpoints and other terms.
fn terms(rng: &mut SeededRng, spec: &mut JobSpec, now: Time) {
    spec.priority = *rng.pick(&[0, 0, 0, 3, 5]);
    spec.time_limit = rng.chance(85).then(|| Span::from_secs(rng.between(5, 120)));
    spec.grace = Span(*rng.pick(&[0, 500, 5_000]));
    spec.restart = if rng.chance(40) {
        Restart {
            on_failure: rng.chance(70),
            max_restarts: rng.roll(4) as u32,
            backoff: Span::from_secs(*rng.pick(&[1, 10])),
            always: false,
        }
    } else {
        Restart::NEVER
    };
    spec.checkpoint = rng.chance(35).then(|| Checkpoint {
        signal: 10,
        lead: Span::from_secs(rng.between(1, 20)),
        by: *rng.pick(&[CheckpointBy::First, CheckpointBy::All]),
        then: *rng.pick(&[AfterCheckpoint::Continue, AfterCheckpoint::Requeue]),
        to: Default::default(),
    });
    if rng.chance(10) {
        spec.protect = super::site::protection(rng);
    }
    spec.held = rng.chance(5);
    spec.begin = rng.chance(8).then(|| now + Span::from_secs(rng.roll(120)));
}

/// Chooses the behaviour of the job's programs.
pub(crate) fn behaviour(rng: &mut SeededRng, kind: &WorkloadKind) -> ScriptedBehaviour {
    let exit = match rng.roll(20) {
        0 | 1 => TaskExit::Code { code: rng.between(1, 255) as i32 },
        2 => TaskExit::Signal { signal: 11 },
        3 => TaskExit::OutOfMemory,
        _ => TaskExit::Code { code: 0 },
    };
    let exit = match kind {
        WorkloadKind::Notebook(Notebook { idle: Some(after) }) if rng.chance(60) => {
            TaskExit::Idle { after: *after }
        }
        _ => exit,
    };
    let lasts = (!rng.chance(8)).then(|| Span(rng.between(1, 120_000)));
    let lasts = lasts.filter(|_| !matches!(kind, WorkloadKind::Service(_)) || rng.chance(50));
    ScriptedBehaviour { lasts, exit, stubborn: rng.chance(30) }
}

//! Jobs of a story and how their programs behave: gangs, several groups, arrays, shares, services,
//! dependencies, limits, restarts. Chosen by dice; it does not know what becomes of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::payload::{Command, Identity};
use muster_model::{
    AfterCheckpoint, Array, Bytes, Checkpoint, CheckpointBy, CpuMilli, Dependency, DependencyKind,
    GpuMilli, JobId, JobSpec, Kind, Notebook, Payload, Protection, QueueTree, Replicas, Restart,
    Segment, Service, Span, TaskExit, TaskGroup, Time, Topology, TopologyRule, WindowName,
};
use muster_runtime::Draft;

use super::site::{MODELS, leaves};
use super::windows::Windows;
use crate::dice::Dice;
use crate::scenario::command::Conduct;

/// Users of every story.
pub(crate) const USERS: [&str; 3] = ["ann", "bob", "cy"];

/// A job of `user`, named so that it is known again.
pub(crate) fn draft(
    dice: &mut Dice,
    pattern: &JobSpec,
    (tree, windows): (&QueueTree, &Windows),
    now: Time,
    next: JobId,
    (name, user): (&str, &str),
) -> Draft {
    let mut spec = pattern.clone();
    (spec.name, spec.user) = (name.into(), user.into());
    shape(dice, &mut spec);
    terms(dice, &mut spec, now);
    if dice.chance(6) {
        notebook(dice, &mut spec);
    }
    if !windows.is_empty() && dice.chance(25) {
        let names: Vec<WindowName> = windows.keys().cloned().collect();
        spec.constraint.window = Some(dice.pick(&names).clone());
        spec.time_limit = Some(Span::from_secs(dice.between(2, 40)));
    }
    spec.queue = dice.pick(&leaves(tree)).clone();
    if dice.chance(20) && next.0 > 1 {
        use DependencyKind::{After, AfterAny, AfterNotOk, AfterOk};
        for _ in 0..dice.between(1, 2) {
            let kind = *dice.pick(&[After, AfterAny, AfterOk, AfterOk, AfterNotOk]);
            let back = dice.between(1, 8).min(next.0 - 1);
            spec.after.push(Dependency { kind, job: JobId(next.0 - back) });
        }
    }
    let commands =
        spec.groups.iter().map(|group| (group.name.clone(), Command::Script("work".to_owned())));
    let payload = Payload {
        commands: commands.collect(),
        env: BTreeMap::new(),
        workdir: "/".into(),
        umask: 0,
        identity: Identity { user: user.into(), uid: 1000, gid: 1000 },
        interactive: false,
        files: muster_model::OutputFiles::default(),
    };
    Draft { spec, payload, after: Vec::new() }
}

/// One task that a person works in, or does not.
fn notebook(dice: &mut Dice, spec: &mut JobSpec) {
    spec.groups.truncate(1);
    for group in &mut spec.groups {
        (group.min_tasks, group.max_tasks, group.tasks_per_node) = (1, 1, None);
    }
    (spec.array, spec.constraint.topology) = (None, None);
    let idle = dice.chance(70).then(|| Span::from_secs(dice.between(60, 100)));
    spec.kind = Kind::Notebook(Notebook { idle });
}

/// It answers until somebody cancels it, and comes back when it ends.
pub(crate) fn service(dice: &mut Dice, spec: &mut JobSpec) {
    let port = dice.chance(30).then_some(8000);
    spec.kind = Kind::Service(Service { replicas: replicas(dice), port });
    (spec.array, spec.protect) = (None, Protection::None);
    spec.restart = match dice.roll(6) {
        0 => Restart::NEVER,
        1 => Restart { max_restarts: 3, ..Restart::ALWAYS },
        _ => Restart::ALWAYS,
    };
    // Who runs in a window must end with it.
    if spec.constraint.window.is_none() && dice.chance(70) {
        spec.time_limit = None;
    }
}

/// How many replicas a service has, and how many more when there is room.
pub(crate) fn replicas(dice: &mut Dice) -> Replicas {
    let floor = dice.roll(4) as u32;
    Replicas { floor, ceiling: (floor + dice.roll(4) as u32).max(1) }
}

/// What it needs.
fn shape(dice: &mut Dice, spec: &mut JobSpec) {
    let Some(pattern) = spec.groups.first().cloned() else { return };
    spec.groups = vec![group(dice, &pattern, "one")];
    if dice.chance(15) {
        spec.groups.push(group(dice, &pattern, "two"));
    }
    if dice.chance(15) {
        let last = if dice.chance(20) { dice.roll(40) } else { dice.roll(6) } as u32;
        let max_running = dice.chance(50).then(|| dice.between(1, 4) as u32);
        spec.array = Some(Array::range(0, last, dice.between(1, 2) as u32, max_running));
    }
    if dice.chance(10) {
        spec.constraint.labels.insert("zone".into(), (*dice.pick(&["east", "west"])).into());
    }
    if dice.chance(5) {
        spec.constraint.exclude.push("n5".into());
    }
    spec.constraint.topology = dice.chance(15).then(|| wish(dice, &spec.groups));
}

/// How its tasks are to lie to each other; slices only where they divide its groups.
fn wish(dice: &mut Dice, groups: &[TaskGroup]) -> Topology {
    let level: Arc<str> = (*dice.pick(&["block", "leaf", "leaf", Topology::NODE])).into();
    let rule = match dice.roll(8) {
        0..=3 => TopologyRule::Required(level),
        4 | 5 => TopologyRule::Preferred(level),
        6 => TopologyRule::Spread(level),
        _ => TopologyRule::Anywhere,
    };
    let divides = |group: &TaskGroup| {
        group.min_tasks.is_multiple_of(2) && 2u32.is_multiple_of(group.tasks_per_node.unwrap_or(1))
    };
    let may_slice = groups.iter().all(divides) && !matches!(rule, TopologyRule::Spread(_));
    let segment =
        (may_slice && dice.chance(50)).then(|| Segment { tasks: 2, level: "leaf".into() });
    Topology { rule, segment }
}

fn group(dice: &mut Dice, pattern: &TaskGroup, name: &str) -> TaskGroup {
    let mut gpu = match dice.roll(10) {
        0..=5 => GpuRequest::whole(*dice.pick(&[1, 1, 1, 2, 4, 8])),
        6 | 7 => GpuRequest {
            share: GpuMilli(*dice.pick(&[100, 250, 500, 700])),
            ..GpuRequest::default()
        },
        _ => GpuRequest::default(),
    };
    if !gpu.is_none() && dice.chance(40) {
        gpu.models.push((*dice.pick(&MODELS)).into());
        if dice.chance(40) {
            gpu.models.push((*dice.pick(&MODELS[..2])).into());
            gpu.models.dedup();
        }
    }
    let tasks: u32 = *dice.pick(&[1, 1, 1, 2, 3, 4, 6]);
    let per_node =
        dice.chance(25).then(|| *dice.pick(&[1, 2])).filter(|block| tasks.is_multiple_of(*block));
    let mut task = Resources {
        gpu,
        cpus: CpuMilli(*dice.pick(&[0, 500, 1000, 3000])),
        ..Resources::default()
    };
    task.memory = Bytes(*dice.pick(&[0, 0, 10, 60]));
    if dice.chance(10) {
        task.extras.insert("nic".into(), 1);
    }
    let mut group = pattern.clone();
    (group.name, group.task) = (name.into(), task);
    (group.min_tasks, group.max_tasks, group.tasks_per_node) = (tasks, tasks, per_node);
    group
}

/// How it wants to be treated.
fn terms(dice: &mut Dice, spec: &mut JobSpec, now: Time) {
    spec.priority = *dice.pick(&[0, 0, 0, 3, 5]);
    spec.time_limit = dice.chance(85).then(|| Span::from_secs(dice.between(5, 120)));
    spec.grace = Span(*dice.pick(&[0, 500, 5_000]));
    spec.restart = match dice.chance(40) {
        true => Restart {
            on_failure: dice.chance(70),
            max_restarts: dice.roll(4) as u32,
            backoff: Span::from_secs(*dice.pick(&[1, 10])),
            always: false,
        },
        false => Restart::NEVER,
    };
    spec.checkpoint = dice.chance(35).then(|| Checkpoint {
        signal: 10,
        lead: Span::from_secs(dice.between(1, 20)),
        by: *dice.pick(&[CheckpointBy::First, CheckpointBy::All]),
        then: *dice.pick(&[AfterCheckpoint::Continue, AfterCheckpoint::Requeue]),
        to: Default::default(),
    });
    if dice.chance(10) {
        spec.protect = super::site::protection(dice);
    }
    spec.held = dice.chance(5);
    spec.begin = dice.chance(8).then(|| now + Span::from_secs(dice.roll(120)));
}

/// How its programs behave.
pub(crate) fn conduct(dice: &mut Dice, kind: &Kind) -> Conduct {
    let exit = match dice.roll(20) {
        0 | 1 => TaskExit::Code { code: dice.between(1, 255) as i32 },
        2 => TaskExit::Signal { signal: 11 },
        3 => TaskExit::OutOfMemory,
        _ => TaskExit::Code { code: 0 },
    };
    let exit = match kind {
        Kind::Notebook(Notebook { idle: Some(after) }) if dice.chance(60) => {
            TaskExit::Idle { after: *after }
        }
        _ => exit,
    };
    let lasts = (!dice.chance(8)).then(|| Span(dice.between(1, 120_000)));
    let lasts = lasts.filter(|_| !matches!(kind, Kind::Service(_)) || dice.chance(50));
    Conduct { lasts, exit, stubborn: dice.chance(30) }
}

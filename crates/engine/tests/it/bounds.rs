//! Jobs that `spec` would never let pass: refused in words, with everything that reads a spec still
//! standing.

use std::sync::Arc;

use muster_engine::Refusal;
use muster_model::job::TaskGroup;
use muster_model::{Array, CpuMilli, Event, GpuMilli, JobId, JobSpec, Span};

use crate::world::{World, job, node};

/// Judges a job of two tasks with a GPU each, changed by `edit`; `""` is accepted.
#[track_caller]
fn check(edit: impl FnOnce(&mut JobSpec), expected: &str) {
    let mut world = World::new(&[node("a", 8)]);
    let spec = Arc::new(job("odd").tasks(2).gpus(1).with(edit).spec);
    // Explaining must stand it, too.
    let _explanation = world.engine.explain_submission(world.now, &spec);
    let event = Event::Submitted { job: JobId(1), spec };
    let refusal = world.engine.judge(&event).err();
    assert_eq!(refusal.as_ref().map(Refusal::to_string).unwrap_or_default(), expected);
    assert_eq!(matches!(refusal, Some(Refusal::Malformed(_))), !expected.is_empty());
    if expected.is_empty() {
        world.step(vec![event]);
    }
}

fn group(spec: &mut JobSpec) -> &mut TaskGroup {
    &mut spec.groups[0]
}

fn array(first: u32, last: u32, step: u32, cap: Option<u32>) -> impl FnOnce(&mut JobSpec) {
    move |spec| spec.array = Some(Array::range(first, last, step, cap))
}

#[test]
fn groups_are_within_what_the_engine_counts_with() {
    check(|_| (), "");
    check(
        |spec| group(spec).tasks_per_node = Some(0),
        "group worker has 2 tasks, which are no whole number of nodes with 0 each",
    );
    check(
        |spec| group(spec).tasks_per_node = Some(3),
        "group worker has 2 tasks, which are no whole number of nodes with 3 each",
    );
    check(|spec| group(spec).tasks_per_node = Some(2), "");
    check(
        |spec| group(spec).max_tasks = 1,
        "group worker starts with 2 tasks and may have at most 1",
    );
    check(
        |spec| (group(spec).task.gpu.devices, group(spec).task.gpu.share) = (0, GpuMilli(1000)),
        "group worker asks for 1 of a GPU; a share is at least 0.001 and at most 0.999",
    );
    check(
        |spec| (group(spec).task.gpu.devices, group(spec).task.gpu.share) = (0, GpuMilli(999)),
        "",
    );
    check(
        |spec| (group(spec).task.gpu.devices, group(spec).task.gpu.share) = (0, GpuMilli(u32::MAX)),
        "group worker asks for 4294967.295 of a GPU; a share is at least 0.001 and at most 0.999",
    );
    check(
        |spec| group(spec).task.gpu.share = GpuMilli(500),
        "group worker asks for 1 whole GPUs and 0.5 of another; a task has one or the other",
    );
    check(
        |spec| group(spec).task.gpu.devices = u32::MAX,
        "group worker asks for 4294967295 GPUs per task; at most 1048576 are supported",
    );
}

#[test]
fn sums_do_not_overflow() {
    let many = |tasks: u32| {
        move |spec: &mut JobSpec| {
            (group(spec).min_tasks, group(spec).max_tasks) = (tasks, tasks);
            group(spec).task = Default::default();
        }
    };
    check(many(u32::MAX), "the job has 4294967295 tasks; at most 1048576 are supported");
    check(
        |spec| {
            many(u32::MAX)(spec);
            let second = TaskGroup { name: "two".into(), ..spec.groups[0].clone() };
            spec.groups.push(second);
        },
        "the job has 8589934590 tasks; at most 1048576 are supported",
    );
    check(
        |spec| group(spec).max_tasks = u32::MAX,
        "the job has 4294967295 tasks; at most 1048576 are supported",
    );
    check(
        |spec| spec.groups = vec![spec.groups[0].clone(); 1025],
        "the job has 1025 groups; at most 1024 are supported",
    );
    // The largest quantities of a group that is otherwise sound are merely too much for any node.
    let mut world = World::new(&[node("a", 8)]);
    for ask in [
        job("cpus").tasks(1 << 20).with(|spec| group(spec).task.cpus = CpuMilli(u32::MAX)),
        job("memory").tasks(1 << 20).memory(u64::MAX),
        job("extras")
            .tasks(1 << 20)
            .with(|spec| spec.groups[0].task.extras.extend([("nic".into(), u64::MAX)])),
        job("gpus").tasks(1 << 20).gpus(1 << 20),
        job("blocks").tasks(1 << 20).gpus(1 << 20).per_node(1 << 20),
    ] {
        assert!(matches!(world.try_submit(ask), Err(Refusal::Never(_))));
    }
    // Durations saturate.
    check(|spec| (spec.time_limit, spec.grace) = (Some(Span(u64::MAX)), Span(u64::MAX)), "");
}

#[test]
fn arrays_have_indices_and_a_cap_that_lets_them_run() {
    check(array(0, 9, 0, None), "the array goes from 0 to 9 in steps of 0");
    check(array(5, 4, 1, None), "the array goes from 5 to 4 in steps of 1");
    check(array(0, 9, 1, Some(0)), "the array lets none of its elements run at once");
    check(
        array(0, u32::MAX, 1, None),
        "the array has 4294967296 elements; at most 2147483648 are supported",
    );
    check(array(u32::MAX - 4, u32::MAX, 2, Some(1)), "");
    check(array(7, 7, u32::MAX, None), "");
}

#[test]
fn no_groups_and_groups_without_tasks_are_no_job() {
    let mut world = World::new(&[node("a", 8)]);
    for ask in [job("none").with(|spec| spec.groups.clear()), job("empty").tasks(0)] {
        assert_eq!(world.try_submit(ask), Err(Refusal::NoTasks));
    }
}

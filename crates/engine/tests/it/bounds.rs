//! Jobs that `spec` would never accept: refused with a message, and everything that reads a spec
//! tolerates them.

use std::sync::Arc;

use muster_engine::EventRefusal;
use muster_model::job::TaskGroup;
use muster_model::{Array, CpuMilli, Event, GpuMilli, JobId, JobSpec, Span};

use crate::cluster::{TestCluster, job, node};

/// Validates a job of two tasks with a GPU each, changed by `edit`; `""` means accepted.
#[track_caller]
fn check(edit: impl FnOnce(&mut JobSpec), expected: &str) {
    let mut cluster = TestCluster::new(&[node("a", 8)]);
    let spec = Arc::new(job("odd").tasks(2).gpus(1).with(edit).spec);
    // Explaining must tolerate it, too.
    let _explanation = cluster.engine.explain_submission(cluster.now, &spec);
    let event = Event::Submitted { job: JobId(1), spec };
    let refusal = cluster.engine.validate(&event).err();
    assert_eq!(refusal.as_ref().map(EventRefusal::to_string).unwrap_or_default(), expected);
    assert_eq!(matches!(refusal, Some(EventRefusal::Malformed(_))), !expected.is_empty());
    if expected.is_empty() {
        cluster.step(vec![event]);
    }
}

fn group(spec: &mut JobSpec) -> &mut TaskGroup {
    &mut spec.groups[0]
}

fn array(first: u32, last: u32, step: u32, cap: Option<u32>) -> impl FnOnce(&mut JobSpec) {
    move |spec| spec.array = Some(Array::range(first, last, step, cap))
}

#[test]
fn groups_beyond_the_engines_limits_are_refused() {
    check(|_| (), "");
    check(
        |spec| group(spec).tasks_per_node = Some(0),
        "group worker has 2 tasks, which is not a multiple of 0 tasks per node",
    );
    check(
        |spec| group(spec).tasks_per_node = Some(3),
        "group worker has 2 tasks, which is not a multiple of 3 tasks per node",
    );
    check(|spec| group(spec).tasks_per_node = Some(2), "");
    check(
        |spec| group(spec).max_tasks = 1,
        "group worker needs at least 2 tasks but allows at most 1",
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
        "group worker asks for 1 whole GPUs and 0.5 of another; request one or the other",
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
    // The largest quantities of an otherwise valid group only exceed every node.
    let mut cluster = TestCluster::new(&[node("a", 8)]);
    for ask in [
        job("cpus").tasks(1 << 20).with(|spec| group(spec).task.cpus = CpuMilli(u32::MAX)),
        job("memory").tasks(1 << 20).memory(u64::MAX),
        job("extras")
            .tasks(1 << 20)
            .with(|spec| spec.groups[0].task.extras.extend([("nic".into(), u64::MAX)])),
        job("gpus").tasks(1 << 20).gpus(1 << 20),
        job("blocks").tasks(1 << 20).gpus(1 << 20).per_node(1 << 20),
    ] {
        assert!(matches!(cluster.try_submit(ask), Err(EventRefusal::NeverStarts(_))));
    }
    // Durations saturate.
    check(|spec| (spec.time_limit, spec.grace) = (Some(Span(u64::MAX)), Span(u64::MAX)), "");
}

#[test]
fn arrays_without_indices_or_with_a_limit_of_zero_are_refused() {
    check(
        array(0, 9, 0, None),
        "the array range 0 to 9 with step 0 is empty or overlaps an earlier one",
    );
    check(
        array(5, 4, 1, None),
        "the array range 5 to 4 with step 1 is empty or overlaps an earlier one",
    );
    check(array(0, 9, 1, Some(0)), "the array limits running elements to 0; the minimum is 1");
    check(
        array(0, u32::MAX, 1, None),
        "the array has 4294967296 elements; at most 2147483648 are supported",
    );
    check(array(u32::MAX - 4, u32::MAX, 2, Some(1)), "");
    check(array(7, 7, u32::MAX, None), "");
}

#[test]
fn jobs_without_groups_or_tasks_are_refused() {
    let mut cluster = TestCluster::new(&[node("a", 8)]);
    for ask in [job("none").with(|spec| spec.groups.clear()), job("empty").tasks(0)] {
        assert_eq!(cluster.try_submit(ask), Err(EventRefusal::NoTasks));
    }
}

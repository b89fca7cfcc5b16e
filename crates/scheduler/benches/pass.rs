//! Time of a pass of the scheduler in a large cluster: 5,000 nodes of 8 GPUs, 40,000 pods that run and
//! 10,000 that wait. One pod ends, and another takes its GPU. And beside 100,000 suspended Jobs: one more
//! is created. The memory that both take is printed.

#![allow(clippy::unwrap_used, reason = "a bench may stop at an unexpected value")]
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock and its memory")]

use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use muster_kubernetes::group::{GroupKind, GroupText};
use muster_kubernetes::node::NodeText;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::{PodFacts, PodText};
use muster_model::{QueueTree, Time};
use muster_scheduler::{Action, Observation, Scheduler};
use serde_json::json;

const NODES: usize = 5_000;
const PODS: usize = 50_000;
const JOBS: usize = 100_000;

fn pod(index: usize) -> PodFacts {
    let text: PodText = serde_json::from_value(json!({
        "metadata": {"name": format!("p{index:06}"), "namespace": "team", "uid": index.to_string(),
                     "creationTimestamp": "2026-11-25T00:00:00Z"},
        "spec": {"schedulerName": "muster", "containers": [
            {"resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}}},
        ]},
    }))
    .unwrap();
    text.facts()
}

/// Returns the scheduler once every GPU is taken, and the pods that run, by age.
fn full_cluster() -> (Scheduler, Vec<ObjectKey>) {
    let mut scheduler = Scheduler::new(Vec::new(), QueueTree::single()).unwrap();
    for index in 0..NODES {
        let text: NodeText = serde_json::from_value(json!({
            "metadata": {"name": format!("n{index}")},
            "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}},
        }))
        .unwrap();
        scheduler.observe(Observation::Node(Box::new(text.facts().unwrap())));
    }
    for index in 0..PODS {
        scheduler.observe(Observation::Pod(Box::new(pod(index))));
    }
    let mut running = Vec::new();
    loop {
        let actions = scheduler.step(Time(1_000));
        if bind_all(&mut scheduler, &actions, &mut running) == 0 {
            return (scheduler, running);
        }
    }
}

fn bind_all(scheduler: &mut Scheduler, actions: &[Action], running: &mut Vec<ObjectKey>) -> usize {
    let before = running.len();
    for action in actions {
        if let Action::Bind { pod, .. } = action {
            running.push(pod.key.clone());
            scheduler.observe(Observation::Bound(pod.clone()));
        }
    }
    running.len() - before
}

fn pass(criterion: &mut Criterion) {
    let before = memory_bytes();
    let (mut scheduler, mut running) = full_cluster();
    assert_eq!(running.len(), NODES * 8);
    let mebibytes = memory_bytes().saturating_sub(before) >> 20;
    println!("{NODES} nodes and {PODS} pods take {mebibytes} MiB");
    let mut at = 0;
    let mut now = 2_000;
    criterion.bench_function("one pod ends, another starts: 5,000 nodes, 50,000 pods", |bencher| {
        bencher.iter(|| {
            let key = running[at].clone();
            at += 1;
            now += 1;
            scheduler.observe(Observation::PodGone(key));
            let actions = scheduler.step(Time(now));
            assert_eq!(bind_all(&mut scheduler, &actions, &mut running), 1);
        });
    });
    criterion.bench_function("figures for Prometheus: 5,000 nodes, 50,000 pods", |bencher| {
        bencher.iter(|| scheduler.metrics(Time(now)));
    });
}

/// Returns a suspended Job of four pods with two GPUs each.
fn job(index: usize) -> Observation {
    let text: GroupText = serde_json::from_value(json!({
        "metadata": {
            "name": format!("j{index:06}"), "namespace": "team", "uid": format!("j{index}"),
            "creationTimestamp": "2026-11-25T00:00:00Z",
            "labels": {"muster.run/queue": "default"},
        },
        "spec": {
            "suspend": true, "completionMode": "Indexed", "parallelism": 4, "completions": 4,
            "template": {"spec": {"schedulerName": "muster", "containers": [
                {"resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 2}}},
            ]}},
        },
    }))
    .unwrap();
    Observation::Group(Box::new(text.facts(GroupKind::Job)))
}

/// Returns the resident memory of this process.
fn memory_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn suspended(criterion: &mut Criterion) {
    let (mut scheduler, _) = full_cluster();
    let before = memory_bytes();
    for index in 0..JOBS {
        scheduler.observe(job(index));
    }
    let listed = Instant::now();
    scheduler.step(Time(2_000));
    println!("the first pass with them takes {:.1} s", listed.elapsed().as_secs_f64());
    let mebibytes = memory_bytes().saturating_sub(before) >> 20;
    println!("{JOBS} suspended Jobs of four pods take {mebibytes} MiB");
    let mut index = JOBS;
    let next = Instant::now();
    scheduler.step(Time(2_000 + index as u64));
    println!("the pass after it takes {:.1} s", next.elapsed().as_secs_f64());
    criterion.bench_function("a Job is created beside 100,000 suspended ones", |bencher| {
        bencher.iter(|| {
            scheduler.observe(job(index));
            index += 1;
            scheduler.step(Time(2_000 + index as u64))
        });
    });
}

criterion_group!(benches, pass, suspended);
criterion_main!(benches);

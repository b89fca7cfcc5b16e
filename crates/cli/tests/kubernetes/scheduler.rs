//! `muster scheduler` on a real API server: gangs start whole, a successor takes over, the API server
//! may restart, and every pod that waits says why.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, pod_spec, success, until};
use crate::pod_watch::PodWatch;
use crate::scheduler_process::SchedulerProcess;

/// Returns a pod of a gang.
fn pod(gang: &str, index: usize, size: usize, gpus: u32, scheduler: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{gang}-{index}"),
            "labels": {"gang": gang, "muster.run/gang": gang},
            "annotations": {"muster.run/gang-size": size.to_string()},
        },
        "spec": pod_spec(scheduler, gpus.into()),
    })
}

/// Eight GPUs for two gangs of 5: on one node, or one pod per node on eight.
const LAYOUTS: [(&str, u32, Option<&str>); 2] =
    [("gangs-on-one-node", 1, Some("node1")), ("gangs-on-eight", 8, None)];

/// Returns the pods of two gangs of 5 in turns.
fn interleaved(gpus: u32, node: Option<&str>, scheduler: &str) -> Vec<Value> {
    let pods = (0..5).flat_map(|index| ["a", "b"].map(|gang| pod(gang, index, 5, gpus, scheduler)));
    let on_node = pods.map(|mut one| {
        if let Some(node) = node {
            one["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        }
        one
    });
    on_node.collect()
}

fn create_interleaved(namespace: &TestNamespace, gpus: u32, node: Option<&str>, scheduler: &str) {
    for pod in interleaved(gpus, node, scheduler) {
        namespace.create_object(&pod);
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn prometheus_reads_what_runs_and_what_waits_from_the_active_process() {
    let cluster = KubernetesCluster::here();
    let listen = "--listen=127.0.0.1:0";
    let scheduler = SchedulerProcess::active_with(&cluster, &[listen]);
    let namespace = cluster.namespace("figures");
    create_interleaved(&namespace, 1, Some("node1"), "muster");
    let expected = [
        r#"muster_jobs{queue="default",state="running"} 1"#,
        r#"muster_waiting_elements{queue="default",reason="capacity"} 1"#,
        r#"muster_user_gpus{user="figures"} 5"#,
        "muster_waiting_pods 5",
        "muster_active 1",
    ];
    let has_all = || {
        let answer = scheduler.http("/metrics");
        expected.iter().all(|line| answer.lines().any(|one| one == *line))
    };
    until("the figures are those of both gangs", has_all);
    let answer = scheduler.http("/metrics");
    assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
    assert!(answer.contains(r#"muster_gpus{node="node1","#), "{answer}");
    assert!(scheduler.http("/healthz").starts_with("HTTP/1.1 200"));

    // Sums over both processes count nothing twice.
    let waiting = SchedulerProcess::start_with(&cluster, &[], &[listen]);
    let answer = waiting.http("/metrics");
    assert!(answer.contains("muster_active 0") && !answer.contains("muster_jobs"), "{answer}");
    assert!(waiting.http("/readyz").starts_with("HTTP/1.1 200"));
}

/// Eight GPUs, on one node and on eight, and two gangs of 5.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn interleaved_gangs_start_whole_one_after_the_other() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    for (name, gpus, node) in LAYOUTS {
        let namespace = cluster.namespace(name);
        create_interleaved(&namespace, gpus, node, "muster");
        until("gang a has its nodes", || namespace.bound("gang=a") == 5);
        until("gang b says why it waits", || namespace.reason("b-0").contains("are free"));
        assert_eq!(namespace.bound("gang=b"), 0);
        let events = namespace.objects("events", "");
        assert!(events.iter().any(|event| event["reason"] == "FailedScheduling"), "{events:?}");
        for index in 0..5 {
            namespace.delete(&format!("a-{index}"));
        }
        until("gang b has its nodes", || namespace.bound("gang=b") == 5);
    }
}

/// The same again and again, on one node and on eight in turns, watched from outside:
/// `MUSTER_TEST_REPETITIONS` sets how often.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn no_repetition_leaves_a_part_of_a_gang() {
    let repetitions = std::env::var("MUSTER_TEST_REPETITIONS");
    let repetitions: usize = repetitions.map_or(5, |text| text.parse().unwrap());
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("gangs-again");
    let watch = PodWatch::start(&cluster, namespace.name());
    let mut longest = Duration::ZERO;
    for repetition in 0..repetitions {
        let (_, gpus, node) = LAYOUTS[repetition % LAYOUTS.len()];
        let pods = interleaved(gpus, node, "muster");
        namespace.create_object(&json!({"apiVersion": "v1", "kind": "List", "items": pods}));
        until("gang a has its nodes", || namespace.bound("gang=a") == 5);
        assert_eq!(namespace.bound("gang=b"), 0);
        namespace.delete_all("gang=a");
        let freed = Instant::now();
        until("gang b has its nodes", || namespace.bound("gang=b") == 5);
        longest = longest.max(freed.elapsed());
        namespace.delete_all("gang=b");
    }
    let seen = watch.end();
    println!(
        "{repetitions} repetitions: {} bindings, longest half start {:.2} s, {:.2} s from the release to the \
         other gang at most",
        seen.bindings,
        seen.longest_half.as_secs_f32(),
        longest.as_secs_f32(),
    );
    assert_eq!(seen.rejected, 0);
    // Its five bindings are on their way beside each other. On a quiet machine both take well below a
    // second (docs/kubernetes.md); other tests run beside this one.
    assert!(seen.longest_half < Duration::from_secs(5), "{:?}", seen.longest_half);
    assert!(longest < Duration::from_secs(5), "{longest:?}");
}

/// The reason for all of this: pod by pod, each gang gets a part and none starts.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_default_scheduler_starts_a_part_of_both() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("default-scheduler-gangs");
    create_interleaved(&namespace, 1, Some("node1"), "default-scheduler");
    until("eight pods have a node", || namespace.bound("gang=a") + namespace.bound("gang=b") == 8);
    assert_eq!((namespace.bound("gang=a"), namespace.bound("gang=b")), (4, 4));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_demo_shows_both() {
    let cluster = KubernetesCluster::here();
    let output = cluster.xtask_with(&["demo"], &[env!("CARGO_BIN_EXE_muster")]);
    let shown = success(&["demo"], &output);
    for line in [
        "gang a  ■■■■□  4 of 5 pods have a GPU",
        "gang b  ■■■■□  4 of 5 pods have a GPU",
        "gang a  ■■■■■  5 of 5 pods have a GPU",
        "gang b  □□□□□  0 of 5 pods have a GPU  needs 5 GPUs together, 3 are free",
        "gang b  ■■■■■  5 of 5 pods have a GPU",
    ] {
        assert!(shown.contains(line), "{line}:\n{shown}");
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_second_process_takes_over_when_the_first_is_killed() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("takes-over");
    let first = SchedulerProcess::active(&cluster);
    let second = SchedulerProcess::start(&cluster);
    second.waits_for_line("waits for the lease");
    for index in 0..5 {
        namespace.create_object(&pod("a", index, 5, 8, "muster"));
    }
    until("gang a has its nodes", || namespace.bound("gang=a") == 5);
    assert!(!second.log().contains("active"), "{}", second.log());
    first.kill();
    second.waits_for_line("the cluster is listed");
    // It knows what runs: three nodes are left.
    for index in 0..5 {
        namespace.create_object(&pod("b", index, 5, 8, "muster"));
    }
    until("gang b says why it waits", || namespace.reason("b-0").contains("are free"));
    assert_eq!(namespace.bound("gang=b"), 0);
    for index in 0..5 {
        namespace.delete(&format!("a-{index}"));
    }
    until("gang b has its nodes", || namespace.bound("gang=b") == 5);
}

/// A process that was stopped for longer than its lease binds nothing when it goes on.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_paused_process_ends_beside_its_successor() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("paused");
    let watch = PodWatch::start(&cluster, namespace.name());
    let first = SchedulerProcess::active(&cluster);
    let second = SchedulerProcess::start(&cluster);
    second.waits_for_line("waits for the lease");
    // It has seen the pods, and may be about to bind them.
    for pod in interleaved(8, None, "muster") {
        namespace.create_object(&pod);
    }
    first.pause(true);
    second.waits_for_line("the cluster is listed");
    until("one gang has its nodes", || namespace.bound("gang=a") + namespace.bound("gang=b") == 5);
    first.pause(false);
    first.waits_for_line("the lease was lost");
    assert_eq!(namespace.bound("gang=a") + namespace.bound("gang=b"), 5);
    assert_eq!(watch.end().rejected, 0);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_api_server_may_be_killed() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("api-server-killed");
    // Two, as the manifests say: the first ends where the lease cannot be renewed for ten seconds, which an
    // API server on a busy machine needs to start.
    let schedulers = [SchedulerProcess::active(&cluster), SchedulerProcess::start(&cluster)];
    schedulers[1].waits_for_line("waits for the lease");
    drop(cluster.killed("kube-apiserver"));
    for index in 0..5 {
        namespace.create_object(&pod("a", index, 5, 1, "muster"));
    }
    until("gang a has its nodes", || namespace.bound("gang=a") == 5);
    for scheduler in &schedulers {
        assert!(!scheduler.log().contains("panicked"), "{}", scheduler.log());
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn an_indexed_job_is_a_gang() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("indexed-jobs");
    let _scheduler = SchedulerProcess::active(&cluster);
    for gang in ["a", "b"] {
        let template = pod(gang, 0, 5, 8, "muster");
        namespace.create_object(&json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": gang},
            "spec": {
                "completionMode": "Indexed", "parallelism": 5, "completions": 5,
                "template": {
                    "metadata": {"labels": {"gang": gang}, "annotations": {"fake-kubelet/run-seconds": "5"}},
                    "spec": template["spec"],
                },
            },
        }));
    }
    until("one gang has its nodes", || namespace.bound("gang=a") + namespace.bound("gang=b") == 5);
    for job in ["job/a", "job/b"] {
        let words = [
            "wait",
            job,
            "--for=condition=Complete",
            "--timeout=60s",
            "--namespace",
            namespace.name(),
        ];
        cluster.kubectl(&words);
    }
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn bad_input_is_told_and_stops_nothing_else() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("bad-input");
    let _scheduler = SchedulerProcess::active(&cluster);
    let create = |name: &str, path: &str, value: Value| {
        let mut one = pod(name, 0, 1, 1, "muster");
        *one.pointer_mut(path).unwrap() = value;
        namespace.create_object(&one);
    };
    let cases = [
        (
            "too-large",
            "/spec/containers/0/resources/limits",
            json!({"nvidia.com/gpu": 9}),
            "never fits",
        ),
        (
            "unknown-resource",
            "/spec/containers/0/resources/limits",
            json!({"example.com/thing": 1}),
            "no node has the resource example.com/thing",
        ),
        (
            "no-queue",
            "/metadata/labels",
            json!({"muster.run/queue": "research.x"}),
            "there is no queue research/x to submit to",
        ),
        (
            "no-group",
            "/metadata/labels",
            json!({"scheduling.x-k8s.io/pod-group": "g"}),
            "PodGroup g does not exist in namespace bad-input",
        ),
        (
            "two-groups",
            "/metadata/labels",
            json!({"scheduling.x-k8s.io/pod-group": "g", "muster.run/gang": "h"}),
            "membership in two gangs, PodGroup g and gang h",
        ),
        (
            "too-few",
            "/metadata/annotations",
            json!({"muster.run/gang-size": "3"}),
            "the gang needs 3 pods, and 1 exist",
        ),
    ];
    for (name, path, value, _) in &cases {
        create(name, path, value.clone());
    }
    namespace.create_object(&pod("good", 0, 1, 1, "muster"));
    until("the good pod has a node", || namespace.bound("gang=good") == 1);
    for (name, _, _, expected) in &cases {
        let one = format!("{name}-0");
        until(expected, || namespace.reason(&one).contains(expected));
    }
}

//! Jobs in a namespace that opts in: the API server suspends them, `muster scheduler` resumes each when
//! it has nodes for all its pods, and the real Job controller makes them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, success};
use crate::scheduler_process::SchedulerProcess;

/// Longest wait for a state of the cluster.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns an Indexed Job as a user writes it; each pod takes a whole node.
fn job(name: &str, pods: u32, run_seconds: &str) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed", "parallelism": pods, "completions": pods,
            "template": {
                "metadata": {"annotations": {"fake-kubelet/run-seconds": run_seconds}},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "main",
                        "image": "none",
                        "resources": {"limits": {"nvidia.com/gpu": 8}},
                    }],
                },
            },
        },
    })
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
    }
}

/// Makes a namespace that opts in, and waits until the API server knows of the policy there.
fn opted_in<'a>(cluster: &'a KubernetesCluster, name: &'static str) -> TestNamespace<'a> {
    let namespace = cluster.namespace(name);
    cluster.kubectl(&["label", "namespace", name, "muster.run/queue=default"]);
    let words =
        ["create", "--filename=-", "--namespace", name, "--dry-run=server", "--output=json"];
    let probe = job("probe", 1, "1").to_string();
    until("the policy applies", || {
        let made = success(&words, &cluster.kubectl_with(&words, &probe));
        serde_json::from_str::<Value>(&made).unwrap()["spec"]["suspend"] == json!(true)
    });
    namespace
}

fn get_job(cluster: &KubernetesCluster, namespace: &TestNamespace, name: &str) -> Value {
    cluster.get(&["job", name, "--namespace", namespace.name()])
}

/// Returns the Jobs of pods that have not ended, and the number of their pods that have a node.
fn active(namespace: &TestNamespace) -> Vec<(String, usize)> {
    let mut jobs: Vec<(String, usize)> = Vec::new();
    for pod in namespace.list("") {
        if ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap()) {
            continue;
        }
        let job = pod["metadata"]["labels"]["job-name"].as_str().unwrap().to_owned();
        let bound = usize::from(pod["spec"]["nodeName"].is_string());
        match jobs.iter_mut().find(|(name, _)| *name == job) {
            Some((_, sum)) => *sum += bound,
            None => jobs.push((job, bound)),
        }
    }
    jobs
}

fn is_done(job: &Value) -> bool {
    job["status"]["succeeded"] == job["spec"]["completions"]
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn waiting_jobs_have_no_pods_and_run_in_order() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = opted_in(&cluster, "admission-order");
    let names: Vec<String> = (0..20).map(|at| format!("j{at:02}")).collect();
    for name in &names {
        // Five of eight nodes each, so that one runs at a time.
        namespace.create_object(&job(name, 5, "1"));
    }
    let first = get_job(&cluster, &namespace, "j00");
    assert_eq!(first["spec"]["template"]["spec"]["schedulerName"], "muster");
    assert_eq!(first["metadata"]["labels"]["muster.run/queue"], "default");

    let start = Instant::now();
    let mut is_told = false;
    loop {
        let running = active(&namespace);
        let jobs = namespace.objects("jobs", "");
        let suspended: Vec<&Value> =
            jobs.iter().filter(|job| job["spec"]["suspend"] == json!(true)).collect();
        for (name, _) in &running {
            let is_waiting = suspended.iter().any(|job| job["metadata"]["name"] == json!(name));
            assert!(!is_waiting, "{name} is suspended and has pods");
        }
        assert!(running.len() <= 1, "{running:?}");
        is_told |= suspended.iter().any(|job| {
            let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| {
                let text = one["message"].as_str().unwrap_or_default();
                one["type"] == "muster.run/Admitted" && text.contains("needs 40 GPUs together")
            })
        });
        if jobs.iter().all(is_done) {
            break;
        }
        assert!(start.elapsed() < 3 * PATIENCE, "{running:?}, {} suspended", suspended.len());
    }
    assert!(is_told, "no Job had a condition that says why it waits");
    let events = namespace.objects("events", "");
    let of_jobs = |reason: &str| {
        events
            .iter()
            .filter(|event| event["involvedObject"]["kind"] == "Job")
            .filter(|event| event["reason"] == json!(reason))
            .count()
    };
    assert!(of_jobs("FailedScheduling") > 0, "{events:?}");
    assert_eq!(of_jobs("Admitted"), 20);
    let mut started: Vec<(String, String)> = namespace
        .objects("jobs", "")
        .iter()
        .map(|job| {
            let text = |path: &str| job.pointer(path).unwrap().as_str().unwrap().to_owned();
            (text("/status/startTime"), text("/metadata/name"))
        })
        .collect();
    started.sort();
    let order: Vec<&String> = started.iter().map(|(_, name)| name).collect();
    assert_eq!(order, names.iter().collect::<Vec<_>>());
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_preempted_job_is_suspended() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = opted_in(&cluster, "admission-preemption");
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "admission-high"}, "value": 1000,
    });
    let words = ["apply", "--filename=-"];
    success(&words, &cluster.kubectl_with(&words, &class.to_string()));
    namespace.create_object(&job("low", 8, "100000"));
    until("low runs", || active(&namespace) == [("low".to_owned(), 8)]);
    let mut high = job("high", 8, "5");
    high["spec"]["template"]["spec"]["priorityClassName"] = json!("admission-high");
    namespace.create_object(&high);
    until("high runs alone", || active(&namespace) == [("high".to_owned(), 8)]);
    let low = get_job(&cluster, &namespace, "low");
    assert_eq!(low["spec"]["suspend"], json!(true));
    assert!(low["metadata"]["annotations"]["muster.run/admitted"].is_null());
    let events = namespace.objects("events", "");
    let is_reason = |event: &Value| {
        event["reason"] == "Stopped" && event["message"] == "preempted by a job with precedence"
    };
    assert!(events.iter().any(is_reason), "{events:?}");
    until("high is done", || is_done(&get_job(&cluster, &namespace, "high")));
    until("low runs again", || active(&namespace) == [("low".to_owned(), 8)]);
}

/// Between the resumption and the pods the scheduler dies; its successor keeps the nodes.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_scheduler_killed_before_the_pods_come_is_replaced() {
    let cluster = KubernetesCluster::here();
    let first = SchedulerProcess::active(&cluster);
    let namespace = opted_in(&cluster, "admission-killed");
    let controllers = cluster.killed("kube-controller-manager");
    namespace.create_object(&job("train", 8, "2"));
    until("the Job is resumed", || {
        get_job(&cluster, &namespace, "train")["spec"]["suspend"] == json!(false)
    });
    first.kill();
    assert!(namespace.list("").is_empty());
    let rival = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "rival", "labels": {"job-name": "rival"}},
        "spec": {
            "schedulerName": "muster",
            "containers": [{
                "name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 8}},
            }],
        },
    });
    namespace.create_object(&rival);
    let _second = SchedulerProcess::active(&cluster);
    until("the rival says why it waits", || {
        namespace.pod("rival")["status"]["conditions"][0]["message"].is_string()
    });
    drop(controllers);
    until("the Job is done", || is_done(&get_job(&cluster, &namespace, "train")));
    until("the rival runs", || active(&namespace) == [("rival".to_owned(), 1)]);
}

/// Only namespaces with the label opt in, and only objects that no other scheduler claims.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn other_jobs_are_not_suspended() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = opted_in(&cluster, "admission-claimed");
    let other = cluster.namespace("admission-not-opted-in");
    other.create_object(&job("plain", 1, "1"));
    let mut claimed = job("claimed", 1, "1");
    claimed["spec"]["template"]["spec"]["schedulerName"] = json!("volcano");
    namespace.create_object(&claimed);
    let mut owned = job("owned", 1, "1");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "1",
        "controller": true,
    }]);
    namespace.create_object(&owned);
    for (namespace, name) in [(&other, "plain"), (&namespace, "claimed"), (&namespace, "owned")] {
        let job = get_job(&cluster, namespace, name);
        assert_eq!(job["spec"]["suspend"], json!(false), "{name}");
        assert!(job["metadata"]["labels"]["muster.run/queue"].is_null(), "{name}");
        assert_ne!(job["spec"]["template"]["spec"]["schedulerName"], "muster", "{name}");
    }
}

//! Jobs in a namespace that opts in: the API server suspends them, `muster scheduler` resumes each when
//! it has nodes for all its pods, and the real Job controller makes them. The controllers of JobSets,
//! TrainJobs and RayClusters are not there: the tests make their pods.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, success, until};
use crate::definitions::Definition;
use crate::scheduler_process::SchedulerProcess;

/// Longest time for twenty Jobs, one after the other.
const TWENTY_JOBS: Duration = Duration::from_secs(180);

/// Returns an Indexed Job as a user writes it; each pod takes a whole node.
pub fn job(name: &str, pods: u32, run_seconds: &str) -> Value {
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

/// Makes a namespace that opts in, and waits until the API server knows of the policy there.
pub fn opted_in<'a>(cluster: &'a KubernetesCluster, name: &'static str) -> TestNamespace<'a> {
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

pub fn get_job(cluster: &KubernetesCluster, namespace: &TestNamespace, name: &str) -> Value {
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

pub fn is_done(job: &Value) -> bool {
    job["status"]["succeeded"] == job["spec"]["completions"]
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn waiting_jobs_have_no_pods_and_run_in_order() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = opted_in(&cluster, "admission-order");
    let names: Vec<String> = (0..20).map(|at| format!("j{at:02}")).collect();
    // Five of eight nodes each, so that one runs at a time; created at once, or on a busy machine each might have ended
    // before the next one is there.
    let jobs: Vec<Value> = names.iter().map(|name| job(name, 5, "1")).collect();
    namespace.create_object(&json!({"apiVersion": "v1", "kind": "List", "items": jobs}));
    let first = get_job(&cluster, &namespace, "j00");
    assert_eq!(first["spec"]["template"]["spec"]["schedulerName"], "muster");
    assert_eq!(first["metadata"]["labels"]["muster.run/queue"], "default");

    let start = Instant::now();
    let mut told = BTreeSet::new();
    loop {
        let running = active(&namespace);
        let jobs = namespace.objects("jobs", "");
        let suspended: Vec<&Value> =
            jobs.iter().filter(|job| job["spec"]["suspend"] == json!(true)).collect();
        for (name, _) in &running {
            let is_waiting = suspended.iter().any(|job| job["metadata"]["name"] == json!(name));
            assert!(!is_waiting, "{name} is suspended and has pods");
        }
        // Where the pods of one end apart, the next starts once five nodes are free.
        let bound: usize = running.iter().map(|(_, bound)| *bound).sum();
        assert!(running.len() <= 1 || bound <= 8, "{running:?}");
        for job in &suspended {
            let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
            let admitted = conditions.filter(|one| one["type"] == "muster.run/Admitted");
            told.extend(admitted.filter_map(|one| one["message"].as_str().map(str::to_owned)));
        }
        if jobs.iter().all(is_done) {
            break;
        }
        assert!(start.elapsed() < TWENTY_JOBS, "{running:?}, {} suspended", suspended.len());
    }
    // On a busy machine a Job may be seen only while it says what is ahead of it.
    assert!(told.iter().any(|text| text.contains("GPUs")), "{told:?}");
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
    // Any owner does, but it must exist: the garbage collector deletes what has lost its owner.
    let account = &namespace.objects("serviceaccounts", "")[0]["metadata"];
    let mut owned = job("owned", 1, "1");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ServiceAccount", "name": account["name"],
        "uid": account["uid"], "controller": true,
    }]);
    namespace.create_object(&owned);
    for (namespace, name) in [(&other, "plain"), (&namespace, "claimed"), (&namespace, "owned")] {
        let job = get_job(&cluster, namespace, name);
        assert_eq!(job["spec"]["suspend"], json!(false), "{name}");
        assert!(job["metadata"]["labels"]["muster.run/queue"].is_null(), "{name}");
        assert_ne!(job["spec"]["template"]["spec"]["schedulerName"], "muster", "{name}");
    }
}

/// Kinds of the objects of other projects, as far as the API server must know them.
const OTHERS: [Definition; 3] = [
    of_others("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    of_others("ray.io", "v1", "RayCluster", "rayclusters"),
    of_others("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs"),
];

const fn of_others(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Definition {
    Definition { group, version, kind, plural, scope: "Namespaced", published: None }
}

/// Returns an object with two pods that take a node each.
fn object(kind: &str, version: &str, name: &str) -> Value {
    let template = job("", 1, "1")["spec"]["template"].clone();
    let spec = match kind {
        "RayCluster" => json!({
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [{"groupName": "workers", "replicas": 1, "template": template}],
        }),
        "TrainJob" => json!({"runtimeRef": {"name": "torch"}}),
        _ => json!({"replicatedJobs": [
            {"name": "leader", "template": {"spec": {"template": template}}},
            {"name": "worker", "template": {"spec": {"template": template}}},
        ]}),
    };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Creates the pods of an object as its controller does, and waits until they run.
fn create_pods(namespace: &TestNamespace, name: &str, label: &str, template: &Value) {
    for index in 0..2 {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]});
        pod["metadata"] =
            json!({"name": format!("{name}-{index}"), "labels": {label: name, "job-name": name}});
        namespace.create_object(&pod);
    }
    until("the pods run", || active(namespace).contains(&(name.to_owned(), 2)));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn objects_of_other_projects_wait_without_pods() {
    let cluster = KubernetesCluster::here();
    let job_set = "jobset.x-k8s.io/v1alpha2";
    OTHERS.iter().for_each(|kind| kind.install(&cluster));
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = opted_in(&cluster, "admission-others");
    let get = |kind: &str, name: &str| cluster.get(&[kind, name, "--namespace", namespace.name()]);
    let is_resumed = |kind: &str, name: &str| get(kind, name)["spec"]["suspend"] == json!(false);
    let jobset_label = "jobset.sigs.k8s.io/jobset-name";

    // 1. A JobSet, and one that waits: seven of eight nodes are taken.
    namespace.create_object(&job("filler", 5, "100000"));
    until("the filler runs", || active(&namespace) == [("filler".to_owned(), 5)]);
    namespace.create_object(&object("JobSet", job_set, "set"));
    until("the JobSet is resumed", || is_resumed("jobset", "set"));
    let set = get("jobset", "set");
    assert_eq!(set["metadata"]["labels"]["muster.run/queue"], "default");
    let path = "/spec/replicatedJobs/1/template/spec/template";
    let template = set.pointer(path).unwrap();
    assert_eq!(template["spec"]["schedulerName"], "muster");
    create_pods(&namespace, "set", jobset_label, template);
    namespace.create_object(&object("RayCluster", "ray.io/v1", "ray"));
    let mut told = String::new();
    until("the RayCluster says what does not fit", || {
        let conditions = get("raycluster", "ray")["status"]["conditions"].clone();
        told = conditions[0]["message"].as_str().unwrap_or_default().to_owned();
        told.contains("fits")
    });
    // Its worker is larger than its head, since KubeRay adds a container to it, and is placed first.
    assert!(told.contains("0 of 1 pod of headgroup fits beside workers"), "{told}");
    assert_eq!(get("raycluster", "ray")["spec"]["suspend"], json!(true));

    // 2. The RayCluster, when the JobSet has ended.
    for index in 0..2 {
        namespace.delete(&format!("set-{index}"));
    }
    cluster.kubectl(&["delete", "jobset", "set", "--namespace", namespace.name()]);
    until("the RayCluster is resumed", || is_resumed("raycluster", "ray"));
    let ray = get("raycluster", "ray");
    let worker = &ray["spec"]["workerGroupSpecs"][0]["template"];
    assert_eq!(worker["spec"]["schedulerName"], "muster");
    let head = &ray["spec"]["headGroupSpec"]["template"];
    create_pods(&namespace, "ray", "ray.io/cluster", head);
    for index in 0..2 {
        namespace.delete(&format!("ray-{index}"));
    }
    cluster.kubectl(&["delete", "raycluster", "ray", "--namespace", namespace.name()]);

    // 3. A TrainJob, whose JobSet is suspended with it.
    namespace.create_object(&object("TrainJob", "trainer.kubeflow.org/v1alpha1", "train"));
    let train_job = get("trainjob", "train");
    assert_eq!(train_job["spec"]["suspend"], json!(true));
    let mut set = object("JobSet", job_set, "train");
    set["spec"]["suspend"] = json!(true);
    set["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "train",
        "uid": train_job["metadata"]["uid"], "controller": true,
    }]);
    namespace.create_object(&set);
    until("the TrainJob is resumed", || is_resumed("trainjob", "train"));
    let set = get("jobset", "train");
    assert!(set["metadata"]["labels"]["muster.run/queue"].is_null());
    create_pods(&namespace, "train", jobset_label, set.pointer(path).unwrap());
}

//! RayClusters and RayJobs of others, created suspended in a queue of Muster: its plan starts each as a whole, and stops it
//! for one of a higher priority.

use serde_json::{Value, json};

use super::{IMAGE, until};
use crate::cluster::{KubernetesCluster, TestNamespace};
use crate::conform::JobPlace;
use crate::real_nodes::target::{KubernetesTarget, submit};

/// Returns the specification of a cluster with a head and workers of so many GPUs each.
fn cluster_spec(workers: u32, gpus: u32) -> Value {
    let template = |name: &str, gpus: u32| {
        let limits = json!({"nvidia.com/gpu": gpus});
        json!({"spec": {
            "schedulerName": "muster",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": name, "image": IMAGE, "resources": {"limits": limits}}],
        }})
    };
    let params = |gpus: u32| json!({"num-cpus": "1", "num-gpus": gpus.to_string()});
    json!({
        "rayVersion": "2.60.0",
        "headGroupSpec": {"rayStartParams": params(0), "template": template("ray-head", 0)},
        "workerGroupSpecs": [{
            "groupName": "gpu",
            "replicas": workers, "minReplicas": workers, "maxReplicas": workers,
            "rayStartParams": params(gpus),
            "template": template("ray-worker", gpus),
        }],
    })
}

fn create(namespace: &TestNamespace<'_>, kind: &str, name: &str, mut spec: Value) {
    spec["suspend"] = json!(true);
    let metadata = json!({"name": name, "labels": {"muster.run/queue": ""}});
    let object =
        json!({"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
    namespace.create_object(&object);
}

fn get(namespace: &TestNamespace<'_>, object: &str) -> Value {
    namespace.cluster().get(&[object, "--namespace", namespace.name()])
}

/// Returns the pods of a RayCluster, those that end, too.
fn pods_of(namespace: &TestNamespace<'_>, cluster: &str) -> Vec<Value> {
    namespace.list(&format!("ray.io/cluster={cluster}"))
}

fn is_ready(namespace: &TestNamespace<'_>, cluster: &str) -> bool {
    get(namespace, &format!("raycluster/{cluster}"))["status"]["state"] == "ready"
}

#[test]
#[ignore = "needs KubeRay: cargo xtask kubernetes test --peers"]
fn clusters_that_contend_start_whole_one_after_the_other() {
    let place = KubernetesTarget::new();
    let namespace = &place.namespace;
    for name in ["first", "second"] {
        create(namespace, "RayCluster", name, cluster_spec(2, 4));
    }
    until("the first is ready", || is_ready(namespace, "first"));
    assert_eq!(pods_of(namespace, "first").len(), 3);
    // 1. The second has no pod, and says why.
    let says = |text: &str| get(namespace, "raycluster/second").to_string().contains(text);
    until("it says why", || says("needs 8 GPUs together"));
    assert_eq!(pods_of(namespace, "second"), [Value::Null; 0]);
    assert_eq!(get(namespace, "raycluster/second")["spec"]["suspend"], true);
    // 2. It starts whole when the first is gone.
    namespace.cluster().kubectl(&["delete", "raycluster/first", "--namespace", namespace.name()]);
    until("the second is ready", || is_ready(namespace, "second"));
    assert_eq!(pods_of(namespace, "second").len(), 3);
}

/// Priority class of one test, which is deleted when this is dropped.
struct TestPriorityClass(KubernetesCluster, &'static str);

impl TestPriorityClass {
    fn create(name: &'static str, value: u32) -> Self {
        let cluster = KubernetesCluster::here();
        let value = format!("--value={value}");
        cluster.kubectl(&["create", "priorityclass", name, &value]);
        Self(cluster, name)
    }
}

impl Drop for TestPriorityClass {
    fn drop(&mut self) {
        self.0.kubectl_with(&["delete", "priorityclass", self.1, "--wait=false"], "");
    }
}

#[test]
#[ignore = "needs KubeRay: cargo xtask kubernetes test --peers"]
fn a_ray_job_is_started_preempted_and_started_again() {
    let place = KubernetesTarget::new();
    let namespace = &place.namespace;
    let _urgent = TestPriorityClass::create("ray-urgent", 1000);
    let spec = json!({
        "entrypoint": "sleep 30",
        "shutdownAfterJobFinishes": true,
        "submissionMode": "SidecarMode",
        "rayClusterSpec": cluster_spec(1, 4),
    });
    create(namespace, "RayJob", "raw", spec);
    // 1. It is started: a cluster of its own has its pods.
    let state = || get(namespace, "rayjob/raw")["status"]["jobDeploymentStatus"].clone();
    let pods = || namespace.list("ray.io/is-ray-node=yes");
    until("its pods have nodes", || {
        let pods = pods();
        pods.len() == 2 && pods.iter().all(|pod| pod["spec"]["nodeName"].is_string())
    });
    let first = get(namespace, "rayjob/raw")["status"]["rayClusterName"].clone();
    // 2. A job that takes all GPUs stops it: it has no pods meanwhile.
    let gate = place.folder().join("may-end");
    let wait = format!("until [ -e {} ]; do usleep 50000; done", gate.display());
    let class = "kubernetes: {priority-class: ray-urgent, volumes: ['shared:FOLDER']}";
    let class = class.replace("FOLDER", &place.folder().display().to_string());
    let all = place.all_of_it();
    submit(&place, &format!("name: urgent\n{all}\ntime: 10m\ngrace: 1s\nrun: {wait}\n{class}\n"));
    until("it is suspended", || state() == "Suspended");
    until("its pods are gone", || pods().is_empty());
    until("the other runs", || place.ok(&["ps"]).contains("2 of 2 ranks"));
    // Until the scheduler has seen the end of its pods, they are what it waits for.
    let is_pending = |line: &str| line.contains("raw") && line.contains("pending");
    until("it waits for GPUs", || {
        let listed = place.ok(&["ps"]);
        listed.lines().any(|line| is_pending(line) && line.contains("needs 4 GPUs"))
    });
    assert!(place.ok(&["explain", "raw"]).contains("rayjob/raw of namespace"));
    // 3. It is started again on another cluster, and ends.
    std::fs::write(&gate, "").unwrap();
    until("it runs", || state() == "Running");
    let second = get(namespace, "rayjob/raw")["status"]["rayClusterName"].clone();
    assert_ne!(first, second);
    assert_eq!(place.call(&["wait", "raw"]).0, 0);
    until("its pods are gone", || pods().is_empty());
}

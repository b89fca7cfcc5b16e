//! Queue objects on a real API server: quotas that change while pods wait, namespaces that may not,
//! wrong objects that say so, usage that a killed process leaves behind, and the policy of all queues.

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, until};
use crate::scheduler_process::SchedulerProcess;
use crate::settings_object::SettingsObject;

fn queue<'a>(
    cluster: &'a KubernetesCluster,
    name: &'static str,
    spec: &Value,
) -> SettingsObject<'a> {
    SettingsObject::apply(cluster, "Queue", name, spec)
}

/// Returns a pod of a queue that takes a whole node.
fn pod(name: &str, queue: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"muster.run/queue": queue}},
        "spec": {
            "schedulerName": "muster",
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": "none",
                "resources": {"limits": {"nvidia.com/gpu": 8}},
            }],
        },
    })
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn queue_objects_are_quotas_and_say_what_is_used() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("queue-objects");
    let quota = |gpus: u32| json!({"quota": {"h100": gpus}, "borrow": 0});
    let vision = queue(&cluster, "research.vision", &quota(8));
    namespace.create_object(&pod("first", "research.vision"));
    namespace.create_object(&pod("second", "research.vision"));
    until("the first pod has a node", || namespace.has_node("first"));
    until("the second waits for the quota", || namespace.reason("second").contains("quota"));
    assert!(!namespace.has_node("second"));
    until("the queue says what is used", || {
        let status = vision.status();
        status["usedGpus"] == 8 && status["running"] == 1 && status["waiting"] == 1
    });
    assert_eq!(vision.status()["conditions"][0]["status"], "True");
    vision.change(&quota(16));
    until("the second pod has a node", || namespace.has_node("second"));

    // Of another namespace, a queue that is open to one only.
    let _closed = queue(&cluster, "research.closed", &json!({"namespaces": ["elsewhere"]}));
    namespace.create_object(&pod("outsider", "research.closed"));
    let expected = "namespace queue-objects may not use queue research/closed";
    until(expected, || namespace.reason("outsider") == expected);
    namespace.create_object(&pod("high", "research"));
    let expected = "queue research has queues below it, and takes no pods itself";
    until(expected, || namespace.reason("high") == expected);

    // A wrong queue says so, and the others stay in force.
    let wrong = queue(&cluster, "wrong", &json!({"defaultTime": "soon"}));
    until("the wrong queue says so", || {
        let condition = &wrong.status()["conditions"][0];
        condition["status"] == "False"
            && condition["message"].as_str().is_some_and(|text| text.contains("`defaultTime`"))
    });
    assert_eq!(vision.status()["conditions"][0]["status"], "True");
    vision.change(&json!({"quota": {"h200": 8}}));
    until("a quota for GPUs that do not exist is told", || {
        let message = &vision.status()["conditions"][0]["message"];
        message.as_str().is_some_and(|text| text.ends_with("of the model h200; there are: h100"))
    });
    let object = json!({
        "apiVersion": "muster.run/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": "mistyped"},
        "spec": {"wieght": 2},
    });
    let refused = cluster.kubectl_with(&["create", "--filename=-"], &object.to_string());
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains("wieght"), "{stderr}");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn usage_outlives_a_killed_process() {
    let cluster = KubernetesCluster::here();
    let first = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("usage-outlives");
    let used = queue(&cluster, "used", &json!({}));
    namespace.create_object(&pod("user", "used"));
    let of_record = || {
        let words =
            ["get", "configmap", "muster-usage", "--namespace=muster-system", "--output=json"];
        let output = cluster.kubectl_with(&words, "");
        let map: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let text = map["data"]["usage.json"].as_str().unwrap_or_default().to_owned();
        let record: Value = serde_json::from_str(&text).unwrap_or_default();
        record["queues"]["used"][0]["value"].as_u64().unwrap_or_default()
    };
    until("the usage is recorded", || of_record() > 0);
    first.kill();
    namespace.delete("user");
    namespace.wait("user", "delete");
    let _second = SchedulerProcess::active(&cluster);
    until("the next process knows it", || {
        used.status()["usageGpuSeconds"].as_u64().unwrap_or_default() > 0
            && used.status()["usedGpus"] == 0
    });
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_policy_is_in_force_or_says_why_not() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("policy-object");
    let open = queue(&cluster, "open", &json!({}));
    let terms = |queue: &str| json!({"defaultQueue": queue});
    let policy = SettingsObject::apply(&cluster, "SchedulerPolicy", "default", &terms("missing"));
    until("the policy says what is wrong", || policy.message().contains("`defaultQueue`"));
    policy.change(&terms("open"));
    until("the policy is in force", || policy.message() == "the settings are in force");
    // A pod that names no queue is one of the default queue.
    let mut object = pod("anywhere", "");
    object["metadata"]["labels"] = json!({});
    namespace.create_object(&object);
    until("the default queue has the pod", || open.status()["running"] == 1);
}

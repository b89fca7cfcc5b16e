//! Gangs on real nodes: what a preempted one saves in its grace is there before its successor starts,
//! and one that lost a node runs whole again.

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, until};
use crate::scheduler_process::SchedulerProcess;

/// Saves when it is told to end, which takes a second.
const SAVES: &str =
    "trap 'sleep 1; touch /saves/saved; exit 143' TERM; until [ -e /end ]; do usleep 50000; done";
/// Fails if nothing was saved before it started.
const CONTINUES: &str = "[ -e /saves/saved ]";
/// Runs until it is told to end.
const WAITS: &str = "until [ -e /end ]; do usleep 50000; done";

/// Returns a Job of two pods, each with all four GPUs of a node and a folder of the node.
fn gang(name: &str, queue_priority: i32, script: &str) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {"muster.run/queue": "default"},
        },
        "spec": {
            "suspend": true,
            "completionMode": "Indexed",
            "parallelism": 2,
            "completions": 2,
            "template": {
                "metadata": {"labels": {"gang": name}},
                "spec": {
                    "schedulerName": "muster",
                    "priorityClassName": format!("gangs-{queue_priority}"),
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 20,
                    "tolerations": [{
                        "key": "node.kubernetes.io/unreachable",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 0,
                    }],
                    "containers": [{
                        "name": "main",
                        "image": "localhost/busybox:1",
                        "command": ["sh", "-c", script],
                        "resources": {"limits": {"nvidia.com/gpu": 4}},
                        "volumeMounts": [{"name": "saves", "mountPath": "/saves"}],
                    }],
                    "volumes": [{
                        "name": "saves",
                        "hostPath": {
                            "path": format!("/var/tmp/muster-gangs-{}", std::process::id()),
                            "type": "DirectoryOrCreate",
                        },
                    }],
                },
            },
        },
    })
}

fn create_classes(cluster: &KubernetesCluster) {
    for value in [1, 1000] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": format!("gangs-{value}")},
            "value": value,
        });
        cluster.kubectl_with(&["apply", "--filename=-"], &class.to_string());
    }
}

/// Returns the nodes of the running pods of a gang, sorted.
fn running_on(namespace: &TestNamespace, gang: &str) -> Vec<String> {
    let pods = namespace.list(&format!("gang={gang}"));
    let is_running = |pod: &&Value| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let node = |pod: &Value| pod["spec"]["nodeName"].as_str().unwrap().to_owned();
    let mut nodes: Vec<String> = pods.iter().filter(is_running).map(node).collect();
    nodes.sort();
    nodes
}

fn job(namespace: &TestNamespace, name: &str) -> Value {
    let jobs = namespace.objects("jobs", "");
    let named = |job: &&Value| job["metadata"]["name"] == name;
    jobs.iter().find(named).cloned().unwrap_or_default()
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_preempted_gang_saves_before_its_successor_starts() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("preempted-gang");
    create_classes(&cluster);
    namespace.create_object(&gang("victim", 1, SAVES));
    until("the first gang runs", || running_on(&namespace, "victim") == ["node1", "node2"]);
    namespace.create_object(&gang("urgent", 1000, CONTINUES));
    until("the second has run", || job(&namespace, "urgent")["status"]["succeeded"] == 2);
    let urgent = job(&namespace, "urgent");
    assert!(urgent["status"]["failed"].as_u64().unwrap_or(0) == 0, "{urgent}");
    // The victim was not ended for good: it starts again, and finds what it saved.
    until("the first runs again", || running_on(&namespace, "victim") == ["node1", "node2"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_gang_that_lost_a_node_runs_whole_again() {
    let cluster = KubernetesCluster::here();
    let _scheduler = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("lost-node");
    create_classes(&cluster);
    namespace.create_object(&gang("train", 1, WAITS));
    until("the gang runs", || running_on(&namespace, "train") == ["node1", "node2"]);
    let before: Vec<Value> = namespace.list("gang=train");
    let stopped = cluster.killed("node2");
    cluster.wait("node/node2", "condition=Ready=Unknown");
    until("its pod there is given up", || running_on(&namespace, "train") == ["node1"]);
    drop(stopped);
    until("the gang is whole again", || running_on(&namespace, "train") == ["node1", "node2"]);
    let uid = |pods: &[Value], node: &str| {
        let on = pods.iter().find(|pod| pod["spec"]["nodeName"] == node);
        on.map(|pod| pod["metadata"]["uid"].clone())
    };
    let after = namespace.list("gang=train");
    assert_ne!(uid(&before, "node2"), uid(&after, "node2"), "another pod took its place");
}

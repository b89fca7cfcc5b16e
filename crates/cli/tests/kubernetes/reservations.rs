//! Advance reservations on a real API server: whom they keep out, what their status says, and what a
//! new process finds.

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, success, until};
use crate::explain::{explained, muster_as};
use crate::scheduler_process::SchedulerProcess;
use crate::settings_object::SettingsObject;

fn reservation<'a>(
    cluster: &'a KubernetesCluster,
    name: &'static str,
    spec: &Value,
) -> SettingsObject<'a> {
    SettingsObject::apply(cluster, "AdvanceReservation", name, spec)
}

/// Returns a pod that needs one GPU of a node, and may name an advance reservation.
fn pod(name: &str, node: &str, inside: Option<&str>) -> Value {
    let mut annotations = json!({"muster.run/time-limit": "10m"});
    if let Some(reservation) = inside {
        annotations["muster.run/reservation"] = json!(reservation);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": "muster",
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{
                "name": "main", "image": "none",
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            }],
        },
    })
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_reserved_node_is_for_its_namespace_also_after_a_kill() {
    let cluster = KubernetesCluster::here();
    let first = SchedulerProcess::active(&cluster);
    let namespace = cluster.namespace("reservations");
    let node = cluster.get(&["nodes"])["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let spec = json!({
        "nodes": [node], "duration": "1h", "namespaces": ["reservations"], "stop": true,
        "reason": "an exam",
    });
    let exam = reservation(&cluster, "exam", &spec);
    until("the reservation is in force", || exam.status()["phase"] == "Active");
    assert_eq!(exam.status()["places"], json!([{"node": node}]));
    namespace.create_object(&pod("outside", &node, None));
    namespace.create_object(&pod("inside", &node, Some("exam")));
    namespace.create_object(&pod("lost", &node, Some("exams")));
    until("the pod inside has a node", || namespace.has_node("inside"));
    until("the status counts it", || exam.status()["running"] == 1);
    until("the pod outside is told", || namespace.reason("outside").contains("exam"));
    let expected = "there is no reservation exams";
    until(expected, || namespace.reason("lost") == expected);
    let text = explained(&cluster, &namespace, "pod/outside");
    assert!(text.contains("exam"), "{text}");
    let listed = muster_as(&cluster.kubeconfig(), &["reserve"]);
    let listed = success(&["reserve"], &listed);
    assert!(listed.contains("exam") && listed.contains("active"), "{listed}");

    // Wrong objects say so, and change nothing.
    let overlapping = reservation(&cluster, "overlapping", &spec);
    let expected = format!("{node} is in the reservation exam at an overlapping time");
    until(&expected, || overlapping.message() == expected);
    overlapping.change(&json!({"gpus": 1, "duration": "soon", "namespaces": ["reservations"]}));
    until("the wrong duration is named", || overlapping.message().contains("`duration`"));
    assert_eq!(overlapping.status()["phase"], "Refused");
    drop(overlapping);

    // Another process keeps what was promised.
    first.kill();
    let _second = SchedulerProcess::active(&cluster);
    namespace.create_object(&pod("late", &node, None));
    until("the next process tells it, too", || namespace.reason("late").contains("exam"));
    assert!(namespace.has_node("inside") && !namespace.has_node("outside"));
    let status = exam.status();
    assert_eq!((&status["phase"], &status["running"]), (&json!("Active"), &json!(1)));

    drop(exam);
    until("all may use the node again", || namespace.has_node("outside"));
    assert!(namespace.has_node("inside"), "what runs goes on");
}

//! Jobs whose pod the cluster ends: one that no other pod waits for starts again.

use std::fs;

use serde_json::{Value, json};

use super::target::{KubernetesTarget, submit};
use crate::cluster::until;
use crate::conform::JobPlace;

/// Returns a job with all GPUs of a node, which notes its start and ends once the test lets it.
fn job(place: &KubernetesTarget, name: &str, priority: &str) -> String {
    let folder = place.folder();
    let folder = folder.display();
    format!(
        "name: {name}\ngpus: 4\ngrace: 1s\nlabels: {{kubernetes.io/hostname: node1}}\nrun: |\n  \
         echo started >> {folder}/{name}\n  until [ -e {folder}/{name}-may-end ]; do usleep 50000; done\n\
         kubernetes: {{scheduler: none, priority-class: {priority}, volumes: ['shared:{folder}']}}\n"
    )
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_preempted_job_of_one_pod_starts_again() {
    let place = KubernetesTarget::without_scheduler();
    for (name, value) in [("disrupted", 1), ("urgent", 1000)] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        });
        place.namespace.cluster().kubectl_with(&["apply", "--filename=-"], &class.to_string());
    }
    let starts = |name: &str| {
        let text = fs::read_to_string(place.folder().join(name)).unwrap_or_default();
        text.lines().count()
    };
    // 1. It has no restarts, and gives way to an urgent one.
    submit(&place, &job(&place, "low", "disrupted"));
    until("it runs", || starts("low") == 1);
    submit(&place, &job(&place, "high", "urgent"));
    until("the urgent one runs in its place", || starts("high") == 1);
    let shown =
        || -> Value { serde_json::from_str(&place.ok(&["show", "low", "--json"])).unwrap() };
    until("it waits again", || shown()["state"] == "pending");
    // 2. It runs from its start once there is room, and ends well.
    fs::write(place.folder().join("high-may-end"), "").unwrap();
    assert_eq!(place.call(&["wait", "high"]).0, 0);
    until("it runs again", || starts("low") == 2);
    fs::write(place.folder().join("low-may-end"), "").unwrap();
    assert_eq!(place.call(&["wait", "low"]).0, 0);
}

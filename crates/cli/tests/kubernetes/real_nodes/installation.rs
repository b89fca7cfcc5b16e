//! The manifests of `muster init kubernetes` as users apply them: two replicas run in the cluster from
//! an image, schedule a gang, are replaced and removed, and leave running pods alone.

use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, success, until};

const DEPLOYMENT: &str = "deployment/muster-scheduler";
const IN_NAMESPACE: [&str; 2] = ["--namespace", "muster-system"];

fn manifests(image: &str, level: &str) -> String {
    let words = ["init", "kubernetes", "--image", image, "--level", level];
    let program = env!("CARGO_BIN_EXE_muster");
    success(&words, &Command::new(program).args(words).output().unwrap())
}

fn apply(cluster: &KubernetesCluster, manifests: &str) {
    let words = ["apply", "--filename=-"];
    success(&words, &cluster.kubectl_with(&words, manifests));
    let words = ["rollout", "status", DEPLOYMENT, "--timeout=120s"];
    cluster.kubectl(&[&words[..], &IN_NAMESPACE].concat());
}

/// Creates the pods of a gang that run until they are told to end.
fn create_gang(namespace: &TestNamespace, gang: &str) {
    for index in 0..2 {
        namespace.create_object(&json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": format!("{gang}-{index}"),
                "labels": {"muster.run/gang": gang},
                "annotations": {"muster.run/gang-size": "2"},
            },
            "spec": {
                "schedulerName": "muster",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "main",
                    "image": "localhost/busybox:1",
                    "command": ["sleep", "1000"],
                    "resources": {"limits": {"nvidia.com/gpu": 1}},
                }],
            },
        }));
    }
}

/// Waits until both pods of a gang run; returns their ids.
fn running(namespace: &TestNamespace, gang: &str) -> Vec<Value> {
    let pods = [format!("{gang}-0"), format!("{gang}-1")];
    pods.iter().map(|pod| namespace.reaches(pod, "Running")["metadata"]["uid"].clone()).collect()
}

/// Returns the pod that holds the lease.
fn active(cluster: &KubernetesCluster) -> String {
    let lease = cluster.get(&[&["lease", "muster-scheduler"][..], &IN_NAMESPACE].concat());
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_manifests_run_in_the_cluster_and_their_removal_leaves_pods_alone() {
    let cluster = KubernetesCluster::here();
    let image = cluster.program_image();
    let first = manifests(image, "rack=example.com/rack");
    apply(&cluster, &first);
    let namespace = cluster.namespace("installation");
    create_gang(&namespace, "before");
    let before = running(&namespace, "before");

    // An upgrade replaces both replicas; one of the new ones is active then.
    let old = active(&cluster);
    let second = manifests(image, "block=example.com/block");
    apply(&cluster, &second);
    until("a new replica is active", || !["", &old].contains(&active(&cluster).as_str()));
    create_gang(&namespace, "after");
    let after = running(&namespace, "after");

    let words = ["delete", "--filename=-", "--timeout=120s"];
    success(&words, &cluster.kubectl_with(&words, &second));
    assert_eq!(running(&namespace, "before"), before);
    assert_eq!(running(&namespace, "after"), after);
}

//! Pods with shares of GPUs on real nodes: the kubelet gives a GPU to their holder, and their processes are
//! told which one it is.

use serde_json::{Value, json};

use crate::cluster::{KubernetesCluster, TestNamespace, until};
use crate::scheduler_process::SchedulerProcess;

const SYSTEM: &str = "muster-system";

/// Prints the GPU that the process was told, and runs until it is told to end.
const SCRIPT: &str = "echo $NVIDIA_VISIBLE_DEVICES; until [ -e /end ]; do usleep 50000; done";

fn pod(name: &str, annotations: &Value, limits: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": "muster",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": "node1"},
            "containers": [{
                "name": "main",
                "image": "localhost/busybox:1",
                "command": ["sh", "-c", SCRIPT],
                "resources": {"limits": limits},
            }],
        },
    })
}

/// Creates a pod with a share of a GPU: no more than the annotation says so.
fn create_share(namespace: &TestNamespace, name: &str, share: &str) {
    namespace.create_object(&pod(name, &json!({"muster.run/gpu-share": share}), &json!({})));
}

/// Returns the GPU that a running pod was told.
fn gpu_of(namespace: &TestNamespace, name: &str) -> String {
    namespace.reaches(name, "Running");
    until("the pod prints its GPU", || !namespace.log(name).trim().is_empty());
    namespace.log(name).trim().to_owned()
}

fn holders(cluster: &KubernetesCluster) -> usize {
    let selector = "--selector=muster.run/gpu-holder";
    let pods = cluster.get(&["pods", selector, "--namespace", SYSTEM]);
    pods["items"].as_array().unwrap().len()
}

/// Node 1 has four GPUs: three of pods that want whole ones, and one in shares.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn two_pods_share_a_gpu_that_no_other_pod_gets() {
    let cluster = KubernetesCluster::here();
    let option = format!("--gpu-holder-image={}", cluster.program_image());
    let _scheduler = SchedulerProcess::active_with(&cluster, &[&option]);
    let namespace = cluster.namespace("gpu-shares");
    create_share(&namespace, "a", "0.5");
    create_share(&namespace, "b", "0.5");
    let shared = gpu_of(&namespace, "a");
    assert_eq!(gpu_of(&namespace, "b"), shared);
    assert_eq!(holders(&cluster), 1);

    for name in ["c", "d", "e", "f"] {
        namespace.create_object(&pod(name, &json!({}), &json!({"nvidia.com/gpu": 1})));
    }
    let mut gpus: Vec<String> =
        ["c", "d", "e"].iter().map(|name| gpu_of(&namespace, name)).collect();
    gpus.push(shared.clone());
    gpus.sort();
    assert_eq!(gpus, ["0", "1", "2", "3"]);
    until("the fourth says why it waits", || namespace.reason("f").contains("GPU"));

    // A share that comes back is given again; with the last one the holder goes, and its GPU is given whole.
    let end = |name| {
        namespace.exec(name, &["touch", "/end"]);
        namespace.reaches(name, "Succeeded");
    };
    end("a");
    create_share(&namespace, "g", "0.5");
    assert_eq!(gpu_of(&namespace, "g"), shared);
    end("b");
    end("g");
    assert_eq!(gpu_of(&namespace, "f"), shared);
    assert_eq!(holders(&cluster), 0);
}

/// Without the image that a holder runs, no pod waits in silence.
#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_holder_that_does_not_start_is_said() {
    let cluster = KubernetesCluster::here();
    let option = "--gpu-holder-image=localhost/missing:1";
    let scheduler = SchedulerProcess::active_with(&cluster, &[option]);
    let namespace = cluster.namespace("gpu-shares-without-holder");
    create_share(&namespace, "a", "0.5");
    scheduler.waits_for_line("took no GPU within");
    assert!(scheduler.log().contains("missing:1"), "{}", scheduler.log());
    until("the pod says so", || namespace.reason("a").contains("took no GPU within"));
    namespace.delete("a");
    until("the holder goes", || holders(&cluster) == 0);
}

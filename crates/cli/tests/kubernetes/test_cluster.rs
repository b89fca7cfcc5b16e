//! Properties of the test cluster on which the other tests rely: nodes with GPUs, the default scheduler,
//! pods that run and end as told, over-commitment that is seen, and failures of nodes and programs.

use serde_json::Value;

use crate::cluster::{KubernetesCluster, TestPod};

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn eight_ready_nodes_of_eight_gpus_hang_on_two_leaves() {
    let cluster = KubernetesCluster::here();
    let nodes = cluster.get(&["nodes"]);
    let nodes = nodes["items"].as_array().unwrap();
    assert_eq!(nodes.len(), 8);
    for node in nodes {
        assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "8");
        assert_eq!(node["spec"]["taints"], Value::Null, "{node}");
    }
    let leaf = |leaf: &str| {
        let label = format!("--selector=network.topology.nvidia.com/leaf={leaf}");
        cluster.kubectl(&["get", "nodes", "--output=name", &label])
    };
    assert_eq!(leaf("leaf1"), "node/node1\nnode/node2\nnode/node3\nnode/node4\n");
    assert_eq!(leaf("leaf2"), "node/node5\nnode/node6\nnode/node7\nnode/node8\n");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_default_scheduler_binds_a_pod_which_runs_and_ends_with_its_exit_code() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("ends-with-exit-code");
    namespace.create(&TestPod {
        name: "fails",
        gpus: 8,
        annotations: &[("run-seconds", "2"), ("exit-code", "3")],
        ..TestPod::default()
    });
    let running = namespace.reaches("fails", "Running");
    assert!(running["status"]["podIP"].as_str().unwrap().starts_with("10.128."), "{running}");
    let node = running["spec"]["nodeName"].as_str().unwrap();
    assert!(node.starts_with("node"), "{running}");
    let ended = namespace.reaches("fails", "Failed");
    let state = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(state["exitCode"], 3, "{ended}");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_pod_that_does_not_fit_beside_those_of_its_node_fails() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("does-not-fit");
    let pod = |name, gpus| TestPod { name, gpus, node: Some("node1"), ..TestPod::default() };
    namespace.create(&pod("first", 5));
    namespace.reaches("first", "Running");
    // The API server binds it: it does not know what is free.
    namespace.create(&pod("too-large", 4));
    let failed = namespace.reaches("too-large", "Failed");
    assert_eq!(failed["status"]["reason"], "OutOfnvidia.com/gpu", "{failed}");
    namespace.create(&pod("fits", 3));
    namespace.reaches("fits", "Running");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_deleted_pod_keeps_its_gpus_until_it_has_stopped() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("deleted");
    namespace.create(&TestPod {
        name: "stops-slowly",
        gpus: 8,
        node: Some("node2"),
        annotations: &[("stop-seconds", "2")],
        ..TestPod::default()
    });
    namespace.reaches("stops-slowly", "Running");
    namespace.delete("stops-slowly");
    let pod = |name| TestPod { name, gpus: 1, node: Some("node2"), ..TestPod::default() };
    namespace.create(&pod("meanwhile"));
    namespace.reaches("meanwhile", "Failed");
    namespace.wait("stops-slowly", "delete");
    namespace.create(&pod("afterwards"));
    namespace.reaches("afterwards", "Running");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_stopped_node_is_tainted_and_its_pods_change_no_more() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("stopped-node");
    namespace.create(&TestPod { name: "stays", node: Some("node3"), ..TestPod::default() });
    namespace.reaches("stays", "Running");
    let stopped = cluster.stopped("node3");
    cluster.wait("node/node3", "condition=Ready=Unknown");
    cluster.wait(
        "node/node3",
        "jsonpath={.spec.taints[?(@.effect==\"NoExecute\")].key}=node.kubernetes.io/unreachable",
    );
    namespace.delete("stays");
    drop(stopped);
    cluster.wait("node/node3", "condition=Ready");
    namespace.wait("stays", "delete");
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn pods_wait_while_the_scheduler_is_stopped_and_run_when_the_fake_kubelet_comes_back() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("stopped-programs");
    let scheduler = cluster.stopped("kube-scheduler");
    namespace.create(&TestPod { name: "waits", gpus: 1, ..TestPod::default() });
    assert_eq!(namespace.pod("waits")["spec"]["nodeName"], Value::Null);
    let kubelet = cluster.stopped("fake-kubelet");
    drop(scheduler);
    namespace.wait("waits", "condition=PodScheduled");
    assert_eq!(namespace.pod("waits")["status"]["phase"], "Pending");
    drop(kubelet);
    namespace.reaches("waits", "Running");
}

//! `muster inventory` reads the nodes of a real API server.

use std::process::Command;

use crate::cluster::{KubernetesCluster, success};

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn the_inventory_has_the_nodes_their_gpus_and_their_switches() {
    let cluster = KubernetesCluster::here();
    let dir = tempfile::tempdir().unwrap();
    let nodes = dir.path().join("nodes.json");
    std::fs::write(&nodes, cluster.get(&["nodes"]).to_string()).unwrap();
    let mut muster = Command::new(env!("CARGO_BIN_EXE_muster"));
    muster.args(["inventory", "--level", "leaf=network.topology.nvidia.com/leaf", "--from"]);
    let text = success(&["inventory"], &muster.arg(&nodes).output().unwrap());
    insta::assert_snapshot!(text, @r#"
    # 8 nodes with 64 GPUs (64 h100), from kubectl get nodes -o json; written by muster inventory
    levels: [leaf]
    nodes:
      - {name: "node[1-4]", gpus: 8, gpu: h100, gpu-memory: 81559MiB, cpus: 128, memory: 1024GiB, domain: {leaf: leaf1}}
      - {name: "node[5-8]", gpus: 8, gpu: h100, gpu-memory: 81559MiB, cpus: 128, memory: 1024GiB, domain: {leaf: leaf2}}
    "#);
}

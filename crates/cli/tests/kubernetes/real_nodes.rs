//! Properties of real nodes on which other tests rely: processes with devices of their own, pods that reach
//! each other, and a node that loses its power.

mod claims;
mod conformance;
pub mod contention;
mod disruptions;
mod endings;
mod exported_job;
mod gangs;
mod installation;
pub mod job_set;
mod rendezvous;
mod shares;
mod sweeps;
pub mod target;

use std::collections::BTreeSet;

use crate::cluster::{KubernetesCluster, TestPod};

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn processes_get_different_gpus_and_end_with_their_exit_code() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("devices");
    let script = "echo $NVIDIA_VISIBLE_DEVICES; until [ -e /end ]; do usleep 50000; done; exit 3";
    let names = ["first", "second"];
    for name in names {
        let script = script.into();
        namespace.create(&TestPod {
            name,
            gpus: 2,
            node: Some("node1"),
            script,
            ..TestPod::default()
        });
    }
    for name in names {
        namespace.reaches(name, "Running");
    }
    let mut devices = BTreeSet::new();
    for name in names {
        namespace.exec(name, &["touch", "/end"]);
        let ended = namespace.reaches(name, "Failed");
        let state = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(state["exitCode"], 3, "{ended}");
        devices.extend(namespace.log(name).trim().split(',').map(str::to_owned));
    }
    assert_eq!(devices.iter().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn pods_of_two_nodes_reach_each_other_by_their_addresses() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("network");
    let pod = |name, node, script| TestPod { name, node: Some(node), script, ..TestPod::default() };
    namespace.create(&pod("server", "node1", "echo hello | nc -l -p 99".into()));
    let server = namespace.reaches("server", "Running");
    let address = server["status"]["podIP"].as_str().unwrap();
    let script = format!("until nc {address} 99 < /dev/null; do usleep 100000; done");
    namespace.create(&pod("client", "node2", script));
    namespace.reaches("client", "Succeeded");
    assert_eq!(namespace.log("client").trim_end().lines().last(), Some("hello"));
}

#[test]
#[ignore = "needs a Kubernetes cluster: cargo xtask kubernetes test"]
fn a_node_that_lost_its_power_is_tainted_and_runs_pods_again_later() {
    let cluster = KubernetesCluster::here();
    let namespace = cluster.namespace("power");
    let pod = |name, script: &str| TestPod {
        name,
        gpus: 4,
        node: Some("node2"),
        script: script.into(),
        ..TestPod::default()
    };
    namespace.create(&pod("lost", "sleep 100000"));
    namespace.reaches("lost", "Running");
    let stopped = cluster.killed("node2");
    // After the controller's grace period of 50 s.
    cluster.wait("node/node2", "condition=Ready=Unknown");
    drop(stopped);
    namespace.delete("lost");
    namespace.wait("lost", "delete");
    namespace.create(&pod("later", "true"));
    namespace.reaches("later", "Succeeded");
}

//! Pods that keep apart by required anti-affinity: with pods of their own kind, with pods that the
//! term selects and that have none, and with pods of other schedulers.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{PodBuilder, node, pod};

/// Returns a pod that a term for `app: x` selects.
fn plain(name: &str) -> PodBuilder {
    pod(name, 0).label("app", "x")
}

/// Returns a pod that shares no node with a pod of `app: x`.
fn carrier(name: &str) -> PodBuilder {
    plain(name).spec("affinity", anti_affinity())
}

fn anti_affinity() -> Value {
    let term = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
    });
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

fn of_others(pod: PodBuilder) -> PodBuilder {
    pod.spec("schedulerName", json!("other"))
}

/// Places the pods of another scheduler on the only node.
fn with_foreign(foreign: PodBuilder) -> Cluster {
    let mut cluster = Cluster::new([node("n", 0)]);
    cluster.create(&of_others(foreign).spec("nodeName", json!("n")));
    cluster.settle();
    cluster
}

#[test]
fn a_selected_pod_keeps_a_carrier_away() {
    let mut cluster = Cluster::new([node("n", 0)]);
    cluster.create_all([plain("a"), plain("b")]);
    cluster.settle();
    assert_eq!((cluster.bound("a"), cluster.bound("b")), (1, 1), "pods without a term share nodes");
    cluster.create(&carrier("c"));
    cluster.run(5_000);
    assert_eq!(cluster.bound("c"), 0);
    let told = cluster.reported("c");
    assert!(told.contains("no node has a free place that pod anti-affinity allows"), "{told}");
    cluster.delete_by_name("a");
    cluster.run(5_000);
    assert_eq!(cluster.bound("c"), 0, "the other one is still there");
    cluster.delete_by_name("b");
    cluster.run(5_000);
    assert_eq!(cluster.bound("c"), 1);
}

#[test]
fn a_carrier_keeps_selected_pods_away() {
    let mut cluster = Cluster::new([node("n", 0)]);
    cluster.create(&carrier("c"));
    cluster.settle();
    cluster.create_all([plain("a"), carrier("d"), pod("unrelated", 0)]);
    cluster.run(5_000);
    assert_eq!([cluster.bound("a"), cluster.bound("d"), cluster.bound("unrelated")], [0, 0, 1]);
    cluster.delete_by_name("c");
    cluster.run(60_000);
    assert_eq!(cluster.bound("a") + cluster.bound("d"), 1, "one of both, not both");
}

#[test]
fn both_at_once_share_no_node() {
    let mut cluster = Cluster::new([node("m", 0), node("n", 0)]);
    cluster.create_all([carrier("c"), plain("a"), plain("b")]);
    cluster.settle();
    let node_of = |name: &str| cluster.pod(name).node.clone().unwrap();
    assert_ne!(node_of("c"), node_of("a"));
    assert_eq!(node_of("a"), node_of("b"));
}

#[test]
fn pods_of_other_schedulers_count() {
    for (foreign, ours) in [(plain("f"), carrier("p")), (carrier("f"), plain("p"))] {
        let mut cluster = with_foreign(foreign);
        cluster.create(&ours);
        cluster.run(5_000);
        assert_eq!(cluster.bound("p"), 0, "{}", ours.0);
        cluster.delete_by_name("f");
        cluster.run(60_000);
        assert_eq!(cluster.bound("p"), 1, "{}", ours.0);
    }
    // In another namespace, a term selects nothing.
    let mut cluster = with_foreign(plain("f").with("/metadata/namespace", json!("elsewhere")));
    cluster.create(&carrier("p"));
    cluster.run(5_000);
    assert_eq!(cluster.bound("p"), 1);
}

/// Running pods count in whatever order a new process learns of them.
#[test]
fn a_restart_forgets_none_of_them() {
    for reverse in [false, true] {
        let mut cluster = Cluster::new([node("m", 0), node("n", 0)]);
        cluster.create_all([plain("a"), carrier("c")]);
        cluster.settle();
        cluster.restart_with_lists(|listed| {
            if reverse {
                listed.reverse();
            }
        });
        cluster.create_all([plain("b"), carrier("d")]);
        cluster.run(5_000);
        let node_of = |name: &str| cluster.pod(name).node.clone();
        assert_eq!(node_of("b"), node_of("a"));
        assert_eq!(node_of("d"), None, "one node has a carrier, the other selected pods");
    }
}

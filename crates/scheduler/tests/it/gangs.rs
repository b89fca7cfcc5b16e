//! Gangs start as a whole or not at all.

use muster_kubernetes::group::GroupKind;
use muster_kubernetes::pod::PodPhase;
use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{PodBuilder, group, labelled_node, node, pod};

fn gang(name: &str, size: usize) -> Vec<PodBuilder> {
    (0..size).map(|at| pod(&format!("{name}-{at}"), 1).gang(name, size)).collect()
}

/// Two gangs of 5 whose pods are made in turns, on 8 GPUs: a scheduler that looks at pods alone
/// starts 4 of each.
#[test]
fn interleaved_gangs_start_one_after_the_other() {
    for nodes in [vec![node("n", 8)], (0..8).map(|at| node(&format!("n{at}"), 1)).collect()] {
        let mut cluster = Cluster::new(nodes);
        for (a, b) in gang("a", 5).iter().zip(&gang("b", 5)) {
            cluster.create(a);
            cluster.settle();
            cluster.create(b);
            cluster.settle();
        }
        assert_eq!((cluster.bound("a-"), cluster.bound("b-")), (5, 0));
        cluster.run(2_000);
        assert!(
            cluster
                .reported("b-0")
                .contains("needs 5 GPUs together, 3 are free; with 3 pods it would start now"),
            "{}",
            cluster.reported("b-0")
        );
        for at in 0..5 {
            cluster.end(&format!("a-{at}"), PodPhase::Succeeded);
        }
        cluster.settle();
        assert_eq!((cluster.bound("a-"), cluster.bound("b-")), (0, 5));
        cluster.assert_no_overcommit();
    }
}

#[test]
fn a_gang_waits_for_all_its_pods() {
    let mut cluster = Cluster::new([node("n", 8)]);
    let pods = gang("a", 3);
    cluster.create_all(pods[..2].to_vec());
    cluster.run(2_000);
    assert_eq!(cluster.bound("a-"), 0);
    assert_eq!(cluster.reported("a-0"), "the gang needs 3 pods, and 2 exist");
    cluster.create(&pods[2]);
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 3);
}

#[test]
fn pods_beyond_the_minimum_follow_one_by_one() {
    let mut cluster = Cluster::new([node("n", 4)]);
    let pods: Vec<PodBuilder> = (0..6).map(|at| pod(&format!("a-{at}"), 1).gang("a", 3)).collect();
    cluster.create_all(pods);
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 4);
    cluster.end("a-0", PodPhase::Succeeded);
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 4);
}

#[test]
fn the_objects_of_other_projects_make_gangs() {
    for (kind, spec, label) in [
        (GroupKind::Coscheduling, json!({"minMember": 3}), "scheduling.x-k8s.io/pod-group"),
        (GroupKind::Volcano, json!({"minMember": 3}), "scheduling.k8s.io/group-name"),
        (GroupKind::Kai, json!({"minMember": 3}), "pod-group-name"),
        (
            GroupKind::JobSet,
            json!({"replicatedJobs": [{"replicas": 3, "template": {"spec": {}}}]}),
            "jobset.sigs.k8s.io/jobset-name",
        ),
        (GroupKind::RayCluster, json!({"workerGroupSpecs": [{"replicas": 2}]}), "ray.io/cluster"),
    ] {
        let mut cluster = Cluster::new([node("n", 2)]);
        let pods: Vec<PodBuilder> =
            (0..3).map(|at| pod(&format!("a-{at}"), 1).label(label, "g")).collect();
        cluster.create_all(pods);
        cluster.run(2_000);
        assert!(cluster.reported("a-0").contains("does not exist in namespace team"), "{kind}");
        cluster.set_group(group(kind, "g", spec));
        cluster.run(11_000);
        assert_eq!(cluster.bound("a-"), 0, "{kind}: two of three fit");
        cluster.set_node(node("m", 1));
        cluster.settle();
        assert_eq!(cluster.bound("a-"), 3, "{kind}");
    }
}

#[test]
fn an_indexed_job_is_a_gang_and_another_job_is_not() {
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": true}]);
    for (spec, expected) in [
        (json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3}), 0),
        (json!({"parallelism": 3}), 2),
    ] {
        let mut cluster = Cluster::new([node("n", 2)]);
        cluster.set_group(group(GroupKind::Job, "j", spec));
        for at in 0..3 {
            let mut one = pod(&format!("j-{at}"), 1);
            one.0["metadata"]["ownerReferences"] = owner.clone();
            cluster.create(&one);
        }
        cluster.settle();
        assert_eq!(cluster.bound("j-"), expected);
    }
}

/// Workers of another shape than the leader are in the same gang.
#[test]
fn pods_of_several_shapes_and_rules_start_together() {
    let mut cluster = Cluster::new([
        labelled_node("cpu", 0, json!({"pool": "cpu"})),
        labelled_node("gpu", 2, json!({"pool": "gpu"})),
    ]);
    cluster.create(&pod("a-leader", 0).gang("a", 3).spec("nodeSelector", json!({"pool": "cpu"})));
    cluster.create(&pod("a-0", 1).gang("a", 3).spec("nodeSelector", json!({"pool": "gpu"})));
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 0);
    cluster.create(&pod("a-1", 1).gang("a", 3).spec("nodeSelector", json!({"pool": "gpu"})));
    cluster.settle();
    assert_eq!(cluster.places("a-"), ["a-0=gpu", "a-1=gpu", "a-leader=cpu"]);
}

#[test]
fn a_gang_stays_in_its_topology_domain() {
    let rack = |name: &str, rack: &str| labelled_node(name, 4, json!({"rack": rack}));
    let nodes = [rack("a1", "a"), rack("b1", "b"), rack("b2", "b")];
    let mut cluster = Cluster::with(nodes, &[("rack", "rack")], muster_model::QueueTree::single());
    let with_rule = |at: usize| {
        pod(&format!("g-{at}"), 1).gang("g", 6).annotation("muster.run/required-topology", "rack")
    };
    cluster.create_all((0..6).map(with_rule));
    cluster.settle();
    assert!(
        cluster.places("g-").iter().all(|place| place.contains("=b")),
        "{:?}",
        cluster.places("g-")
    );
    assert_eq!(cluster.bound("g-"), 6);
}

/// The rest of a gang keeps its nodes, and the pod that replaces another joins it.
#[test]
fn a_replaced_pod_rejoins_its_gang() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_all(gang("a", 4));
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 4);
    cluster.delete_by_name("a-2");
    cluster.create(&pod("other", 1));
    cluster.settle();
    assert_eq!((cluster.bound("a-"), cluster.bound("other")), (3, 1));
    cluster.now = muster_model::Time(cluster.now.0 + 5_000);
    cluster.create(&pod("a-2", 1).gang("a", 4));
    cluster.run(60_000);
    // It waits for its GPU; the three that run are left alone.
    assert_eq!(cluster.bound("a-"), 3);
    cluster.end("other", PodPhase::Succeeded);
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 4);
    cluster.assert_no_overcommit();
}

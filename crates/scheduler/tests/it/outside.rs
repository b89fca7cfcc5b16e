//! What happens outside the scheduler: refusals, rivals, lost nodes, restarts.

use muster_kubernetes::pod::PodPhase;
use muster_model::Time;
use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{PodBuilder, labelled_node, node, pod, read_node};

fn gang(name: &str, size: usize) -> Vec<PodBuilder> {
    (0..size).map(|at| pod(&format!("{name}-{at}"), 1).gang(name, size)).collect()
}

#[test]
fn a_restarted_scheduler_knows_what_runs() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.create_all(gang("a", 5));
    cluster.settle();
    let before = cluster.places("a-");
    cluster.restart_scheduler();
    cluster.create_all(gang("b", 5));
    cluster.settle();
    assert_eq!(cluster.places("a-"), before);
    assert_eq!(cluster.bound("b-"), 0);
    for at in 0..5 {
        cluster.end(&format!("a-{at}"), PodPhase::Failed);
    }
    cluster.settle();
    assert_eq!(cluster.bound("b-"), 5);
}

#[test]
fn pods_of_other_schedulers_take_their_place() {
    let mut cluster = Cluster::new([node("n", 8)]);
    let foreign = pod("foreign", 4)
        .spec("schedulerName", json!("default-scheduler"))
        .spec("nodeName", json!("n"));
    cluster.create(&foreign);
    cluster.create_all(gang("a", 5));
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 0);
    cluster.end("foreign", PodPhase::Succeeded);
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 5);
}

/// Pods and ephemeral storage are limited, too.
#[test]
fn every_resource_of_a_node_counts() {
    let small = read_node(json!({
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "64", "memory": "1Gi", "pods": "3", "ephemeral-storage": "10", "rdma/hca": "1"}},
    }));
    let mut cluster = Cluster::new([small]);
    let asks =
        |name: &str, requests| pod(name, 0).with("/spec/containers/0/resources/requests", requests);
    cluster.create(&asks("disk-0", json!({"ephemeral-storage": "6"})));
    cluster.create(&asks("disk-1", json!({"ephemeral-storage": "6"})));
    cluster.create(&asks("rdma-0", json!({"rdma/hca": "1"})));
    cluster.create(&asks("rdma-1", json!({"rdma/hca": "1"})));
    cluster.settle();
    cluster.create(&asks("plain-0", json!({})));
    cluster.create(&asks("plain-1", json!({})));
    cluster.settle();
    assert_eq!((cluster.bound("disk"), cluster.bound("rdma"), cluster.bound("plain")), (1, 1, 1));
}

#[test]
fn a_refused_binding_is_tried_again_and_the_rest_stays() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.refuse.insert("a-3".to_owned());
    cluster.create_all(gang("a", 5));
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 4);
    cluster.refuse.clear();
    cluster.run(3_000);
    assert_eq!(cluster.bound("a-"), 5);
    assert_eq!(cluster.scheduler.counts().rolled_back, 0);
}

#[test]
fn a_half_bound_gang_is_rolled_back() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.refuse.insert("a-3".to_owned());
    cluster.create_all(gang("a", 5));
    cluster.run(29_000);
    assert_eq!(cluster.bound("a-"), 4);
    cluster.run(2_000);
    assert_eq!(cluster.bound("a-"), 0);
    assert_eq!(cluster.scheduler.counts().rolled_back, 1);
    // Its GPUs are free for others.
    cluster.create_all(gang("b", 8));
    cluster.settle();
    assert_eq!(cluster.bound("b-"), 8);
}

/// The scheduler dies between two bindings of a gang: its successor completes it, or rolls it back.
#[test]
fn a_gang_that_a_dead_scheduler_left_half_bound_is_completed_or_rolled_back() {
    for has_space in [true, false] {
        let mut cluster = Cluster::new([node("n", 5)]);
        cluster.create_all(gang("a", 5));
        let actions = cluster.scheduler.step(cluster.now);
        assert_eq!(actions.len(), 5);
        for action in actions.into_iter().take(2) {
            cluster.carry_out(action);
        }
        if !has_space {
            let rival =
                pod("rival", 1).spec("schedulerName", json!("other")).spec("nodeName", json!("n"));
            cluster.create(&rival);
        }
        cluster.restart_scheduler();
        cluster.run(31_000);
        assert_eq!(cluster.bound("a-"), if has_space { 5 } else { 0 });
    }
}

#[test]
fn a_node_that_is_gone_ends_its_pods_only() {
    let mut cluster = Cluster::new([node("m", 2), node("n", 4)]);
    cluster.create_all(gang("a", 6));
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 6);
    cluster.remove_node("n");
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 2);
    cluster.create(&pod("single", 1));
    cluster.run(60_000);
    assert_eq!((cluster.bound("a-"), cluster.bound("single")), (2, 0));
    cluster.set_node(node("n", 4));
    cluster.settle();
    assert_eq!(cluster.bound("single"), 1);
}

#[test]
fn cordoned_and_tainted_nodes_take_no_pods() {
    let tainted = |effect: &str| {
        json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "gpu", "effect": effect}]},
               "status": {"allocatable": {"cpu": "8", "pods": "10", "nvidia.com/gpu": "4"}}})
    };
    let mut cluster = Cluster::new([read_node(tainted("NoSchedule"))]);
    cluster.create(&pod("a", 1));
    cluster.create(&pod("b", 1).spec("tolerations", json!([{"key": "gpu", "operator": "Exists"}])));
    cluster.settle();
    assert_eq!((cluster.bound("a"), cluster.bound("b")), (0, 1));
    cluster.set_node(read_node(tainted("PreferNoSchedule")));
    cluster.settle();
    assert_eq!(cluster.bound("a"), 1);
    let mut cordoned = tainted("PreferNoSchedule");
    cordoned["spec"]["unschedulable"] = json!(true);
    cluster.set_node(read_node(cordoned));
    cluster.create(&pod("c", 1));
    cluster.settle();
    assert_eq!((cluster.bound("a"), cluster.bound("c")), (1, 0));
}

#[test]
fn a_gpu_that_fails_its_health_check_is_not_used() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.set_node(node("n", 6));
    cluster.create_all((0..8).map(|at| pod(&format!("a-{at}"), 1)));
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 6);
    cluster.set_node(node("n", 8));
    cluster.settle();
    assert_eq!(cluster.bound("a-"), 8);
}

/// A pod of the same name is another pod, and an old report takes no binding back.
#[test]
fn names_are_used_again_and_reports_arrive_late() {
    let mut cluster = Cluster::new([node("n", 1)]);
    cluster.create(&pod("a", 1));
    let unbound = cluster.pod("a").clone();
    cluster.settle();
    assert_eq!(cluster.bound("a"), 1);
    cluster.scheduler.observe(muster_scheduler::Observation::Pod(Box::new(unbound)));
    assert_eq!(cluster.scheduler.step(cluster.now), []);
    cluster.now = Time(cluster.now.0 + 1_000);
    cluster.delete_by_name("a");
    cluster.create(&pod("a", 1));
    cluster.settle();
    assert_eq!(cluster.bound("a"), 1);
}

#[test]
fn priority_preempts_whole_gangs() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_all(gang("low", 4));
    cluster.settle();
    cluster.create(&pod("high", 2).spec("priority", json!(1000)));
    cluster.settle();
    assert_eq!((cluster.bound("low-"), cluster.bound("high")), (0, 1));
    // The pods of the gang that were deleted come back, and wait.
    cluster.create_all(gang("low", 4));
    cluster.settle();
    assert_eq!(cluster.bound("low-"), 0);
    cluster.end("high", PodPhase::Succeeded);
    cluster.settle();
    assert_eq!(cluster.bound("low-"), 4);
}

#[test]
fn labels_of_nodes_decide_by_affinity() {
    let nodes =
        [labelled_node("a", 1, json!({"gen": "4"})), labelled_node("b", 1, json!({"gen": "5"}))];
    let mut cluster = Cluster::new(nodes);
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["4"]}]}],
    }}});
    cluster.create(&pod("x-0", 1).spec("affinity", affinity.clone()));
    cluster.create(&pod("x-1", 1).spec("affinity", affinity));
    cluster.settle();
    assert_eq!(cluster.bound("x-"), 1);
    assert!(cluster.places("x-")[0].ends_with("=b"));
    cluster.set_node(labelled_node("a", 1, json!({"gen": "6"})));
    cluster.settle();
    assert_eq!(cluster.bound("x-"), 2);
}

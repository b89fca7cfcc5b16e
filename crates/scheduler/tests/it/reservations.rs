//! Advance reservations: who may run where and when, what is refused, and what a new process knows.

use muster_kubernetes::node::NodeFacts;
use muster_model::view::AdvanceReservationView;
use muster_scheduler::ReservationState;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{PodBuilder, job, labelled_node, node, pod, read_node};

/// Refusal where no node has the labels of a selector.
const NO_NODE: &str =
    "no node has the labels pool=exam; `kubectl get nodes --show-labels` lists them";

const HOUR: u64 = 3_600_000;
const MINUTE: u64 = 60_000;

/// The tests begin at 00:16:40.
const AN_HOUR_LATER: &str = "1970-01-01T01:16:40Z";

/// Returns settings for the node `n` from an hour after the beginning of the test, for two hours.
fn of_node() -> Value {
    json!({"nodes": ["n"], "start": AN_HOUR_LATER, "duration": "2h", "namespaces": ["team"]})
}

fn of_gpus(count: u32) -> Value {
    json!({"gpus": count, "start": AN_HOUR_LATER, "duration": "2h", "namespaces": ["team"]})
}

fn with(mut spec: Value, key: &str, value: Value) -> Value {
    spec[key] = value;
    spec
}

/// Returns a pod with a time limit.
fn limited(name: &str, gpus: u32, limit: &str) -> PodBuilder {
    pod(name, gpus).annotation("muster.run/time-limit", limit)
}

/// Returns a pod that runs in the reservation `exam`.
fn inside(name: &str, gpus: u32, limit: &str) -> PodBuilder {
    limited(name, gpus, limit).annotation("muster.run/reservation", "exam")
}

fn in_force(cluster: &Cluster) -> AdvanceReservationView {
    match cluster.reservation("exam") {
        ReservationState::InForce(view) => *view,
        other => panic!("it is not in force: {other:?}"),
    }
}

fn refusal(cluster: &Cluster) -> String {
    match cluster.reservation("exam") {
        ReservationState::Refused(defect) => defect,
        other => panic!("it is not refused: {other:?}"),
    }
}

/// Makes a cluster of one node with eight GPUs and a reservation `exam`.
fn cluster(reservation: Value) -> Cluster {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.settle();
    cluster.set_reservation("exam", reservation);
    cluster.settle();
    cluster
}

#[test]
fn before_it_begins_only_pods_that_end_in_time_start_there() {
    let mut cluster = cluster(of_node());
    assert!(!in_force(&cluster).is_active);
    cluster.create_all([
        limited("short", 1, "20m"),
        limited("long", 1, "90m"),
        pod("endless", 1),
        inside("own", 4, "30m"),
    ]);
    cluster.run(2_000);
    let bound = ["short", "long", "endless", "own"].map(|name| cluster.bound(name));
    assert_eq!(bound, [1, 0, 0, 0]);
    let told = cluster.reported("long").to_owned();
    assert!(told.contains("reservation exam"), "{told}");
    let told = cluster.reported("own").to_owned();
    assert!(told.contains("reservation exam") && told.contains("01:16"), "{told}");
    cluster.run(HOUR);
    assert!(in_force(&cluster).is_active);
    assert_eq!((cluster.bound("own"), cluster.bound("long")), (1, 0));
    cluster.create(&limited("late", 1, "10m"));
    cluster.run(2_000);
    let told = cluster.reported("late");
    assert!(told.contains("set aside for reservation exam until 03:16:40"), "{told}");
    assert_eq!(in_force(&cluster).running, 1);
    // When it is over, the others start.
    cluster.delete_by_name("own");
    cluster.run(2 * HOUR);
    assert_eq!(cluster.reservation("exam"), ReservationState::Over);
    assert_eq!((cluster.bound("long"), cluster.bound("endless")), (1, 1));
    cluster.create(&inside("too-late", 1, "10m"));
    cluster.run(2_000);
    let told = cluster.reported("too-late");
    assert!(told.contains("exam is not in force: its last occurrence has ended"), "{told}");
}

#[test]
fn each_pod_that_cannot_use_it_is_told_why() {
    let mut cluster = cluster(with(of_node(), "namespaces", json!(["ada"])));
    cluster.set_reservation("own", with(of_node(), "nodes", json!(["unknown"])));
    let named = |name: &str, reservation: &str| {
        limited(name, 1, "10m").annotation("muster.run/reservation", reservation)
    };
    cluster.create_all([
        named("foreign", "exam"),
        named("unknown", "nightly"),
        named("refused", "own"),
    ]);
    cluster.run(2_000);
    for (name, text) in [
        ("foreign", "the reservation exam is for other namespaces and queues"),
        ("unknown", "there is no reservation nightly"),
        ("refused", "the reservation own is not in force: there is no node unknown"),
    ] {
        assert!(cluster.reported(name).contains(text), "{name}: {}", cluster.reported(name));
    }
    // What users write later counts.
    cluster.set_reservation("nightly", with(of_gpus(2), "start", json!(null)));
    cluster.run(2_000);
    assert_eq!(cluster.bound("unknown"), 0, "the GPUs of the node are in the other one later");
    cluster.delete_reservation("exam");
    cluster.run(10_000);
    assert_eq!(cluster.bound("unknown"), 1);
}

#[test]
fn a_pod_without_a_time_limit_does_not_fit_into_it() {
    let mut cluster = cluster(of_node());
    cluster.create(&pod("own", 1).annotation("muster.run/reservation", "exam"));
    cluster.create(&inside("long", 1, "3h"));
    cluster.run(2 * HOUR);
    assert_eq!((cluster.bound("own"), cluster.bound("long")), (0, 0));
    let told = cluster.reported("own");
    assert!(told.contains("time limit"), "{told}");
}

#[test]
fn one_in_the_way_of_running_pods_is_refused_until_they_end() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.create_all([pod("endless", 1), limited("short", 1, "10m")]);
    cluster.settle();
    cluster.set_reservation("exam", of_node());
    cluster.settle();
    let text = refusal(&cluster);
    assert!(text.contains("not all of its nodes are free then: team/endless may"), "{text}");
    cluster.set_reservation("exam", of_gpus(8));
    cluster.settle();
    let text = refusal(&cluster);
    assert!(text.contains("only 7 of 8 GPUs can be set aside then: team/endless"), "{text}");
    cluster.delete_by_name("endless");
    cluster.run(10_000);
    assert_eq!(in_force(&cluster).gpus_missing, 0);
}

#[test]
fn one_that_stops_others_ends_them_when_it_begins() {
    let mut cluster = Cluster::new([node("n", 8)]);
    cluster.create(&pod("endless", 1));
    cluster.settle();
    cluster.set_reservation("exam", with(of_node(), "stop", json!(true)));
    cluster.create(&inside("own", 8, "1h"));
    cluster.run(59 * MINUTE);
    assert_eq!(cluster.bound("endless"), 1);
    cluster.run(2 * MINUTE);
    assert_eq!((cluster.bound("endless"), cluster.bound("own")), (0, 1));
    assert!(
        cluster.evictions["endless"].contains("advance reservation"),
        "{:?}",
        cluster.evictions
    );
}

#[test]
fn wrong_settings_are_named_and_mended() {
    let mut cluster = cluster(with(of_node(), "duration", json!("soon")));
    assert!(refusal(&cluster).contains("`duration` is \"soon\""));
    cluster.set_reservation("exam", of_node());
    cluster.settle();
    assert!(!in_force(&cluster).is_active);
    cluster.set_reservation("second", with(of_node(), "start", json!("1970-01-01T02:00:00Z")));
    cluster.settle();
    let second = cluster.reservation("second");
    let overlap =
        ReservationState::Refused("n is in the reservation exam at an overlapping time".to_owned());
    assert_eq!(second, overlap);
    cluster.set_reservation("exam", with(of_node(), "start", json!("1970-01-01T00:00:01Z")));
    cluster.settle();
    assert!(in_force(&cluster).is_active);
    cluster.set_reservation("exam", with(of_node(), "duration", json!("1s")));
    cluster.run(2 * HOUR);
    assert_eq!(cluster.reservation("exam"), ReservationState::Over);
}

/// Makes a cluster of two nodes with four reserved GPUs on one of them, in which two pods run, and with two
/// pods of others beside them.
fn with_pods_inside() -> Cluster {
    let mut cluster = Cluster::new([node("m", 8), node("n", 8)]);
    cluster.create_all([limited("other-a", 2, "20h"), limited("other-b", 2, "20h")]);
    cluster.settle();
    cluster.set_reservation("exam", of_gpus(4));
    cluster.create_all([inside("own-a", 2, "1h"), inside("own-b", 2, "1h")]);
    cluster.run(HOUR + MINUTE);
    let told = cluster.reported("own-a");
    assert_eq!((cluster.bound("own"), cluster.bound("other")), (2, 2), "{told}");
    cluster
}

#[test]
fn a_new_process_finds_the_reservation_around_its_pods() {
    let mut cluster = with_pods_inside();
    let places = cluster.places("");
    let node = in_force(&cluster).places[0].node.clone();
    for _ in 0..3 {
        cluster.restart_scheduler();
        cluster.run(10_000);
        let view = in_force(&cluster);
        assert_eq!((view.running, view.gpus_missing), (2, 0));
        assert_eq!((view.places.len(), &view.places[0].node), (1, &node));
        assert_eq!(cluster.places(""), places);
        assert!(cluster.evictions.is_empty(), "{:?}", cluster.evictions);
    }
    // All that is left outside is used, and nothing of what is set aside.
    cluster.create_all((0..9).map(|at| limited(&format!("late-{at}"), 1, "20h")));
    cluster.run(10_000);
    assert_eq!(cluster.bound("late"), 8);
}

#[test]
fn a_change_keeps_the_pods_inside() {
    let mut cluster = with_pods_inside();
    let places = cluster.places("");
    cluster.set_reservation("exam", with(of_gpus(6), "duration", json!("5h")));
    cluster.run(10_000);
    let view = in_force(&cluster);
    assert_eq!((view.running, view.gpus_missing), (2, 0));
    assert_eq!(cluster.places(""), places);
    cluster.create_all([inside("own-c", 2, "3h")]);
    cluster.run(10_000);
    assert_eq!(cluster.bound("own"), 3);
    cluster.delete_reservation("exam");
    cluster.run(10_000);
    assert_eq!(cluster.bound("own"), 3, "what runs goes on");
}

#[test]
fn pods_that_ran_in_it_are_adopted_when_it_has_moved() {
    let mut cluster = Cluster::new([node("m", 8), node("n", 8)]);
    cluster.set_reservation("exam", with(of_node(), "start", json!(null)));
    cluster.create(&inside("own", 2, "1h"));
    cluster.run(2_000);
    assert_eq!(cluster.places("own"), ["own=n"]);
    cluster.set_reservation("exam", with(of_node(), "nodes", json!(["m"])));
    cluster.restart_scheduler();
    cluster.run(2_000);
    let figures = cluster.scheduler.metrics(cluster.now);
    let running = r#"muster_jobs{queue="default",state="running"} 1"#;
    assert!(figures.contains(running), "it does not count as use by others: {figures}");
    assert_eq!(cluster.bound("own"), 1);
}

#[test]
fn a_suspended_job_is_resumed_in_it() {
    let mut cluster = cluster(of_node());
    let job = job("own", 2)
        .annotation("muster.run/time-limit", "1h")
        .annotation("muster.run/reservation", "exam");
    cluster.create_job(&job);
    cluster.run(2_000);
    assert!(cluster.is_suspended("own"));
    cluster.run(HOUR);
    assert!(!cluster.is_suspended("own"));
    assert_eq!(cluster.bound("own"), 2);
}

/// Returns settings for what has the label `pool: exam`, from the beginning of the test on.
fn of_pool(gpus: Option<u32>) -> Value {
    let spec = json!({
        "nodeSelector": {"pool": "exam"}, "duration": "2h", "namespaces": ["team"]});
    match gpus {
        Some(gpus) => with(spec, "gpus", json!(gpus)),
        None => spec,
    }
}

fn of_exam(name: &str) -> NodeFacts {
    labelled_node(name, 4, json!({"pool": "exam"}))
}

/// Returns the nodes that are set aside, as words.
fn reserved(cluster: &Cluster) -> String {
    let places = in_force(cluster).places;
    let names: Vec<&str> = places.iter().map(|place| place.node.as_str()).collect();
    names.join(" ")
}

#[test]
fn nodes_with_its_labels_are_set_aside_as_they_are_when_it_is_placed() {
    let mut cluster = Cluster::new([node("a", 4), of_exam("b"), of_exam("c")]);
    cluster.set_reservation("exam", of_pool(None));
    cluster.create_all([limited("early", 4, "10m"), limited("late", 4, "10m")]);
    cluster.run(2_000);
    assert_eq!(reserved(&cluster), "b c");
    assert_eq!(cluster.places(""), ["early=a"], "all others are kept out");
    // Labels that change later change nothing, also for a process that starts.
    cluster.set_node(node("b", 4));
    cluster.set_node(of_exam("a"));
    cluster.set_node(of_exam("d"));
    for _ in 0..2 {
        cluster.run(10_000);
        assert_eq!(reserved(&cluster), "b c");
        cluster.restart_scheduler();
    }
    cluster.run(2_000);
    assert_eq!(cluster.bound("late"), 1, "a new node is not set aside");
    // A change of the settings chooses again, as does one that the scheduler has not seen.
    cluster.set_reservation("exam", with(of_pool(None), "stop", json!(true)));
    cluster.run(2_000);
    assert_eq!(reserved(&cluster), "a c d");
    cluster.set_node(of_exam("b"));
    cluster.set_reservation("exam", of_pool(None));
    cluster.restart_scheduler();
    cluster.run(2_000);
    assert_eq!(reserved(&cluster), "a b c d");
}

#[test]
fn gpus_are_set_aside_on_nodes_with_its_labels() {
    let mut cluster = Cluster::new([node("a", 8), of_exam("b"), of_exam("c")]);
    cluster.set_reservation("exam", of_pool(Some(6)));
    cluster.run(2_000);
    assert_eq!((reserved(&cluster), in_force(&cluster).gpus_missing), ("b c".to_owned(), 0));
    // What is set aside stays; what replaces a lost node has the labels by then.
    cluster.set_node(node("b", 4));
    cluster.restart_scheduler();
    cluster.run(2_000);
    assert_eq!(reserved(&cluster), "b c");
    cluster.remove_node("b");
    cluster.run(2_000);
    assert_eq!((reserved(&cluster), in_force(&cluster).gpus_missing), ("c".to_owned(), 2));
    cluster.set_node(of_exam("d"));
    cluster.run(2_000);
    assert_eq!((reserved(&cluster), in_force(&cluster).gpus_missing), ("c d".to_owned(), 0));
    // Other labels in the settings take the others.
    let other = with(of_pool(Some(6)), "nodeSelector", json!({"pool": "exam", "zone": "z1"}));
    let zoned = |name: &str| labelled_node(name, 4, json!({"pool": "exam", "zone": "z1"}));
    cluster.set_node(zoned("d"));
    cluster.set_node(zoned("e"));
    cluster.set_reservation("exam", other);
    cluster.run(2_000);
    assert_eq!(reserved(&cluster), "d e");
}

#[test]
fn labels_that_no_node_has_are_named() {
    let mut cluster = Cluster::new([node("a", 4)]);
    cluster.set_reservation("exam", of_pool(None));
    cluster.settle();
    assert_eq!(refusal(&cluster), NO_NODE);
    cluster.set_reservation("exam", of_pool(Some(2)));
    cluster.settle();
    assert_eq!(refusal(&cluster), NO_NODE);
    // Taints keep no node out of it.
    let taints = json!([{"key": "nvidia.com/gpu", "value": "yes", "effect": "NoSchedule"}]);
    cluster.set_node(read_node(json!({
        "metadata": {"name": "b", "labels": {"pool": "exam"}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "9", "nvidia.com/gpu": "4"}},
    })));
    cluster.run(10_000);
    assert_eq!(reserved(&cluster), "b");
    cluster.set_reservation("exam", of_pool(None));
    cluster.run(2_000);
    assert_eq!(reserved(&cluster), "b");
}

//! What users are told of pods that wait.

use muster_kubernetes::group::GroupKind;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodPhase;
use muster_model::queue::PlannedRuntimes;
use muster_model::{QueueSpec, QueueTree};
use muster_scheduler::Observation;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{PodBuilder, group, labelled_node, node, pod, read_node};

fn check(one: &PodBuilder, expected: &str) {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create(one);
    // Nothing else stops.
    cluster.create(&pod("other", 1));
    cluster.run(2_000);
    assert_eq!(cluster.reported(one.name()), expected, "{}", one.0);
    assert_eq!(cluster.bound("other"), 1);
}

#[test]
fn every_kind_of_bad_input_has_its_text() {
    let a = || pod("a", 1);
    check(&a().gang("g", 0), "the annotation muster.run/gang-size is \"0\", not a number of pods");
    check(
        &a().label("muster.run/gang", "g"),
        "the pods of gang g lack the annotation muster.run/gang-size",
    );
    check(
        &a().label("scheduling.x-k8s.io/pod-group", "g"),
        "PodGroup g does not exist in namespace team",
    );
    check(
        &a().label("scheduling.x-k8s.io/pod-group", "g").gang("h", 1),
        "not supported by this scheduler: membership in two gangs, PodGroup g and gang h",
    );
    check(
        &a().label("muster.run/queue", "research.x"),
        "there is no queue research/x to submit to",
    );
    check(
        &a().annotation("muster.run/time-limit", "soon"),
        "muster.run/time-limit is \"soon\"; write seconds, or a number with s, m, h or d",
    );
    check(
        &a().annotation("muster.run/required-topology", "rack"),
        "rack is not a topology level of this cluster; the scheduler's option --level sets them",
    );
    check(
        &a().spec("resourceClaims", json!([{}])),
        "not supported by this scheduler: a resource claim without a name",
    );
    check(
        &a().spec(
            "volumes",
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
        ),
        "the volume claim data does not exist",
    );
    check(
        &a().with(
            "/spec/containers/0/resources/requests",
            json!({"nvidia.com/gpu": 1, "amd.com/gpu": 1}),
        ),
        "no node has the resource amd.com/gpu",
    );
    check(&pod("a", 5), "never fits: 4 GPUs in all, on 1 node that it may use");
    check(
        &a().with("/spec/containers/0/resources/requests", json!({"example.com/thing": 1})),
        "no node has the resource example.com/thing",
    );
    check(
        &a().with("/spec/containers/0/resources/requests", json!({"amd.com/gpu": 1})),
        "no node has the resource amd.com/gpu",
    );
}

#[test]
fn a_gang_larger_than_the_cluster_starts_when_the_cluster_grows() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_all((0..6).map(|at| pod(&format!("g-{at}"), 1).gang("g", 6)));
    cluster.run(2_000);
    assert!(cluster.reported("g-5").starts_with("never fits"), "{}", cluster.reported("g-5"));
    cluster.set_node(node("m", 2));
    cluster.settle();
    assert_eq!(cluster.bound("g-"), 6);
}

#[test]
fn a_gated_pod_is_left_alone() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create(&pod("a", 1).spec("schedulingGates", json!([{"name": "x"}])));
    cluster.run(5_000);
    assert_eq!((cluster.bound("a"), cluster.reported("a")), (0, ""));
}

#[test]
fn a_pod_waits_for_its_volumes() {
    let mut cluster = Cluster::new([node("m", 4), node("n", 4)]);
    let terms =
        json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]);
    cluster.create(
        &pod("a", 1).spec(
            "volumes",
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
        ),
    );
    let claim = ObjectKey::new("team", "data");
    cluster.scheduler.observe(Observation::Claim(claim.clone(), None));
    cluster.run(2_000);
    assert!(cluster.reported("a").starts_with("the volume claim data is not bound"));
    cluster.scheduler.observe(Observation::Claim(claim, Some("pv".into())));
    cluster
        .scheduler
        .observe(Observation::Volume("pv".into(), Some(serde_json::from_value(terms).unwrap())));
    cluster.settle();
    assert_eq!(cluster.places("a"), ["a=n"]);
}

#[test]
fn host_ports_and_anti_affinity_keep_pods_apart() {
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}},
    ]}});
    let port = json!([{"containerPort": 80, "hostPort": 80}]);
    let apart = |name: &str| pod(name, 0).label("app", "x").spec("affinity", apart.clone());
    let with_port = |name: &str| {
        let mut one = pod(name, 0);
        one.0["spec"]["containers"][0]["ports"] = port.clone();
        one
    };
    let mut cluster = Cluster::new([node("m", 4), node("n", 4)]);
    cluster.create_all((0..3).map(|at| apart(&format!("x-{at}"))));
    cluster.create_all((0..3).map(|at| with_port(&format!("p-{at}"))));
    cluster.settle();
    assert_eq!((cluster.bound("x-"), cluster.bound("p-")), (2, 2));
    // The successor sees the same.
    cluster.restart_scheduler();
    cluster.settle();
    assert_eq!((cluster.bound("x-"), cluster.bound("p-")), (2, 2));
}

/// Run times of pods are not predicted, so a planned start is the latest one whatever the queues say.
#[test]
fn starts_are_planned_by_time_limits() {
    let tree = QueueTree { estimates: PlannedRuntimes::Predicted, ..QueueTree::single() };
    let mut cluster = Cluster::with([node("n", 4)], &[], tree.clone());
    cluster.report(Observation::Queues(Box::new(tree)));
    let limited = |name: &str| pod(name, 4).annotation("muster.run/time-limit", "1h");
    cluster.create(&limited("runs"));
    cluster.run(2_000);
    cluster.create(&limited("waits"));
    cluster.run(2_000);
    let told = cluster.reported("waits");
    assert!(told.contains(" at the latest, reserved"), "{told}");
}

#[test]
fn quota_is_kept_and_told() {
    let mut tree = QueueTree::single();
    let mut queue = QueueSpec::named("small");
    queue.quota.insert("gpu".into(), 2);
    queue.borrow = Some(0);
    tree.queues.push(queue);
    let mut cluster = Cluster::with([node("n", 8)], &[], tree);
    cluster
        .create_all((0..3).map(|at| pod(&format!("a-{at}"), 1).label("muster.run/queue", "small")));
    cluster.run(2_000);
    assert_eq!(cluster.bound("a-"), 2);
    assert!(cluster.reported("a-2").contains("quota"), "{}", cluster.reported("a-2"));
}

/// A quota for GPUs that the pods cannot get, since their rule keeps them away, is not what they wait
/// for.
#[test]
fn the_quota_of_the_model_that_pods_ask_for_is_told() {
    let mut tree = QueueTree::single();
    let mut queue = QueueSpec::named("small");
    queue.quota.insert("a100".into(), 2);
    queue.borrow = Some(0);
    tree.queues.push(queue);
    let of_model = |name: &str, product: &str| {
        labelled_node(name, 8, json!({"nvidia.com/gpu.product": product}))
    };
    let mut cluster = Cluster::with([of_model("h", "NVIDIA-H100-80GB-HBM3")], &[], tree);
    let select = json!({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"});
    let gang = |at| {
        let one = pod(&format!("a-{at}"), 1).gang("a", 3).label("muster.run/queue", "small");
        one.spec("nodeSelector", select.clone())
    };
    cluster.create_all((0..3).map(gang));
    cluster.run(2_000);
    assert!(
        cluster.reported("a-0").contains("no node has the labels"),
        "{}",
        cluster.reported("a-0")
    );
    // The node comes, and with it the model.
    cluster.set_node(of_model("a", "NVIDIA-A100-SXM4-40GB"));
    cluster.run(11_000);
    let told = cluster.reported("a-0");
    assert!(told.contains("0 of 2 a100"), "{told}");
    assert_eq!(cluster.bound("a-"), 0);
}

#[test]
fn nodes_out_of_service_and_other_gangs_are_named() {
    let mut cordoned = node("n", 4);
    cordoned.out_of_service = Some("cordoned".to_owned());
    let mut cluster = Cluster::new([cordoned]);
    cluster.create(&pod("a", 1));
    cluster.run(2_000);
    let expected = "the nodes that it may use are out of service: n (cordoned)";
    assert!(cluster.reported("a").starts_with(expected), "{}", cluster.reported("a"));

    let mut cluster = Cluster::new([node("n", 4)]);
    let limit = "muster.run/time-limit";
    cluster.create(&pod("first", 2).annotation(limit, "2h"));
    cluster.settle();
    cluster.create(&pod("big", 4));
    cluster.settle();
    cluster.create(&pod("long", 1));
    cluster.run(2_000);
    let told = cluster.reported("long");
    assert!(told.starts_with("would delay team/big, which starts at"), "{told}");
}

/// Its place in the queue is that of its priority.
#[test]
fn a_pod_that_preempts_no_other_waits_in_its_place() {
    let with = |name: &str, priority: i32| pod(name, 1).spec("priority", json!(priority));
    let mut cluster = Cluster::new([node("n", 1)]);
    cluster.create(&with("low", 1));
    cluster.settle();
    cluster.create(&with("never", 5).spec("preemptionPolicy", json!("Never")));
    cluster.create(&with("middle", 1));
    cluster.run(2_000);
    assert_eq!(cluster.places(""), ["low=n"]);
    assert_eq!(cluster.reported("never"), "needs 1 GPU, none is free");
    cluster.end("low", PodPhase::Succeeded);
    cluster.settle();
    assert_eq!((cluster.bound("never"), cluster.bound("middle")), (1, 0));
}

/// An explanation is told again only when it has changed.
#[test]
fn users_are_not_flooded() {
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.create_all((0..4).map(|at| pod(&format!("a-{at}"), 1)));
    cluster.create_all((0..30).map(|at| pod(&format!("w-{at}"), 4)));
    cluster.run(600_000);
    assert!(cluster.reported("w-29").contains("none is free"), "{}", cluster.reported("w-29"));
    assert!(cluster.tellings < 70, "{}", cluster.tellings);
}

/// A pod whose binding is refused says so until the next try, and no longer.
#[test]
fn the_reason_of_a_refusal_is_told() {
    let mut cluster = Cluster::new([node("n", 1)]);
    cluster.refuse.insert("p".to_owned());
    cluster.create(&pod("p", 1));
    cluster.run(5_000);
    let reported = cluster.reported("p");
    assert!(reported.contains("binding p to n was refused: refused"), "{reported}");
    cluster.refuse.clear();
    cluster.run(30_000);
    assert_eq!(cluster.bound("p"), 1);
    cluster.create(&pod("p-next", 1));
    cluster.run(5_000);
    assert!(!cluster.reported("p-next").contains("refused"), "{}", cluster.reported("p-next"));
}

/// Names of scarce resources are those that users know.
#[test]
fn a_scarce_resource_is_named() {
    let small = read_node(json!({
        "metadata": {"name": "n", "labels": {}},
        "status": {"allocatable": {
            "cpu": "64", "memory": "256Gi", "pods": "4", "example.com/nic": "3",
        }},
    }));
    let container =
        |name: &str, container: Value| pod(name, 0).with("/spec/containers", json!([container]));
    let nics = |count: u32| json!({"resources": {"requests": {"example.com/nic": count}}});
    let port = || json!({"ports": [{"containerPort": 80, "hostPort": 8080}]});
    let mut cluster = Cluster::new([small]);
    cluster.create_all([container("nics", nics(2)), container("port", port())]);
    cluster.settle();
    cluster.create_all([container("nics-2", nics(2)), container("port-2", port())]);
    cluster.run(5_000);
    let told = ["nics-2", "port-2"].map(|pod| cluster.reported(pod));
    assert!(
        told[0].contains("needs 2 of example.com/nic per pod, a node has at most 1 free"),
        "{told:?}"
    );
    assert!(told[1].contains("no node has a free host port 8080/TCP"), "{told:?}");
    cluster.create_all(["a", "b", "c"].map(|name| pod(name, 0)));
    cluster.run(5_000);
    assert!(
        cluster.reported("c").contains("no node has a free pod slot"),
        "{}",
        cluster.reported("c")
    );
}

/// A PodGroup that no pod names says so, once; one that was there before, or has pods, says nothing.
#[test]
fn a_group_without_pods_says_so() {
    let group_of = |name: &str| {
        group(GroupKind::Native, name, json!({"schedulingPolicy": {"gang": {"minCount": 2}}}))
    };
    let member =
        |name: &str, of: &str| pod(name, 0).spec("schedulingGroup", json!({"podGroupName": of}));
    let mut cluster = Cluster::new([node("n", 4)]);
    cluster.set_group(group_of("old"));
    cluster.settle();
    cluster.set_group(group_of("empty"));
    cluster.set_group(group_of("late"));
    cluster.set_group(group_of("of-others"));
    cluster.create(&member("p", "of-others").spec("schedulerName", json!("other")));
    cluster.run(30_000);
    assert!(cluster.told_groups.is_empty());
    cluster.create_all([member("a", "late"), member("b", "late")]);
    cluster.run(60_000);
    let told: Vec<&str> = cluster.told_groups.keys().map(|key| &*key.name).collect();
    assert_eq!(told, ["empty"], "{:?}", cluster.told_groups);
    cluster.told_groups.clear();
    cluster.run(120_000);
    assert!(cluster.told_groups.is_empty(), "it is told once");
}

/// `activeDeadlineSeconds` is a time limit: a pod that ends in time fills a gap, one without does not.
#[test]
fn deadlines_fill_gaps() {
    let mut cluster = Cluster::new([node("n", 8)]);
    let with_deadline = |name: &str, gpus: u32, secs: u32| {
        pod(name, gpus).spec("activeDeadlineSeconds", json!(secs))
    };
    cluster.create(&with_deadline("long", 4, 600));
    cluster.settle();
    cluster.create(&pod("wide", 8));
    cluster.settle();
    cluster.create_all([with_deadline("short", 2, 300), pod("endless", 2)]);
    cluster.run(5_000);
    let bound = ["long", "wide", "short", "endless"].map(|name| cluster.bound(name));
    assert_eq!(bound, [1, 0, 1, 0]);
    let told = cluster.reported("endless");
    assert!(told.contains("would delay"), "{told}");
}

/// GPUs of every vendor are devices.
#[test]
fn gpus_of_amd_are_devices() {
    let mut cluster = Cluster::new([read_node(json!({
        "metadata": {"name": "n", "labels": {}},
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", "amd.com/gpu": "2"}},
    }))]);
    let asks = |name: &str| {
        let requests = json!({"cpu": "1", "amd.com/gpu": 1});
        pod(name, 0).spec("containers", json!([{"resources": {"requests": requests}}]))
    };
    cluster.create_all(["a", "b", "c"].map(asks));
    cluster.run(5_000);
    let bound: usize = ["a", "b", "c"].iter().map(|name| cluster.bound(name)).sum();
    assert_eq!(bound, 2);
    assert!(
        cluster.reported("c").contains("needs 1 GPU, none is free"),
        "{}",
        cluster.reported("c")
    );
}

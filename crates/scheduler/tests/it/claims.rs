//! Pods that claim devices: gangs whole or not at all, on devices that no other claim has.

use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodPhase;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::devices::{GPU_CLASS, bare_node, claimant, class, devices, gpu_class, sharer, slice};
use crate::objects::{job, labelled_node, node, pod};

/// Returns a cluster with GPUs behind a driver, and the templates `one` and `four` for GPUs.
fn cluster(nodes: &[(&str, usize)]) -> Cluster {
    let mut cluster = Cluster::new([]);
    cluster.set_class(gpu_class());
    for (name, gpus) in nodes {
        cluster.add_gpu_node(name, *gpus);
    }
    cluster.set_template("one", &devices(GPU_CLASS, 1));
    cluster.set_template("four", &devices(GPU_CLASS, 4));
    cluster
}

fn with_selector(class: &str, expression: &str) -> Value {
    let mut spec = devices(class, 1);
    spec["devices"]["requests"][0]["exactly"]["selectors"] =
        json!([{"cel": {"expression": expression}}]);
    spec
}

#[test]
fn two_gangs_that_claim_gpus_run_one_after_the_other() {
    let mut cluster = cluster(&[("n", 8)]);
    for at in 0..5 {
        cluster.create(&claimant(&format!("a-{at}"), "one").gang("a", 5));
        cluster.create(&claimant(&format!("b-{at}"), "one").gang("b", 5));
    }
    cluster.run(2_000);
    assert_eq!((cluster.bound("a-"), cluster.bound("b-")), (5, 0));
    assert!(
        cluster.reported("b-0").contains("needs 5 GPUs together, 3 are free"),
        "{}",
        cluster.reported("b-0")
    );
    for at in 0..5 {
        cluster.end(&format!("a-{at}"), PodPhase::Succeeded);
    }
    cluster.run(100);
    assert_eq!(cluster.bound("b-"), 5);
}

/// GPUs of claims are GPUs of the engine: quotas and fair share count them by model.
#[test]
fn claimed_gpus_have_their_model() {
    let cluster = {
        let mut cluster = cluster(&[("n", 8)]);
        cluster.settle();
        cluster
    };
    let models: Vec<String> =
        cluster.scheduler.gpu_models().iter().map(ToString::to_string).collect();
    assert_eq!(models, ["h100-claimed"]);
}

#[test]
fn a_gang_over_two_nodes_gets_four_gpus_for_each_pod() {
    let mut cluster = cluster(&[("a", 8), ("b", 8)]);
    for at in 0..4 {
        cluster.create(&claimant(&format!("p-{at}"), "four").gang("p", 4));
    }
    cluster.settle();
    assert_eq!(cluster.bound("p-"), 4);
    let mut all: Vec<String> =
        (0..4).flat_map(|at| cluster.devices.given(&format!("p-{at}-claim-0"))).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 16);
    assert!(cluster.devices.given_twice().is_empty());
}

/// Devices of others count: another scheduler gave them away, or a pod of a device plugin has them.
#[test]
fn devices_that_others_have_are_not_given() {
    let mut cluster = cluster(&[("n", 2)]);
    cluster.set_node(node("plugin", 8));
    cluster.create(&claimant("first", "one").spec("schedulerName", json!("other")));
    cluster.settle();
    let first = cluster.pod("first").clone();
    cluster.create_claim("taken", &devices(GPU_CLASS, 1));
    // The other scheduler binds its pod.
    let claim = ObjectKey::new("team", "first-claim-0");
    let id = muster_scheduler::PodId { key: first.key.clone(), uid: first.uid.clone() };
    let uid = cluster.devices.claims[&claim]["metadata"]["uid"].as_str().unwrap().into();
    let binding = muster_scheduler::ClaimBinding {
        claim: muster_scheduler::ClaimId { key: claim, uid },
        allocation: Some(json!({"devices": {"results": [
            {"request": "gpus", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"},
        ]}})),
    };
    assert!(cluster.reserve(&id, &binding));
    cluster.bind(&id, &"n".into(), None);
    cluster.create(&claimant("second", "one"));
    cluster.create(&claimant("third", "one"));
    cluster.run(2_000);
    assert_eq!(cluster.devices.given("second-claim-0"), ["n/gpu-1"]);
    assert_eq!(cluster.bound("third"), 0);
    // Pods that count GPUs of a device plugin are not sent to those of a driver.
    cluster.create(&pod("counted", 8));
    cluster.settle();
    assert_eq!(cluster.places("counted"), ["counted=plugin"]);
}

/// The lists of a cluster come in any order: what others have counts when the devices come last, too.
#[test]
fn devices_of_others_count_when_they_are_seen_last() {
    let mut cluster = cluster(&[]);
    cluster.set_node(bare_node("n"));
    cluster.create(&claimant("first", "one").spec("schedulerName", json!("other")));
    cluster.settle();
    let first = cluster.pod("first").clone();
    let claim = ObjectKey::new("team", "first-claim-0");
    let uid = cluster.devices.claims[&claim]["metadata"]["uid"].as_str().unwrap().into();
    let binding = muster_scheduler::ClaimBinding {
        claim: muster_scheduler::ClaimId { key: claim, uid },
        allocation: Some(json!({"devices": {"results": [
            {"request": "gpus", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"},
        ]}})),
    };
    let id = muster_scheduler::PodId { key: first.key.clone(), uid: first.uid.clone() };
    assert!(cluster.reserve(&id, &binding));
    cluster.bind(&id, &"n".into(), None);
    cluster.settle();
    cluster.set_slice(slice("n", 2, "NVIDIA H100 80GB HBM3"));
    cluster.create(&claimant("second", "one"));
    cluster.create(&claimant("third", "one"));
    cluster.run(5_000);
    assert_eq!((cluster.bound("second"), cluster.bound("third")), (1, 0));
    assert_eq!(cluster.scheduler.counts().refused, 0);
    assert!(cluster.reported("third").contains("needs 1 GPU"), "{}", cluster.reported("third"));
}

/// A node has counted and claimed GPUs of one model: neither kind of pod gets those of the other.
#[test]
fn counted_and_claimed_gpus_of_one_node_are_told_apart() {
    let mut cluster = cluster(&[]);
    let product = json!({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"});
    cluster.set_node(labelled_node("n", 2, product));
    cluster.set_slice(slice("n", 2, "NVIDIA H100 80GB HBM3"));
    for at in 0..3 {
        cluster.create(&claimant(&format!("claimed-{at}"), "one"));
        cluster.create(&pod(&format!("counted-{at}"), 1));
    }
    cluster.run(2_000);
    assert_eq!((cluster.bound("claimed-"), cluster.bound("counted-")), (2, 2));
}

#[test]
fn a_suspended_job_waits_without_pods_for_the_gpus_of_its_template() {
    let mut cluster = cluster(&[("n", 8)]);
    let claims = json!([{"name": "gpus", "resourceClaimTemplateName": "one"}]);
    let claiming = |name: &str| {
        let mut one = job(name, 5).pod_spec("resourceClaims", claims.clone());
        one.0["spec"]["template"]["spec"]["containers"] = json!([{}]);
        one
    };
    cluster.create_job(&claiming("a"));
    cluster.create_job(&claiming("b"));
    cluster.run(2_000);
    assert_eq!((cluster.bound("a"), cluster.pods.len()), (5, 5));
    assert!(cluster.is_suspended("b"));
    for pod in cluster.pods_of("a") {
        cluster.end(&pod.name, PodPhase::Succeeded);
    }
    cluster.run(2_000);
    assert_eq!(cluster.bound("b"), 5);
}

/// A scheduler died between the claim and its pod: the devices are freed first.
#[test]
fn a_claim_that_was_left_with_devices_is_freed() {
    let mut cluster = cluster(&[("a", 1), ("b", 1)]);
    cluster.refuse.insert("p".to_owned());
    cluster.is_stuck = true;
    cluster.create(&claimant("p", "one"));
    // The claim is made, then the pod is placed.
    cluster.control_claims();
    for action in cluster.scheduler.step(cluster.now) {
        cluster.carry_out(action);
    }
    // The client could not undo it.
    let claim = ObjectKey::new("team", "p-claim-0");
    assert!(cluster.devices.claims[&claim]["status"]["allocation"].is_object());
    cluster.refuse.clear();
    cluster.restart_scheduler();
    cluster.run(5_000);
    assert_eq!(cluster.bound("p"), 1);
    assert!(cluster.devices.given_twice().is_empty());
}

#[test]
fn after_a_restart_running_claims_count() {
    let mut cluster = cluster(&[("n", 8)]);
    for at in 0..5 {
        cluster.create(&claimant(&format!("a-{at}"), "one").gang("a", 5));
    }
    cluster.settle();
    cluster.restart_scheduler();
    cluster.create(&claimant("b-0", "four"));
    cluster.create(&claimant("c-0", "one"));
    cluster.run(2_000);
    assert_eq!((cluster.bound("a-"), cluster.bound("b-"), cluster.bound("c-")), (5, 0, 1));
}

/// Pods that share a claim share its devices, on its node.
#[test]
fn pods_that_share_a_claim_run_on_its_node() {
    let mut cluster = cluster(&[("a", 1), ("b", 1)]);
    cluster.create_claim("shared", &devices(GPU_CLASS, 1));
    for name in ["s-0", "s-1", "s-2"] {
        cluster.create(&sharer(name, "shared"));
    }
    cluster.run(2_000);
    assert_eq!(cluster.bound("s-"), 3);
    let node = cluster.pod("s-0").node.clone();
    assert!(["s-1", "s-2"].iter().all(|name| cluster.pod(name).node == node));
    // They take one GPU together.
    cluster.create(&claimant("other", "one"));
    cluster.settle();
    assert_eq!(cluster.bound("other"), 1);
    assert_ne!(cluster.pod("other").node, node);
}

/// Selectors restrict the nodes; one that would split the devices of a node is refused, since their
/// number alone says nothing then.
#[test]
fn selectors_choose_among_nodes() {
    let mut cluster = cluster(&[("a", 1)]);
    cluster.set_node(bare_node("b"));
    cluster.set_slice(slice("b", 2, "NVIDIA A100-SXM4-80GB"));
    let product =
        |text: &str| format!("device.attributes['gpu.nvidia.com'].productName.contains('{text}')");
    cluster.set_template("a100", &with_selector(GPU_CLASS, &product("A100")));
    cluster.set_template("b200", &with_selector(GPU_CLASS, &product("B200")));
    let index = "device.attributes['gpu.nvidia.com'].index == 0";
    cluster.set_template(
        "index",
        &with_selector(GPU_CLASS, &format!("{index} && {}", product("A100"))),
    );
    cluster.set_template(
        "wrong",
        &with_selector(GPU_CLASS, "device.attributes['gpu.nvidia.com'].speed > 1"),
    );
    for template in ["a100", "b200", "index", "wrong"] {
        cluster.create(&claimant(template, template));
    }
    cluster.run(2_000);
    assert_eq!(cluster.places("a100"), ["a100=b"]);
    let check = |name: &str, expected: &str| {
        assert!(cluster.reported(name).contains(expected), "{name}: {}", cluster.reported(name));
    };
    check("b200", "no device of the cluster is selected by its claim (class gpu.nvidia.com)");
    check("index", "selects some of the devices of one kind on a node");
    check("wrong", "a selector has no answer");
}

#[test]
fn what_keeps_a_claim_from_devices_is_said() {
    let mut cluster = cluster(&[("n", 1)]);
    cluster.set_template("no-class", &devices("gone", 1));
    cluster.set_class(class("unreadable", "device.driver =="));
    cluster.set_template("unreadable", &devices("unreadable", 1));
    cluster.set_template(
        "all",
        &json!({"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": GPU_CLASS, "allocationMode": "All"}},
        ]}}),
    );
    for template in ["no-class", "unreadable", "all", "missing"] {
        cluster.create(&claimant(template, template));
    }
    cluster.create(&sharer("no-claim", "gone"));
    cluster.run(2_000);
    let check = |name: &str, expected: &str| {
        assert!(cluster.reported(name).contains(expected), "{name}: {}", cluster.reported(name));
    };
    check("no-class", "the device class gone does not exist");
    check("unreadable", "a selector for devices of the class unreadable");
    check("all", "not supported by this scheduler: a resource claim with `allocationMode: All`");
    check("missing", "its resource claim of the template missing is not made yet");
    check("no-claim", "the resource claim gone does not exist");
    // Nothing else is stopped by them.
    cluster.create(&claimant("fine", "one"));
    cluster.settle();
    assert_eq!(cluster.bound("fine"), 1);
}

/// A driver that changes its pool publishes slices one by one: in between the pool is not used.
#[test]
fn a_pool_that_is_being_changed_is_not_used() {
    let mut cluster = cluster(&[]);
    cluster.set_node(bare_node("n"));
    let mut first = slice("n", 4, "NVIDIA H100 80GB HBM3");
    first["spec"]["pool"]["resourceSliceCount"] = json!(2);
    cluster.set_slice(first);
    cluster.create(&claimant("p", "one"));
    cluster.run(2_000);
    assert_eq!(cluster.bound("p"), 0);
    let mut second = slice("n", 0, "");
    second["metadata"]["name"] = json!("n-gpu-2");
    second["spec"]["pool"]["resourceSliceCount"] = json!(2);
    cluster.set_slice(second);
    cluster.run(2_000);
    assert_eq!(cluster.bound("p"), 1);
}

//! Pods with shares of GPUs: together on one GPU, which nobody else gets as long as one of them has it.

use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::PodPhase;
use muster_model::{GpuModel, QueueTree, Time};
use muster_scheduler::{Action, Observation, Scheduler};
use serde_json::json;

use crate::cluster::{Cluster, SYSTEM};
use crate::objects::{job, labelled_node, node, pod, share};

/// Ends a pod, and lets its controller delete it.
fn end(cluster: &mut Cluster, name: &str) {
    cluster.end(name, PodPhase::Succeeded);
    cluster.delete_by_name(name);
}

#[test]
fn shares_fill_one_gpu_before_the_next_and_keep_it_from_whole_pods() {
    let mut cluster = Cluster::new([node("n", 2)]);
    for at in 0..3 {
        cluster.create(&share(&format!("s-{at}"), "0.5"));
    }
    cluster.settle();
    cluster.create(&pod("whole", 1));
    cluster.run(2_000);
    assert_eq!((cluster.bound("s-"), cluster.bound("whole")), (3, 0));
    assert_eq!(cluster.shares().into_values().collect::<Vec<_>>(), [1_000, 500]);
    assert_eq!(cluster.holders().len(), 2);
    cluster.assert_no_overcommit();
    // The last share of the second GPU ends: its holder goes, and then the GPU is free.
    end(&mut cluster, "s-2");
    cluster.run(2_000);
    assert_eq!((cluster.bound("whole"), cluster.holders().len()), (1, 1));
    cluster.assert_no_overcommit();
}

/// The kubelet gets a GPU back only once its holder is gone: until then nobody gets it.
#[test]
fn a_whole_pod_waits_until_the_holder_is_gone() {
    let mut cluster = Cluster::new([node("n", 1)]);
    cluster.create(&share("s", "0.5"));
    cluster.settle();
    cluster.create(&pod("whole", 1));
    end(&mut cluster, "s");
    let actions = cluster.scheduler.step(cluster.now);
    let frees = actions.iter().any(|action| matches!(action, Action::FreeGpu { .. }));
    let binds = actions.iter().any(|action| matches!(action, Action::Bind { .. }));
    assert_eq!((frees, binds), (true, false), "{actions:?}");
    // The holder is being deleted, and its last process takes its time.
    let mut holder = cluster.pods[&cluster.holders()[0]].clone();
    holder.is_terminating = true;
    cluster.put(holder.clone());
    cluster.run(5_000);
    assert_eq!(cluster.bound("whole"), 0);
    cluster.delete(&holder.key);
    cluster.run(5_000);
    assert_eq!(cluster.bound("whole"), 1);
}

#[test]
fn a_gang_of_shares_starts_whole_or_not_at_all() {
    let mut cluster = Cluster::new([node("n", 1)]);
    for at in 0..3 {
        cluster.create(&share(&format!("a-{at}"), "0.4").gang("a", 3));
    }
    cluster.run(2_000);
    assert_eq!((cluster.bound("a-"), cluster.holders().len()), (0, 0));
    cluster.set_node(node("m", 1));
    cluster.run(2_000);
    assert_eq!(cluster.bound("a-"), 3);
    cluster.assert_no_overcommit();
}

/// The pods of a suspended Job do not exist when it is planned; those that come read which GPU they have.
#[test]
fn a_suspended_job_gets_shares() {
    let mut cluster = Cluster::new([node("n", 1)]);
    let template = share("", "0.5");
    let mut one = job("a", 2).pod_spec("containers", template.0["spec"]["containers"].clone());
    one.0["spec"]["template"]["metadata"]["annotations"] =
        template.0["metadata"]["annotations"].clone();
    cluster.create_job(&one);
    cluster.run(2_000);
    assert_eq!((cluster.bound("a"), cluster.holders().len()), (2, 1));
}

/// A quota of one GPU is two halves.
#[test]
fn quotas_count_parts_of_gpus() {
    let mut tree = QueueTree::single();
    tree.queues[0].quota.insert(GpuModel::from("h100"), 1);
    let product = json!({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"});
    let mut cluster = Cluster::with([labelled_node("n", 4, product)], &[], tree);
    for at in 0..3 {
        cluster.create(&share(&format!("s-{at}"), "0.5"));
    }
    cluster.run(2_000);
    assert_eq!((cluster.bound("s-"), cluster.holders().len()), (2, 1));
    assert!(cluster.reported("s-2").contains("quota"), "{}", cluster.reported("s-2"));
}

#[test]
fn a_pod_with_priority_gets_the_gpu_once_its_holder_is_gone() {
    let mut cluster = Cluster::new([node("n", 1)]);
    for at in 0..2 {
        cluster.create(&share(&format!("s-{at}"), "0.5"));
    }
    cluster.settle();
    cluster.create(&pod("high", 1).spec("priority", json!(1000)));
    cluster.run(5_000);
    assert_eq!((cluster.bound("s-"), cluster.bound("high"), cluster.holders().len()), (0, 1, 0));
    cluster.assert_no_overcommit();
}

#[test]
fn the_next_process_knows_who_has_which_gpu() {
    let mut cluster = Cluster::new([node("n", 2)]);
    cluster.create(&share("first", "0.6"));
    cluster.create(&share("second", "0.6"));
    cluster.settle();
    let before = cluster.shares();
    cluster.restart_scheduler();
    cluster.run(2_000);
    assert_eq!((cluster.shares(), cluster.holders().len()), (before, 2));
    cluster.create(&share("third", "0.4"));
    cluster.create(&pod("whole", 1));
    cluster.run(2_000);
    assert_eq!((cluster.bound("third"), cluster.bound("whole")), (1, 0));
    assert!(cluster.shares().into_values().all(|sum| sum <= 1_000));
}

/// Someone deletes a holder: the kubelet may give its GPU to a pod that expects to be alone on it.
#[test]
fn pods_lose_their_shares_with_the_holder() {
    let mut cluster = Cluster::new([node("n", 1)]);
    cluster.create(&share("s", "0.5"));
    cluster.settle();
    let holder = cluster.holders()[0].clone();
    cluster.delete(&holder);
    cluster.run(2_000);
    assert!(!cluster.pods.contains_key(&ObjectKey::new("team", "s")));
}

/// A rival took the last GPU between the plan and the binding.
#[test]
fn a_share_waits_where_the_kubelet_has_no_gpu_for_its_holder() {
    let mut cluster = Cluster::new([node("n", 1)]);
    let rival = pod("rival", 1).spec("schedulerName", json!("other")).spec("nodeName", json!("n"));
    let mut reports = Vec::new();
    cluster.divert(&mut reports, |cluster| drop(cluster.create(&rival)));
    cluster.create(&share("s", "0.5"));
    cluster.settle();
    assert_eq!((cluster.bound("s"), cluster.holders().len()), (0, 0));
    for report in reports {
        cluster.report(report);
    }
    cluster.delete_by_name("rival");
    cluster.run(5_000);
    assert_eq!(cluster.bound("s"), 1);
}

/// Its binding is refused, for another reason: the holder that was made for it goes again.
#[test]
fn a_holder_without_a_pod_goes() {
    let mut cluster = Cluster::new([node("n", 1)]);
    cluster.refuse.insert("s".to_owned());
    let key = cluster.create(&share("s", "0.5"));
    cluster.settle();
    cluster.delete(&key);
    cluster.run(5_000);
    assert_eq!(cluster.holders().len(), 0);
    cluster.create(&pod("whole", 1));
    cluster.run(2_000);
    assert_eq!(cluster.bound("whole"), 1);
}

#[test]
fn what_keeps_a_pod_from_its_share_is_said() {
    let mut cluster = Cluster::new([node("n", 1)]);
    cluster.create(&pod("deaf", 0).annotation("gpu-fraction", "0.5"));
    cluster.create(&share("wrong", "2"));
    cluster.run(2_000);
    for (name, expected) in [
        ("deaf", "no container has the variable NVIDIA_VISIBLE_DEVICES from the annotation"),
        ("wrong", "muster.run/gpu-share: \"2\" is no share from 0.001 to 0.999"),
    ] {
        assert!(cluster.reported(name).contains(expected), "{name}: {}", cluster.reported(name));
    }
    let mut scheduler = Scheduler::new(Vec::new(), QueueTree::single()).unwrap();
    scheduler.observe(Observation::Node(Box::new(node("n", 1))));
    scheduler.observe(Observation::Pod(Box::new(share("s", "0.5").text().facts())));
    let now = Time(1_000);
    scheduler.step(now);
    let told = scheduler.explain(now, &ObjectKey::new("team", "s")).unwrap();
    assert!(told.contains("--gpu-holder-image"), "{told}");
}

/// Only pods in the namespace of the scheduler hold GPUs for others: users label theirs as they like.
#[test]
fn a_label_makes_no_holder_elsewhere() {
    let mut cluster = Cluster::new([node("n", 1)]);
    let disguised = pod("user", 1).label("muster.run/gpu-holder", "0").spec("nodeName", json!("n"));
    cluster.create(&disguised.spec("schedulerName", json!("other")));
    cluster.create(&share("s", "0.5"));
    cluster.run(2_000);
    assert_eq!((cluster.bound("s"), cluster.holders().len()), (0, 0));
    assert!(cluster.pods.contains_key(&ObjectKey::new("team", "user")));
    assert!(cluster.pods.keys().all(|key| *key.namespace != *SYSTEM));
}

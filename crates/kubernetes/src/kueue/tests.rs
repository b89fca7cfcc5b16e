//! Texts of Kueue's objects as queue trees.

use super::tree::NO_QUEUE;
use super::*;
use crate::resources::Quantities;
use crate::rule::NodeRule;
use muster_model::QueueSpec;
use muster_model::queue::{Backfill, Preemption};
use serde_json::{Value, json};

/// Objects of two nodes: one with `pool: a` and H100, one with `pool: b` and A100.
#[derive(Default)]
struct Cluster(Objects);

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self::default();
        cluster.flavor("h100", json!({"nodeLabels": {"pool": "a"}}));
        cluster.flavor("a100", json!({"nodeLabels": {"pool": "b"}}));
        cluster.namespace("team", json!({"kueue": "yes"}));
        cluster
    }

    fn flavor(&mut self, name: &str, spec: Value) {
        self.0.flavors.insert(name.into(), serde_json::from_value(spec).unwrap());
    }

    fn namespace(&mut self, name: &str, labels: Value) {
        self.0.namespaces.insert(name.into(), serde_json::from_value(labels).unwrap());
    }

    fn cohort(&mut self, name: &str, spec: Value) {
        self.0.cohorts.insert(name.into(), serde_json::from_value(spec).unwrap());
    }

    /// Adds a ClusterQueue, with settings that every one has.
    fn queue(&mut self, name: &str, spec: Value) {
        let mut all = json!({
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
            "preemption": {
                "reclaimWithinCohort": "Any",
                "withinClusterQueue": "LowerPriority",
                "borrowWithinCohort": {"policy": "Never"},
            },
        });
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        self.0.cluster_queues.insert(name.into(), serde_json::from_value(all).unwrap());
    }

    fn local_queue(&mut self, name: &str, cluster_queue: &str) {
        let spec = json!({"clusterQueue": cluster_queue});
        let key = ObjectKey::new("team", name);
        self.0.local_queues.insert(key, serde_json::from_value(spec).unwrap());
    }

    fn read(&self) -> Reading {
        read(&self.0, &|labels, resource| {
            let nodes = [("a", "h100"), ("b", "a100")];
            let has = |pool: &str| labels.iter().all(|(key, value)| key == "pool" && value == pool);
            nodes
                .iter()
                .filter(|(pool, _)| has(pool) && resource == "nvidia.com/gpu")
                .map(|(_, model)| GpuModel::from(*model))
                .collect()
        })
    }

    fn hold(&self, cluster_queue: &str) -> String {
        let found = self.read().cluster_queues[cluster_queue].hold.clone().unwrap();
        format!("{}: {}", found.reason, found.message)
    }
}

/// Returns a resource group of GPUs with these flavors.
fn gpus(flavors: &[(&str, Value)]) -> Value {
    let flavors: Vec<Value> = flavors
        .iter()
        .map(|(name, quota)| {
            let mut quota = quota.clone();
            quota["name"] = json!("nvidia.com/gpu");
            json!({"name": name, "resources": [quota]})
        })
        .collect();
    json!([{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}])
}

fn nominal(gpus: u32) -> Value {
    json!({"nominalQuota": gpus.to_string()})
}

fn h100(count: u32) -> Value {
    gpus(&[("h100", nominal(count))])
}

fn quota(queue: &QueueSpec) -> Vec<(&str, u64)> {
    queue.quota.iter().map(|(model, gpus)| (model.as_str(), *gpus)).collect()
}

#[test]
fn cohorts_are_parents_that_own_what_is_below() {
    let mut cluster = Cluster::new();
    cluster.cohort("research", json!({"parentName": "all", "resourceGroups": h100(4)}));
    let limits = json!({"nominalQuota": 8, "borrowingLimit": "2", "lendingLimit": "1"});
    cluster.queue(
        "vision",
        json!({"cohortName": "research", "resourceGroups": gpus(&[("h100", limits)])}),
    );
    cluster.queue("ops", json!({"cohortName": "all", "resourceGroups": h100(2)}));
    cluster.queue("alone", json!({"resourceGroups": h100(3)}));
    let reading = cluster.read();
    let [alone, all, none] = &reading.tree.queues[..] else { panic!("{:?}", reading.tree) };
    assert_eq!((&*alone.name, alone.borrow, quota(alone)), ("alone", Some(0), vec![("h100", 3)]));
    assert_eq!((&*all.name, all.borrow, quota(all)), ("all", Some(0), vec![("h100", 14)]));
    assert_eq!((&*none.name, quota(none)), (NO_QUEUE, vec![]));
    assert_eq!(reading.tree.default_queue.as_str(), NO_QUEUE);
    let [ops, research] = &all.queues[..] else { panic!("{all:?}") };
    assert_eq!((&*ops.name, ops.borrow, ops.lend), ("ops", None, None));
    assert_eq!((quota(research), research.borrow), (vec![("h100", 12)], None));
    let vision = &research.queues[0];
    assert_eq!((quota(vision), vision.borrow, vision.lend), (vec![("h100", 8)], Some(2), Some(1)));
    assert_eq!(reading.cluster_queues["vision"].queue.as_str(), "all/research/vision");
    assert_eq!(reading.cluster_queues["vision"].hold, None);
    let rules = Preemption { reclaim: true, priority: true };
    assert_eq!((reading.tree.preemption, reading.tree.backfill), (rules, Backfill::Easy));
}

#[test]
fn a_cohort_and_a_clusterqueue_of_one_name_are_two_queues() {
    let mut cluster = Cluster::new();
    cluster.queue("same", json!({"resourceGroups": h100(1)}));
    cluster.queue("other", json!({"cohortName": "same", "resourceGroups": h100(1)}));
    let names: Vec<String> =
        cluster.read().tree.queues.iter().map(|queue| queue.name.to_string()).collect();
    assert_eq!(names, ["same", "cohort:same", NO_QUEUE]);
}

#[test]
fn version_v1beta1_has_another_name_for_the_cohort() {
    let mut cluster = Cluster::new();
    cluster.queue("old", json!({"cohort": "c", "resourceGroups": h100(1)}));
    assert_eq!(cluster.read().cluster_queues["old"].queue.as_str(), "c/old");
    cluster.queue("old", json!({"admissionChecks": ["budget"]}));
    assert!(cluster.hold("old").starts_with("AdmissionCheckNotSupported: "));
}

#[test]
fn weights_are_whole_numbers() {
    let mut cluster = Cluster::new();
    let weights = |cluster: &Cluster| -> Vec<u32> {
        cluster.read().tree.queues.iter().map(|queue| queue.weight).take(2).collect()
    };
    cluster.queue("a", json!({"fairSharing": {"weight": "2"}}));
    cluster.queue("b", json!({}));
    assert_eq!(weights(&cluster), [2, 1]);
    cluster.queue("b", json!({"fairSharing": {"weight": "0.25"}}));
    assert_eq!(weights(&cluster), [2000, 250]);
    cluster.queue("b", json!({"fairSharing": {"weight": 0}}));
    assert_eq!(weights(&cluster), [2000, 1]);
}

#[test]
fn a_cycle_of_cohorts_holds_its_queues_and_no_others() {
    let mut cluster = Cluster::new();
    cluster.cohort("a", json!({"parentName": "b"}));
    cluster.cohort("b", json!({"parentName": "a"}));
    cluster.cohort("below", json!({"parentName": "a"}));
    cluster.queue("round", json!({"cohortName": "a", "resourceGroups": h100(8)}));
    cluster.queue("lower", json!({"cohortName": "below", "resourceGroups": h100(8)}));
    cluster.queue("fine", json!({"cohortName": "c", "resourceGroups": h100(8)}));
    assert_eq!(
        cluster.hold("round"),
        "CohortInvalid: ClusterQueue round starts nothing: the parents of Cohorts form a cycle: a, b, a"
    );
    assert!(cluster.hold("lower").ends_with("a cycle: a, b, a"));
    let reading = cluster.read();
    assert_eq!(reading.cluster_queues["fine"].hold, None);
    assert_eq!(reading.cohort_notes.len(), 3);
    // What runs in it still counts, in a queue that borrows nothing.
    let round = reading.tree.queues.iter().find(|queue| &*queue.name == "round").unwrap();
    assert_eq!((quota(round), round.borrow), (vec![("h100", 8)], Some(0)));
}

#[test]
fn a_wrong_clusterqueue_holds_its_pods() {
    let mut cluster = Cluster::new();
    let mut check = |spec: Value, expected: &str| {
        cluster.queue("q", spec);
        assert_eq!(cluster.hold("q"), expected);
    };
    check(
        json!({"resourceGroups": gpus(&[("none", nominal(8))])}),
        "FlavorNotFound: ClusterQueue q starts nothing: there is no ResourceFlavor none; create it, or correct the flavor's name",
    );
    check(
        json!({"resourceGroups": h100(8), "stopPolicy": "Hold"}),
        "Stopped: ClusterQueue q starts nothing (`stopPolicy: Hold`)",
    );
    check(
        json!({"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}}),
        "AdmissionCheckNotSupported: ClusterQueue q starts nothing: admission checks are not supported (budget); remove them from the ClusterQueue",
    );
    check(
        json!({"resourceGroups": gpus(&[("h100", json!({"nominalQuota": "many"}))])}),
        "InvalidQuota: ClusterQueue q starts nothing: \"many\" is not a number of GPUs",
    );
    cluster.flavor("any", json!({}));
    cluster.queue("q", json!({"resourceGroups": gpus(&[("any", nominal(8))])}));
    assert_eq!(
        cluster.hold("q"),
        "FlavorOfSeveralModels: ClusterQueue q starts nothing: the nodes of flavor any have several GPU models (a100, h100), and a quota is for one; narrow its nodeLabels, for example by nvidia.com/gpu.product"
    );
    cluster.0.cluster_queues.get_mut("q").unwrap().is_deleted = true;
    assert_eq!(cluster.hold("q"), "Terminating: ClusterQueue q is being deleted");
}

#[test]
fn what_has_another_effect_is_remarked() {
    let mut cluster = Cluster::new();
    let taints = json!([{"key": "spot", "effect": "NoSchedule"}]);
    let spot = json!({"pool": "a"});
    cluster.flavor(
        "spot",
        json!({"nodeLabels": spot, "tolerations": [{"key": "spot"}], "nodeTaints": taints}),
    );
    cluster.flavor("gone", json!({"nodeLabels": {"pool": "z"}}));
    let mut groups = gpus(&[
        ("h100", json!({"nominalQuota": 8, "borrowingLimit": 4})),
        ("spot", json!({"nominalQuota": 8, "borrowingLimit": 2})),
        ("gone", nominal(8)),
    ]);
    groups[0]["coveredResources"] = json!(["nvidia.com/gpu", "cpu"]);
    let cpu = json!({"name": "cpu", "nominalQuota": "40"});
    groups[0]["flavors"][0]["resources"].as_array_mut().unwrap().push(cpu);
    cluster.queue(
        "q",
        json!({
            "resourceGroups": groups, "cohortName": "c", "queueingStrategy": "StrictFIFO",
            "preemption": {
                "reclaimWithinCohort": "LowerPriority",
                "withinClusterQueue": "LowerOrNewerEqualPriority",
                "borrowWithinCohort": {"policy": "LowerPriority"},
            },
        }),
    );
    cluster.queue("other", json!({"preemption": {"withinClusterQueue": "Never"}}));
    let reading = cluster.read();
    assert_eq!(
        reading.cluster_queues["q"].remarks,
        [
            "quota is not reclaimed: every ClusterQueue of a Cohort must have `reclaimWithinCohort: Any`",
            "priorities do not preempt: every ClusterQueue must set `withinClusterQueue`",
            "jobs of the same priority are not preempted",
            "`borrowWithinCohort` has no effect: a job that borrows does not preempt jobs of other queues",
            "jobs are backfilled: for strict order every ClusterQueue must have `StrictFIFO`",
            "the tolerations of flavor spot are not added to pods; write them in the pods",
            "the nodeTaints of flavor spot are not read: only taints of the nodes keep pods away",
            "no node of flavor gone has nvidia.com/gpu",
            "quotas of cpu limit nothing: only GPUs are counted",
            "flavors h100, spot share one quota: all are h100",
            "the smallest borrowingLimit holds for each GPU model",
        ]
    );
    assert_eq!(reading.tree.preemption, Preemption::OFF);
    let leaf = &reading.tree.queues[1].queues[0];
    assert_eq!((quota(leaf), leaf.borrow), (vec![("h100", 16)], Some(2)));
    cluster.0.cluster_queues.remove("other");
    assert_eq!(cluster.read().tree.backfill, Backfill::None);
}

#[test]
fn a_flavor_without_nodes_is_read_by_its_product_label() {
    let mut cluster = Cluster::new();
    cluster.flavor("new", json!({"nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H200"}}));
    cluster.queue("q", json!({"resourceGroups": gpus(&[("new", nominal(8))])}));
    assert_eq!(quota(&cluster.read().tree.queues[0]), [("h200", 8)]);
}

fn check_local_queue(cluster: &Cluster, name: Option<&str>, expected: &str) {
    let reading = cluster.read();
    let found = reading.local_queues.find(&"team".into(), name);
    let text = found.and_then(|found| match &found.hold {
        Some(hold) => Err(hold.message.clone()),
        None => Ok(found.target.as_ref().unwrap().queue.to_string()),
    });
    assert_eq!(text.unwrap_or_else(|error| error), expected);
}

#[test]
fn local_queues_lead_to_leaves_or_say_why_not() {
    let mut cluster = Cluster::new();
    cluster.queue("vision", json!({"cohortName": "c", "resourceGroups": h100(8)}));
    cluster.local_queue("main", "vision");
    check_local_queue(&cluster, Some("main"), "c/vision");
    check_local_queue(&cluster, Some("none"), "namespace team has no LocalQueue none");
    let expected = "it names no queue with the label kueue.x-k8s.io/queue-name, and namespace team has no LocalQueue default";
    check_local_queue(&cluster, None, expected);
    cluster.local_queue("default", "vision");
    check_local_queue(&cluster, None, "c/vision");
    cluster.local_queue("lost", "nothing");
    let expected = "LocalQueue lost names ClusterQueue nothing, which does not exist; create it, or change `clusterQueue`";
    check_local_queue(&cluster, Some("lost"), expected);
    cluster.queue("vision", json!({"stopPolicy": "HoldAndDrain"}));
    let expected = "ClusterQueue vision starts nothing (`stopPolicy: HoldAndDrain`)";
    check_local_queue(&cluster, Some("main"), expected);
    let drains = |cluster: &Cluster, name: &str| {
        cluster.read().local_queues.find(&"team".into(), Some(name)).unwrap().drains
    };
    assert!(drains(&cluster, "main"));
    cluster.queue("vision", json!({}));
    assert!(!drains(&cluster, "main"));
    let key = ObjectKey::new("team", "main");
    cluster.0.local_queues.get_mut(&key).unwrap().stop_policy = object::StopPolicy::HoldAndDrain;
    assert!(drains(&cluster, "main"));
    let expected = "LocalQueue main starts nothing (`stopPolicy: HoldAndDrain`)";
    check_local_queue(&cluster, Some("main"), expected);
    for selector in [json!({"matchLabels": {"kueue": "no"}}), Value::Null] {
        cluster.queue("vision", json!({"namespaceSelector": selector}));
        let expected = "namespace team may not use ClusterQueue vision: its `namespaceSelector` does not match";
        check_local_queue(&cluster, None, expected);
    }
    let expressions = json!([{"key": "kueue", "operator": "In", "values": ["yes"]}]);
    cluster.queue("vision", json!({"namespaceSelector": {"matchExpressions": expressions}}));
    check_local_queue(&cluster, None, "vision");
}

#[test]
fn pods_go_to_nodes_of_their_flavors() {
    let mut cluster = Cluster::new();
    cluster.queue(
        "both",
        json!({"resourceGroups": gpus(&[("h100", nominal(8)), ("a100", nominal(8))])}),
    );
    cluster.local_queue("main", "both");
    let reading = cluster.read();
    let found = reading.local_queues.find(&"team".into(), Some("main")).unwrap();
    let target = found.target.as_ref().unwrap();
    let models = target.models("nvidia.com/gpu").unwrap();
    assert_eq!(models, [GpuModel::from("h100"), GpuModel::from("a100")]);
    assert_eq!(
        target.models("amd.com/gpu").unwrap_err(),
        "ClusterQueue both has no quota of amd.com/gpu"
    );
    let rule = |resource: &str| {
        let mut rule = NodeRule::default();
        let requests = Quantities(BTreeMap::from([(resource.into(), 1)]));
        target.restrict(&requests, &mut rule);
        rule.affinity
    };
    let terms = rule("nvidia.com/gpu");
    let values: Vec<&str> =
        terms[0].iter().map(|term| term.match_expressions[0].values[0].as_str()).collect();
    assert_eq!(values, ["a", "b"]);
    assert_eq!(rule("cpu"), Vec::<Vec<_>>::new());
}

//! Files for Volcano: a Queue per queue of the tree for its `capacity` plugin, and HyperNodes for the topology.
//! `deserved` is what a queue gets back from others, `capability` the most that it may use, and `guarantee` what
//! is kept for it while it is idle.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::flavor::Amount;
use super::shares::{PlannedQueue, Shares};
use super::{
    Amounts, CONFIG, NODE_LABELS, QUEUES, QueueFilesInput, TOPOLOGY, file, labels, object,
};

/// Queue above all queues, which Volcano creates.
const ROOT: &str = "root";

pub(super) fn files(
    input: &QueueFilesInput<'_>,
    shares: &Shares<'_>,
) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    files.extend(labels::script(input, &[]).map(|script| (NODE_LABELS, script)));
    files.push((CONFIG, file(CONFIG_COMMENT, &[config(input)])));
    let queues: Vec<Value> = shares.queues.iter().map(|one| queue(input, shares, one)).collect();
    files.push((QUEUES, file("The queues: kubectl apply -f queues.yaml", &queues)));
    let domains = hyper_nodes(input);
    if !domains.is_empty() {
        files.push((TOPOLOGY, file(TOPOLOGY_COMMENT, &domains)));
    }
    files
}

const CONFIG_COMMENT: &str = "\
The settings of Volcano's scheduler 1.15: gangs whole, queues in a tree with quotas that are lent and reclaimed, full
nodes first. Apply it after Volcano itself; the scheduler reads it again by itself:
  kubectl apply --server-side --force-conflicts -f config.yaml";

const TOPOLOGY_COMMENT: &str = "\
The topology: tier 1 is the narrowest. Jobs ask for it with `networkTopology: {mode: hard, highestTierAllowed: 1}`.
Label the nodes before (node-labels.sh), then: kubectl apply -f topology.yaml";

fn config(input: &QueueFilesInput<'_>) -> Value {
    let preemption = input.queues.preemption;
    let mut actions = vec!["enqueue", "allocate"];
    actions.extend(preemption.priority.then_some("preempt"));
    actions.extend(preemption.reclaim.then_some("reclaim"));
    actions.push("backfill");
    let mut last = vec![
        json!({"name": "predicates"}),
        json!({"name": "capacity", "enableHierarchy": true}),
        json!({"name": "nodeorder"}),
        json!({"name": "binpack", "arguments": {
            "binpack.weight": 10,
            "binpack.resources": "nvidia.com/gpu, amd.com/gpu",
            "binpack.resources.nvidia.com/gpu": 10,
            "binpack.resources.amd.com/gpu": 10,
        }}),
    ];
    if !input.levels.is_empty() {
        last.push(json!({"name": "network-topology-aware"}));
    }
    let settings = json!({
        "actions": actions.join(", "),
        "tiers": [
            {"plugins": [
                {"name": "priority"},
                {"name": "gang", "enablePreemptable": false},
                {"name": "conformance"},
            ]},
            {"plugins": last},
        ],
    });
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "data": {"volcano-scheduler.conf": crate::render::yaml(&[settings])},
    })
}

fn queue(input: &QueueFilesInput<'_>, shares: &Shares<'_>, queue: &PlannedQueue<'_>) -> Value {
    let owned = deserved(shares, queue);
    let mut spec = json!({
        "parent": queue.parent.as_deref().map_or(ROOT.to_owned(), crate::queue::object_name),
        "weight": queue.spec.weight,
        "reclaimable": input.queues.preemption.reclaim,
        "deserved": all_amounts(shares, owned),
    });
    if let Some(most) = queue.most_gpus(owned.gpus) {
        spec["capability"] = json!(gpus(shares, most));
    }
    let kept = queue.kept_gpus(owned.gpus);
    if kept > 0 {
        spec["guarantee"] = json!({"resource": gpus(shares, kept)});
    }
    object("scheduling.volcano.sh/v1beta1", "Queue", &queue.name(), &spec)
}

/// Returns what a queue gets back from others: its quota; without one its part, by weight, of what its parent owns
/// beyond the quotas of other queues.
fn deserved(shares: &Shares<'_>, queue: &PlannedQueue<'_>) -> Amount {
    let own = shares.owned_in_all(queue.spec);
    if own.gpus > 0 {
        return own;
    }
    let parent = queue.parent.as_ref();
    let parent = shares.queues.iter().find(|one| Some(&one.path) == parent);
    let siblings = shares.queues.iter().filter(|one| one.parent == queue.parent);
    let without: u64 = siblings
        .clone()
        .filter(|one| shares.owned_in_all(one.spec).gpus == 0)
        .map(|one| u64::from(one.spec.weight))
        .sum();
    let all = match parent {
        Some(parent) => deserved(shares, parent),
        None => shares.total(),
    };
    let taken = siblings.map(|one| shares.owned_in_all(one.spec));
    let rest = taken.fold(all, Amount::minus);
    rest.part(u64::from(queue.spec.weight), without.max(1))
}

fn all_amounts(shares: &Shares<'_>, amount: Amount) -> Amounts {
    let mut amounts = gpus(shares, amount.gpus);
    amounts.insert("cpu", amount.cpu());
    amounts.insert("memory", amount.memory());
    amounts
}

/// Returns GPUs under the resource of the cluster's GPUs: of the most frequent one, if there are several.
fn gpus(shares: &Shares<'_>, count: u64) -> Amounts {
    BTreeMap::from([(shares.resource(), count.to_string())])
}

/// Returns a HyperNode for each topology domain, the widest first.
fn hyper_nodes(input: &QueueFilesInput<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for (at, level) in input.levels.iter().enumerate() {
        let tier = input.levels.len() - at;
        let placed = input.nodes.iter().filter(|node| node.domains.len() > at);
        let domains: BTreeSet<&str> = placed.clone().map(|node| &*node.domains[at]).collect();
        for domain in domains {
            let inside = placed.clone().filter(|node| &*node.domains[at] == domain);
            let below: BTreeSet<&str> =
                inside.filter_map(|node| Some(&**node.domains.get(at + 1)?)).collect();
            let members: Vec<Value> = match input.levels.get(at + 1) {
                None => {
                    let labels = json!({"matchLabels": {labels::of_level(level): domain}});
                    vec![json!({"type": "Node", "selector": {"labelMatch": labels}})]
                }
                Some(next) => below.into_iter().map(|one| member(next, one)).collect(),
            };
            let spec = json!({"tier": tier, "tierName": level, "members": members});
            let name = hyper_node_name(level, domain);
            all.push(object("topology.volcano.sh/v1alpha1", "HyperNode", &name, &spec));
        }
    }
    all
}

fn member(level: &str, domain: &str) -> Value {
    let name = hyper_node_name(level, domain);
    json!({"type": "HyperNode", "selector": {"exactMatch": {"name": name}}})
}

/// Returns the name of the HyperNode of a topology domain.
pub(super) fn hyper_node_name(level: &str, domain: &str) -> String {
    format!("{level}-{domain}").to_ascii_lowercase()
}

//! The leaf switches of nodes, as labels of several projects name them.

use std::collections::BTreeMap;

use crate::node::{NodeFacts, is_gpu};

/// Labels with the switch of a node, or the smallest group of nodes with a fast network: NVIDIA's topograph (before 1.0,
/// from 1.0), EKS, GKE.
const LABELS: [&str; 4] = [
    "network.topology.nvidia.com/leaf",
    "fabric.topograph.run/tier-0",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
];

/// Returns the names of the nodes of each leaf switch: of nodes with GPUs, if there are such. Empty where no node has a
/// known label.
#[must_use]
pub fn leaves(nodes: &[NodeFacts]) -> Vec<Vec<String>> {
    let has_gpus = |node: &NodeFacts| {
        node.allocatable.0.iter().any(|(resource, units)| is_gpu(resource) && *units > 0)
    };
    let only_gpus = nodes.iter().any(has_gpus);
    let counted = || nodes.iter().filter(|node| !only_gpus || has_gpus(node));
    let is_used = |label: &&str| counted().any(|node| node.labels.contains_key(*label));
    let Some(label) = LABELS.into_iter().find(is_used) else { return Vec::new() };
    let mut leaves: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in counted() {
        if let Some(leaf) = node.labels.get(label) {
            leaves.entry(leaf).or_default().push(node.name.to_string());
        }
    }
    leaves.into_values().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::NodeText;

    fn node(name: &str, labels: &serde_json::Value, gpus: u32) -> NodeFacts {
        let node = json!({
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": gpus.to_string()}},
        });
        serde_json::from_value::<NodeText>(node).unwrap().facts().unwrap()
    }

    #[test]
    fn nodes_with_gpus_are_grouped_by_the_first_known_label() {
        let leaf = |leaf: &str| json!({"network.topology.nvidia.com/leaf": leaf, "zone": "z"});
        let nodes =
            [node("a", &leaf("l1"), 8), node("b", &leaf("l2"), 8), node("c", &leaf("l1"), 8)];
        assert_eq!(leaves(&nodes), [vec!["a", "c"], vec!["b"]]);
        // A node without GPUs holds no rank that has some.
        let cpu = node("d", &leaf("l2"), 0);
        assert_eq!(leaves(&[nodes[0].clone(), cpu.clone()]), [vec!["a"]]);
        assert_eq!(leaves(&[cpu]), [vec!["d"]]);
        let zone = json!({"topology.kubernetes.io/zone": "z"});
        assert!(leaves(&[node("a", &zone, 8)]).is_empty());
        let of_aws = json!({"topology.k8s.aws/network-node-layer-3": "nn-1"});
        assert_eq!(leaves(&[node("a", &of_aws, 8), node("b", &zone, 8)]), [vec!["a"]]);
    }
}

//! The leaf switches of nodes, as labels of several projects name them.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::GpuModel;

use crate::node::{NodeFacts, is_gpu};

/// Labels with the switch of a node, or the smallest group of nodes with a fast network: NVIDIA's topograph (before 1.0,
/// from 1.0), EKS, GKE.
const LABELS: [&str; 4] = [
    "network.topology.nvidia.com/leaf",
    "fabric.topograph.run/tier-0",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
];

/// Returns the names of the nodes of each leaf switch: those of a job, and those that could have had its pods, which are in
/// service and have the same kinds of GPUs. Empty where no node of the job has a known label.
#[must_use]
pub fn leaves(nodes: &[NodeFacts], of_job: &[String]) -> Vec<Vec<String>> {
    let is_own = |node: &&NodeFacts| of_job.iter().any(|name| *name == node.name.as_str());
    let kinds: Vec<_> = nodes.iter().filter(is_own).map(gpu_kinds).collect();
    let is_used =
        |label: &&str| nodes.iter().filter(is_own).any(|node| node.labels.contains_key(*label));
    let Some(label) = LABELS.into_iter().find(is_used) else { return Vec::new() };
    let counts = |node: &&NodeFacts| {
        is_own(node) || node.out_of_service.is_none() && kinds.contains(&gpu_kinds(node))
    };
    let mut leaves: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in nodes.iter().filter(counts) {
        if let Some(leaf) = node.labels.get(label) {
            leaves.entry(leaf).or_default().push(node.name.to_string());
        }
    }
    leaves.into_values().collect()
}

/// Returns the GPUs of a node as resources with their models.
fn gpu_kinds(node: &NodeFacts) -> BTreeSet<(&str, GpuModel)> {
    let resources = node.allocatable.0.iter().filter(|(name, units)| is_gpu(name) && **units > 0);
    resources.map(|(name, _)| (&**name, node.model(name))).collect()
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

    fn grouped(nodes: &[NodeFacts], of_job: &[&str]) -> Vec<Vec<String>> {
        let of_job: Vec<String> = of_job.iter().map(|name| (*name).to_owned()).collect();
        leaves(nodes, &of_job)
    }

    #[test]
    fn nodes_that_could_have_had_the_job_are_grouped_by_the_first_known_label() {
        let leaf = |leaf: &str| json!({"network.topology.nvidia.com/leaf": leaf, "zone": "z"});
        let [a, b, c] =
            [("a", "l1"), ("b", "l2"), ("c", "l1")].map(|(name, of)| node(name, &leaf(of), 8));
        let nodes = [a.clone(), b.clone(), c.clone()];
        assert_eq!(grouped(&nodes, &["a", "b"]), [vec!["a", "c"], vec!["b"]]);
        // Nodes without GPUs, with others, or out of service could not have had its pods.
        let cpu = node("d", &leaf("l1"), 0);
        let mut old = leaf("l1");
        old["nvidia.com/gpu.product"] = json!("NVIDIA-A100-SXM4-80GB");
        let old = node("e", &old, 8);
        let cordoned = NodeFacts { out_of_service: Some("cordoned".to_owned()), ..c.clone() };
        let all = [a.clone(), b.clone(), cordoned, cpu.clone(), old];
        assert_eq!(grouped(&all, &["a", "b"]), [vec!["a"], vec!["b"]]);
        assert_eq!(grouped(&all, &["d"]), [vec!["d"]], "a job without GPUs");
        assert_eq!(grouped(&all, &["c", "b"]), [vec!["a", "c"], vec!["b"]], "where it runs counts");
        let zone = json!({"topology.kubernetes.io/zone": "z"});
        assert!(grouped(&[node("a", &zone, 8), b], &["a"]).is_empty());
        let of_aws = node("f", &json!({"topology.k8s.aws/network-node-layer-3": "nn-1"}), 8);
        assert_eq!(grouped(&[of_aws, node("g", &zone, 8)], &["f", "g"]), [vec!["f"]]);
    }
}

//! Nodes of a cluster, as far as a scheduler reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::gpu_model::{self, normalise_label};
use muster_model::{GpuModel, NodeName};
use serde::Deserialize;

use crate::device;
use crate::object::Metadata;
use crate::resources::{Quantities, Text};

/// Suffixes of resources that are whole GPUs, by which vendors' device plugins advertise them
/// (documentation of the NVIDIA, AMD and Intel device plugins, November 2026).
const GPU_RESOURCES: [&str; 5] = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
];

/// Prefix of MIG slices that are resources of their own (MIG strategy `mixed`).
const MIG_PREFIX: &str = "nvidia.com/mig-";

/// Returns true for a resource whose units are GPUs or slices of GPUs.
#[must_use]
pub fn is_gpu(resource: &str) -> bool {
    GPU_RESOURCES.contains(&resource)
        || resource.starts_with(MIG_PREFIX)
        || device::is_gpu(resource)
}

/// Node, as far as scheduling reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name of the node.
    pub name: NodeName,
    /// Labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Taints that keep pods away unless they tolerate them.
    pub taints: Vec<Taint>,
    /// Resources for pods: thousandths of CPUs, else whole units.
    pub allocatable: Quantities,
    /// Reason for which the node takes no pods at all: cordoned, or not ready.
    pub out_of_service: Option<String>,
    /// Models of GPUs that pods claim, by the resource that stands for them.
    pub device_models: BTreeMap<Arc<str>, GpuModel>,
}

/// Taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Key of the taint.
    pub key: String,
    /// Value; empty without one.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl Taint {
    /// Returns true when pods that do not tolerate the taint are not scheduled on the node.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.effect != "PreferNoSchedule"
    }
}

/// Node as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeText {
    /// Metadata of the node.
    pub metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    capacity: BTreeMap<String, Text>,
    allocatable: BTreeMap<String, Text>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
}

impl NodeText {
    /// Returns the node; the error names a resource that is no quantity.
    ///
    /// # Errors
    /// A resource with text that is no quantity.
    pub fn facts(self) -> Result<NodeFacts, String> {
        let texts = if self.status.allocatable.is_empty() {
            &self.status.capacity
        } else {
            &self.status.allocatable
        };
        let ready = self.status.conditions.iter().find(|condition| condition.r#type == "Ready");
        let out_of_service = match ready {
            _ if self.metadata.deletion_timestamp.is_some() => Some("being deleted".to_owned()),
            _ if self.spec.unschedulable => Some("cordoned".to_owned()),
            Some(ready) if ready.status != "True" => Some(format!("not ready ({})", ready.reason)),
            Some(_) | None => None,
        };
        // Cordoning and readiness are read from their source; their taints would say it twice.
        let mut taints = self.spec.taints;
        taints.retain(|taint| {
            taint.is_hard()
                && !(out_of_service.is_some()
                    && matches!(
                        taint.key.as_str(),
                        "node.kubernetes.io/unschedulable"
                            | "node.kubernetes.io/not-ready"
                            | "node.kubernetes.io/unreachable"
                    ))
        });
        Ok(NodeFacts {
            allocatable: Quantities::read(texts)?,
            name: NodeName(self.metadata.name),
            labels: self.metadata.labels,
            taints,
            out_of_service,
            device_models: BTreeMap::new(),
        })
    }
}

impl NodeFacts {
    /// Returns true if the node has these labels with these values.
    #[must_use]
    pub fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }

    /// Returns the model of the GPUs that a resource of this node counts, from their driver's claims or
    /// the labels of NVIDIA's GPU feature discovery and AMD's node labeller; `gpu` without them.
    #[must_use]
    pub fn model(&self, resource: &str) -> GpuModel {
        if let Some(model) = self.device_models.get(resource) {
            return model.clone();
        }
        let whole = self.model_label(resource).map(|(_, model)| model);
        let whole = whole.unwrap_or_else(|| GpuModel::from("gpu"));
        match resource.strip_prefix(MIG_PREFIX) {
            Some(profile) => GpuModel(Arc::from(format!("{whole}-{}", profile.to_lowercase()))),
            None => whole,
        }
    }

    /// Returns the label that tells the model of the GPUs which a resource counts, and the model.
    fn model_label(&self, resource: &str) -> Option<(&'static str, GpuModel)> {
        let labels: &[ModelLabel] =
            if resource.starts_with("amd.com/") { &AMD_LABELS } else { &NVIDIA_LABELS };
        labels.iter().find_map(|(key, read)| {
            let text = self.labels.get(*key).filter(|text| !text.is_empty())?;
            Some((*key, read(text)?))
        })
    }
}

/// Label with the model of a node's GPUs, and how to read it.
type ModelLabel = (&'static str, fn(&str) -> Option<GpuModel>);

const NVIDIA_LABELS: [ModelLabel; 1] =
    [("nvidia.com/gpu.product", |text| Some(normalise_label(text)))];

/// A number is more exact than the name of a product.
const AMD_LABELS: [ModelLabel; 4] = [
    ("amd.com/gpu.device-id", amd_device),
    ("beta.amd.com/gpu.device-id", amd_device),
    ("amd.com/gpu.product-name", |text| Some(normalise_label(text))),
    ("beta.amd.com/gpu.product-name", |text| Some(normalise_label(text))),
];

fn amd_device(text: &str) -> Option<GpuModel> {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).ok().map(gpu_model::amd)
}

/// Labels that name the GPU models of a cluster's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuLabels(BTreeMap<GpuModel, BTreeMap<String, BTreeSet<String>>>);

impl GpuLabels {
    /// Reads the labels of nodes for the GPUs that a resource counts.
    #[must_use]
    pub fn of(nodes: &[NodeFacts], resource: &str) -> Self {
        let mut labels = Self::default();
        for node in nodes {
            let label = node.model_label(resource).filter(|_| node.allocatable.get(resource) > 0);
            if let Some((key, _)) = label {
                let of_model = labels.0.entry(node.model(resource)).or_default();
                let values = of_model.entry(key.to_owned()).or_default();
                values.extend(node.labels.get(key).cloned());
            }
        }
        labels
    }

    /// Returns the models that nodes have.
    pub fn models(&self) -> impl Iterator<Item = &GpuModel> {
        self.0.keys()
    }

    /// Returns the labels of the nodes that have one of these models, each with its values.
    #[must_use]
    pub fn of_models(&self, models: &[GpuModel]) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (key, values) in models.iter().filter_map(|model| self.0.get(model)).flatten() {
            found.entry(key).or_default().extend(values.iter().map(String::as_str));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts(value: Value) -> NodeFacts {
        serde_json::from_value::<NodeText>(value).unwrap().facts().unwrap()
    }

    #[test]
    fn nodes_are_read() {
        let node = facts(json!({
            "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
            "spec": {"taints": [
                {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
                {"key": "slow", "effect": "PreferNoSchedule"},
            ]},
            "status": {
                "allocatable": {"cpu": "127500m", "memory": "1Gi", "nvidia.com/gpu": "8", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }));
        assert_eq!(node.allocatable.get("cpu"), 127_500);
        assert_eq!(node.allocatable.get("nvidia.com/gpu"), 8);
        assert_eq!(node.taints.len(), 1);
        assert_eq!(node.out_of_service, None);
        assert_eq!(node.model("nvidia.com/gpu").as_str(), "h100");
        assert_eq!(node.model("nvidia.com/mig-1g.10gb").as_str(), "h100-1g.10gb");
        assert_eq!(node.model("amd.com/gpu").as_str(), "gpu");
    }

    #[test]
    fn models_are_told_by_the_labels_of_the_nodes_that_have_them() {
        let node = |labels: Value| {
            let there =
                json!({"nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": "2", "amd.com/gpu": "8"});
            facts(
                json!({"metadata": {"name": "a", "labels": labels}, "status": {"allocatable": there}}),
            )
        };
        let nvidia = |product: &str| node(json!({"nvidia.com/gpu.product": product}));
        let nodes = [
            nvidia("NVIDIA-H100-80GB-HBM3"),
            nvidia("NVIDIA-H100-PCIe"),
            nvidia("NVIDIA-L40S"),
            node(json!({"amd.com/gpu.product-name": "AMD_Instinct_MI300X"})),
            node(json!({})),
        ];
        let labels = GpuLabels::of(&nodes, "nvidia.com/gpu");
        let models: Vec<&str> = labels.models().map(GpuModel::as_str).collect();
        assert_eq!(models, ["h100", "l40s"]);
        let h100 = labels.of_models(&[GpuModel::from("h100"), GpuModel::from("b200")]);
        let products = BTreeSet::from(["NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe"]);
        assert_eq!(h100, BTreeMap::from([("nvidia.com/gpu.product", products)]));
        assert!(labels.of_models(&[GpuModel::from("b200")]).is_empty());
        let slices = GpuLabels::of(&nodes[..1], "nvidia.com/mig-1g.10gb");
        assert_eq!(slices.models().next().map(GpuModel::as_str), Some("h100-1g.10gb"));
        let of_amd = GpuLabels::of(&nodes, "amd.com/gpu");
        assert_eq!(of_amd.models().count(), 1);
    }

    #[test]
    fn nodes_out_of_service_say_why() {
        for (spec, status, expected) in [
            (json!({"unschedulable": true}), json!({}), "cordoned"),
            (
                json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}),
                json!({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}),
                "not ready (NodeStatusUnknown)",
            ),
        ] {
            let node = facts(json!({"metadata": {"name": "a"}, "spec": spec, "status": status}));
            assert_eq!(node.out_of_service.as_deref(), Some(expected));
            assert!(node.taints.is_empty());
        }
    }

    #[test]
    fn gpu_resources_are_told_from_others() {
        for (name, expected) in [
            ("nvidia.com/gpu", true),
            ("nvidia.com/mig-1g.5gb", true),
            ("amd.com/gpu", true),
            ("rdma/hca", false),
            ("cpu", false),
        ] {
            assert_eq!(is_gpu(name), expected, "{name}");
        }
    }
}

//! Nodes from `kubectl get nodes -o json`: allocatable resources, GPU models from the labels of
//! NVIDIA's GPU feature discovery and AMD's node labeller, pools and topology from labels. Other
//! labels are kept only on request.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{Bytes, CpuMilli, Device, GpuModel, NodeName, NodeSpec};
use serde_json::{Map, Value};

use crate::quantity;
use muster_model::gpu_model::{self, normalise_label};
use muster_model::inventory::{self, Inventory, InventoryError, InventoryOptions, ListedNode};

const SOURCE: &str = "kubectl get nodes -o json";

/// Labels by which platforms name the pool of a node (their documentation, November 2026): GKE,
/// EKS, eksctl, AKS (new and old), Karpenter, and plain `pool`.
const POOLS: [&str; 7] = [
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "karpenter.sh/nodepool",
    "pool",
];

const ZONE: &str = "topology.kubernetes.io/zone";

/// Families of topology labels, widest level first, with a name for each level: NVIDIA's topograph
/// (before 1.0, from 1.0), EKS, GKE.
const TOPOLOGIES: [[(&str, &str); 3]; 4] = [
    [
        ("core", "network.topology.nvidia.com/core"),
        ("spine", "network.topology.nvidia.com/spine"),
        ("leaf", "network.topology.nvidia.com/leaf"),
    ],
    [
        ("core", "fabric.topograph.run/tier-2"),
        ("spine", "fabric.topograph.run/tier-1"),
        ("leaf", "fabric.topograph.run/tier-0"),
    ],
    [
        ("layer1", "topology.k8s.aws/network-node-layer-1"),
        ("layer2", "topology.k8s.aws/network-node-layer-2"),
        ("layer3", "topology.k8s.aws/network-node-layer-3"),
    ],
    [
        ("block", "cloud.google.com/gce-topology-block"),
        ("subblock", "cloud.google.com/gce-topology-subblock"),
        ("host", "cloud.google.com/gce-topology-host"),
    ],
];

/// Taints that add no information to the GPUs or to another note.
const EXPECTED_TAINTS: [&str; 3] =
    ["node.kubernetes.io/unschedulable", "nvidia.com/gpu", "amd.com/gpu"];

/// Returns true for an object of the Kubernetes API of any kind; kinds other than nodes are rejected
/// with a specific error.
fn recognises(value: &Value) -> bool {
    let is_text = |field| value.get(field).is_some_and(Value::is_string);
    is_text("apiVersion") && is_text("kind")
}

/// Reads a list of nodes; `None` where the value is no object of the Kubernetes API.
pub fn read(
    value: &Value,
    options: &InventoryOptions,
) -> Option<Result<Inventory, InventoryError>> {
    recognises(value).then(|| list(value, options))
}

fn list(value: &Value, options: &InventoryOptions) -> Result<Inventory, InventoryError> {
    inventory::check_levels(&options.levels)?;
    // 1. Items.
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let items: Vec<&Value> = match (kind, value.get("items").and_then(Value::as_array)) {
        ("Node", _) => vec![value],
        ("List" | "NodeList", Some(items)) => items.iter().collect(),
        _ => return Err(InventoryError::Unrecognised(inventory::shape(value))),
    };
    if items.is_empty() {
        return Err(InventoryError::NoNodes { source_name: SOURCE, why: String::new() });
    }

    // 2. Nodes.
    let mut nodes = Vec::new();
    let mut tree = DomainTree::default();
    for (index, item) in items.iter().enumerate() {
        nodes.push(NodeRow::new(item, index + 1, kind)?.listed(options, &mut tree)?);
    }

    // 3. Hints.
    let hints = if options.levels.is_empty() {
        topology_hint(&items).into_iter().collect()
    } else {
        Vec::new()
    };
    let levels = options.levels.iter().map(|(level, _)| Arc::clone(level)).collect();
    Ok(Inventory { source: SOURCE, levels, nodes, hints })
}

/// Returns a hint with the options that read the topology labels of these nodes.
fn topology_hint(items: &[&Value]) -> Option<String> {
    let has = |label: &str| {
        items.iter().any(|item| labels(item).is_some_and(|labels| labels.contains_key(label)))
    };
    let family = TOPOLOGIES
        .iter()
        .map(|family| family.iter().filter(|(_, label)| has(label)).collect::<Vec<_>>());
    let found = family.into_iter().find(|family| !family.is_empty())?;
    let arguments: Vec<String> =
        found.iter().map(|(level, label)| format!("--level {level}={label}")).collect();
    Some(format!("the nodes have topology labels; to read them: {}", arguments.join(" ")))
}

fn labels(item: &Value) -> Option<&Map<String, Value>> {
    item.pointer("/metadata/labels").and_then(Value::as_object)
}

/// Parent domain of each domain, and the first node with that pair of labels.
#[derive(Default)]
struct DomainTree(BTreeMap<(usize, Arc<str>), (Arc<str>, NodeName)>);

impl DomainTree {
    fn add(
        &mut self,
        node: &NodeName,
        levels: &[(Arc<str>, String)],
        domains: &[Arc<str>],
    ) -> Result<(), InventoryError> {
        for (index, pair) in domains.windows(2).enumerate() {
            let key = (index + 1, Arc::clone(&pair[1]));
            match self.0.get(&key) {
                Some((wide, first)) if *wide != pair[0] => {
                    let wider = &levels[index].0;
                    let narrow = &levels[index + 1].0;
                    return Err(InventoryError::Levels(format!(
                        "the labels form no tree: {narrow} `{}` lies in {wider} `{wide}` according to node `{first}` and in {wider} `{}` according to node `{node}`",
                        pair[1], pair[0]
                    )));
                }
                Some(_) => {}
                None => drop(self.0.insert(key, (Arc::clone(&pair[0]), node.clone()))),
            }
        }
        Ok(())
    }
}

/// One node of the list, with the parts that are read repeatedly.
struct NodeRow<'a> {
    item: &'a Value,
    name: &'a str,
    text: String,
    resources: &'a Map<String, Value>,
    capacity: Option<&'a Map<String, Value>>,
}

impl<'a> NodeRow<'a> {
    fn new(item: &'a Value, number: usize, list: &str) -> Result<Self, InventoryError> {
        let name = item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let text = if name.is_empty() {
            format!("item {number}")
        } else {
            format!("item {number} (`{name}`)")
        };
        let wrong = |what: String| inventory::row(text.clone(), what);
        match item.get("kind").and_then(Value::as_str) {
            Some("Node") => {}
            None if list == "NodeList" => {}
            Some(other) => return Err(wrong(format!("this is a {other}, not a Node"))),
            None => return Err(wrong(format!("no `kind: Node` in {}", inventory::shape(item)))),
        }
        if name.is_empty() {
            return Err(wrong("no `metadata.name`".to_owned()));
        }
        let map = |path: &str| item.pointer(path).and_then(Value::as_object);
        let capacity = map("/status/capacity");
        let resources = map("/status/allocatable").or(capacity);
        let resources = resources.ok_or_else(|| {
            wrong("neither `status.allocatable` nor `status.capacity`".to_owned())
        })?;
        Ok(Self { item, name, text, resources, capacity })
    }

    fn wrong(&self, what: impl Into<String>) -> InventoryError {
        inventory::row(self.text.clone(), what.into())
    }

    fn label(&self, name: &str) -> Option<&'a str> {
        labels(self.item)?.get(name)?.as_str().filter(|value| !value.is_empty())
    }

    fn listed(
        &self,
        options: &InventoryOptions,
        tree: &mut DomainTree,
    ) -> Result<ListedNode, InventoryError> {
        let mut notes = self.service_notes();
        let name: NodeName = self.name.into();
        let domains = self.domains(options)?;
        if domains.is_empty() && !options.levels.is_empty() {
            notes.push("has none of the topology labels".to_owned());
        }
        tree.add(&name, &options.levels, &domains)?;
        let node = NodeSpec {
            name,
            devices: self.devices(options, &mut notes)?,
            cpus: self.cpus()?,
            memory: Bytes(self.quantity(self.resources, "memory")?.unwrap_or(0)),
            extras: BTreeMap::new(),
            labels: self.labels(options),
            domains,
        };
        inventory::check(&node).map_err(|what| self.wrong(what))?;
        Ok(inventory::declared(node, notes))
    }

    /// Returns the reasons for which pods are not scheduled on this node.
    fn service_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.item.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
            notes.push("out of service in Kubernetes: cordoned (unschedulable)".to_owned());
        }
        let list = |path| self.item.pointer(path).and_then(Value::as_array).into_iter().flatten();
        let text = |value: &Value, field| {
            value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        for condition in list("/status/conditions") {
            if text(condition, "type") == "Ready" && text(condition, "status") != "True" {
                notes.push(format!(
                    "out of service in Kubernetes: not ready ({})",
                    text(condition, "reason")
                ));
            }
        }
        for taint in list("/spec/taints") {
            let key = text(taint, "key");
            if text(taint, "effect") != "PreferNoSchedule"
                && !EXPECTED_TAINTS.contains(&key.as_str())
            {
                notes.push(format!("tainted {key}: only pods that tolerate it are scheduled here"));
            }
        }
        notes
    }

    fn labels(&self, options: &InventoryOptions) -> BTreeMap<Arc<str>, Arc<str>> {
        let mut kept: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        if let Some(pool) = POOLS.iter().find_map(|label| self.label(label)) {
            kept.insert("pool".into(), pool.into());
        }
        if let Some(zone) = self.label(ZONE) {
            kept.insert("zone".into(), zone.into());
        }
        let requested = options
            .keep_labels
            .iter()
            .filter_map(|label| Some((label.as_str(), self.label(label)?)));
        kept.extend(requested.map(|(label, value)| (label.into(), value.into())));
        kept
    }

    /// Returns the domains of all levels, or none if the node has none of the labels.
    fn domains(&self, options: &InventoryOptions) -> Result<Vec<Arc<str>>, InventoryError> {
        let found: Vec<Option<&str>> =
            options.levels.iter().map(|(_, label)| self.label(label)).collect();
        if found.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        let domain = |((_, label), value): (&(Arc<str>, String), Option<&str>)| match value {
            None => Err(self.wrong(format!("no label `{label}`, although other levels have one"))),
            Some(value) if !inventory::is_domain(value) => {
                Err(self.wrong(format!("label `{label}`: {value:?} is not the name of a domain")))
            }
            Some(value) => Ok(Arc::from(value)),
        };
        options.levels.iter().zip(found).map(domain).collect()
    }

    fn cpus(&self) -> Result<CpuMilli, InventoryError> {
        let Some(value) = self.resources.get("cpu") else { return Ok(CpuMilli(0)) };
        let milli = as_text(value).and_then(|text| quantity::milli(&text));
        let milli = milli.ok_or_else(|| self.wrong(format!("`cpu` is {value}, not a quantity")))?;
        inventory::cpus(milli).map_err(|what| self.wrong(what))
    }

    fn quantity(
        &self,
        resources: &Map<String, Value>,
        name: &str,
    ) -> Result<Option<u64>, InventoryError> {
        let Some(value) = resources.get(name) else { return Ok(None) };
        let whole = as_text(value).and_then(|text| quantity::whole(&text));
        whole.map(Some).ok_or_else(|| self.wrong(format!("`{name}` is {value}, not a quantity")))
    }

    fn count(&self, name: &str) -> Result<usize, InventoryError> {
        let count = self.quantity(self.resources, name)?.unwrap_or(0);
        let most = muster_model::DeviceSet::MAX_DEVICES as u64;
        // Time-slicing advertises each device several times.
        if count <= most * most {
            Ok(count as usize)
        } else {
            Err(self.wrong(format!("`{name}` is {count}; a node has at most {most} GPUs")))
        }
    }

    fn devices(
        &self,
        options: &InventoryOptions,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Device>, InventoryError> {
        let mut devices = Vec::new();

        // 1. Whole GPUs, or slices under their name (MIG strategy `single`); time-sliced ones are
        //    advertised several times.
        let advertised = self.count("nvidia.com/gpu")? + self.count("nvidia.com/gpu.shared")?;
        let replicas = self
            .label("nvidia.com/gpu.replicas")
            .and_then(|text| text.parse().ok())
            .unwrap_or(1)
            .max(1);
        let count = advertised / replicas;
        if replicas > 1 && count > 0 {
            notes.push(format!(
                "{count} GPUs are time-sliced: advertised as {advertised}, without isolation of memory"
            ));
        }
        let product = self.label("nvidia.com/gpu.product").map(normalise_label);
        let mebibytes = self
            .label("nvidia.com/gpu.memory")
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0);
        if count > 0 {
            let model = self.model(product.clone(), "nvidia.com/gpu.product", options, notes);
            devices.extend(inventory::devices(
                &model,
                Bytes(mebibytes.saturating_mul(1 << 20)),
                count,
                false,
            ));
        }
        for name in ["nvidia.com/gpu", "amd.com/gpu"] {
            self.note_missing(name, notes)?;
        }

        // 2. MIG slices under names of their own (strategy `mixed`).
        for resource in self.resources.keys() {
            let Some(profile) = resource.strip_prefix("nvidia.com/mig-") else { continue };
            let count = self.count(resource)?;
            let whole = product.as_ref().map_or("gpu", GpuModel::as_str);
            let model = GpuModel::from(format!("{whole}-{}", profile.to_lowercase()).as_str());
            devices.extend(inventory::devices(&model, Bytes(0), count, true));
        }

        // 3. AMD GPUs.
        let amd = |name: &str| {
            self.label(&format!("amd.com/gpu.{name}"))
                .or_else(|| self.label(&format!("beta.amd.com/gpu.{name}")))
        };
        let count = self.count("amd.com/gpu")?;
        if count > 0 {
            let by_id = amd("device-id")
                .and_then(|id| u32::from_str_radix(id.trim_start_matches("0x"), 16).ok());
            let named =
                by_id.map(gpu_model::amd).or_else(|| amd("product-name").map(normalise_label));
            let model = self.model(named, "amd.com/gpu.product-name", options, notes);
            let gibibytes =
                amd("vram").and_then(|text| text.trim_end_matches(['G', 'g']).parse::<u64>().ok());
            devices.extend(inventory::devices(
                &model,
                Bytes(gibibytes.unwrap_or(0).saturating_mul(1 << 30)),
                count,
                false,
            ));
        }
        Ok(devices)
    }

    fn model(
        &self,
        named: Option<GpuModel>,
        label: &str,
        options: &InventoryOptions,
        notes: &mut Vec<String>,
    ) -> GpuModel {
        named.or_else(|| options.gpu.clone()).unwrap_or_else(|| {
            notes.push(format!(
                "no label `{label}` with the model of these GPUs; set it with `--gpu MODEL`"
            ));
            GpuModel::from("gpu")
        })
    }

    /// Adds a note for devices that the node has but that are not allocatable.
    fn note_missing(&self, name: &str, notes: &mut Vec<String>) -> Result<(), InventoryError> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let total = self.quantity(capacity, name)?.unwrap_or(0);
        let allocatable = self.quantity(self.resources, name)?.unwrap_or(0);
        if total > allocatable {
            notes.push(format!(
                "has {total} of `{name}`, of which {allocatable} are allocatable and counted"
            ));
        }
        Ok(())
    }
}

/// Returns the text of a quantity, which is a JSON string, or a number in hand-written files.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

//! Kinds of nodes by the model of their GPUs, and the label by which the nodes of a kind are known.

use std::collections::BTreeMap;

use muster_model::{GpuModel, NodeSpec};

use crate::pool;

/// Name of the flavor of the nodes without GPUs.
const WITHOUT_GPUS: &str = "cpu";

/// Label with the name of a node's flavor.
const FLAVOR: &str = "muster.run/flavor";

/// Labels in which others write the model of a node's GPUs, and by which jobs ask for one.
const OF_OTHERS: [&str; 2] = ["nvidia.com/gpu.product", "amd.com/gpu.product-name"];

/// Nodes with the same model of GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeFlavor {
    /// Name of the model as the name of an object; [`WITHOUT_GPUS`] for nodes without GPUs.
    pub(super) name: String,
    pub(super) model: Option<GpuModel>,
    /// Resource under which its GPUs are advertised.
    pub(super) resource: &'static str,
    /// Label that its nodes have and no others.
    pub(super) label: (&'static str, String),
    /// All that its nodes have together.
    pub(super) total: Amount,
}

impl NodeFlavor {
    /// Returns true for a node of this flavor.
    pub(super) fn has(&self, node: &NodeSpec) -> bool {
        model_of(node) == self.model.as_ref()
    }

    /// Returns true if its nodes are only known by Muster's own label.
    pub(super) fn has_own_label(&self) -> bool {
        self.label.0 == FLAVOR
    }

    /// Returns that many of its GPUs, with CPUs and memory in proportion.
    pub(super) fn part(&self, gpus: u64) -> Amount {
        Amount { gpus, ..self.total.part(gpus, self.total.gpus) }
    }
}

/// GPUs, CPUs and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) gpus: u64,
    pub(super) cpu_milli: u64,
    pub(super) memory_bytes: u64,
}

impl Amount {
    /// Returns the CPUs as objects have them.
    pub(super) fn cpu(self) -> String {
        match self.cpu_milli {
            milli if milli.is_multiple_of(1000) => (milli / 1000).to_string(),
            milli => format!("{milli}m"),
        }
    }

    /// Returns the memory as objects have it, in whole MiB.
    pub(super) fn memory(self) -> String {
        match self.memory_bytes >> 20 {
            0 => "0".to_owned(),
            mib if mib.is_multiple_of(1024) => format!("{}Gi", mib / 1024),
            mib => format!("{mib}Mi"),
        }
    }

    /// Returns the sum of both.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            gpus: self.gpus.saturating_add(other.gpus),
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }

    /// Returns `of` parts of it, where there are `all`.
    pub(super) fn part(self, of: u64, all: u64) -> Self {
        let part = |total: u64| {
            let part = u128::from(total) * u128::from(of) / u128::from(all.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        Self {
            gpus: part(self.gpus),
            cpu_milli: part(self.cpu_milli),
            memory_bytes: part(self.memory_bytes),
        }
    }

    /// Returns what is left of it without the other.
    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            gpus: self.gpus.saturating_sub(other.gpus),
            cpu_milli: self.cpu_milli.saturating_sub(other.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_sub(other.memory_bytes),
        }
    }
}

/// Returns the label by which the nodes of a model are known: that of others, if the cluster file has it with the
/// same value for all of them, else Muster's own.
fn label_of<'a>(
    nodes: impl Iterator<Item = &'a NodeSpec> + Clone,
    flavor: &str,
) -> (&'static str, String) {
    let common = |label: &str| {
        let mut values = nodes.clone().map(|node| node.labels.get(label));
        let first = values.next()??;
        values.all(|value| value == Some(first)).then(|| first.to_string())
    };
    let of_others = OF_OTHERS.iter().find_map(|label| Some((*label, common(label)?)));
    of_others.unwrap_or_else(|| (FLAVOR, flavor.to_owned()))
}

/// Returns the model of a node's GPUs: that of the first whole one.
fn model_of(node: &NodeSpec) -> Option<&GpuModel> {
    node.devices.iter().find(|device| device.slice_of.is_none()).map(|device| &device.model)
}

/// Returns the kinds of nodes, and notes on GPUs that none of them counts.
pub(super) fn flavors(nodes: &[NodeSpec], notes: &mut Vec<String>) -> Vec<NodeFlavor> {
    let mut by_model: BTreeMap<Option<&GpuModel>, Amount> = BTreeMap::new();
    for node in nodes {
        let model = model_of(node);
        let whole = node.devices.iter().filter(|device| device.slice_of.is_none());
        let own = Amount {
            gpus: whole.clone().count() as u64,
            cpu_milli: u64::from(node.cpus.0),
            memory_bytes: node.memory.0,
        };
        let of_model = by_model.entry(model).or_default();
        *of_model = of_model.plus(own);
        if node.devices.iter().any(|device| device.slice_of.is_some()) {
            notes.push(format!("{}: its MIG slices are in no quota", node.name));
        }
        if let Some(other) = whole.map(|device| &device.model).find(|other| Some(*other) != model) {
            let first = model.map_or("", GpuModel::as_str);
            notes.push(format!("{}: its {other} GPUs count as {first}", node.name));
        }
    }
    let mut flavors: Vec<NodeFlavor> = by_model
        .into_iter()
        .map(|(model, total)| {
            let name = model.map_or(WITHOUT_GPUS.to_owned(), |model| object_part(model.as_str()));
            let resource = pool::resource(model.map_or("", GpuModel::as_str));
            let label = label_of(nodes.iter().filter(|node| model_of(node) == model), &name);
            NodeFlavor { name, model: model.cloned(), resource, label, total }
        })
        .collect();
    // A job without GPUs must find the nodes without GPUs first.
    flavors.sort_by_key(|flavor| flavor.model.is_some());
    flavors
}

/// Returns a model as part of the name of an object.
fn object_part(model: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }
    };
    model.chars().map(letter).collect::<String>().trim_matches('-').to_owned()
}

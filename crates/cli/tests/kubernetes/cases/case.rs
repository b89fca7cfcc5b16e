//! The format of a case, as its file has it: nodes, queues, and steps that create or change objects
//! and say what the cluster must come to.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// A situation of its own: no node, queue or namespace belongs to two cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    /// Prefix of its nodes and queues, and its namespace.
    pub name: String,
    /// Suites that test the like, and what they look at.
    pub from: String,
    /// Expectation of those suites, and why Muster does otherwise.
    #[serde(default)]
    pub differs: Option<String>,
    #[serde(default)]
    pub nodes: BTreeMap<String, NodeSpec>,
    /// Queue objects by their path below the case; without any, the case is one queue.
    #[serde(default)]
    pub queues: BTreeMap<String, Map<String, Value>>,
    pub steps: Vec<Step>,
}

/// Number of GPUs of a node, or its description.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum NodeSpec {
    Gpus(u32),
    Node(Box<NodeDescription>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDescription {
    #[serde(default)]
    pub gpus: u32,
    /// Model of its GPUs, in the words of the case's quotas; `gpu` if it names none.
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub labels: Map<String, Value>,
    /// Resources besides, or instead of, those that every node has.
    #[serde(default)]
    pub capacity: Map<String, Value>,
    #[serde(default)]
    pub taints: Vec<Value>,
    #[serde(default)]
    pub unschedulable: bool,
}

/// Changes that are made at once, and what must hold afterwards. All of it is checked on one list of
/// the cluster's objects.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Step {
    pub nodes: BTreeMap<String, NodeSpec>,
    /// Queues that are made or changed.
    pub queues: BTreeMap<String, Map<String, Value>>,
    /// Objects as they are, in the namespace of the case.
    pub objects: Vec<Value>,
    pub create: Vec<Item>,
    /// The pods of all items are made in turns, and not item by item.
    pub in_turns: bool,
    /// Items whose pods are deleted.
    pub delete: Vec<String>,
    /// Items whose pods succeed.
    pub finish: Vec<String>,
    /// Merge patches of objects, by `kind/name`.
    pub patch: BTreeMap<String, Value>,
    /// Objects that are deleted, as `kind/name`.
    pub remove: Vec<String>,
    pub expect: Expectation,
}

/// Equal pods, with or without a gang.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Item {
    pub name: String,
    /// Pods that are made; by default those of the gang, or one.
    #[serde(default)]
    pub pods: Option<u32>,
    /// Fewest pods that start together: the pods name the gang themselves.
    #[serde(default)]
    pub gang: Option<u32>,
    /// GPUs of each pod; 1 without `requests`.
    #[serde(default)]
    pub gpus: Option<u32>,
    #[serde(default)]
    pub requests: Map<String, Value>,
    /// Path below the case.
    #[serde(default)]
    pub queue: Option<String>,
    /// `low`, `high`, or another priority class of `classes`.
    #[serde(default)]
    pub priority: Option<String>,
    #[serde(default)]
    pub labels: Map<String, Value>,
    #[serde(default)]
    pub annotations: Map<String, Value>,
    /// Node selector, besides that of the case.
    #[serde(default)]
    pub select: Map<String, Value>,
    /// Node to which another scheduler has bound it.
    #[serde(default)]
    pub node: Option<String>,
    /// Further fields of the pod's specification.
    #[serde(default)]
    pub spec: Map<String, Value>,
}

impl Item {
    pub fn count(&self) -> u32 {
        self.pods.or(self.gang).unwrap_or(1)
    }

    /// Returns the name of one of its pods, from 0.
    pub fn pod_name(&self, at: u32) -> String {
        if self.count() == 1 { self.name.clone() } else { format!("{}-{at}", self.name) }
    }
}

/// State of the cluster to which a step leads. Names are those of items, or of single pods.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Expectation {
    /// All pods have nodes, and stay.
    pub bound: Vec<String>,
    /// As `bound`, each pod on one of these nodes.
    pub on: BTreeMap<String, Vec<String>>,
    /// As `bound`, all in one domain of a node label.
    pub together: BTreeMap<String, String>,
    /// As many pods have nodes.
    pub count: BTreeMap<String, usize>,
    /// No pod has a node, and each says so with this text.
    pub waiting: BTreeMap<String, String>,
    /// No pod is left that has not ended and is not being deleted.
    pub gone: Vec<String>,
    /// Text of the condition `Ready` of queues.
    pub queues: BTreeMap<String, String>,
    /// Text of the condition of suspended Jobs.
    pub jobs: BTreeMap<String, String>,
}

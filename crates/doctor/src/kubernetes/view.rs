//! Objects of a snapshot as the rules need them: pods and nodes with their GPUs, and gangs with the
//! number of pods that they need. Objects that cannot be read are left out: a rule judges the others.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use muster_kubernetes::group::{GangRef, GroupKind, GroupSize, GroupText};
use muster_kubernetes::node::{NodeFacts, NodeText, is_gpu};
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::{PodFacts, PodPhase, PodText};
pub(crate) use muster_kubernetes::quantity::units as quantity;
use muster_kubernetes::resources::Quantities;
use muster_model::Time;
use muster_slurm::conf::evidence::MissingInput;
use serde::Deserialize;
use serde_json::{Value, json};

use super::resource::{NODES, PODS, Resource};
use super::snapshot::Snapshot;
use crate::rule::{RuleFinding, RuleResult, judge};

/// Scheduler of pods that name none.
pub(crate) const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Further names of the scheduler of managed clusters (documentation of GKE on autoscaling profiles,
/// November 2026).
const DEFAULT_ALIASES: [&str; 1] = ["gke.io/optimize-utilization-scheduler"];

/// Prefix of the labels of Kueue's queues, and of its marks on pods that it has admitted.
const OF_KUEUE: &str = "kueue.x-k8s.io/";

/// Cluster as the rules see it.
pub(crate) struct ClusterView<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// Instant to which ages are counted.
    pub(crate) now: Time,
    pods: Result<Vec<PodView<'a>>, MissingInput>,
    nodes: Result<Vec<NodeView<'a>>, MissingInput>,
}

/// Pod that has not ended.
pub(crate) struct PodView<'a> {
    pub(crate) object: &'a Value,
    pub(crate) facts: PodFacts,
    /// GPUs, or slices of GPUs, that it requests.
    pub(crate) gpus: u64,
    /// Scheduler that it names, by its usual name.
    pub(crate) scheduler: &'a str,
}

/// Node with its GPUs.
pub(crate) struct NodeView<'a> {
    pub(crate) object: &'a Value,
    pub(crate) facts: NodeFacts,
    /// GPUs, or slices of GPUs, that pods can use.
    pub(crate) gpus: u64,
}

/// Pods that name the same gang, at least one of them with GPUs.
pub(crate) struct Gang<'a> {
    pub(crate) reference: GangRef,
    /// Object of the gang; `None` for a gang without one.
    pub(crate) object: Option<&'a Value>,
    /// Number of pods that it needs; 1 for independent pods.
    pub(crate) needed: u32,
    /// Its pods that have not ended.
    pub(crate) pods: Vec<&'a PodView<'a>>,
}

/// Objects of a kind by namespace and name.
type ObjectIndex<'a> = BTreeMap<ObjectKey, &'a Value>;

/// Gangs of a cluster, as far as they are known.
pub(crate) struct Gangs<'a> {
    /// Gangs whose size is known.
    pub(crate) known: Vec<Gang<'a>>,
    /// Input without which other pods cannot be told to be gangs.
    pub(crate) missing: Option<MissingInput>,
}

impl<'a> ClusterView<'a> {
    /// Reads the pods and nodes of a snapshot, as far as they were listed.
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let pods = snapshot.list(PODS).map(|list| list.iter().filter_map(PodView::of).collect());
        let nodes = snapshot.list(NODES).map(|list| list.iter().filter_map(NodeView::of).collect());
        Self { snapshot, now: snapshot.now(), pods, nodes }
    }

    /// Returns the objects of a kind.
    pub(crate) fn list(&self, resource: Resource) -> Result<&'a [Value], MissingInput> {
        self.snapshot.list(resource)
    }

    /// Returns the pods that have not ended.
    pub(crate) fn pods(&self) -> Result<&[PodView<'a>], MissingInput> {
        self.pods.as_deref().map_err(Clone::clone)
    }

    /// Returns the pods with GPUs that have not ended.
    pub(crate) fn gpu_pods(&self) -> Result<Vec<&PodView<'a>>, MissingInput> {
        Ok(self.pods()?.iter().filter(|pod| pod.gpus > 0).collect())
    }

    /// Returns the nodes, with GPUs or without.
    pub(crate) fn nodes(&self) -> Result<&[NodeView<'a>], MissingInput> {
        self.nodes.as_deref().map_err(Clone::clone)
    }

    /// Returns the nodes on which pods can use GPUs.
    pub(crate) fn gpu_nodes(&self) -> Result<Vec<&NodeView<'a>>, MissingInput> {
        Ok(self.nodes()?.iter().filter(|node| node.gpus > 0).collect())
    }

    /// Returns the gangs with GPUs that need several pods.
    pub(crate) fn gangs(&self) -> Result<Gangs<'_>, MissingInput> {
        let mut gangs = self.groups()?;
        gangs.known.retain(|gang| gang.needed > 1);
        Ok(gangs)
    }

    /// Returns all groups of pods with GPUs, also those that need one pod at a time.
    pub(crate) fn groups(&self) -> Result<Gangs<'_>, MissingInput> {
        let mut pods_of: BTreeMap<&GangRef, Vec<&PodView<'a>>> = BTreeMap::new();
        for pod in self.pods()? {
            if let Some(gang) = &pod.facts.gang {
                pods_of.entry(gang).or_default().push(pod);
            }
        }
        let mut groups = Gangs { known: Vec::new(), missing: None };
        let mut indices = BTreeMap::new();
        for (reference, pods) in pods_of {
            if pods.iter().all(|pod| pod.gpus == 0) {
                continue;
            }
            match self.objects_of(reference.kind, &mut indices) {
                Ok(objects) => groups.known.push(Gang::new(reference, objects, pods)),
                Err(missing) => groups.missing = Some(missing),
            }
        }
        Ok(groups)
    }

    /// Returns the gang objects of a kind by name, from an index that is filled here.
    fn objects_of<'b>(
        &self,
        kind: GroupKind,
        indices: &'b mut BTreeMap<GroupKind, ObjectIndex<'a>>,
    ) -> Result<Option<&'b ObjectIndex<'a>>, MissingInput> {
        let Some(api) = kind.api() else { return Ok(None) };
        if let Entry::Vacant(entry) = indices.entry(kind) {
            let list = self.list(Resource::of_group(api))?;
            entry.insert(list.iter().map(|object| (key_of(object), object)).collect());
        }
        Ok(indices.get(&kind))
    }
}

/// Returns the number of pods that a gang object needs; 1 for independent pods and for objects that
/// cannot be read.
pub(crate) fn size(kind: GroupKind, object: &Value) -> u32 {
    let text = GroupText::deserialize(object);
    match text.map(|text| text.facts(kind).size) {
        Ok(GroupSize::Gang(pods)) => pods,
        // Of a gang with other terms, such as Volcano's hard topology, the minimum is still there.
        Ok(GroupSize::NotUnderstood(_)) => {
            let pods = object["spec"]["minMember"].as_u64();
            pods.and_then(|pods| u32::try_from(pods).ok()).unwrap_or(1)
        }
        Ok(GroupSize::Independent) | Err(_) => 1,
    }
}

impl<'a> PodView<'a> {
    fn of(object: &'a Value) -> Option<Self> {
        let facts = PodText::deserialize(object).ok()?.facts();
        let has_ended = facts.phase != PodPhase::Active;
        let scheduler = object["spec"]["schedulerName"].as_str().filter(|name| !name.is_empty());
        let pod = Self {
            object,
            gpus: gpus(&facts.requests),
            scheduler: scheduler
                .filter(|name| !DEFAULT_ALIASES.contains(name))
                .unwrap_or(DEFAULT_SCHEDULER),
            facts,
        };
        (!has_ended).then_some(pod)
    }

    /// Returns its namespace and name.
    pub(crate) fn name(&self) -> String {
        self.facts.key.to_string()
    }

    /// Returns the namespace that it is in.
    pub(crate) fn namespace(&self) -> &str {
        &self.facts.key.namespace
    }

    /// Returns the value of a label; empty without one.
    pub(crate) fn label(&self, key: &str) -> &'a str {
        self.object["metadata"]["labels"][key].as_str().unwrap_or_default()
    }

    /// Returns its `spec` as the API server prints it.
    pub(crate) fn spec(&self) -> &'a Value {
        &self.object["spec"]
    }
}

impl<'a> NodeView<'a> {
    fn of(object: &'a Value) -> Option<Self> {
        let facts = NodeText::deserialize(object).ok()?.facts().ok()?;
        Some(Self { object, gpus: gpus(&facts.allocatable), facts })
    }

    /// Returns the value of a label; empty without one.
    pub(crate) fn label(&self, key: &str) -> &str {
        self.facts.labels.get(key).map_or("", String::as_str)
    }
}

impl Gangs<'_> {
    /// Fails where there are findings; without any it passes if all gangs are known.
    pub(crate) fn judge(&self, findings: Vec<RuleFinding>, pass: impl Into<String>) -> RuleResult {
        judge(findings, self.missing.clone(), pass)
    }
}

impl<'a> Gang<'a> {
    /// Makes the gang of pods; `objects` are those of its kind, `None` for a gang without one.
    fn new(
        reference: &GangRef,
        objects: Option<&ObjectIndex<'a>>,
        pods: Vec<&'a PodView<'a>>,
    ) -> Self {
        let object = objects.and_then(|objects| objects.get(&reference.object).copied());
        let given =
            || pods.iter().find_map(|pod| pod.facts.wishes.gang_size.as_ref()?.parse().ok());
        let needed = match (objects, object) {
            (None, _) => given().unwrap_or(u32::try_from(pods.len()).unwrap_or(u32::MAX)),
            (Some(_), Some(object)) => size(reference.kind, object),
            (Some(_), None) => 1,
        };
        Self { reference: reference.clone(), object, needed, pods }
    }

    /// Returns its pods with GPUs that the default scheduler places one by one, if there are several: none of
    /// a PodGroup of Kubernetes, which is for that scheduler, and none of a gang that Kueue admits.
    pub(crate) fn placed_one_by_one(&self) -> Vec<&'a PodView<'a>> {
        let is_admitted = self.object.is_some_and(has_mark_of_kueue)
            || self.pods.iter().any(|pod| has_mark_of_kueue(pod.object));
        if self.reference.kind == GroupKind::Native || is_admitted {
            return Vec::new();
        }
        let alone = self.pods.iter().copied().filter(|pod| pod.scheduler == DEFAULT_SCHEDULER);
        let alone: Vec<_> = alone.filter(|pod| pod.gpus > 0).collect();
        if alone.len() > 1 { alone } else { Vec::new() }
    }

    /// Returns its kind, namespace and name: `JobSet ml/train`.
    pub(crate) fn title(&self) -> String {
        let part = if self.reference.part.is_empty() {
            String::new()
        } else {
            format!(" group {}", self.reference.part)
        };
        format!("{} {}{part}", self.reference.kind, self.reference.object)
    }
}

/// Returns true for an object, or a pod, that is in a queue of Kueue, or that Kueue has admitted.
pub(crate) fn has_mark_of_kueue(object: &Value) -> bool {
    ["labels", "annotations"].iter().any(|map| {
        let map = object["metadata"][*map].as_object();
        map.into_iter().flatten().any(|(key, _)| key.starts_with(OF_KUEUE))
    })
}

/// Returns namespace and name of an object; the name alone of an object of the cluster.
pub(crate) fn name_of(object: &Value) -> String {
    key_of(object).to_string()
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

/// Returns the GPUs that a pod with this specification requests.
pub(crate) fn gpus_of_spec(spec: &Value) -> u64 {
    let pod = PodText::deserialize(&json!({"metadata": {}, "spec": spec}));
    pod.map_or(0, |pod| gpus(&pod.facts().requests))
}

fn gpus(quantities: &Quantities) -> u64 {
    let of_gpus = quantities.0.iter().filter(|(name, _)| is_gpu(name));
    of_gpus.map(|(_, units)| *units).fold(0, u64::saturating_add)
}

/// Returns the first names of a list and the number of the others: `a, b, c and 4 more`.
pub(crate) fn some_of<T: AsRef<str>>(names: &[T]) -> String {
    const SHOWN: usize = 3;
    let first: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    let shown = first.join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

/// Returns a number with its noun: `1 pod`, `2 pods`.
pub(crate) fn count(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

//! Nodes of the cluster as nodes of the engine: extended resources that are GPUs become devices, the
//! others extra resources, node rules labels, and pods of other schedulers use from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_kubernetes::gpu_share;
use muster_kubernetes::names::PODS;
use muster_kubernetes::node::{NodeFacts, is_gpu};
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::resources::Quantities;
use muster_kubernetes::rule::NodeRule;
use muster_model::{
    Bytes, CpuMilli, Device, DeviceSet, Event, Foreign, GpuMilli, GpuModel, NodeName, NodeSpec,
};

use crate::apart::UNITS;
use crate::held::{Held, Holder, Place};
use crate::observation::PodId;
use crate::rules::{RuleId, Rules, YES};

/// Topology level: a name for users, and the label with a node's domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Name of the level, such as `rack`.
    pub name: Arc<str>,
    /// Label of the nodes.
    pub label: String,
}

/// Resources that one pod takes on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Take {
    /// Quantities that the pod requests.
    pub(crate) requests: Quantities,
    /// Resources of which each node has one: host ports.
    pub(crate) singles: BTreeSet<Arc<str>>,
    /// Units of the resources by which pods keep apart.
    pub(crate) apart: BTreeMap<Arc<str>, u64>,
    /// Thousandths of one GPU that it shares with others.
    pub(crate) gpu_share: u32,
}

impl Take {
    /// Returns true if this needs no more of anything than `other`.
    pub(crate) fn fits_in(&self, other: &Self) -> bool {
        self.requests.0.iter().all(|(name, units)| *units <= other.requests.get(name))
            && self.singles.is_subset(&other.singles)
            && self
                .apart
                .iter()
                .all(|(key, units)| other.apart.get(key).is_some_and(|of| of >= units))
            && self.gpu_share <= other.gpu_share
    }
}

/// All nodes, and what the engine was told of them.
#[derive(Debug, Default)]
pub(crate) struct NodeTable {
    levels: Vec<Level>,
    nodes: BTreeMap<NodeName, Node>,
    rules: Rules,
    /// Rules that some gang needs per group of pods, and not for all its pods.
    group_rules: BTreeSet<RuleId>,
    singles: BTreeSet<Arc<str>>,
    /// Resources by which pods keep apart.
    apart: BTreeSet<Arc<str>>,
    models: BTreeMap<Arc<str>, BTreeSet<GpuModel>>,
    /// Models by rule and resource, of the nodes that satisfy the rule or did.
    models_of_rules: BTreeMap<(RuleId, Arc<str>), BTreeSet<GpuModel>>,
    /// Resources that some node has or had.
    resources: BTreeSet<Arc<str>>,
    changed: BTreeSet<NodeName>,
    /// Number that grows when labels or resources of nodes change.
    version: u64,
}

#[derive(Debug, Default)]
struct Node {
    /// Description; `None` while only pods name the node.
    facts: Option<NodeFacts>,
    /// Resource and model of each device. Grows only, so that an index keeps its meaning.
    devices: Vec<(Arc<str>, GpuModel)>,
    /// Devices that pods of ours hold.
    held: Held,
    /// Pods of other schedulers, and pods of ours that the engine does not know.
    foreign: BTreeMap<ObjectKey, Take>,
    /// Pods of ours whose jobs were made before there was a term that selects them, by resource.
    selected: BTreeMap<Arc<str>, BTreeSet<ObjectKey>>,
    /// Description, use and service state that the engine has; `None` when it does not know the node.
    sent: Option<(NodeSpec, Foreign, Option<String>)>,
}

impl NodeTable {
    pub(crate) fn new(levels: Vec<Level>) -> Self {
        Self { levels, ..Self::default() }
    }

    /// Returns true if the node is known with exactly this description.
    pub(crate) fn is_same(&self, facts: &NodeFacts) -> bool {
        self.nodes.get(&facts.name).and_then(|node| node.facts.as_ref()) == Some(facts)
    }

    /// Returns the description of a node.
    pub(crate) fn facts(&self, name: &NodeName) -> Option<&NodeFacts> {
        self.nodes.get(name)?.facts.as_ref()
    }

    /// Records a node. Returns true when a resource has a model that was not known, or not on nodes of
    /// some rule.
    pub(crate) fn insert(&mut self, facts: NodeFacts) -> bool {
        let mut is_new_model = false;
        let satisfied: Vec<RuleId> = self.rules.satisfied(&facts).collect();
        for (resource, model) in gpus_of(&facts) {
            let of_rules = satisfied.iter().map(|rule| (*rule, Arc::clone(resource)));
            for key in of_rules {
                let models = self.models_of_rules.entry(key).or_default();
                is_new_model |= models.insert(model.clone());
            }
            let models = self.models.entry(Arc::clone(resource)).or_default();
            is_new_model |= models.insert(model);
        }
        self.resources.extend(facts.allocatable.0.keys().cloned());
        let name = facts.name.clone();
        let node = self.nodes.entry(name.clone()).or_default();
        for (resource, count) in facts.allocatable.0.iter().filter(|(name, _)| is_gpu(name)) {
            let known = node.devices.iter().filter(|(one, _)| one == resource).count();
            let space = DeviceSet::MAX_DEVICES - node.devices.len();
            let more =
                usize::try_from(*count).unwrap_or(usize::MAX).saturating_sub(known).min(space);
            let device = (Arc::clone(resource), model(&facts, resource));
            node.devices.extend(std::iter::repeat_n(device, more));
        }
        let is_same = node
            .facts
            .as_ref()
            .is_some_and(|old| old.labels == facts.labels && old.allocatable == facts.allocatable);
        if !is_same {
            self.version += 1;
        }
        node.facts = Some(facts);
        self.changed.insert(name);
        is_new_model
    }

    /// Records that a node is gone.
    pub(crate) fn remove(&mut self, name: &NodeName) {
        if let Some(node) = self.nodes.get_mut(name) {
            self.version += 1;
            node.facts = None;
            node.devices.clear();
            self.changed.insert(name.clone());
        }
    }

    /// Returns true if some node has or had the resource.
    pub(crate) fn offers(&self, resource: &str) -> bool {
        self.resources.contains(resource)
    }

    pub(crate) fn is_known(&self, name: &NodeName) -> bool {
        self.nodes.get(name).is_some_and(|node| node.facts.is_some())
    }

    /// Returns true if a pod with this rule may run on the node.
    pub(crate) fn suits(&self, name: &NodeName, rule: &NodeRule) -> bool {
        let facts = self.nodes.get(name).and_then(|node| node.facts.as_ref());
        facts.is_some_and(|facts| rule.matches(facts))
    }

    /// Returns the topology level that a name or label stands for.
    pub(crate) fn level(&self, text: &str) -> Option<Arc<str>> {
        let found = self.levels.iter().find(|level| *level.name == *text || level.label == text)?;
        Some(Arc::clone(&found.name))
    }

    pub(crate) fn level_names(&self) -> Vec<Arc<str>> {
        self.levels.iter().map(|level| Arc::clone(&level.name)).collect()
    }

    /// Returns the models of a GPU resource on the nodes that satisfy a rule; all of the cluster where
    /// none does. So quotas for other models do not apply to these pods.
    pub(crate) fn models(&self, rule: RuleId, resource: &str) -> Vec<GpuModel> {
        let of_rule = self.models_of_rules.get(&(rule, Arc::from(resource)));
        of_rule.or_else(|| self.models.get(resource)).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn gpu_models(&self) -> BTreeSet<GpuModel> {
        self.models.values().flatten().cloned().collect()
    }

    /// Returns the nodes that have these labels.
    pub(crate) fn with_labels(&self, labels: &BTreeMap<String, String>) -> Vec<NodeName> {
        self.nodes.keys().filter(|name| self.has_labels(name, labels)).cloned().collect()
    }

    /// Returns true if a node has these labels.
    pub(crate) fn has_labels(&self, name: &NodeName, labels: &BTreeMap<String, String>) -> bool {
        self.facts(name).is_some_and(|facts| facts.has_labels(labels))
    }

    /// Returns the models of a GPU resource on the nodes that have these labels.
    pub(crate) fn models_on(
        &self,
        labels: &BTreeMap<String, String>,
        resource: &str,
    ) -> BTreeSet<GpuModel> {
        let nodes = self.nodes.values().filter_map(|node| node.facts.as_ref());
        let has_all =
            |facts: &&NodeFacts| facts.allocatable.get(resource) > 0 && facts.has_labels(labels);
        nodes.filter(has_all).map(|facts| model(facts, resource)).collect()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of a rule; nodes that satisfy a new one get its label.
    pub(crate) fn rule(&mut self, rule: &NodeRule) -> RuleId {
        let (id, is_new) = self.rules.intern(rule);
        if is_new {
            let known =
                self.nodes.iter().filter_map(|(name, node)| Some((name, node.facts.as_ref()?)));
            for (name, facts) in known.filter(|(_, facts)| rule.matches(facts)) {
                self.changed.insert(name.clone());
                for (resource, model) in gpus_of(facts) {
                    let key = (id, Arc::clone(resource));
                    self.models_of_rules.entry(key).or_default().insert(model);
                }
            }
        }
        id
    }

    /// Makes a rule an extra resource too, for gangs whose pods have different rules.
    pub(crate) fn use_rule_per_group(&mut self, rule: RuleId) {
        if self.group_rules.insert(rule) {
            self.changed.extend(self.nodes.keys().cloned());
        }
    }

    /// Makes sure that every node has one of each of these resources.
    pub(crate) fn add_singles(&mut self, singles: &BTreeSet<Arc<str>>) {
        let before = self.singles.len();
        self.singles.extend(singles.iter().cloned());
        if self.singles.len() > before {
            self.changed.extend(self.nodes.keys().cloned());
        }
    }

    /// Makes sure that every node has these resources, by which pods keep apart.
    pub(crate) fn add_apart_keys<'a>(&mut self, keys: impl Iterator<Item = &'a Arc<str>>) {
        let before = self.apart.len();
        self.apart.extend(keys.cloned());
        if self.apart.len() > before {
            self.changed.extend(self.nodes.keys().cloned());
        }
    }

    /// Records that a pod of ours takes a unit beside its job.
    pub(crate) fn add_selected(&mut self, node: &NodeName, pod: &ObjectKey, resource: &Arc<str>) {
        let known = self.nodes.entry(node.clone()).or_default();
        if known.selected.entry(Arc::clone(resource)).or_default().insert(pod.clone()) {
            self.changed.insert(node.clone());
        }
    }

    /// Forgets what a pod takes beside its job.
    pub(crate) fn remove_selected(&mut self, node: &NodeName, pod: &ObjectKey) {
        let Some(known) = self.nodes.get_mut(node) else { return };
        let mut is_changed = false;
        known.selected.retain(|_, pods| {
            is_changed |= pods.remove(pod);
            !pods.is_empty()
        });
        if is_changed {
            self.changed.insert(node.clone());
        }
    }

    /// Records a pod that uses a node without the engine's knowledge.
    pub(crate) fn add_foreign(&mut self, node: &NodeName, pod: &ObjectKey, take: Take) {
        let known = self.nodes.entry(node.clone()).or_default();
        if known.foreign.get(pod) != Some(&take) {
            known.foreign.insert(pod.clone(), take);
            self.changed.insert(node.clone());
        }
    }

    pub(crate) fn remove_foreign(&mut self, node: &NodeName, pod: &ObjectKey) {
        if let Some(known) = self.nodes.get_mut(node)
            && known.foreign.remove(pod).is_some()
        {
            self.changed.insert(node.clone());
        }
    }

    /// Chooses devices for a pod that runs on this node, beside those held and `taken`; `None` if
    /// there are too few.
    pub(crate) fn free_devices(
        &self,
        name: &NodeName,
        resource: &str,
        count: u64,
        taken: DeviceSet,
    ) -> Option<DeviceSet> {
        let node = self.nodes.get(name)?;
        let free = node.of_resource(resource).minus(node.reserved()).minus(taken);
        let count = u32::try_from(count).ok()?;
        (free.len() >= count).then(|| free.lowest(count))
    }

    /// Returns the devices of a model, or of any, that no pod of ours has.
    pub(crate) fn unheld(&self, name: &NodeName, model: Option<&GpuModel>) -> DeviceSet {
        let Some(node) = self.nodes.get(name) else { return DeviceSet::EMPTY };
        let devices = node.devices.iter().enumerate();
        let of_model = devices.filter(|(_, (_, one))| model.is_none_or(|model| one == model));
        of_model.map(|(index, _)| index).collect::<DeviceSet>().minus(node.reserved())
    }

    pub(crate) fn hold(&mut self, place: &Place) {
        if let Some(node) = self.nodes.get_mut(&place.node) {
            node.held.take(place);
        }
    }

    pub(crate) fn release(&mut self, place: &Place) {
        if let Some(node) = self.nodes.get_mut(&place.node) {
            node.held.give_back(place);
            // A holder that nobody needs any more keeps its device until it is gone.
            if node.held.has_holders() {
                self.changed.insert(place.node.clone());
            }
        }
    }

    // ---- shares of GPUs ----

    /// Returns the device of a pod that has a share of the GPU of this number; `None` if that GPU has no
    /// room for it.
    pub(crate) fn shared_device(
        &self,
        name: &NodeName,
        number: usize,
        share: GpuMilli,
    ) -> Option<DeviceSet> {
        let node = self.nodes.get(name)?;
        let device = node.of_resource(gpu_share::RESOURCE).iter().nth(number)?;
        node.held.has_room(device, share).then(|| DeviceSet::one(device))
    }

    /// Returns the number of a shared GPU among those of its node. It stays the same when the node gets
    /// devices of other resources, unlike the index of the device.
    pub(crate) fn number_of_shared(&self, place: &Place) -> Option<usize> {
        let device = place.shared()?;
        let node = self.nodes.get(&place.node)?;
        node.of_resource(gpu_share::RESOURCE).iter().position(|one| one == device)
    }

    /// Returns true if a holder has the GPU of this number.
    pub(crate) fn has_live_holder(&self, name: &NodeName, number: usize) -> bool {
        self.nodes.get(name).is_some_and(|node| node.held.has_live_holder(number))
    }

    /// Records the pod that holds the GPU of this number.
    pub(crate) fn set_holder(&mut self, name: &NodeName, number: usize, holder: Holder) {
        self.nodes.entry(name.clone()).or_default().held.set_holder(number, holder);
        self.changed.insert(name.clone());
    }

    pub(crate) fn remove_holder(&mut self, name: &NodeName, pod: &PodId) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.held.remove_holder(pod);
            self.changed.insert(name.clone());
        }
    }

    /// Records that a pod is bound with a share of the GPU of this number, or being bound.
    pub(crate) fn add_sharer(&mut self, name: &NodeName, number: usize, pod: &ObjectKey) {
        self.nodes.entry(name.clone()).or_default().held.add_sharer(number, pod);
        self.changed.insert(name.clone());
    }

    pub(crate) fn remove_sharer(&mut self, name: &NodeName, number: usize, pod: &ObjectKey) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.held.remove_sharer(number, pod);
            self.changed.insert(name.clone());
        }
    }

    /// Returns the pods that are bound with a share of a GPU of the node, or being bound.
    pub(crate) fn sharers(&self, name: &NodeName) -> Vec<ObjectKey> {
        self.nodes.get(name).map(|node| node.held.sharers().cloned().collect()).unwrap_or_default()
    }

    /// Returns the holders that nobody needs any more, each once.
    pub(crate) fn take_holders_to_free(&mut self) -> Vec<PodId> {
        let with_holders = self.nodes.values_mut().filter(|node| node.held.has_holders());
        let freed = with_holders.flat_map(|node| {
            let gpus = node.of_resource(gpu_share::RESOURCE);
            node.held.take_to_free(gpus)
        });
        freed.collect()
    }

    /// Returns the events for nodes that changed, but for those that are gone.
    pub(crate) fn take_changes(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let changed = std::mem::take(&mut self.changed);
        for name in changed {
            let known = self
                .nodes
                .get(&name)
                .and_then(|node| node.facts.as_ref().map(|facts| (node, facts)));
            let Some((node, facts)) = known else {
                self.changed.insert(name);
                continue;
            };
            let spec = self.spec(node, facts);
            let foreign = node.foreign(facts);
            let out_of_service = facts.out_of_service.clone();
            let sent = node.sent.as_ref();
            if sent.is_none_or(|sent| sent.0 != spec) {
                events.push(Event::NodeJoined(Box::new(spec.clone())));
            }
            if sent.map_or(Foreign::default(), |sent| sent.1.clone()) != foreign {
                events.push(Event::ForeignUse { node: name.clone(), foreign: foreign.clone() });
            }
            if sent.and_then(|sent| sent.2.as_ref()) != out_of_service.as_ref() {
                events.push(Event::NodeDrained {
                    node: name.clone(),
                    drained: out_of_service.is_some(),
                    reason: out_of_service.as_deref().unwrap_or("").into(),
                });
            }
            if let Some(node) = self.nodes.get_mut(&name) {
                node.sent = Some((spec, foreign, out_of_service));
            }
        }
        events
    }

    /// Returns the events for nodes that are gone. Called after the jobs on them
    /// have been ended.
    pub(crate) fn take_gone(&mut self) -> Vec<Event> {
        let changed = std::mem::take(&mut self.changed);
        let (gone, rest): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|name| !self.is_known(name));
        self.changed = rest.into_iter().collect();
        let mut events = Vec::new();
        for name in gone {
            let Some(node) = self.nodes.get_mut(&name) else { continue };
            if node.sent.take().is_some() {
                events.push(Event::NodeLost { node: name.clone(), reason: "deleted".into() });
            }
            if node.foreign.is_empty() && !node.held.has_holders() {
                self.nodes.remove(&name);
            }
        }
        events
    }

    fn spec(&self, node: &Node, facts: &NodeFacts) -> NodeSpec {
        let is_extra = |name: &str| name != "cpu" && name != "memory" && !is_gpu(name);
        let offered = facts.allocatable.0.iter().filter(|(name, _)| is_extra(name));
        let mut extras: BTreeMap<Arc<str>, u64> =
            offered.map(|(name, units)| (Arc::clone(name), *units)).collect();
        extras.entry(PODS.into()).or_default();
        extras.extend(self.singles.iter().map(|single| (Arc::clone(single), 1)));
        extras.extend(self.apart.iter().map(|key| (Arc::clone(key), UNITS)));
        let satisfied: Vec<RuleId> = self.rules.satisfied(facts).collect();
        let per_group = satisfied.iter().filter(|rule| self.group_rules.contains(rule));
        extras.extend(per_group.map(|rule| (rule.key(), u64::from(u32::MAX))));
        let cpus = u32::try_from(facts.allocatable.get("cpu")).unwrap_or(u32::MAX);
        NodeSpec {
            name: facts.name.clone(),
            devices: node
                .devices
                .iter()
                .map(|(_, model)| Device::declared(model.clone(), Bytes(0)))
                .collect(),
            cpus: CpuMilli(cpus),
            memory: Bytes(facts.allocatable.get("memory")),
            extras,
            labels: satisfied.iter().map(|rule| (rule.key(), YES.into())).collect(),
            domains: self.domains(facts),
        }
    }

    /// Returns the domain of each level; none if a label is missing. A domain is named by its path,
    /// so that equal labels in different parents are different domains.
    fn domains(&self, facts: &NodeFacts) -> Vec<Arc<str>> {
        let mut path = String::new();
        let mut domains = Vec::new();
        for level in &self.levels {
            let Some(value) = facts.labels.get(&level.label) else { return Vec::new() };
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(value);
            domains.push(path.as_str().into());
        }
        domains
    }
}

impl Node {
    fn of_resource(&self, resource: &str) -> DeviceSet {
        let indices = self.devices.iter().enumerate();
        indices.filter(|(_, (one, _))| &**one == resource).map(|(index, _)| index).collect()
    }

    /// Returns the GPUs of holders that nobody has a share of.
    fn idle(&self) -> DeviceSet {
        self.held.idle(self.of_resource(gpu_share::RESOURCE))
    }

    /// Returns the devices that no further pod may have whole: those that pods of ours have, or are to be
    /// adopted with, and those of holders.
    fn reserved(&self) -> DeviceSet {
        let shared = self.held.shared_by(self.of_resource(gpu_share::RESOURCE), |_| true);
        self.held.in_use().or(self.idle()).or(shared)
    }

    /// Returns the extra resources in use from outside.
    fn foreign_extras(&self, mut used: Quantities) -> BTreeMap<Arc<str>, u64> {
        used.0.retain(|name, _| &**name != "cpu" && &**name != "memory" && !is_gpu(name));
        let mut extras = used.0;
        extras.insert(PODS.into(), self.foreign.len() as u64);
        for take in self.foreign.values() {
            extras.extend(take.singles.iter().map(|single| (Arc::clone(single), 1)));
            for (key, units) in &take.apart {
                *extras.entry(Arc::clone(key)).or_default() += units;
            }
        }
        for (key, pods) in &self.selected {
            *extras.entry(Arc::clone(key)).or_default() += pods.len() as u64;
        }
        extras.retain(|_, units| *units > 0);
        extras
    }

    fn foreign_sum(&self) -> Quantities {
        let mut sum = Quantities::default();
        for (name, units) in self.foreign.values().flat_map(|take| &take.requests.0) {
            let total = sum.0.entry(Arc::clone(name)).or_default();
            *total = total.saturating_add(*units);
        }
        sum
    }

    /// Returns the use from outside. Which devices other pods have is not known; those that no pod
    /// of ours holds stand for them. Idle holders count as others, and so do pods with shares that the
    /// engine does not know.
    fn foreign(&self, facts: &NodeFacts) -> Foreign {
        let used = self.foreign_sum();
        let mut foreign = Foreign {
            cpus: CpuMilli(u32::try_from(used.get("cpu")).unwrap_or(u32::MAX)),
            memory: Bytes(used.get("memory")),
            extras: self.foreign_extras(used.clone()),
            ..Foreign::default()
        };
        let resources: BTreeSet<&Arc<str>> =
            self.devices.iter().map(|(resource, _)| resource).collect();
        let gpus = self.of_resource(gpu_share::RESOURCE);
        let of_unknown = self.held.shared_by(gpus, |pod| self.foreign.contains_key(pod));
        foreign.devices = self.idle().or(of_unknown);
        let displaced = u64::from(self.held.displaced(gpus));
        for resource in resources {
            let all = self.of_resource(resource);
            let count = |units: u64| u32::try_from(units).unwrap_or(u32::MAX);
            let lacking = all.len().saturating_sub(count(facts.allocatable.get(resource)));
            // Those of the highest index, which the engine uses last.
            let free = all.minus(self.reserved());
            let drained = highest(free, lacking);
            let displaced = if **resource == *gpu_share::RESOURCE { displaced } else { 0 };
            let used = highest(free.minus(drained), count(used.get(resource) + displaced));
            foreign.drained = foreign.drained.or(drained);
            foreign.devices = foreign.devices.or(used);
        }
        foreign
    }
}

/// Returns the `count` highest devices of a set, or all.
fn highest(set: DeviceSet, count: u32) -> DeviceSet {
    set.minus(set.lowest(set.len().saturating_sub(count)))
}

/// Returns the GPU resources of a node, with their models.
fn gpus_of(facts: &NodeFacts) -> impl Iterator<Item = (&Arc<str>, GpuModel)> {
    let resources = facts.allocatable.0.keys().filter(|name| is_gpu(name));
    resources.map(|resource| (resource, model(facts, resource)))
}

/// Returns the model of a GPU resource on a node. Without a label for it, and for time-sliced GPUs,
/// it tells the resources apart.
fn model(facts: &NodeFacts, resource: &str) -> GpuModel {
    let model = facts.model(resource);
    match resource {
        "nvidia.com/gpu.shared" => GpuModel(format!("{model}-shared").into()),
        "amd.com/gpu" if model.as_str() == "gpu" => GpuModel::from("amd-gpu"),
        "gpu.intel.com/i915" | "gpu.intel.com/xe" => GpuModel::from("intel-gpu"),
        _ => model,
    }
}

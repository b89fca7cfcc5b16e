//! Devices that pods claim (dynamic resource allocation). For the engine they are amounts of resources
//! of nodes, like those of device plugins; which devices a claim gets is chosen when its pod is bound.

mod pools;
mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_kubernetes::device::claim::{
    self, ClaimFacts, DeviceRequest, DeviceRequests, MAX_USERS,
};
use muster_kubernetes::device::class::ClassFacts;
use muster_kubernetes::device::slice::SliceFacts;
use muster_kubernetes::device::{DeviceId, PREFIX};
use muster_kubernetes::node::NodeFacts;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::{DeviceClaim, PodFacts};
use muster_model::{GpuModel, NodeName};

use crate::observation::{ClaimBinding, ClaimId, PodId};
use crate::rules::YES;
use pools::Pools;
use selection::{Selection, SelectionKey};

/// Pools, classes, claims and templates of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    pools: Pools,
    classes: BTreeMap<Arc<str>, ClassFacts>,
    claims: BTreeMap<ObjectKey, ClaimFacts>,
    templates: BTreeMap<ObjectKey, DeviceRequests>,
    selections: BTreeMap<SelectionKey, Selection>,
    /// Pods that name each claim and have not ended.
    pods_of: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Claim of each device that is given.
    given: BTreeMap<DeviceId, ObjectKey>,
    /// Devices that were chosen for pods, by the id of the pod. What the API server reports of a claim
    /// may be older than the choice, so a choice stays as long as its pod.
    choices: BTreeMap<Arc<str>, Choice>,
    /// Devices of all choices.
    chosen: BTreeSet<DeviceId>,
    /// Claims that are to be freed of devices on a node where their pod, the only one, did not start.
    to_free: BTreeSet<(ClaimId, PodId)>,
    /// Nodes whose resources or labels are to be described anew.
    changed: BTreeSet<NodeName>,
    /// True if devices, classes or templates have changed, so that waiting pods are looked at again.
    is_changed: bool,
}

/// Devices that were chosen for a pod.
#[derive(Debug, Default)]
struct Choice {
    devices: Vec<DeviceId>,
    /// True once the API server has confirmed the binding.
    is_bound: bool,
    /// True once the pod has ended or is gone.
    is_over: bool,
}

impl Devices {
    // ---- observations ----

    pub(crate) fn insert_slice(&mut self, slice: SliceFacts) {
        let nodes = self.pools.insert(slice);
        self.evaluate_on(nodes);
    }

    pub(crate) fn remove_slice(&mut self, name: &Arc<str>) {
        let nodes = self.pools.remove(name);
        self.evaluate_on(nodes);
    }

    fn evaluate_on(&mut self, nodes: BTreeSet<NodeName>) {
        self.is_changed |= !nodes.is_empty();
        for node in nodes {
            for selection in self.selections.values_mut() {
                selection.evaluate(&node, self.pools.devices(&node));
            }
            self.changed.insert(node);
        }
    }

    pub(crate) fn insert_class(&mut self, class: ClassFacts) {
        self.classes.insert(Arc::clone(&class.name), class);
        self.is_changed = true;
    }

    pub(crate) fn remove_class(&mut self, name: &str) {
        self.is_changed |= self.classes.remove(name).is_some();
    }

    pub(crate) fn insert_template(&mut self, key: ObjectKey, requests: DeviceRequests) {
        self.templates.insert(key, requests);
        self.is_changed = true;
    }

    pub(crate) fn remove_template(&mut self, key: &ObjectKey) {
        self.is_changed |= self.templates.remove(key).is_some();
    }

    /// Records a claim; returns the pods that name it.
    pub(crate) fn insert_claim(&mut self, claim: ClaimFacts) -> Vec<ObjectKey> {
        let key = claim.key.clone();
        if self.claims.get(&key) == Some(&claim) {
            return Vec::new();
        }
        self.take_back(&key);
        let devices = claim.allocated.iter().flat_map(|allocated| &allocated.devices);
        self.given.extend(devices.map(|id| (id.clone(), key.clone())));
        self.claims.insert(key.clone(), claim);
        self.pods_of(&key)
    }

    /// Forgets a claim; returns the pods that name it.
    pub(crate) fn remove_claim(&mut self, key: &ObjectKey) -> Vec<ObjectKey> {
        self.take_back(key);
        self.claims.remove(key);
        self.pods_of(key)
    }

    fn take_back(&mut self, key: &ObjectKey) {
        let allocated = self.claims.get(key).and_then(|claim| claim.allocated.as_ref());
        for id in allocated.into_iter().flat_map(|allocated| &allocated.devices) {
            if self.given.get(id) == Some(key) {
                self.given.remove(id);
            }
        }
    }

    fn pods_of(&self, claim: &ObjectKey) -> Vec<ObjectKey> {
        self.pods_of.get(claim).into_iter().flatten().cloned().collect()
    }

    /// Notes the claims that a pod names.
    pub(crate) fn note_pod(&mut self, pod: &PodFacts) {
        for claim in claims_of(pod) {
            self.pods_of.entry(claim).or_default().insert(pod.key.clone());
        }
    }

    /// Forgets the claims that a pod named, and the devices that were chosen for it, unless a binding is
    /// on its way that may still take them.
    pub(crate) fn forget_pod(&mut self, pod: &PodFacts) {
        if let Some(choice) = self.choices.get_mut(&pod.uid) {
            choice.is_over = true;
            if choice.is_bound {
                self.forget_choice(&pod.uid);
            }
        }
        for claim in claims_of(pod) {
            if let Some(pods) = self.pods_of.get_mut(&claim) {
                pods.remove(&pod.key);
                if pods.is_empty() {
                    self.pods_of.remove(&claim);
                }
            }
        }
    }

    // ---- nodes ----

    /// Adds the devices of a node, and what selects them, to its description.
    pub(crate) fn describe(&self, node: &mut NodeFacts) {
        node.allocatable.0.retain(|name, _| !name.starts_with(PREFIX));
        node.labels.retain(|key, _| !key.starts_with(PREFIX));
        node.device_models.clear();
        for device in self.pools.devices(&node.name) {
            let resource = device.resource();
            if let Some(model) = device.model() {
                let known =
                    node.device_models.entry(Arc::clone(&resource)).or_insert(model.clone());
                if *known != model && !known.as_str().split('+').any(|one| one == model.as_str()) {
                    *known = GpuModel(format!("{known}+{model}").into());
                }
            }
            *node.allocatable.0.entry(resource).or_default() += 1;
        }
        let picking = self.selections.values().filter(|selection| selection.has(&node.name));
        node.labels.extend(picking.map(|one| (one.label.clone(), YES.to_owned())));
    }

    /// Returns the nodes that must be described anew.
    pub(crate) fn take_changed_nodes(&mut self) -> BTreeSet<NodeName> {
        std::mem::take(&mut self.changed)
    }

    /// Returns true if devices, classes or templates have changed since the last call.
    pub(crate) fn take_is_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Returns the claims that are to be freed of their devices, each with its only pod.
    pub(crate) fn take_to_free(&mut self) -> BTreeSet<(ClaimId, PodId)> {
        std::mem::take(&mut self.to_free)
    }

    // ---- pods ----

    /// Returns the first claim of a pod that is still to be made from its template, for users.
    pub(crate) fn awaited(&self, pod: &PodFacts) -> Option<String> {
        pod.device_claims.iter().find_map(|claim| match claim {
            DeviceClaim::OfTemplate { template, made } => {
                let is_there = made.as_ref().is_some_and(|name| {
                    self.claims.contains_key(&ObjectKey::new(&pod.key.namespace, name))
                });
                (!is_there).then(|| {
                    format!("its resource claim of the template {template} is not made yet")
                })
            }
            DeviceClaim::Named(_) => None,
        })
    }

    /// Returns a pod with the devices that it claims as resources, and with what their selection or
    /// their place demands of its node.
    ///
    /// # Errors
    /// Why it cannot get them, for users.
    pub(crate) fn resolve(&mut self, pod: &PodFacts) -> Result<PodFacts, String> {
        let mut pod = pod.clone();
        let mut seen = BTreeSet::new();
        for named in pod.device_claims.clone() {
            let namespace = &pod.key.namespace;
            let (name, template) = match &named {
                DeviceClaim::Named(name) => (Some(name), None),
                DeviceClaim::OfTemplate { template, made } => (made.as_ref(), Some(template)),
            };
            let key = name.map(|name| ObjectKey::new(namespace, name));
            if key.as_ref().is_some_and(|key| !seen.insert(key.clone())) {
                continue;
            }
            match (key.as_ref().and_then(|key| self.claims.get(key)).cloned(), template) {
                (Some(claim), _) => self.add_claim(&claim, &mut pod)?,
                (None, Some(template)) => {
                    let key = ObjectKey::new(namespace, template);
                    let requests = self.templates.get(&key).cloned();
                    let requests = requests.ok_or_else(|| {
                        format!("the template {template} of its resource claim does not exist")
                    })?;
                    self.add_requests(&requests, &mut pod)?;
                }
                (None, None) => {
                    let name = name.map_or("", |name| &**name);
                    return Err(format!("the resource claim {name} does not exist"));
                }
            }
        }
        pod.rule.affinity.sort();
        pod.rule.affinity.dedup();
        Ok(pod)
    }

    fn add_claim(&mut self, claim: &ClaimFacts, pod: &mut PodFacts) -> Result<(), String> {
        let name = &claim.key.name;
        let Some(allocated) = &claim.allocated else {
            if claim.is_terminating {
                return Err(format!("the resource claim {name} is being deleted"));
            }
            let first = self.pods_of.get(&claim.key).and_then(|pods| pods.first());
            if let Some(first) = first.filter(|first| **first != pod.key) {
                let first = &first.name;
                return Err(format!(
                    "the resource claim {name} has no devices yet; the pod {first}, which shares it, starts first"
                ));
            }
            return self.add_requests(&claim.requests, pod);
        };
        let is_shared = claim.has_other_users || claim.users.iter().any(|user| *user != pod.uid);
        if pod.node.is_none() {
            if !is_shared {
                let id = ClaimId { key: claim.key.clone(), uid: Arc::clone(&claim.uid) };
                let only = PodId { key: pod.key.clone(), uid: Arc::clone(&pod.uid) };
                self.to_free.insert((id, only));
                return Err(format!("the resource claim {name} has devices that are being freed"));
            }
            if claim.users.len() >= MAX_USERS && !claim.users.contains(&pod.uid) {
                return Err(format!(
                    "the resource claim {name} has {MAX_USERS} pods, which is the most"
                ));
            }
            pod.rule.affinity.extend(allocated.terms.clone());
            return Ok(());
        }
        // The first of its pods counts for all.
        if claim.users.iter().min().is_none_or(|first| *first == pod.uid) {
            for device in allocated.devices.iter().filter_map(|id| self.pools.find(id)) {
                *pod.requests.0.entry(device.resource()).or_default() += 1;
            }
        }
        Ok(())
    }

    fn add_requests(
        &mut self,
        requests: &DeviceRequests,
        pod: &mut PodFacts,
    ) -> Result<(), String> {
        let all = requests.all.as_ref();
        for request in all.map_err(|what| format!("not supported by this scheduler: {what}"))? {
            let key = self.selection_key(request)?;
            self.evaluate(&key);
            let selection = &self.selections[&key];
            let resource = selection.resource()?;
            pod.rule.selector.insert(selection.label.clone(), YES.to_owned());
            *pod.requests.0.entry(resource).or_default() += request.count;
        }
        Ok(())
    }

    fn selection_key(&self, request: &DeviceRequest) -> Result<SelectionKey, String> {
        let class = &request.class;
        let known = self.classes.get(class);
        let known = known.ok_or_else(|| format!("the device class {class} does not exist"))?;
        let selectors = known.selectors.iter().chain(&request.selectors);
        Ok((Arc::clone(class), selectors.cloned().collect()))
    }

    /// Evaluates a new selection on all nodes; a known one is kept current.
    fn evaluate(&mut self, key: &SelectionKey) {
        if self.selections.contains_key(key) {
            return;
        }
        let mut selection = Selection::new(self.selections.len(), key);
        for node in self.pools.nodes() {
            selection.evaluate(node, self.pools.devices(node));
            if selection.has(node) {
                self.changed.insert(node.clone());
            }
        }
        self.selections.insert(key.clone(), selection);
    }

    // ---- bindings ----

    /// Chooses free devices of a node for the claims of a pod, and keeps them until the pod is over or
    /// the API server refuses the binding.
    ///
    /// # Errors
    /// Why there are none, for users.
    pub(crate) fn choose(
        &mut self,
        pod: &PodFacts,
        node: &NodeName,
    ) -> Result<Vec<ClaimBinding>, String> {
        let mut devices = Vec::new();
        let bindings: Vec<ClaimBinding> = claims_of(pod)
            .map(|key| self.choose_for(&key, node, &mut devices))
            .collect::<Result<_, String>>()?;
        if !devices.is_empty() {
            self.forget_choice(&pod.uid);
            self.chosen.extend(devices.iter().cloned());
            let choice = Choice { devices, ..Choice::default() };
            self.choices.insert(Arc::clone(&pod.uid), choice);
        }
        Ok(bindings)
    }

    /// Chooses devices for a claim beside those of `taken`, and adds them to these.
    fn choose_for(
        &self,
        key: &ObjectKey,
        node: &NodeName,
        taken: &mut Vec<DeviceId>,
    ) -> Result<ClaimBinding, String> {
        let claim = self.claims.get(key);
        let claim = claim.ok_or_else(|| format!("the resource claim {} is gone", key.name))?;
        let id = ClaimId { key: key.clone(), uid: Arc::clone(&claim.uid) };
        if claim.allocated.is_some() {
            return Ok(ClaimBinding { claim: id, allocation: None });
        }
        let mut chosen: Vec<(Arc<str>, DeviceId)> = Vec::new();
        for request in claim.requests.all.as_deref().unwrap_or_default() {
            let free = self.free_devices(request, node, taken)?;
            let count = usize::try_from(request.count).unwrap_or(usize::MAX);
            if free.len() < count {
                let there = free.len();
                return Err(format!(
                    "the claim {} needs {count} devices, and {node} has {there} free ones",
                    key.name
                ));
            }
            for id in free.into_iter().take(count) {
                taken.push(id.clone());
                chosen.push((Arc::clone(&request.name), id));
            }
        }
        let allocation = claim::allocation(node.as_str(), &chosen, &claim.requests, &self.classes);
        Ok(ClaimBinding { claim: id, allocation: Some(allocation) })
    }

    /// Returns the devices of a node that a request selects, and that are neither given nor chosen nor
    /// in `taken`.
    fn free_devices(
        &self,
        request: &DeviceRequest,
        node: &NodeName,
        taken: &[DeviceId],
    ) -> Result<Vec<DeviceId>, String> {
        let Some(selection) = self.selections.get(&self.selection_key(request)?) else {
            return Ok(Vec::new());
        };
        let is_free = |id: &DeviceId| {
            !self.given.contains_key(id) && !self.chosen.contains(id) && !taken.contains(id)
        };
        let devices = self.pools.devices(node);
        let free =
            devices.filter(|device| is_free(&device.id) && selection.matches(device) == Ok(true));
        Ok(free.map(|device| device.id.clone()).collect())
    }

    /// Notes that the API server has confirmed the binding of a pod, by its id.
    pub(crate) fn confirm_choice(&mut self, pod: &str) {
        if let Some(choice) = self.choices.get_mut(pod) {
            choice.is_bound = true;
            if choice.is_over {
                self.forget_choice(pod);
            }
        }
    }

    /// Gives up the devices that were chosen for a pod, by its id.
    pub(crate) fn forget_choice(&mut self, pod: &str) {
        let choice = self.choices.remove(pod);
        for id in choice.iter().flat_map(|choice| &choice.devices) {
            self.chosen.remove(id);
        }
    }
}

/// Returns the claims of a pod that are made, each once.
fn claims_of(pod: &PodFacts) -> impl Iterator<Item = ObjectKey> + use<> {
    let name = |claim: &DeviceClaim| match claim {
        DeviceClaim::Named(name) => Some(Arc::clone(name)),
        DeviceClaim::OfTemplate { made, .. } => made.clone(),
    };
    let names: BTreeSet<Arc<str>> = pod.device_claims.iter().filter_map(name).collect();
    let namespace = Arc::clone(&pod.key.namespace);
    names.into_iter().map(move |name| ObjectKey { namespace: Arc::clone(&namespace), name })
}

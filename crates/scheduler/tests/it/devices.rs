//! Devices in the cluster in memory: slices, classes, claims and templates as the API server has them,
//! and the controller that makes the claims of pods and frees those that no pod uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_kubernetes::device::claim::{ClaimText, TemplateText};
use muster_kubernetes::device::class::ClassText;
use muster_kubernetes::device::slice::SliceText;
use muster_kubernetes::node::NodeFacts;
use muster_kubernetes::object::ObjectKey;
use muster_kubernetes::pod::{DeviceClaim, PodFacts, PodPhase};
use muster_scheduler::{ClaimBinding, ClaimId, DeviceChange, Observation, PodId};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{PodBuilder, pod, read_node};

/// Class that selects whole GPUs, as the driver of NVIDIA installs it.
pub const GPU_CLASS: &str = "gpu.nvidia.com";

/// Objects of the API group, as the server has them.
#[derive(Debug, Default)]
pub struct Objects {
    slices: BTreeMap<String, Value>,
    classes: BTreeMap<String, Value>,
    templates: BTreeMap<ObjectKey, Value>,
    pub claims: BTreeMap<ObjectKey, Value>,
}

/// Returns a node whose GPUs are advertised by a driver, not by a device plugin.
pub fn bare_node(name: &str) -> NodeFacts {
    read_node(json!({
        "metadata": {"name": name, "labels": {}},
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}},
    }))
}

/// Returns the slice of a node with this many GPUs of a model.
pub fn slice(node: &str, gpus: usize, product: &str) -> Value {
    let device = |at: usize| {
        json!({
            "name": format!("gpu-{at}"),
            "attributes": {
                "type": {"string": "gpu"}, "productName": {"string": product},
                "index": {"int": at}, "uuid": {"string": format!("GPU-{node}-{at}")},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        })
    };
    json!({
        "metadata": {"name": format!("{node}-gpu")},
        "spec": {
            "driver": "gpu.nvidia.com", "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": (0..gpus).map(device).collect::<Vec<_>>(),
        },
    })
}

pub fn class(name: &str, expression: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}})
}

/// Returns the class of whole GPUs.
pub fn gpu_class() -> Value {
    class(
        GPU_CLASS,
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
    )
}

/// Returns the specification of a claim for devices of a class.
pub fn devices(class: &str, count: u64) -> Value {
    json!({"devices": {"requests": [
        {"name": "gpus", "exactly": {"deviceClassName": class, "count": count}},
    ]}})
}

/// Returns a pod with a claim of its own from a template.
pub fn claimant(name: &str, template: &str) -> PodBuilder {
    let claims = json!([{"name": "gpus", "resourceClaimTemplateName": template}]);
    pod(name, 0).spec("resourceClaims", claims)
}

/// Returns a pod that uses a claim which users made.
pub fn sharer(name: &str, claim: &str) -> PodBuilder {
    let claims = json!([{"name": "gpus", "resourceClaimName": claim}]);
    pod(name, 0).spec("resourceClaims", claims)
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}

impl Objects {
    /// Returns reports of all objects.
    pub fn reports(&self) -> Vec<Observation> {
        let slices = self
            .slices
            .values()
            .map(|one| change(DeviceChange::Slice(read::<SliceText>(one).facts())));
        let classes = self
            .classes
            .values()
            .map(|one| change(DeviceChange::Class(read::<ClassText>(one).facts())));
        let templates = self.templates.iter().map(|(key, one)| {
            let requests = read::<TemplateText>(one).requests();
            change(DeviceChange::Template(key.clone(), requests))
        });
        let claims = self.claims.values().map(report);
        slices.chain(classes).chain(templates).chain(claims).collect()
    }

    /// Returns the devices of a claim, as `node/device`.
    pub fn given(&self, name: &str) -> Vec<String> {
        let claim = &self.claims[&ObjectKey::new("team", name)];
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        let results = results.into_iter().flatten();
        let text = |path: &Value| path.as_str().unwrap().to_owned();
        results.map(|one| format!("{}/{}", text(&one["pool"]), text(&one["device"]))).collect()
    }

    /// Returns the devices that two claims have.
    pub fn given_twice(&self) -> BTreeSet<String> {
        let names = self.claims.keys().map(|key| &key.name);
        let mut seen = BTreeSet::new();
        names.flat_map(|name| self.given(name)).filter(|one| !seen.insert(one.clone())).collect()
    }
}

fn change(change: DeviceChange) -> Observation {
    Observation::Devices(Box::new(change))
}

fn report(claim: &Value) -> Observation {
    change(DeviceChange::Claim(read::<ClaimText>(claim).facts()))
}

fn claims_of(pod: &PodFacts) -> Vec<ObjectKey> {
    let name = |claim: &DeviceClaim| match claim {
        DeviceClaim::Named(name) => Some(Arc::clone(name)),
        DeviceClaim::OfTemplate { made, .. } => made.clone(),
    };
    let names = pod.device_claims.iter().filter_map(name);
    names.map(|name| ObjectKey { namespace: Arc::clone(&pod.key.namespace), name }).collect()
}

impl Cluster {
    pub fn set_slice(&mut self, slice: Value) {
        let facts = read::<SliceText>(&slice).facts();
        self.devices.slices.insert(facts.name.to_string(), slice);
        self.report(change(DeviceChange::Slice(facts)));
    }

    pub fn set_class(&mut self, class: Value) {
        let facts = read::<ClassText>(&class).facts();
        self.devices.classes.insert(facts.name.to_string(), class);
        self.report(change(DeviceChange::Class(facts)));
    }

    pub fn set_template(&mut self, name: &str, spec: &Value) {
        let key = ObjectKey::new("team", name);
        let object =
            json!({"metadata": {"name": name, "namespace": "team"}, "spec": {"spec": spec}});
        let requests = read::<TemplateText>(&object).requests();
        self.devices.templates.insert(key.clone(), object);
        self.report(change(DeviceChange::Template(key, requests)));
    }

    pub fn create_claim(&mut self, name: &str, spec: &Value) {
        let uid = format!("claim-{}", self.number());
        let object = json!({
            "metadata": {"name": name, "namespace": "team", "uid": uid}, "spec": spec, "status": {},
        });
        self.report(report(&object));
        self.devices.claims.insert(ObjectKey::new("team", name), object);
    }

    /// Adds a node with GPUs that its driver advertises.
    pub fn add_gpu_node(&mut self, name: &str, gpus: usize) {
        self.set_node(bare_node(name));
        self.set_slice(slice(name, gpus, "NVIDIA H100 80GB HBM3"));
    }

    /// Works as the controller of claims: makes those of templates, takes pods that ended or are gone off
    /// their claims, frees claims without pods, and deletes those whose pod is gone. Returns true if it
    /// changed something.
    pub fn control_claims(&mut self) -> bool {
        let lacks =
            |claim: &DeviceClaim| matches!(claim, DeviceClaim::OfTemplate { made: None, .. });
        let lacking = self.pods.values().filter(|pod| pod.device_claims.iter().any(lacks));
        let pods: Vec<PodFacts> = lacking.cloned().collect();
        let mut is_changed = false;
        for mut pod in pods {
            let mut is_made = false;
            for at in 0..pod.device_claims.len() {
                let DeviceClaim::OfTemplate { template, made: None } = &pod.device_claims[at]
                else {
                    continue;
                };
                let key = ObjectKey::new("team", template);
                let Some(template_object) = self.devices.templates.get(&key).cloned() else {
                    continue;
                };
                let name = format!("{}-claim-{at}", pod.key.name);
                let template = Arc::clone(template);
                self.create_claim(&name, &template_object["spec"]["spec"]);
                let claim = self.devices.claims.get_mut(&ObjectKey::new("team", &name)).unwrap();
                claim["metadata"]["annotations"] = json!({"owner": *pod.uid});
                pod.device_claims[at] =
                    DeviceClaim::OfTemplate { template, made: Some(name.into()) };
                is_made = true;
            }
            if is_made {
                self.put(pod);
                is_changed = true;
            }
        }
        is_changed | self.free_unused()
    }

    fn free_unused(&mut self) -> bool {
        if self.devices.claims.is_empty() {
            return false;
        }
        let there: BTreeSet<String> = self.pods.values().map(|pod| pod.uid.to_string()).collect();
        let active: BTreeSet<String> = self
            .pods
            .values()
            .filter(|pod| pod.phase == PodPhase::Active)
            .map(|pod| pod.uid.to_string())
            .collect();
        let keys: Vec<ObjectKey> = self.devices.claims.keys().cloned().collect();
        let mut is_changed = false;
        for key in keys {
            let claim = self.devices.claims.get_mut(&key).unwrap();
            let owner = claim["metadata"]["annotations"]["owner"].as_str();
            if owner.is_some_and(|owner| !there.contains(owner)) {
                self.devices.claims.remove(&key);
                self.report(change(DeviceChange::ClaimGone(key)));
                is_changed = true;
                continue;
            }
            let users = claim.pointer_mut("/status/reservedFor").and_then(Value::as_array_mut);
            let Some(users) = users else { continue };
            let before = users.len();
            users.retain(|user| active.contains(user["uid"].as_str().unwrap()));
            let is_last = users.is_empty();
            if users.len() < before {
                if is_last {
                    claim["status"] = json!({});
                }
                let told = report(claim);
                self.report(told);
                is_changed = true;
            }
        }
        is_changed
    }

    /// Gives a claim its devices and its pod, as the client of the scheduler does; returns false where
    /// the claim is another one or has other devices.
    pub fn reserve(&mut self, pod: &PodId, binding: &ClaimBinding) -> bool {
        let Some(claim) = self.devices.claims.get_mut(&binding.claim.key) else { return false };
        if claim["metadata"]["uid"] != json!(*binding.claim.uid) {
            return false;
        }
        let status = &mut claim["status"];
        match &binding.allocation {
            Some(allocation) if status["allocation"].is_null() => {
                status["allocation"] = allocation.clone();
            }
            Some(allocation) if status["allocation"] != *allocation => return false,
            None if status["allocation"].is_null() => return false,
            Some(_) | None => {}
        }
        let user = json!({"resource": "pods", "name": *pod.key.name, "uid": *pod.uid});
        let mut users = status["reservedFor"].as_array().cloned().unwrap_or_default();
        if !users.contains(&user) {
            users.push(user);
        }
        status["reservedFor"] = json!(users);
        let told = report(claim);
        self.report(told);
        true
    }

    pub fn free_claim(&mut self, id: &ClaimId, pod: &PodId) {
        let Some(claim) = self.devices.claims.get_mut(&id.key) else { return };
        let users = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
        let is_only = users.iter().all(|user| user["uid"] == json!(*pod.uid));
        if claim["metadata"]["uid"] == json!(*id.uid) && is_only {
            claim["status"] = json!({});
            let told = report(claim);
            self.report(told);
        }
    }

    /// Panics unless all claims of a bound pod have devices that it may use, as the kubelet demands.
    pub fn assert_has_devices(&self, pod: &PodFacts) {
        for key in claims_of(pod) {
            let claim = &self.devices.claims[&key];
            assert!(claim["status"]["allocation"].is_object(), "{} has no devices", key.name);
            let users = claim["status"]["reservedFor"].as_array().unwrap();
            assert!(users.iter().any(|user| user["uid"] == json!(*pod.uid)), "{}", key.name);
        }
    }
}

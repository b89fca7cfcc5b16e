//! Builders of pods, nodes and gang objects as the API server prints them.

use muster_kubernetes::group::{GroupFacts, GroupKind, GroupText};
use muster_kubernetes::node::{NodeFacts, NodeText};
use muster_kubernetes::pod::PodText;
use serde_json::{Value, json};

/// Returns a node with this many GPUs, 64 CPUs and 256 GiB.
pub fn node(name: &str, gpus: u32) -> NodeFacts {
    labelled_node(name, gpus, json!({}))
}

pub fn labelled_node(name: &str, gpus: u32, labels: Value) -> NodeFacts {
    read_node(json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {
            "cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": gpus.to_string(),
        }},
    }))
}

pub fn read_node(value: Value) -> NodeFacts {
    serde_json::from_value::<NodeText>(value).unwrap().facts().unwrap()
}

/// Pod in the making.
#[derive(Clone, Debug)]
pub struct PodBuilder(pub Value);

/// Returns a pod of the namespace `team` that asks for GPUs, for Muster's scheduler.
pub fn pod(name: &str, gpus: u32) -> PodBuilder {
    PodBuilder(json!({
        "metadata": {"name": name, "namespace": "team", "labels": {}, "annotations": {}},
        "spec": {
            "schedulerName": "muster",
            "containers": [{"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": gpus}}}],
        },
    }))
}

/// Returns a pod of the namespace `team` that asks for a share of a GPU, and reads which one it has.
pub fn share(name: &str, share: &str) -> PodBuilder {
    let mut pod = pod(name, 0).annotation("muster.run/gpu-share", share);
    let field = json!({"fieldPath": "metadata.annotations['muster.run/gpu']"});
    pod.0["spec"]["containers"] = json!([{
        "resources": {"requests": {"cpu": "1"}},
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": field}}],
    }]);
    pod
}

impl PodBuilder {
    pub fn with(mut self, path: &str, value: Value) -> Self {
        *self.0.pointer_mut(path).unwrap() = value;
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value);
        self
    }

    pub fn spec(mut self, key: &str, value: Value) -> Self {
        self.0["spec"][key] = value;
        self
    }

    /// Puts the pod into a gang of this name and size.
    pub fn gang(self, name: &str, size: usize) -> Self {
        self.label("muster.run/gang", name).annotation("muster.run/gang-size", &size.to_string())
    }

    pub fn text(&self) -> PodText {
        serde_json::from_value(self.0.clone()).unwrap()
    }

    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap()
    }
}

/// Job in the making.
#[derive(Clone, Debug)]
pub struct JobBuilder(pub Value);

/// Returns a suspended Indexed Job of the namespace `team` whose pods ask for one GPU each.
pub fn job(name: &str, pods: usize) -> JobBuilder {
    JobBuilder(json!({
        "metadata": {
            "name": name, "namespace": "team", "generation": 1,
            "labels": {"muster.run/queue": "default"}, "annotations": {},
        },
        "spec": {
            "suspend": true, "completionMode": "Indexed", "parallelism": pods, "completions": pods,
            "template": {"metadata": {"annotations": {}}, "spec": pod("", 1).0["spec"]},
        },
        "status": {"succeeded": 0},
    }))
}

impl JobBuilder {
    pub fn spec(mut self, key: &str, value: Value) -> Self {
        self.0["spec"][key] = value;
        self
    }

    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value);
        self
    }

    pub fn pod_spec(mut self, key: &str, value: Value) -> Self {
        self.0["spec"]["template"]["spec"][key] = value;
        self
    }
}

/// Returns a gang object with this specification.
pub fn group(kind: GroupKind, name: &str, spec: Value) -> GroupFacts {
    let object =
        json!({"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": spec});
    serde_json::from_value::<GroupText>(object).unwrap().facts(kind)
}

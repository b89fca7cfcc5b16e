//! The objects of a case for the API server: what a case leaves out has one meaning in all of them.

use std::collections::BTreeMap;

use muster_model::gpu_model::normalise_label;
use serde_json::{Map, Value, json};

use crate::cases::case::{Case, Item, NodeDescription, NodeSpec, Step};

/// Label of all objects of all cases, with the name of the case.
pub const CASE: &str = "muster-test/case";
/// Label of the pods of an item.
pub const ITEM: &str = "muster-test/item";

/// Priority classes by name: the value, and whether their pods preempt others.
pub const CLASSES: [(&str, i32, bool); 3] =
    [("case-low", 10, true), ("case-high", 1000, true), ("case-never", 1000, false)];

impl Case {
    /// Returns what exists before the first step.
    pub fn setup(&self) -> Vec<Value> {
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.name, "labels": self.labels()},
        });
        let mut objects = vec![namespace];
        objects.extend(self.nodes.iter().map(|(name, node)| self.node(name, node)));
        if self.queues.is_empty() {
            objects.push(self.queue("", &Map::new()));
        }
        objects.extend(self.queues.iter().map(|(name, spec)| self.queue(name, spec)));
        objects
    }

    /// Returns what a step makes, in its order.
    pub fn made_by(&self, step: &Step) -> Vec<Value> {
        let nodes = step.nodes.iter().map(|(name, node)| self.node(name, node));
        let objects = step.objects.iter().map(|object| self.in_namespace(object.clone()));
        let pods = |item: &Item| (0..item.count()).map(|at| self.pod(item, at)).collect::<Vec<_>>();
        let mut pods: Vec<Vec<Value>> = step.create.iter().map(pods).collect();
        if step.in_turns {
            let longest = pods.iter().map(Vec::len).max().unwrap_or(0);
            let turn = |at| pods.iter().filter_map(|own| own.get(at).cloned()).collect();
            pods = (0..longest).map(turn).collect();
        }
        nodes.chain(objects).chain(pods.into_iter().flatten()).collect()
    }

    pub fn full_name(&self, node: &str) -> String {
        format!("{}-{node}", self.name)
    }

    /// Returns the name of the object of a queue of the case; an empty path is the case itself.
    pub fn queue_name(&self, path: &str) -> String {
        if path.is_empty() { self.name.clone() } else { format!("{}.{path}", self.name) }
    }

    /// Returns the names of the pods of an item.
    pub fn pod_names(&self, item: &str) -> Vec<String> {
        let items = self.steps.iter().flat_map(|step| &step.create);
        let found = items.filter(|one| one.name == item);
        found.flat_map(|item| (0..item.count()).map(|at| item.pod_name(at))).collect()
    }

    fn labels(&self) -> Value {
        json!({(CASE): self.name})
    }

    /// Returns the product label of the GPUs of a model, which no other case has.
    fn product(&self, model: &str) -> String {
        format!("{}-{model}", self.name)
    }

    fn node(&self, name: &str, spec: &NodeSpec) -> Value {
        let few = |gpus| NodeDescription {
            gpus,
            model: None,
            labels: Map::new(),
            capacity: Map::new(),
            taints: Vec::new(),
            unschedulable: false,
        };
        let plain;
        let node = match spec {
            NodeSpec::Gpus(gpus) => {
                plain = few(*gpus);
                &plain
            }
            NodeSpec::Node(node) => node,
        };
        let name = self.full_name(name);
        let mut labels = json!({
            (CASE): self.name,
            "fake-kubelet/managed": "true",
            "kubernetes.io/hostname": name,
        });
        let mut capacity = json!({"cpu": "64", "memory": "256Gi", "pods": "110"});
        if node.gpus > 0 {
            let product = self.product(node.model.as_deref().unwrap_or("gpu"));
            labels["nvidia.com/gpu.product"] = json!(product);
            capacity["nvidia.com/gpu"] = json!(node.gpus.to_string());
        }
        merge(&mut labels, &node.labels);
        merge(&mut capacity, &node.capacity);
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": node.taints, "unschedulable": node.unschedulable},
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        })
    }

    /// Returns a queue, whose quotas are by the models of the case.
    pub fn queue(&self, path: &str, spec: &Map<String, Value>) -> Value {
        let mut spec = spec.clone();
        if let Some(Value::Object(quota)) = spec.get_mut("quota") {
            let model = |model: &str| normalise_label(&self.product(model)).to_string();
            let renamed = std::mem::take(quota).into_iter();
            quota.extend(renamed.map(|(name, gpus)| (model(&name), gpus)));
        }
        // What a case says is not to depend on the queues of others.
        spec.entry("namespaces").or_insert_with(|| json!([self.name]));
        json!({
            "apiVersion": "muster.run/v1alpha1",
            "kind": "Queue",
            "metadata": {"name": self.queue_name(path), "labels": self.labels()},
            "spec": spec,
        })
    }

    fn in_namespace(&self, mut object: Value) -> Value {
        object["metadata"]["namespace"] = json!(self.name);
        object["metadata"]["labels"][CASE] = json!(self.name);
        object
    }

    fn pod(&self, item: &Item, at: u32) -> Value {
        let mut labels = json!({
            (CASE): self.name,
            (ITEM): item.name,
            "muster.run/queue": self.queue_name(item.queue.as_deref().unwrap_or_default()),
        });
        let mut annotations = json!({});
        if let Some(size) = item.gang {
            labels["muster.run/gang"] = json!(item.name);
            annotations["muster.run/gang-size"] = json!(size.to_string());
        }
        merge(&mut labels, &item.labels);
        merge(&mut annotations, &item.annotations);
        let mut requests = json!({});
        let gpus = item.gpus.unwrap_or(u32::from(item.requests.is_empty()));
        if gpus > 0 {
            requests["nvidia.com/gpu"] = json!(gpus.to_string());
        }
        merge(&mut requests, &item.requests);
        let mut select = json!({(CASE): self.name});
        merge(&mut select, &item.select);
        let mut spec = json!({
            "schedulerName": if item.node.is_some() { "other" } else { "muster" },
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": select,
            "containers": [{
                "name": "main", "image": "none",
                "resources": {"requests": requests, "limits": requests},
            }],
        });
        if let Some(node) = &item.node {
            spec["nodeName"] = json!(self.full_name(node));
        }
        if let Some(class) = &item.priority {
            spec["priorityClassName"] = json!(format!("case-{class}"));
        }
        merge(&mut spec, &item.spec);
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": item.pod_name(at), "namespace": self.name, "labels": labels, "annotations": annotations,
            },
            "spec": spec,
        })
    }
}

/// Sets keys of an object; `null` removes one.
fn merge(object: &mut Value, fields: &Map<String, Value>) {
    for (key, value) in fields {
        match (value, object.as_object_mut()) {
            (Value::Null, Some(object)) => drop(object.remove(key)),
            _ => object[key] = value.clone(),
        }
    }
}

/// Returns the priority classes of all cases.
pub fn classes() -> Vec<Value> {
    let class = |(name, value, preempts): (&str, i32, bool)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "labels": {(CASE): "all"}},
            "value": value,
            "preemptionPolicy": if preempts { "PreemptLowerPriority" } else { "Never" },
        })
    };
    CLASSES.map(class).to_vec()
}

/// Objects by the case that they belong to.
pub type Snapshot = BTreeMap<String, Vec<Value>>;

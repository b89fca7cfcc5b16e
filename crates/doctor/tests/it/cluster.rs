//! Sound Kubernetes cluster, and changes to it.

use std::collections::BTreeSet;

use muster_doctor::check_kubernetes;
use muster_doctor::kubernetes::resource::Resource;
use muster_doctor::kubernetes::{Snapshot, add_dump};
use muster_model::check::CheckReport;
use serde_json::{Value, json};

/// Instant of the snapshot.
const NOW: &str = "2026-11-20T12:00:00Z";
/// An hour before it.
pub const EARLIER: &str = "2026-11-20T11:00:00Z";

/// Objects of a cluster in which all kinds were listed.
pub struct SampleCluster {
    objects: Vec<Value>,
    unlisted: BTreeSet<&'static str>,
    slurm_nodes: Option<BTreeSet<String>>,
}

/// Returns a node of eight GPUs on a leaf switch.
pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "network.topology.nvidia.com/leaf": "leaf1", "nvidia.com/gpu.present": "true",
        }},
        "status": {
            "capacity": {"nvidia.com/gpu": "8", "cpu": "128"},
            "allocatable": {"nvidia.com/gpu": "8", "cpu": "128"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}],
            "nodeInfo": {"kubeletVersion": "v1.37.0"},
        },
    })
}

/// Returns a pod; without a node it waits.
pub fn pod(namespace: &str, name: &str, gpus: u32, node: Option<&str>) -> Value {
    let scheduled = if node.is_some() { "True" } else { "False" };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "creationTimestamp": EARLIER, "labels": {}},
        "spec": {
            "nodeName": node,
            "schedulerName": "default-scheduler",
            "containers": [{
                "name": "main",
                "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}},
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
            }],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        },
        "status": {
            "phase": if node.is_some() { "Running" } else { "Pending" },
            "conditions": [{"type": "PodScheduled", "status": scheduled, "lastTransitionTime": EARLIER}],
        },
    })
}

/// Returns a pod of the JobSet `ml/train`, for Muster's scheduler.
pub fn rank(at: u32, node: Option<&str>) -> Value {
    let mut pod = pod("ml", &format!("train-{at}"), 8, node);
    pod["metadata"]["labels"] = json!({"jobset.sigs.k8s.io/jobset-name": "train"});
    pod["spec"]["schedulerName"] = json!("muster");
    pod
}

/// Returns an object with a specification.
pub fn object(api_version: &str, kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    let mut metadata = json!({"name": name, "creationTimestamp": EARLIER});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// Returns the pod template of a rank, in a Job that restarts none alone.
fn job_of_ranks() -> Value {
    json!({
        "parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0,
        "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        }},
    })
}

/// Returns the configuration of a default scheduler that fills nodes.
fn packing_configuration() -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [{
            "name": "NodeResourcesFit",
            "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [
                {"name": "nvidia.com/gpu", "weight": 1},
            ]}},
        }]}],
    })
}

/// Returns a ClusterQueue with a quota of sixteen GPUs, which it reclaims from its cohort.
fn cluster_queue(name: &str) -> Value {
    let quota = json!({"name": "nvidia.com/gpu", "nominalQuota": "16"});
    let spec = json!({
        "cohortName": "all", "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Any"},
        "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"],
                            "flavors": [{"name": "h100", "resources": [quota]}]}],
    });
    object("kueue.x-k8s.io/v1beta2", "ClusterQueue", "", name, spec)
}

impl SampleCluster {
    /// Returns a cluster with a gang, and with independent pods of a Deployment.
    pub fn good() -> Self {
        let mut objects: Vec<Value> = ["n1", "n2", "n3", "n4"].map(node).to_vec();
        objects.push(rank(0, Some("n1")));
        objects.push(rank(1, Some("n2")));
        let jobs = json!([{"name": "workers", "template": {"spec": job_of_ranks()}}]);
        let spec = json!({"replicatedJobs": jobs});
        objects.push(object("jobset.x-k8s.io/v1alpha2", "JobSet", "ml", "train", spec));
        let mut scheduler =
            object("apps/v1", "Deployment", "muster-system", "muster-scheduler", json!({}));
        scheduler["status"] = json!({"readyReplicas": 2});
        objects.push(scheduler);
        for at in 0..3 {
            let mut pod = pod("web", &format!("chat-{at}"), 1, Some("n3"));
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-5d4f", "controller": true,
            }]);
            objects.push(pod);
        }
        let hard = json!({"hard": {"requests.nvidia.com/gpu": "4"}});
        objects.push(object("v1", "ResourceQuota", "ml", "gpus-of-gangs", hard.clone()));
        objects.push(object("v1", "ResourceQuota", "web", "gpus", hard));
        objects.push(packing_configuration());
        let mut plugin =
            object("apps/v1", "DaemonSet", "gpu-operator", "nvidia-device-plugin", json!({}));
        plugin["status"] = json!({"numberReady": 4, "desiredNumberScheduled": 4});
        objects.push(plugin);
        objects.extend(["research", "serving"].map(cluster_queue));
        let target = json!({"clusterQueue": "research"});
        objects.push(object("kueue.x-k8s.io/v1beta2", "LocalQueue", "ml", "team", target));
        Self {
            objects,
            unlisted: BTreeSet::new(),
            slurm_nodes: Some(BTreeSet::from(["s1".to_owned()])),
        }
    }

    /// Adds an object, whose kind is listed already.
    pub fn with(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    /// Sets a value in an object of a kind.
    pub fn set(mut self, kind: &str, name: &str, path: &str, value: Value) -> Self {
        let is_it = |one: &&mut Value| one["kind"] == kind && one["metadata"]["name"] == name;
        let mut found = self.objects.iter_mut().find(is_it).unwrap_or_else(|| panic!("{name}"));
        for step in path.split('.') {
            found = match step.parse::<usize>() {
                Ok(index) => &mut found[index],
                Err(_) => &mut found[step.replace('~', ".").as_str()],
            };
        }
        *found = value;
        self
    }

    /// Removes the objects of a kind; it stays listed.
    pub fn without(mut self, kind: &str) -> Self {
        self.objects.retain(|one| one["kind"] != kind);
        self
    }

    /// Removes the only object of this name.
    pub fn without_named(mut self, name: &str) -> Self {
        let count = self.objects.len();
        self.objects.retain(|one| one["metadata"]["name"] != name);
        assert_eq!(self.objects.len(), count - 1, "{name}");
        self
    }

    /// Has a kind unlisted, as if the user had no right to it.
    pub fn unlisted(mut self, full_name: &'static str) -> Self {
        self.unlisted.insert(full_name);
        self
    }

    /// Sets the nodes of a Slurm cluster.
    pub fn slurm_nodes(mut self, names: Option<&[&str]>) -> Self {
        self.slurm_nodes = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.read.push("dump.json".to_owned());
        snapshot.slurm_nodes = self.slurm_nodes.clone();
        let known = |full_name: &str| self.unlisted.contains(full_name);
        for resource in Resource::all() {
            let name = resource.full_name();
            if known(&name) {
                snapshot.set_unread(resource, format!("the right to list {name}"));
            } else {
                snapshot.add(resource, Vec::new());
            }
        }
        for object in &self.objects {
            let group = object["apiVersion"].as_str().unwrap().split_once('/');
            let kind = object["kind"].as_str().unwrap();
            let is_unlisted = Resource::all().any(|one| {
                one.kind == kind
                    && one.group == group.map_or("", |(group, _)| group)
                    && known(&one.full_name())
            });
            if !is_unlisted {
                add_dump(&mut snapshot, "dump", &object.to_string()).unwrap();
            }
        }
        snapshot
    }

    pub fn report(&self) -> CheckReport {
        check_kubernetes(&self.snapshot(), &BTreeSet::new())
    }
}

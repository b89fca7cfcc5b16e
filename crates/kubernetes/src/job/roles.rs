//! The roles of a job: what its pod templates ask for, in the order of their ranks.

use muster_model::{Bytes, CpuMilli, GpuMilli};
use serde_json::{Value, json};

use super::{JobObject, number_at};
use crate::names;
use crate::node::is_gpu;
use crate::pod::PodText;
use crate::resources::Quantities;

/// Equal pods of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRole {
    /// Name of the role, as labels of its pods have it.
    pub name: String,
    /// Number of pods that run at once.
    pub pods: u32,
    /// Pods of each Job of a JobSet, which counts Jobs and the pods of each.
    pub(super) pods_per_job: u32,
    /// Container of each task of a pod. Containers beside that of a foreign job are no tasks.
    pub containers: Vec<String>,
    /// GPUs of each task, in thousandths.
    pub gpus: GpuMilli,
    /// CPUs that each task requests, in thousandths.
    pub cpus: CpuMilli,
    /// Memory that each task requests, in bytes.
    pub memory: Bytes,
}

impl JobRole {
    /// Returns the number of its tasks.
    #[must_use]
    pub fn tasks(&self) -> u32 {
        self.pods.saturating_mul(u32::try_from(self.containers.len()).unwrap_or(u32::MAX))
    }
}

/// Returns the roles of a job.
#[must_use]
pub fn roles(job: JobObject<'_>) -> Vec<JobRole> {
    let spec = &job.object["spec"];
    let list = |path: &str| spec[path].as_array().map_or(&[][..], Vec::as_slice);
    match (job.api.group, job.api.kind) {
        ("batch", _) => {
            let pods = match job.array() {
                Some(_) => 1,
                None => number_at(spec, "/parallelism").unwrap_or(1),
            };
            vec![role("main", pods, &spec["template"])]
        }
        ("apps", _) => vec![role("main", 1, &spec["template"])],
        ("serving.kserve.io", _) => vec![predictor(&spec["predictor"])],
        ("batch.volcano.sh", _) => list("tasks")
            .iter()
            .map(|task| {
                let pods = number_at(task, "/replicas").unwrap_or(1);
                role(task["name"].as_str().unwrap_or("default"), pods, &task["template"])
            })
            .collect(),
        (_, "JobSet") => list("replicatedJobs")
            .iter()
            .map(|one| {
                let of_each = number_at(one, "/template/spec/parallelism").unwrap_or(1);
                let pods = number_at(one, "/replicas").unwrap_or(1).saturating_mul(of_each);
                let name = one["name"].as_str().unwrap_or_default();
                let template = &one["template"]["spec"]["template"];
                JobRole { pods_per_job: of_each, ..role(name, pods, template) }
            })
            .collect(),
        (_, "TrainJob") => {
            vec![role("node", number_at(spec, "/trainer/numNodes").unwrap_or(1), &json!({}))]
        }
        ("kubeflow.org", kind) => {
            let (field, names) = match kind {
                "MPIJob" => ("mpiReplicaSpecs", ["Launcher", "Worker"]),
                _ => ("pytorchReplicaSpecs", ["Master", "Worker"]),
            };
            let is_there = |name: &&str| spec[field].get(*name).is_some();
            let names = names.into_iter().filter(is_there);
            names
                .map(|name| {
                    let one = &spec[field][name];
                    let pods = number_at(one, "/replicas").unwrap_or(1);
                    role(&name.to_lowercase(), pods, &one["template"])
                })
                .collect()
        }
        ("ray.io", _) => ray_cluster(&spec["rayClusterSpec"]),
        _ => Vec::new(),
    }
}

/// Returns the role of a replica of an InferenceService. One that names a model in place of containers has the
/// container of a runtime, with the resources of the model.
fn predictor(predictor: &Value) -> JobRole {
    let mut pod = json!({"metadata": {}, "spec": predictor.clone()});
    for field in ["labels", "annotations"] {
        if let Some(given) = predictor.get(field) {
            pod["metadata"][field] = given.clone();
        }
    }
    if !predictor["containers"].is_array() {
        let resources = predictor["model"].get("resources").cloned().unwrap_or(json!({}));
        pod["spec"]["containers"] =
            json!([{"name": names::KSERVE_CONTAINER, "resources": resources}]);
    }
    role("main", 1, &pod)
}

/// Returns head and groups of workers; with the autoscaler as many as it keeps at least.
fn ray_cluster(spec: &Value) -> Vec<JobRole> {
    if spec.is_null() {
        return Vec::new();
    }
    let count = if spec["enableInTreeAutoscaling"] == true { "/minReplicas" } else { "/replicas" };
    let named = |name: &str, pods, template| JobRole {
        name: name.to_owned(),
        ..role(name, pods, template)
    };
    let head = named(names::RAY_HEAD_GROUP, 1, &spec["headGroupSpec"]["template"]);
    let groups = spec["workerGroupSpecs"].as_array().into_iter().flatten();
    let workers = groups.map(|group| {
        let hosts = number_at(group, "/numOfHosts").unwrap_or(1).max(1);
        let pods = number_at(group, count).unwrap_or(0).saturating_mul(hosts);
        named(group["groupName"].as_str().unwrap_or_default(), pods, &group["template"])
    });
    std::iter::once(head).chain(workers).collect()
}

/// Returns the role of a pod template.
fn role(name: &str, pods: u32, template: &Value) -> JobRole {
    let name = template["metadata"]["labels"][names::ROLE].as_str().unwrap_or(name);
    let containers = template["spec"]["containers"].as_array().into_iter().flatten();
    let names: Vec<String> =
        containers.map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect();
    // Muster names them so where a pod has the tasks of a node.
    let are_tasks = names.iter().enumerate().all(|(at, name)| *name == format!("task{at}"));
    let own = template["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"]
        .as_str()
        .map(str::to_owned);
    let containers = match names.first() {
        Some(_) if are_tasks => names,
        first => vec![own.or(first.cloned()).unwrap_or_default()],
    };
    let text = |part: &Value| if part.is_null() { json!({}) } else { part.clone() };
    let pod = json!({"metadata": text(&template["metadata"]), "spec": text(&template["spec"])});
    let facts = serde_json::from_value::<PodText>(pod).unwrap_or_default().facts();
    let requests = facts.requests;
    let tasks = containers.len().max(1) as u64;
    let share = facts.gpu_share.map_or(0, |asked| u64::from(asked.share.0));
    JobRole {
        name: name.to_owned(),
        pods,
        pods_per_job: pods,
        containers,
        gpus: GpuMilli(u32::try_from((gpus(&requests) * 1000 + share) / tasks).unwrap_or(u32::MAX)),
        cpus: CpuMilli(u32::try_from(requests.get("cpu") / tasks).unwrap_or(u32::MAX)),
        memory: Bytes(requests.get("memory") / tasks),
    }
}

/// Returns the GPUs of a pod; slices of GPUs count as one each.
fn gpus(requests: &Quantities) -> u64 {
    requests.0.iter().filter(|(name, _)| is_gpu(name)).map(|(_, count)| count).sum()
}

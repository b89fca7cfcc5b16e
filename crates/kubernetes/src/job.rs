//! Kinds of objects that users call jobs, their pods, and the view of a job computed from both,
//! whichever program created the object.

mod disruption;
pub mod kueue;
mod pods;
mod ray;
mod roles;
mod state;
mod used;
mod view;
pub mod volcano;

use muster_model::sweep::Sweep;
use muster_model::{Array, Checkpoint, JobId, Reason, Replicas};
use serde_json::Value;

pub use pods::{JobTask, present_roles, tasks};
pub use roles::{JobRole, roles};
use state::JobStatus;
pub use used::{UsedGpuTime, used};
pub use view::{elements, view, with_element};

use crate::names;

/// API of a kind of object that is a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobApi {
    /// Name of the API group, the part before `/` in `apiVersion`.
    pub group: &'static str,
    /// Resource name in addresses: lower case, plural.
    pub plural: &'static str,
    /// Name of the kind in manifests.
    pub kind: &'static str,
    /// Label of its pods whose value is the name of the object; of a RayJob that of its cluster.
    pub pod_label: &'static str,
}

/// APIs of all kinds. An object that another one of them controls is a part of that job.
pub const APIS: [JobApi; 9] = [
    JobApi {
        group: "batch",
        plural: "jobs",
        kind: "Job",
        pod_label: "batch.kubernetes.io/job-name",
    },
    JobApi {
        group: "jobset.x-k8s.io",
        plural: "jobsets",
        kind: "JobSet",
        pod_label: "jobset.sigs.k8s.io/jobset-name",
    },
    // Its pods are those of a JobSet of the same name.
    JobApi {
        group: "trainer.kubeflow.org",
        plural: "trainjobs",
        kind: "TrainJob",
        pod_label: "jobset.sigs.k8s.io/jobset-name",
    },
    JobApi {
        group: "kubeflow.org",
        plural: "pytorchjobs",
        kind: "PyTorchJob",
        pod_label: "training.kubeflow.org/job-name",
    },
    JobApi {
        group: "kubeflow.org",
        plural: "mpijobs",
        kind: "MPIJob",
        pod_label: "training.kubeflow.org/job-name",
    },
    JobApi {
        group: "batch.volcano.sh",
        plural: "jobs",
        kind: "Job",
        pod_label: "volcano.sh/job-name",
    },
    // Its pods are those of a RayCluster that it names in its status.
    JobApi { group: "ray.io", plural: "rayjobs", kind: "RayJob", pod_label: names::RAY_CLUSTER },
    // A service, whose pods are those of a Deployment.
    JobApi {
        group: "serving.kserve.io",
        plural: "inferenceservices",
        kind: "InferenceService",
        pod_label: "serving.kserve.io/inferenceservice",
    },
    // A service of Muster's; other Deployments are no jobs.
    JobApi { group: "apps", plural: "deployments", kind: "Deployment", pod_label: names::JOB },
];

impl JobApi {
    /// Returns the kind in lower case, as users type it before a `/`: `job`, `vcjob` for that of Volcano.
    #[must_use]
    pub fn word(&self) -> String {
        if self.is_of_volcano() { "vcjob".to_owned() } else { self.kind.to_lowercase() }
    }

    /// Returns true for a service, which runs until it is cancelled.
    #[must_use]
    pub fn is_service(&self) -> bool {
        self.is_of_muster_only() || self.is_of_kserve()
    }

    /// Returns true if only the objects that Muster has made are jobs.
    #[must_use]
    pub fn is_of_muster_only(&self) -> bool {
        self.group == "apps"
    }

    /// Returns true for an InferenceService of KServe.
    #[must_use]
    pub fn is_of_kserve(&self) -> bool {
        self.group == "serving.kserve.io"
    }

    /// Returns true for a Job of Volcano.
    #[must_use]
    pub fn is_of_volcano(&self) -> bool {
        self.group == "batch.volcano.sh"
    }

    /// Returns true for a Job of Kubernetes itself.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.group == "batch"
    }
}

/// Object that is a job.
#[derive(Clone, Copy, Debug)]
pub struct JobObject<'a> {
    /// API of its kind.
    pub api: &'static JobApi,
    /// The object as the API server prints it.
    pub object: &'a Value,
}

impl<'a> JobObject<'a> {
    /// Returns its name within its namespace.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.text("/metadata/name")
    }

    /// Returns the namespace in which its name is unique.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        self.text("/metadata/namespace")
    }

    /// Returns its id, which is never reused.
    #[must_use]
    pub fn uid(&self) -> &'a str {
        self.text("/metadata/uid")
    }

    /// Returns the name in its job file, or else that of the object.
    #[must_use]
    pub fn job_name(&self) -> &'a str {
        self.annotation(names::JOB_NAME).unwrap_or_else(|| self.name())
    }

    /// Returns its number: the first 48 bits of its id, which are random. Jobs of Kubernetes have no
    /// numbers; programs that ask for one get the same for the same object each time.
    #[must_use]
    pub fn number(&self) -> JobId {
        number(self.uid())
    }

    /// Returns an annotation that is not empty.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.object["metadata"]["annotations"][key].as_str().filter(|text| !text.is_empty())
    }

    /// Returns a label, which may be empty: a queue without a name is the default one.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.object["metadata"]["labels"][key].as_str()
    }

    /// Returns the indices of an array that Muster has written.
    #[must_use]
    pub fn array(&self) -> Option<Array> {
        let array: Array = serde_json::from_str(self.annotation(names::ARRAY)?).ok()?;
        // Anyone may write annotations.
        let is_sound = array.ranges().all(|range| range.step > 0 && range.first <= range.last);
        is_sound.then_some(array)
    }

    /// Returns the parameters and metric of a sweep that Muster has written.
    #[must_use]
    pub fn sweep(&self) -> Option<Sweep> {
        sweep(self.annotation(names::SWEEP)?)
    }

    /// Returns the checkpoint settings that Muster has written.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let checkpoint: Checkpoint =
            serde_json::from_str(self.annotation(names::CHECKPOINT)?).ok()?;
        // Anyone may write annotations.
        (1..=31).contains(&checkpoint.signal).then_some(checkpoint)
    }

    /// Returns the numbers of replicas of a service.
    #[must_use]
    pub fn replicas(&self) -> Option<Replicas> {
        if !self.api.is_service() {
            return None;
        }
        let written = self.annotation(names::REPLICAS);
        let written = written.and_then(|text| serde_json::from_str(text).ok());
        let present = || {
            let at = |path| number_at(self.object, path);
            if self.api.is_of_kserve() {
                let guaranteed = at("/spec/predictor/minReplicas").unwrap_or(1);
                let max = at("/spec/predictor/maxReplicas").unwrap_or(0).max(guaranteed);
                return Replicas { guaranteed, max };
            }
            let replicas = at("/spec/replicas").unwrap_or(1);
            Replicas { guaranteed: replicas, max: replicas }
        };
        Some(written.unwrap_or_else(present))
    }

    /// Returns the value of the label of its pods; `None` for a RayJob before it has a cluster.
    #[must_use]
    pub fn pod_label_value(&self) -> Option<&'a str> {
        if self.is_ray() { self.ray_cluster() } else { Some(self.name()) }
    }

    /// Returns true if the job has elements, each of one pod: an array, or a service.
    #[must_use]
    pub fn has_elements(&self) -> bool {
        self.array().is_some() || self.api.is_service()
    }

    /// Returns true while `spec.suspend` keeps it without pods.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        let at = |path| self.object.pointer(path).and_then(Value::as_bool).unwrap_or(false);
        at("/spec/suspend") || at("/spec/runPolicy/suspend")
    }

    /// Returns true while KServe keeps a service without replicas at a user's request.
    #[must_use]
    pub fn is_stopped_service(&self) -> bool {
        self.api.is_of_kserve() && self.annotation(names::KSERVE_STOP) == Some("true")
    }

    /// Returns true if its controller ends its pods while it is suspended, and starts it again afterwards.
    #[must_use]
    pub fn can_be_suspended(&self) -> bool {
        !self.api.is_service() && !self.api.is_of_volcano()
    }

    /// Returns true if an object of another kind of job controls it.
    #[must_use]
    pub fn is_part_of_another(&self) -> bool {
        let owners = self.object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.filter(|owner| owner["controller"] == true).any(|owner| {
            let group = owner["apiVersion"].as_str().and_then(|version| version.split_once('/'));
            APIS.iter().any(|api| {
                owner["kind"] == api.kind && group.is_some_and(|(group, _)| group == api.group)
            })
        })
    }

    fn text(&self, path: &str) -> &'a str {
        self.object.pointer(path).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Returns the name by which a user whose namespace is `own` types a job.
#[must_use]
pub fn label(namespace: &str, name: &str, own: &str) -> String {
    if namespace == own { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Reads the annotation of a sweep; `None` if it is none.
pub(crate) fn sweep(annotation: &str) -> Option<Sweep> {
    let sweep: Sweep = serde_json::from_str(annotation).ok()?;
    // Anyone may write annotations.
    let is_sound = sweep.params.iter().all(|param| !param.values.is_empty());
    (is_sound && !sweep.params.is_empty()).then_some(sweep)
}

/// Returns the state of a job with these tasks.
fn status(job: JobObject<'_>, roles: &[JobRole], tasks: &[JobTask<'_>]) -> JobStatus {
    if job.is_ray() { ray::status(job, tasks) } else { state::status(job, roles, tasks) }
}

/// Returns the number of tasks that run at once.
fn expected(roles: &[JobRole]) -> u32 {
    roles.iter().map(JobRole::tasks).fold(0, u32::saturating_add)
}

/// Returns the number of ranks: a Job may have more indices than pods at once.
#[must_use]
pub fn ranks(job: JobObject<'_>, roles: &[JobRole]) -> u32 {
    let indices = number_at(job.object, "/spec/completions").unwrap_or(0);
    let is_counted = job.api.is_batch() && !job.has_elements();
    expected(roles).max(if is_counted { indices } else { 0 })
}

/// Returns the number of a job with this id.
fn number(uid: &str) -> JobId {
    let digits: String = uid.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    JobId(u64::from_str_radix(&digits, 16).unwrap_or_default())
}

fn number_at(value: &Value, path: &str) -> Option<u32> {
    u32::try_from(value.pointer(path)?.as_u64()?).ok()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Returns the reason of a controller or scheduler in its own words.
fn native(code: &str, message: &str) -> Reason {
    Reason::Native { code: code.to_owned(), message: message.to_owned(), evidence: Vec::new() }
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|one| one["status"] == "True")
}

#[cfg(test)]
mod tests;

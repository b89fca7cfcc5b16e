//! Gang objects: which objects of which APIs make several pods one gang, how a pod names its
//! gang, and how many pods the gang needs.

mod pod;
mod progress;
mod size;
mod start;
pub mod workload;

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

pub use pod::GangRef;
pub(crate) use pod::is_gang_key;
pub use progress::{Progress, SUCCESS};
pub use start::{ObjectDependency, ObjectRef, StartTerms, text_of_stages};
use workload::{ExpectedPods, Workload};

use crate::object::{Metadata, ObjectKey};
use crate::pod::Wishes;

/// Kind of gang object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// PodGroup of Kubernetes itself (KEP-4671).
    Native,
    /// PodGroup of the coscheduling plugin.
    Coscheduling,
    /// PodGroup that Volcano makes for its jobs.
    Volcano,
    /// PodGroup of the KAI scheduler.
    Kai,
    /// LeaderWorkerSet; each of its groups is a gang.
    LeaderWorkerSet,
    /// JobSet, also that of a Kubeflow TrainJob.
    JobSet,
    /// PyTorchJob of Kubeflow's training operator.
    PyTorchJob,
    /// MPIJob of Kubeflow's MPI operator.
    MpiJob,
    /// RayCluster of KubeRay, also that of a RayJob or RayService.
    RayCluster,
    /// RayJob of KubeRay. Where Muster starts and stops it, it is the gang of the pods of its RayCluster.
    RayJob,
    /// TrainJob of Kubeflow's Trainer. Its pods are those of the JobSet of its name.
    TrainJob,
    /// Job of Kubernetes itself (`batch`).
    Job,
    /// Pods that share the annotation [`crate::names::GANG`], without an object.
    Annotated,
}

/// API of a kind of gang object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupApi {
    /// Kind that the API serves.
    pub kind: GroupKind,
    /// Name of the API group, the part before `/` in `apiVersion`.
    pub group: &'static str,
    /// Resource name in addresses: lower case, plural.
    pub plural: &'static str,
    /// Name of the kind in manifests.
    pub name: &'static str,
}

const fn api(
    kind: GroupKind,
    group: &'static str,
    plural: &'static str,
    name: &'static str,
) -> GroupApi {
    GroupApi { kind, group, plural, name }
}

/// All APIs of gang objects. A cluster serves some of them, in versions that discovery tells.
pub const APIS: [GroupApi; 12] = [
    api(GroupKind::Native, "scheduling.k8s.io", "podgroups", "PodGroup"),
    api(GroupKind::Coscheduling, "scheduling.x-k8s.io", "podgroups", "PodGroup"),
    api(GroupKind::Volcano, "scheduling.volcano.sh", "podgroups", "PodGroup"),
    api(GroupKind::Kai, "scheduling.run.ai", "podgroups", "PodGroup"),
    api(
        GroupKind::LeaderWorkerSet,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        "LeaderWorkerSet",
    ),
    api(GroupKind::JobSet, "jobset.x-k8s.io", "jobsets", "JobSet"),
    api(GroupKind::PyTorchJob, "kubeflow.org", "pytorchjobs", "PyTorchJob"),
    api(GroupKind::MpiJob, "kubeflow.org", "mpijobs", "MPIJob"),
    api(GroupKind::RayCluster, "ray.io", "rayclusters", "RayCluster"),
    api(GroupKind::RayJob, "ray.io", "rayjobs", "RayJob"),
    api(GroupKind::TrainJob, "trainer.kubeflow.org", "trainjobs", "TrainJob"),
    api(GroupKind::Job, "batch", "jobs", "Job"),
];

impl GroupKind {
    /// Returns the API that serves the kind; `None` for gangs without an object.
    #[must_use]
    pub fn api(self) -> Option<&'static GroupApi> {
        APIS.iter().find(|api| api.kind == self)
    }

    /// Returns the kind as kubectl accepts it: `job`, `podgroup`; `gang` for gangs without an object.
    #[must_use]
    pub fn word(self) -> String {
        self.api().map_or("gang".to_owned(), |api| api.name.to_lowercase())
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            GroupKind::Native | GroupKind::Coscheduling => "PodGroup",
            GroupKind::Volcano => "Volcano PodGroup",
            GroupKind::Kai => "KAI PodGroup",
            GroupKind::Annotated => "gang",
            other => other.api().map_or("object", |api| api.name),
        })
    }
}

/// Gang object, as far as scheduling reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    /// Kind of the object.
    pub kind: GroupKind,
    /// Namespace and name of the object.
    pub key: ObjectKey,
    /// Id that is never reused.
    pub uid: Arc<str>,
    /// Number of the specification, which grows with each change of it.
    pub generation: u64,
    /// Pods that must start together.
    pub size: GroupSize,
    /// Pods that have succeeded, as the controller counts them: it remembers those that were deleted.
    pub succeeded: u32,
    /// Stage in its life, for objects that wait for it.
    pub progress: Progress,
    /// Expected run time, queue and topology that the object names.
    pub wishes: Wishes,
    /// Run time in seconds after which its controller ends it.
    pub deadline_secs: Option<u64>,
    /// The object as one that Muster starts and stops; `None` if others do.
    pub workload: Option<Workload>,
    /// Name of the RayCluster of a RayJob; `None` while it has none, and for other objects.
    pub ray_cluster: Option<Arc<str>>,
    /// Pods of a JobSet that a TrainJob starts and stops; `None` for other objects.
    pub pods_of_owner: Option<Result<Vec<ExpectedPods>, String>>,
}

/// Pods of a gang that must start together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupSize {
    /// The pods are independent of each other.
    Independent,
    /// At least this many pods start together.
    Gang(u32),
    /// The object asks for something that is not supported.
    NotUnderstood(String),
}

/// Gang object as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GroupText {
    /// Metadata of the object.
    pub metadata: Metadata,
    spec: Value,
    status: Value,
}

impl GroupText {
    /// Returns what scheduling needs of the object, which is of this kind.
    #[must_use]
    pub fn facts(self, kind: GroupKind) -> GroupFacts {
        let mut wishes = Wishes::of(&self.metadata);
        size::add_wishes(kind, &self.spec, &mut wishes);
        let size = match wishes.gang_size.as_deref().map(str::parse::<u32>) {
            Some(Ok(pods)) if pods > 0 => GroupSize::Gang(pods),
            Some(_) => GroupSize::NotUnderstood(format!(
                "the gang size {:?}",
                wishes.gang_size.as_deref().unwrap_or_default()
            )),
            None => size::of(kind, &self.spec),
        };
        let deadline = ["/activeDeadlineSeconds", "/runPolicy/activeDeadlineSeconds"];
        let cluster = self.status.pointer("/rayClusterName").and_then(Value::as_str);
        let cluster = cluster.filter(|name| kind == GroupKind::RayJob && !name.is_empty());
        let succeeded = self.status.pointer("/succeeded").and_then(Value::as_u64).unwrap_or(0);
        GroupFacts {
            kind,
            workload: Workload::of(kind, &self.metadata, &self.spec, &self.status),
            pods_of_owner: workload::pods_of_owner(kind, &self.metadata, &self.spec, &self.status),
            generation: self.metadata.generation,
            key: self.metadata.key(),
            ray_cluster: cluster.map(Arc::from),
            succeeded: u32::try_from(succeeded).unwrap_or(u32::MAX),
            progress: Progress::of(&self.metadata, &self.spec, &self.status),
            size,
            wishes,
            deadline_secs: deadline.iter().find_map(|path| self.spec.pointer(path)?.as_u64()),
            uid: self.metadata.uid,
        }
    }
}

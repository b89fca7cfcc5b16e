//! How a pod names its gang: a field, labels and annotations of the APIs, or its Job.

use std::fmt;
use std::sync::Arc;

use crate::group::GroupKind;
use crate::names;
use crate::object::{Metadata, ObjectKey};

/// Gang that a pod belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GangRef {
    /// Kind of the gang object.
    pub kind: GroupKind,
    /// Namespace and name of the gang object.
    pub object: ObjectKey,
    /// Group within the object, where each group is a gang of its own; empty otherwise.
    pub part: Arc<str>,
}

impl fmt::Display for GangRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.object.name)?;
        if self.part.is_empty() { Ok(()) } else { write!(f, " group {}", self.part) }
    }
}

/// Labels and annotations that name a gang object explicitly, per kind (documentation of
/// coscheduling, Volcano and KAI).
const EXPLICIT: [(GroupKind, &str); 6] = [
    (GroupKind::Coscheduling, "scheduling.x-k8s.io/pod-group"),
    (GroupKind::Volcano, "scheduling.k8s.io/group-name"),
    (GroupKind::Volcano, "scheduling.volcano.sh/group-name"),
    (GroupKind::Volcano, "volcano.sh/group-name"),
    (GroupKind::Kai, "pod-group-name"),
    (GroupKind::Annotated, names::GANG),
];

/// Returns true if a label or annotation of this key names the gang of a pod.
pub(crate) fn is_gang_key(key: &str) -> bool {
    EXPLICIT.iter().any(|(_, known)| *known == key)
}

/// Labels that controllers set on the pods of their objects.
const BY_CONTROLLER: [(GroupKind, &str); 4] = [
    (GroupKind::LeaderWorkerSet, "leaderworkerset.sigs.k8s.io/name"),
    (GroupKind::JobSet, "jobset.sigs.k8s.io/jobset-name"),
    (GroupKind::PyTorchJob, "training.kubeflow.org/job-name"),
    (GroupKind::RayCluster, "ray.io/cluster"),
];

/// Label with the group of a pod within its LeaderWorkerSet.
const LWS_GROUP: &str = "leaderworkerset.sigs.k8s.io/group-index";

/// Label with the controller of a Kubeflow pod, which tells an MPIJob from a PyTorchJob.
const KUBEFLOW_OPERATOR: &str = "training.kubeflow.org/operator-name";

impl GangRef {
    /// Returns the gang that an object of this kind describes as a whole; that of a TrainJob is its
    /// JobSet, which has its name.
    #[must_use]
    pub fn of_object(kind: GroupKind, object: ObjectKey) -> Self {
        let kind = if kind == GroupKind::TrainJob { GroupKind::JobSet } else { kind };
        Self { kind, object, part: "".into() }
    }

    fn new(kind: GroupKind, metadata: &Metadata, name: &str, part: &str) -> Self {
        let object = ObjectKey { namespace: Arc::clone(&metadata.namespace), name: name.into() };
        Self { kind, object, part: part.into() }
    }

    /// Returns the gang of a pod: the one that the pod names explicitly (`native` is its
    /// `spec.schedulingGroup`), else that of its controller.
    ///
    /// # Errors
    /// If the pod names two gangs.
    pub(crate) fn of_pod(
        metadata: &Metadata,
        native: Option<&str>,
    ) -> Result<Option<Self>, String> {
        let native = native.map(|name| Self::new(GroupKind::Native, metadata, name, ""));
        let mut explicit: Vec<Self> = native.into_iter().collect();
        for (kind, key) in EXPLICIT {
            let name = metadata.label_or_annotation(key);
            let found = name.map(|name| Self::new(kind, metadata, name, ""));
            explicit.extend(found.filter(|found| !explicit.contains(found)));
        }
        match &explicit[..] {
            [] => Ok(Self::of_controller(metadata)),
            [one] => Ok(Some(one.clone())),
            [one, other, ..] => Err(format!("membership in two gangs, {one} and {other}")),
        }
    }

    /// Returns the gang of a pod's controller, also if the pod names another object as its gang; `None` if there
    /// is no such controller.
    #[must_use]
    pub fn of_controller(metadata: &Metadata) -> Option<Self> {
        for (kind, key) in BY_CONTROLLER {
            let Some(name) = metadata.labels.get(key) else { continue };
            let part = match kind {
                GroupKind::LeaderWorkerSet => {
                    metadata.labels.get(LWS_GROUP).map_or("", String::as_str)
                }
                _ => "",
            };
            let operator = metadata.labels.get(KUBEFLOW_OPERATOR).map_or("", String::as_str);
            let kind = match kind {
                GroupKind::PyTorchJob if operator.starts_with("mpi") => GroupKind::MpiJob,
                // Other jobs of the training operator have no reader: their pods are those of no gang.
                GroupKind::PyTorchJob
                    if !operator.is_empty() && !operator.starts_with("pytorch") =>
                {
                    continue;
                }
                kind => kind,
            };
            return Some(Self::new(kind, metadata, name, part));
        }
        let owner = metadata.controller()?;
        let is_job = owner.kind == "Job" && owner.api_version.starts_with("batch/");
        is_job.then(|| Self::new(GroupKind::Job, metadata, &owner.name, ""))
    }
}

//! Kubernetes options of a job that only Kubernetes interprets. Options with an equivalent in Muster are
//! in [`crate::JobSpec`]. Values have passed the checks of `spec`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::unit::Bytes;

/// Section `kubernetes` of a job file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubernetesOptions {
    /// Image of the containers.
    pub image: Option<Arc<str>>,
    /// Namespace of the objects; `None` means that of the user's context.
    pub namespace: Option<Arc<str>>,
    /// Service account of the pods; `None` means that of the namespace.
    pub service_account: Option<Arc<str>>,
    /// Secrets with credentials for the registry of the image.
    pub pull_secrets: Vec<Arc<str>>,
    /// Volume claims that every container mounts.
    pub volumes: Vec<ClaimMount>,
    /// Folder of the submitter whose files are in the working directory of every task; relative to that of
    /// the submitter.
    pub send: Option<Arc<str>>,
    /// Repository whose files are in the working directory of every task.
    pub git: Option<GitSource>,
    /// Secrets and config maps whose keys become environment variables.
    pub env_from: Vec<EnvSource>,
    /// Size of `/dev/shm`; `None` means up to the memory of the container.
    pub shm_bytes: Option<Bytes>,
    /// Name of the GPU resource; `None` means `nvidia.com/gpu`.
    pub gpu_resource: Option<Arc<str>>,
    /// True if pods use the network of their node.
    pub host_network: bool,
    /// Scheduler that starts its pods together; `None` means the one that the cluster has.
    pub scheduler: Option<GangScheduler>,
    /// Priority class of the pods.
    pub priority_class: Option<Arc<str>>,
    /// Runtime class of the pods.
    pub runtime_class: Option<Arc<str>>,
    /// True if a job of kind `ray` is a RayJob of KubeRay.
    pub is_kuberay: bool,
    /// True if a service is an InferenceService of KServe.
    pub is_kserve: bool,
    /// True if a training job is a TrainJob of Kubeflow's Trainer.
    pub is_train_job: bool,
    /// Annotations of the pods.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
}

/// Scheduler that starts the pods of a gang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangScheduler {
    /// Muster's scheduler inside the cluster.
    Muster,
    /// Kueue, which starts a suspended Job when its quota has room; kube-scheduler places the pods.
    Kueue,
    /// Volcano, with its own kind of Job.
    Volcano,
    /// KAI, which reads the size of a gang from an annotation of its Job or JobSet.
    Kai,
    /// kube-scheduler with the PodGroups of Kubernetes 1.37 (feature gate `GenericWorkload`).
    PodGroups,
    /// kube-scheduler alone: for jobs of one pod.
    None,
}

impl GangScheduler {
    /// All schedulers, in the order in which `run` looks for them in a cluster.
    pub const ALL: [Self; 6] =
        [Self::Muster, Self::Kueue, Self::Volcano, Self::Kai, Self::PodGroups, Self::None];

    /// Returns the scheduler of this word; `None` if there is none.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheduler| scheduler.word() == word)
    }

    /// Returns the word in job files and options.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Muster => "muster",
            Self::Kueue => "kueue",
            Self::Volcano => "volcano",
            Self::Kai => "kai",
            Self::PodGroups => "pod-groups",
            Self::None => "none",
        }
    }
}

/// Version of the files of a git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSource {
    /// Address, as git takes it; without a password.
    pub url: Arc<str>,
    /// Branch, tag or whole commit id; `None` means the default branch.
    pub reference: Option<Arc<str>>,
    /// Image that has git; `None` means that of the tasks.
    pub image: Option<Arc<str>>,
    /// Secret with a user name and password, or with an SSH key, of the types that Kubernetes has for them.
    pub secret: Option<Arc<str>>,
}

impl GitSource {
    /// Returns true if it names a commit, which is the same for every pod and at every time.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        let is_commit = |text: &Arc<str>| {
            [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        self.reference.as_ref().is_some_and(is_commit)
    }
}

/// Mount of a persistent volume claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimMount {
    /// Name of the claim.
    pub claim: Arc<str>,
    /// Absolute path in the container.
    pub path: Arc<str>,
    /// True if the container cannot write to it.
    pub is_read_only: bool,
}

/// Object whose keys become environment variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvSource {
    /// Secret of this name.
    Secret(Arc<str>),
    /// Config map of this name.
    ConfigMap(Arc<str>),
}

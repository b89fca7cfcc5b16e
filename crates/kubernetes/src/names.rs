//! Labels, annotations and names by which pods and gang objects address Muster's scheduler.

/// Namespace of an installed scheduler, and of what it keeps.
pub const NAMESPACE: &str = "muster-system";

/// Lease of the active process of an installed scheduler.
pub const LEASE: &str = "muster-scheduler";

/// Name of the scheduler; pods ask for it in `spec.schedulerName`.
pub const SCHEDULER: &str = "muster";

/// Label (or annotation) with the queue of a pod or gang object. `/` is not valid in a label, so
/// the parts of the queue's path are joined by `.`: `research.vision`.
pub const QUEUE: &str = "muster.run/queue";

/// Annotation of an object that Muster has started by setting `spec.suspend` to false: the instant.
/// Objects that others started lack it, and are not suspended by Muster.
pub const ADMITTED: &str = "muster.run/admitted";

/// Type of the condition that says whether Muster has started an object; for kinds without conditions the annotation with
/// that condition as JSON.
pub const ADMITTED_CONDITION: &str = "muster.run/Admitted";

/// Label (or annotation) that puts pods of one namespace into a gang of this name, without any
/// gang object.
pub const GANG: &str = "muster.run/gang";

/// Annotation of a pod or of its Job: number of pods without which the gang does not start.
pub const GANG_SIZE: &str = "muster.run/gang-size";

/// Annotation with the expected run time, for backfill: seconds, or a number with a unit (`90m`).
pub const TIME_LIMIT: &str = "muster.run/time-limit";

/// Label (or annotation) with the advance reservation that a gang runs in, and only in it.
pub const RESERVATION: &str = "muster.run/reservation";

/// Annotation with the topology level in one domain of which all pods of the gang must be.
pub const REQUIRED_TOPOLOGY: &str = "muster.run/required-topology";

/// Annotation with the topology level of which the gang should use as few domains as possible.
pub const PREFERRED_TOPOLOGY: &str = "muster.run/preferred-topology";

/// Label by which Kueue names the queue of a workload; used if [`QUEUE`] is not set and a queue of that
/// name exists.
pub const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// Annotation by which Kueue names the topology level in one domain of which all pods must be.
pub const KUEUE_REQUIRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-required-topology";

/// Annotation by which Kueue names the topology level of which few domains should be used.
pub const KUEUE_PREFERRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-preferred-topology";

/// Annotation by which Kueue asks for one domain for each slice of the pods.
pub const KUEUE_SLICE_TOPOLOGY: &str = "kueue.x-k8s.io/podset-slice-required-topology";

/// Annotation by which Volcano names the queue of pods that are not those of its own Jobs.
pub const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";

/// Label by which KubeRay names Volcano's queue of a RayJob or RayCluster.
pub const VOLCANO_QUEUE_LABEL: &str = "volcano.sh/queue-name";

/// Label by which KubeRay names the priority class of the PodGroup of a RayJob or RayCluster.
pub const RAY_PRIORITY_CLASS: &str = "ray.io/priority-class-name";

/// Label of KubeRay's pods with the name of their RayCluster.
pub const RAY_CLUSTER: &str = "ray.io/cluster";

/// Label of KubeRay's pods with the name of their group; [`RAY_HEAD_GROUP`] for the head.
pub const RAY_GROUP: &str = "ray.io/group";

/// Name of the group of the head.
pub const RAY_HEAD_GROUP: &str = "headgroup";

/// Label of the pods of a JobSet with the name of their replicated job.
pub const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";

/// Labels by which controllers tell the role of a pod. KubeRay's pods have the name of the exported group as well, so its
/// label comes first.
pub const ROLE_LABELS: [&str; 5] =
    [RAY_GROUP, ROLE, REPLICATED_JOB, "volcano.sh/task-spec", "training.kubeflow.org/replica-type"];

/// Label by which KAI names the queue of a workload.
pub const KAI_QUEUE: &str = "kai.scheduler/queue";

/// Annotation of a Job or JobSet with the number of pods that KAI starts together; 1 without it.
pub const KAI_MIN_MEMBER: &str = "kai.scheduler/batch-min-member";

/// Name of KAI's scheduler in `spec.schedulerName`.
pub const KAI_SCHEDULER: &str = "kai-scheduler";

/// Name of the container that serves in the pods of an InferenceService.
pub const KSERVE_CONTAINER: &str = "kserve-container";

/// Annotation with `true` of an InferenceService that has no replicas until it is removed (KServe 0.15.2 and newer).
pub const KSERVE_STOP: &str = "serving.kserve.io/stop";

/// Annotation with `true` of a suspended object that waits until a user releases it.
pub const HELD: &str = "muster.run/held";

/// Annotation of the pods of a service, with the time of the last requeue: replicas without it are replaced.
pub const RESTARTED: &str = "muster.run/restarted";

/// Annotation of an object that a user has cancelled, with the user's name: it is never started again.
pub const CANCELLED: &str = "muster.run/cancelled";

/// Annotation of a suspended object with its earliest start, in RFC 3339.
pub const BEGIN: &str = "muster.run/begin";

/// Annotation of a suspended object with the objects of its namespace that it waits for:
/// `afterok:job/prep,afterany:jobset/train`.
pub const AFTER: &str = "muster.run/after";

/// Annotation in which Muster notes what became of those objects, which may be deleted before the
/// object starts: `job/prep=succeeded`.
pub const AFTER_STATUS: &str = "muster.run/after-status";

/// Label of the objects of a job with its name, and of its pods.
pub const JOB: &str = "muster.run/job";

/// Annotation of a job's object with the name in the job file, which may have other letters than names
/// of Kubernetes.
pub const JOB_NAME: &str = "muster.run/job-name";

/// Annotation of a job's object with the login name of its user, as the client says it: nothing proves it.
pub const USER: &str = "muster.run/user";

/// Annotation of a job's object with the key of its submission, by which a repeated request finds it.
pub const SUBMISSION: &str = "muster.run/submission";

/// Annotation of a job's object with the instant of its submission by the client's clock, in milliseconds
/// since 1970: creations are in whole seconds, and jobs of one second have an order.
pub const SUBMITTED: &str = "muster.run/submitted";

/// Annotation of an array's object with its indices, as the JSON of a [`muster_model::Array`].
pub const ARRAY: &str = "muster.run/array";

/// Annotation of a sweep's object with its parameters and metric, as the JSON of a [`muster_model::sweep::Sweep`].
pub const SWEEP: &str = "muster.run/sweep";

/// Annotation of the ConfigMap with the files that a job sends: their folder, as the job file names it.
pub const SENT: &str = "muster.run/sent";

/// Annotation of an object with the checkpoint settings of its job, as the JSON of a
/// [`muster_model::Checkpoint`].
pub const CHECKPOINT: &str = "muster.run/checkpoint";

/// Annotation of a service's object with its numbers of replicas, as the JSON of [`muster_model::Replicas`].
pub const REPLICAS: &str = "muster.run/replicas";

/// Returns true for a name that is allowed for every object: a label of RFC 1123, of at most 63 lower-case letters,
/// digits and, between these, `-`.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = text.starts_with('-') || text.ends_with('-');
    !text.is_empty() && text.len() <= 63 && !ends && text.chars().all(is_inner)
}

/// Container in the pod of a RayJob's head that submits its program, and prints what that prints.
pub const RAY_SUBMITTER: &str = "ray-job-submitter";

/// Label of a pod with the name of its task group.
pub const ROLE: &str = "muster.run/role";

/// ConfigMap with the decayed usage of queues and namespaces, and with the scheduler's settings, beside
/// its lease.
pub const USAGE: &str = "muster-usage";

/// Resource that every pod takes one of: the kubelet limits the number of pods.
pub const PODS: &str = "pods";

/// Label with the host name of a node, the only topology key that anti-affinity may use.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Label (or annotation) with the index of a pod of an Indexed Job.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Annotation (or label) by which a pod asks for a share of a GPU, such as `0.5`.
pub const GPU_SHARE: &str = "muster.run/gpu-share";

/// Annotation (or label) by which a pod asks KAI for a share of a GPU; read like [`GPU_SHARE`].
pub const KAI_FRACTION: &str = "gpu-fraction";

/// Annotations (or labels) by which a pod asks KAI for shares that are not supported here.
pub const KAI_FRACTION_TERMS: [&str; 2] = ["gpu-memory", "gpu-fraction-num-devices"];

/// Annotation with the GPU of which a bound pod has a share, as containers are told it.
pub const GPU_IDS: &str = "muster.run/gpu";

/// Environment variable by which NVIDIA's container runtime chooses GPUs.
pub const VISIBLE_GPUS: &str = "NVIDIA_VISIBLE_DEVICES";

/// Annotation with the number that the GPU of a share has for the scheduler.
pub const GPU_INDEX: &str = "muster.run/gpu-index";

/// Label of a pod that holds a GPU for pods with shares of it, with the number of the GPU.
pub const GPU_HOLDER: &str = "muster.run/gpu-holder";

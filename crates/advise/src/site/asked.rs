//! Answers to the needs that a site states: one sentence each, so that nothing that was asked is missing
//! from the shortest answer. They follow from the finished decision and change nothing.

use muster_model::GpuModel;
use muster_model::advice::{AskedNeed, ControlPlane, Fact, Threshold};

use crate::case::FactsCase;
use crate::condition::Condition::{self, All, Always, Any, Below, Chosen, Gang, Is};
use crate::gpus;
use crate::site::terms::{
    KUBEFLOW, MULTIKUEUE, NOTHING, ON_KUBERNETES, POOL, PYTHON, QUEUED, RUNAI, SLURM, SUBSTRATE,
};

const RAY: Condition = Chosen(&[ControlPlane::Ray]);

/// Answer to one need, where its condition holds.
pub(crate) struct NeedAnswer {
    pub(crate) id: &'static str,
    pub(crate) need: Fact,
    pub(crate) when: Condition,
    /// At most 87 characters: one line of a page.
    pub(crate) sentence: &'static str,
}

const fn answer(
    id: &'static str,
    need: Fact,
    when: Condition,
    sentence: &'static str,
) -> NeedAnswer {
    NeedAnswer { id, need, when, sentence }
}

/// Answers of every need; the first whose condition holds is given.
pub(crate) const ANSWERS: &[NeedAnswer] = &[
    answer(
        "asked-notebooks-slurm",
        Fact::Notebooks,
        SLURM,
        "notebooks: salloc a GPU with a time limit, start Jupyter there, tunnel in",
    ),
    answer(
        "asked-notebooks-runai",
        Fact::Notebooks,
        RUNAI,
        "notebooks: workspaces of Run:ai on a part of a GPU, with an idle limit",
    ),
    answer(
        "asked-notebooks-kubernetes",
        Fact::Notebooks,
        ON_KUBERNETES,
        "notebooks: JupyterHub at low priority, idle sessions ended",
    ),
    answer(
        "asked-notebooks-ray",
        Fact::Notebooks,
        RAY,
        "notebooks: on the host of Ray; Ray hands out none",
    ),
    answer(
        "asked-notebooks-alone",
        Fact::Notebooks,
        All(&[NOTHING, Below(Threshold::SharedUsers)]),
        "notebooks: `muster run --time 4h`, so that a forgotten one gives its GPU back",
    ),
    answer(
        "asked-notebooks-none",
        Fact::Notebooks,
        NOTHING,
        "notebooks: `muster run --time 4h`, on GPUs that the conventions name",
    ),
    answer(
        "asked-vllm-substrate",
        Fact::Vllm,
        All(&[SLURM, SUBSTRATE]),
        "vLLM: Deployments on the same Kubernetes, on nodes that Slurm does not hold",
    ),
    answer(
        "asked-vllm-pool",
        Fact::Vllm,
        POOL,
        "vLLM: Deployments on the Kubernetes pool; over several nodes LeaderWorkerSet",
    ),
    answer(
        "asked-vllm-slurm",
        Fact::Vllm,
        SLURM,
        "vLLM: long jobs on a partition of its own; restart and address are yours",
    ),
    answer(
        "asked-vllm-kubernetes",
        Fact::Vllm,
        ON_KUBERNETES,
        "vLLM: a Deployment per model, KServe to scale; over several nodes LeaderWorkerSet",
    ),
    answer("asked-vllm-ray", Fact::Vllm, RAY, "vLLM: Ray Serve starts it, also over several nodes"),
    answer(
        "asked-vllm-none",
        Fact::Vllm,
        NOTHING,
        "vLLM: `kind: service` of `muster run`, or systemd, on reserved GPUs",
    ),
    answer(
        "asked-services-substrate",
        Fact::Services,
        All(&[SLURM, SUBSTRATE]),
        "services: Deployments on the same Kubernetes, on nodes that Slurm does not hold",
    ),
    answer(
        "asked-services-pool",
        Fact::Services,
        POOL,
        "services: Deployments on the Kubernetes pool, never on Slurm nodes",
    ),
    answer(
        "asked-services-slurm",
        Fact::Services,
        SLURM,
        "services: long jobs on a partition of their own; restarted only after a node fails",
    ),
    answer(
        "asked-services-kubernetes",
        Fact::Services,
        ON_KUBERNETES,
        "services: Deployments, restarted, updated and reached by one address",
    ),
    answer(
        "asked-services-ray",
        Fact::Services,
        RAY,
        "services: Ray Serve in the cluster of the owner",
    ),
    answer(
        "asked-services-none",
        Fact::Services,
        NOTHING,
        "services: `kind: service` of `muster run`, or systemd, on reserved GPUs",
    ),
    answer(
        "asked-autoscaling-kubernetes",
        Fact::Autoscaling,
        Any(&[ON_KUBERNETES, POOL]),
        "autoscaling: KServe or Ray Serve scales replicas by requests in flight",
    ),
    answer(
        "asked-autoscaling-other",
        Fact::Autoscaling,
        Always,
        "autoscaling: not here; size the replicas for the peak",
    ),
    answer(
        "asked-ray-slurm",
        Fact::Ray,
        All(&[SLURM, PYTHON]),
        "Ray: yes, inside a Slurm allocation; not as a second owner of nodes",
    ),
    answer(
        "asked-ray-kubernetes",
        Fact::Ray,
        All(&[ON_KUBERNETES, PYTHON]),
        "Ray: yes, through KubeRay under the quota; not as a second owner of nodes",
    ),
    answer(
        "asked-ray-alone",
        Fact::Ray,
        RAY,
        "Ray: yes, it may own the nodes while one person uses them",
    ),
    answer(
        "asked-ray-library",
        Fact::Ray,
        All(&[NOTHING, PYTHON]),
        "Ray: yes, as a library that is started for the run",
    ),
    answer(
        "asked-ray-keeps",
        Fact::Ray,
        All(&[Is(Fact::OperatesRay), Is(Fact::Works)]),
        "Ray: keep what runs; no stated work needs more of it",
    ),
    answer(
        "asked-ray-not-yet",
        Fact::Ray,
        Is(Fact::Works),
        "Ray: no; what you operate works, and no stated work needs tasks or actors",
    ),
    answer(
        "asked-ray-no",
        Fact::Ray,
        Always,
        "Ray: no; add it when users write actors, search or reinforcement learning",
    ),
    answer(
        "asked-rl-slurm",
        Fact::Rl,
        SLURM,
        "reinforcement learning: Ray inside one Slurm allocation",
    ),
    answer(
        "asked-rl-gang",
        Fact::Rl,
        All(&[ON_KUBERNETES, Gang]),
        "reinforcement learning: a RayJob of KubeRay, all pods or none",
    ),
    answer(
        "asked-rl-kubernetes",
        Fact::Rl,
        ON_KUBERNETES,
        "reinforcement learning: a RayJob of KubeRay",
    ),
    answer("asked-rl-ray", Fact::Rl, RAY, "reinforcement learning: Ray, which owns the nodes here"),
    answer(
        "asked-rl",
        Fact::Rl,
        Always,
        "reinforcement learning: Ray, started by hand on the agreed GPUs",
    ),
    answer(
        "asked-distributed-python-slurm",
        Fact::DistributedPython,
        SLURM,
        "distributed Python: Ray inside one Slurm allocation",
    ),
    answer(
        "asked-distributed-python-kubernetes",
        Fact::DistributedPython,
        ON_KUBERNETES,
        "distributed Python: a RayJob of KubeRay",
    ),
    answer(
        "asked-distributed-python-ray",
        Fact::DistributedPython,
        RAY,
        "distributed Python: Ray, which owns the nodes here",
    ),
    answer(
        "asked-distributed-python",
        Fact::DistributedPython,
        Always,
        "distributed Python: Ray, started by hand on the agreed GPUs",
    ),
    answer(
        "asked-sweeps-slurm",
        Fact::Sweeps,
        SLURM,
        "sweeps: job arrays; Ray Tune where bad trials are stopped early",
    ),
    answer(
        "asked-sweeps-kubernetes",
        Fact::Sweeps,
        ON_KUBERNETES,
        "sweeps: Ray Tune through KubeRay, or one indexed Job; not single Jobs",
    ),
    answer(
        "asked-sweeps-other",
        Fact::Sweeps,
        Always,
        "sweeps: an array of `muster run`, or Ray Tune",
    ),
    answer(
        "asked-training-slurm",
        Fact::Training,
        SLURM,
        "training: srun starts torchrun on every node of one allocation",
    ),
    answer(
        "asked-training-runai",
        Fact::Training,
        RUNAI,
        "training: workloads of a Run:ai project",
    ),
    answer(
        "asked-training-gang",
        Fact::Training,
        All(&[ON_KUBERNETES, Gang]),
        "training: PyTorch jobs behind the gang scheduler, all pods or none",
    ),
    answer(
        "asked-training-kubeflow",
        Fact::Training,
        KUBEFLOW,
        "training: a Job, or a TrainJob of Kubeflow Trainer, that Kueue admits",
    ),
    answer("asked-training-queued", Fact::Training, QUEUED, "training: a Job that Kueue admits"),
    answer(
        "asked-training-kubernetes",
        Fact::Training,
        ON_KUBERNETES,
        "training: a Job; the default scheduler keeps no queue",
    ),
    answer("asked-training-ray", Fact::Training, RAY, "training: Ray Train"),
    answer(
        "asked-training-none",
        Fact::Training,
        NOTHING,
        "training: torchrun, by `muster run` or in tmux",
    ),
    answer(
        "asked-deepspeed-slurm",
        Fact::Deepspeed,
        SLURM,
        "DeepSpeed: started by srun; its own ssh launcher is not needed",
    ),
    answer(
        "asked-deepspeed-kubeflow",
        Fact::Deepspeed,
        KUBEFLOW,
        "DeepSpeed: the deepspeed runtime of Kubeflow Trainer, or torchrun in the pods",
    ),
    answer(
        "asked-deepspeed-kubernetes",
        Fact::Deepspeed,
        ON_KUBERNETES,
        "DeepSpeed: torchrun in the pods; its own ssh launcher is not needed",
    ),
    answer(
        "asked-deepspeed-other",
        Fact::Deepspeed,
        Always,
        "DeepSpeed: its own launcher; torchrun also starts it",
    ),
    answer(
        "asked-spark-slurm",
        Fact::Spark,
        SLURM,
        "Spark: on a cluster of its own; GPU work then reads what Spark wrote",
    ),
    answer(
        "asked-spark-runai",
        Fact::Spark,
        RUNAI,
        "Spark: Spark Operator, on CPU nodes; its GPU work through Run:ai",
    ),
    answer(
        "asked-spark-queued",
        Fact::Spark,
        QUEUED,
        "Spark: Spark Operator, its pods queued by Kueue; executors on CPU nodes",
    ),
    answer(
        "asked-spark-kubernetes",
        Fact::Spark,
        ON_KUBERNETES,
        "Spark: Spark Operator; executors on CPU nodes",
    ),
    answer(
        "asked-spark-other",
        Fact::Spark,
        Always,
        "Spark: local mode on one machine; beyond it, a cluster of its own",
    ),
    answer(
        "asked-batch-slurm",
        Fact::Batch,
        SLURM,
        "batch: job scripts and arrays, queued and backfilled",
    ),
    answer(
        "asked-batch-runai",
        Fact::Batch,
        RUNAI,
        "batch: workloads of a Run:ai project, queued by its quota",
    ),
    answer(
        "asked-batch-queued",
        Fact::Batch,
        QUEUED,
        "batch: Jobs, admitted by Kueue where several teams share",
    ),
    answer(
        "asked-batch-kubernetes",
        Fact::Batch,
        ON_KUBERNETES,
        "batch: Jobs; the default scheduler keeps no queue",
    ),
    answer(
        "asked-batch-other",
        Fact::Batch,
        Always,
        "batch: `muster run` queues it; in tmux nothing does",
    ),
    answer("asked-mpi-slurm", Fact::Mpi, SLURM, "MPI: srun with PMIx starts every rank"),
    answer(
        "asked-mpi-kubernetes",
        Fact::Mpi,
        All(&[ON_KUBERNETES, Gang]),
        "MPI: MPI Operator behind the gang scheduler; harder than srun",
    ),
    answer(
        "asked-mpi-one-node",
        Fact::Mpi,
        ON_KUBERNETES,
        "MPI: mpirun inside one pod: the fleet has one node",
    ),
    answer(
        "asked-mpi-other",
        Fact::Mpi,
        Always,
        "MPI: mpirun over ssh on the nodes that were agreed on",
    ),
    answer(
        "asked-regulated-slurm",
        Fact::Regulated,
        SLURM,
        "audit: slurmdbd keeps every job; send it and slurmctld logs to the log archive",
    ),
    answer(
        "asked-regulated-kubernetes",
        Fact::Regulated,
        ON_KUBERNETES,
        "audit: the API audit log to the log archive, signed images, no shared nodes",
    ),
    answer(
        "asked-regulated-other",
        Fact::Regulated,
        Always,
        "audit: conventions leave no trail; `muster run` keeps an events file of every job",
    ),
    answer(
        "asked-hostile-tenants",
        Fact::HostileTenants,
        ON_KUBERNETES,
        "customers apart: whole nodes, a namespace and network policy per customer",
    ),
    answer(
        "asked-hostile-tenants-slurm",
        Fact::HostileTenants,
        SLURM,
        "customers apart: ExclusiveUser nodes, a partition and account each; not a hard boundary",
    ),
    answer(
        "asked-hostile-tenants-other",
        Fact::HostileTenants,
        Always,
        "customers apart: not without a platform; give each customer machines of their own",
    ),
    answer(
        "asked-quotas-slurm",
        Fact::StrictQuotas,
        SLURM,
        "quotas: QOS and association limits in slurmdbd; AccountingStorageEnforce=limits,qos",
    ),
    answer(
        "asked-quotas-runai",
        Fact::StrictQuotas,
        RUNAI,
        "quotas: projects and departments of Run:ai",
    ),
    answer(
        "asked-quotas-queued",
        Fact::StrictQuotas,
        QUEUED,
        "quotas: a ClusterQueue of Kueue per team, lent while idle and reclaimed",
    ),
    answer(
        "asked-quotas-kubernetes",
        Fact::StrictQuotas,
        ON_KUBERNETES,
        "quotas: a ResourceQuota per namespace: a limit, nothing idle is lent",
    ),
    answer(
        "asked-quotas-other",
        Fact::StrictQuotas,
        Always,
        "quotas: queues of Muster (`queues.yaml`); an agreement enforces none",
    ),
    answer(
        "asked-gitops-slurm",
        Fact::Gitops,
        SLURM,
        "GitOps: slurm.conf from a repository, applied by configuration management",
    ),
    answer(
        "asked-gitops-kubernetes",
        Fact::Gitops,
        ON_KUBERNETES,
        "GitOps: Argo CD or Flux applies queues, operators and services",
    ),
    answer(
        "asked-gitops-other",
        Fact::Gitops,
        Always,
        "GitOps: configuration files in a repository, applied by hand",
    ),
    answer(
        "asked-grow-slurm",
        Fact::Grow,
        SLURM,
        "elastic jobs: resizing is by hand, few programs follow; checkpoint and resubmit",
    ),
    answer(
        "asked-grow-kubernetes",
        Fact::Grow,
        ON_KUBERNETES,
        "elastic jobs: Ray Train or torchrun with a range of workers; nothing grows by itself",
    ),
    answer(
        "asked-grow-other",
        Fact::Grow,
        Always,
        "elastic jobs: torchrun with a range of nodes, or Ray Train",
    ),
    answer(
        "asked-slices-mig",
        Fact::IsolatedSlices,
        Is(Fact::FleetMig),
        "isolated slices: MIG, cut before jobs start; nothing else isolates",
    ),
    answer(
        "asked-slices-no-mig",
        Fact::IsolatedSlices,
        Always,
        "isolated slices: no model here has MIG; give each tenant whole GPUs",
    ),
    answer(
        "asked-shared-slurm",
        Fact::SharedGpus,
        SLURM,
        "shared GPUs: MIG slices where the model has them, else shards without isolation",
    ),
    answer(
        "asked-shared-runai",
        Fact::SharedGpus,
        RUNAI,
        "shared GPUs: fractions of Run:ai; memory is limited, faults are not isolated",
    ),
    answer(
        "asked-shared-kubernetes",
        Fact::SharedGpus,
        ON_KUBERNETES,
        "shared GPUs: MIG where the model has it, else time-slicing, on nodes of their own",
    ),
    answer(
        "asked-shared-other",
        Fact::SharedGpus,
        Always,
        "shared GPUs: by agreement on memory; nothing isolates",
    ),
    answer(
        "asked-short-runs",
        Fact::ShortRuns,
        Always,
        "short runs: a queue with a short limit, and time limits on every job",
    ),
    answer(
        "asked-reproducible-slurm",
        Fact::Reproducible,
        SLURM,
        "reproducible: images pinned by digest, through Pyxis and Enroot or Apptainer",
    ),
    answer(
        "asked-reproducible",
        Fact::Reproducible,
        Always,
        "reproducible: container images pinned by digest",
    ),
    answer(
        "asked-tracking",
        Fact::Tracking,
        Always,
        "tracking: a server such as MLflow beside any control plane",
    ),
    answer(
        "asked-multi-cluster-slurm",
        Fact::MultiCluster,
        SLURM,
        "several clusters: a Slurm federation, or `sbatch --clusters=a,b`, over one slurmdbd",
    ),
    answer(
        "asked-multi-cluster-runai",
        Fact::MultiCluster,
        RUNAI,
        "several clusters: one Run:ai control plane over several clusters",
    ),
    answer(
        "asked-multi-cluster-queued",
        Fact::MultiCluster,
        MULTIKUEUE,
        "several clusters: MultiKueue dispatches from one queue",
    ),
    answer(
        "asked-multi-cluster-kubernetes",
        Fact::MultiCluster,
        ON_KUBERNETES,
        "several clusters: the same manifests in each, from one repository",
    ),
    answer(
        "asked-multi-cluster-other",
        Fact::MultiCluster,
        Always,
        "several clusters: not without a scheduler; start the job in each",
    ),
];

/// Answer where every GPU is AMD's and has partitions; conditions do not know models.
pub(crate) const SHARED_ON_AMD: NeedAnswer = answer(
    "asked-shared-amd",
    Fact::SharedGpus,
    Always,
    "shared GPUs: partitions (CPX), without isolation of faults",
);

/// Needs that another need of the same kind answers.
const COVERED: [(Fact, Fact); 6] = [
    (Fact::Services, Fact::Vllm),
    (Fact::Training, Fact::Deepspeed),
    (Fact::SharedGpus, Fact::IsolatedSlices),
    (Fact::DistributedPython, Fact::Ray),
    (Fact::Rl, Fact::Ray),
    (Fact::Batch, Fact::Mpi),
];

/// Returns one answer to each need: first those that the site states, in its order, then those that follow
/// from its mix.
pub(crate) fn of(case: &FactsCase<'_>, stated: &[Fact], models: &[GpuModel]) -> Vec<AskedNeed> {
    let others = Fact::SITE.iter().filter(|fact| !stated.contains(fact));
    let needs = stated.iter().chain(others).filter(|need| case.facts.is(**need));
    let is_covered = |need: &Fact| {
        COVERED.iter().any(|(general, special)| general == need && case.facts.is(*special))
    };
    // A need that the site states is answered by itself.
    let needs = needs.filter(|need| stated.contains(need) || !is_covered(need));
    let on_amd = gpus::are_partitioned_amd(models).then_some(&SHARED_ON_AMD);
    let first = |need: &Fact| {
        let all = on_amd.into_iter().chain(ANSWERS);
        all.into_iter().find(|answer| answer.need == *need && answer.when.holds(case))
    };
    let answers = needs.filter_map(first);
    answers.map(|one| AskedNeed { id: one.id, need: one.need, sentence: one.sentence }).collect()
}

/// Returns the answer to one need without the need's name; `None` if it is not a need of the case.
pub(super) fn way(case: &FactsCase<'_>, need: Fact) -> Option<&'static str> {
    let answer = ANSWERS.iter().find(|answer| answer.need == need && answer.when.holds(case));
    let sentence = answer.filter(|_| case.facts.is(need))?.sentence;
    sentence.split_once(": ").map(|(_, way)| way)
}

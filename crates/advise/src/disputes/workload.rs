//! Disagreements about one workload, as a closed list. Data only.

use muster_model::advice::{DisputeKind, Fact, Page, Plane, Position, Source, Threshold};

use crate::condition::Condition::{self, All, Any, Chosen, Hybrid, Is, Never, Not, Reaches};
use crate::rule::Disagreement;
use crate::workload::terms::{COUPLED, COUPLED_INSIDE, ON_K3S, ON_KUBERNETES_OR_K3S, ON_SLURM};

/// What a page says at one place.
const fn says(page: Page, section: &'static str, says: &'static str) -> Position {
    Position { source: Source::new(page, section), says }
}

/// The label is ray, whichever host is added.
const RAY: Condition = Chosen(&[Plane::Ray]);

/// Disagreements about one workload: those that would change the choice, those about what is added to it, what has aged.
pub(crate) const WORKLOAD: &[Disagreement] = &[
    // About the choice.
    Disagreement {
        id: "tenancy-before-python",
        kind: DisputeKind::Itself,
        when: All(&[RAY, Is(Fact::MultiTenant)]),
        question: "do your users write actors, or do they submit containers?",
        positions: &[
            says(
                Page::Guide,
                "labeller, rule 2",
                "asks for a Python pipeline first, and never for tenancy: ray",
            ),
            says(Page::Guide, "decision flow", "asks for tenancy and services before Python: kubernetes"),
        ],
        muster: "follows the labeller, which is the guide's checked part; Ray through KubeRay keeps the platform's quota either way",
    },
    Disagreement {
        id: "services-before-python",
        kind: DisputeKind::Pages,
        when: All(&[RAY, Is(Fact::LongLivedServices)]),
        question: "do the services belong to the pipeline, or would they be there without it?",
        positions: &[
            says(Page::Guide, "labeller, rule 2", "a Python pipeline is ray, also beside services"),
            says(
                Page::Guide,
                "decision flow; matrix, row 5",
                "services come first: kubernetes, with Ray Serve or KServe on it",
            ),
            says(
                Page::Kentino,
                "decision tree, steps 2 and 5",
                "services make kubernetes the base; Ray is added to it afterwards",
            ),
        ],
        muster: "keeps the label ray and draws Kubernetes under it: both readings install the same stack, and differ in who owns it",
    },
    Disagreement {
        id: "ray-as-label",
        kind: DisputeKind::Pages,
        when: RAY,
        question: "what owns the nodes and the quota while no Ray job runs?",
        positions: &[
            says(Page::Guide, "labeller, rule 2", "ray is the primary, its host an addon"),
            says(
                Page::Guide,
                "composition stack",
                "Ray is a runtime, and needs a resource manager underneath",
            ),
            says(
                Page::Kentino,
                "Ray and KubeRay",
                "not a cluster scheduler: never at the top, always inside a Slurm job or a namespace",
            ),
        ],
        muster: "gives the label that programs compare, and shows the host as the control plane in the stack",
    },
    Disagreement {
        id: "coupled-rl-on-bare-metal",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::PythonNativePipeline)]),
        question: "is it the trainer that fills the nodes, or the rollouts?",
        positions: &[
            says(
                Page::Guide,
                "labeller, rule 1",
                "coupling on bare metal comes first: slurm, and Ray leaves the label",
            ),
            says(Page::Guide, "matrix, row 4", "a Python pipeline is ray, on Kubernetes or on Slurm"),
            says(Page::Kentino, "Ray and KubeRay", "actors map onto Ray cleanly, and onto batch jobs poorly"),
        ],
        muster: "keeps slurm, which places the coupled part whole, and puts Ray on it in the stack: nothing is lost but the word",
    },
    Disagreement {
        id: "slurm-at-the-edge",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::EdgeOrDev)]),
        question: "is this the small cluster's only work, or a large job that somebody develops?",
        positions: &[
            says(Page::Guide, "labeller, rule 1", "asks for coupling on bare metal first: slurm"),
            says(Page::Guide, "matrix, row 3", "edge, small, CI or development: k3s"),
        ],
        muster: "follows the labeller's order; its own edge case of a contradiction covers one node only, where k3s wins",
    },
    Disagreement {
        id: "coupled-without-bare-metal",
        kind: DisputeKind::Itself,
        when: All(&[COUPLED, Not(Fact::BareMetal)]),
        question: "must this run in containers, or does it merely do so today?",
        positions: &[
            says(
                Page::Guide,
                "decision flow",
                "only the arrow for bare metal leaves the question about coupling: no answer",
            ),
            says(
                Page::Guide,
                "labeller, rules 2 to 4",
                "goes on with the other questions, and adds a gang scheduler",
            ),
            says(Page::Guide, "matrix, row 1", "names coupled training on bare metal only"),
        ],
        muster: "follows the labeller: it is the only one of the three with an answer, and the invariant makes it safe",
    },
    Disagreement {
        id: "batch-in-containers",
        kind: DisputeKind::Pages,
        when: All(&[
            Chosen(&[Plane::Kubernetes]),
            Not(Fact::LongLivedServices),
            Not(Fact::MultiTenant),
            Never(&COUPLED),
        ]),
        question: "does anything else on this fleet need Kubernetes, and who operates it?",
        positions: &[
            says(Page::Guide, "labeller, rule 4; decision flow", "simple batch, in containers: kubernetes"),
            says(
                Page::Comparison,
                "rule of thumb",
                "what ends and is known in size: slurm; what stays and is elastic: kubernetes",
            ),
            says(Page::Kentino, "decision tree, steps 2 and 3", "no services, or no platform team: slurm"),
            says(
                Page::Hyperstack,
                "workload profiles, 2; scheduling model",
                "HPC-style batch: slurm; batch of varying shapes: kubernetes has the finer control",
            ),
        ],
        muster: "gives the guide's label; when nothing else here needs Kubernetes, Slurm is less to operate, and muster advise with a site file says so",
    },
    Disagreement {
        id: "hybrid-without-slurm",
        kind: DisputeKind::Pages,
        when: All(&[ON_KUBERNETES_OR_K3S, Is(Fact::TightlyCoupled), Is(Fact::LongLivedServices)]),
        question: "does training crowd out the services, or the other way round, often enough to fence them off?",
        positions: &[
            says(Page::Guide, "matrix, row 6", "batch training and services on one fleet: split it"),
            says(Page::Guide, "labeller, last rule; edge 4", "splits only where slurm is the primary"),
            says(
                Page::Kentino,
                "summary table, rows 4 and 8",
                "one Kubernetes for a mixed cluster; two planes from 200 GPUs",
            ),
            says(
                Page::Hyperstack,
                "workload profiles, 3 and 4",
                "training and serving on a shared cluster: kubernetes",
            ),
        ],
        muster: "does not split: behind a gang scheduler, with quota, one Kubernetes carries both until one starves the other",
    },
    Disagreement {
        id: "python-on-bare-metal",
        kind: DisputeKind::Pages,
        when: All(&[RAY, Is(Fact::BareMetal)]),
        question: "which of the two do you operate already?",
        positions: &[
            says(Page::Guide, "labeller, rule 2", "always through KubeRay"),
            says(Page::Guide, "matrix, row 4", "on Kubernetes through KubeRay, or on Slurm"),
            says(
                Page::Kentino,
                "decision tree, step 5; Ray standalone",
                "KubeRay, or Ray inside an salloc; alone where one person owns the cluster",
            ),
        ],
        muster: "gives the labeller's host; where Slurm runs already, start Ray inside an allocation instead of installing Kubernetes for it",
    },
    Disagreement {
        id: "k3s-for-tenants",
        kind: DisputeKind::Itself,
        when: All(&[Chosen(&[Plane::K3s]), Any(&[Is(Fact::MultiTenant), Is(Fact::LongLivedServices)])]),
        question: "would an hour without this cluster hurt anybody but its owners?",
        positions: &[
            says(Page::Guide, "labeller, rule 3", "small comes before services and tenants: k3s"),
            says(Page::Guide, "matrix, row 2", "a platform of many tenants with online services: kubernetes"),
            says(Page::Guide, "decision flow", "services or tenants: either of the two"),
        ],
        muster: "follows the labeller: it is the same API, so that manifests move when the cluster grows",
    },
    Disagreement {
        id: "k3s-size",
        kind: DisputeKind::Pages,
        when: All(&[ON_K3S, Reaches(Threshold::MultiNode)]),
        question: "how many nodes does the cluster have, whatever one job spans?",
        positions: &[
            says(Page::Guide, "labeller, its facts", "this fact means small, CI or a single node"),
            says(Page::Overview, "Kubernetes and k3s", "edge nodes, small clusters, CI and development"),
            says(Page::Guide, "failure modes, 6", "not a large datacentre; no number is given"),
        ],
        muster: "warns from a number of nodes of its own, which a site can set (k3s-nodes)",
    },
    // About what is added to it.
    Disagreement {
        id: "ray-on-k3s-gang",
        kind: DisputeKind::Itself,
        when: All(&[RAY, COUPLED, Is(Fact::EdgeOrDev)]),
        question: "can two such jobs want the cluster at the same time?",
        positions: &[
            says(
                Page::Guide,
                "labeller, its comment; the load-bearing invariant",
                "Ray on k3s is under kube-scheduler too: a gang scheduler is required",
            ),
            says(
                Page::Guide,
                "labeller, its code; edge 7",
                "leaves out Ray at the edge, and so does the oracle that checks it",
            ),
        ],
        muster: "requires it, because the guide calls the invariant load-bearing; --ruleset guide gives the label of the code",
    },
    Disagreement {
        id: "pods-or-nodes",
        kind: DisputeKind::Pages,
        when: All(&[COUPLED_INSIDE, ON_KUBERNETES_OR_K3S]),
        question: "is the job on its one node one pod, or several?",
        positions: &[
            says(
                Page::Guide,
                "labeller; edge 2",
                "on one node there is nothing to place together: no gang scheduler",
            ),
            says(
                Page::Guide,
                "failure modes, 1; the proof, where a pod is a GPU",
                "a gang scheduler for every job of several pods",
            ),
            says(
                Page::Kentino,
                "batch against services, table",
                "already an 8-hour training run needs Kueue or Volcano",
            ),
        ],
        muster: "counts nodes, as the labeller does, and warns of several pods on one node",
    },
    Disagreement {
        id: "kueue-as-gang",
        kind: DisputeKind::Pages,
        when: All(&[COUPLED, ON_KUBERNETES_OR_K3S]),
        question: "what places the pods once the quota is granted?",
        positions: &[
            says(Page::Guide, "labeller", "Volcano, Kueue or KAI: any of them satisfies the requirement"),
            says(
                Page::Comparison,
                "how it is set up",
                "Volcano or KAI place gangs; Kueue admits by quota, all or nothing",
            ),
            says(
                Page::Kentino,
                "why naive Kubernetes is wrong",
                "Kueue admits jobs, Volcano places pods: both, one above the other",
            ),
            says(
                Page::Upstream,
                "Kueue: all-or-nothing with ready pods, kubernetes-sigs/kueue issue 2796",
                "admission reserves quota, not nodes; wholeness takes waitForPodsReady or topology-aware scheduling",
            ),
        ],
        muster: "keeps the label, which names all three, and in the stack puts Kueue above a scheduler that places gangs, never in its place",
    },
    Disagreement {
        id: "operators-for-gangs",
        kind: DisputeKind::Pages,
        when: All(&[COUPLED, ON_KUBERNETES_OR_K3S, Not(Fact::PythonNativePipeline)]),
        question: "does your training operator create a PodGroup, and does its scheduler read it?",
        positions: &[
            says(
                Page::Hyperstack,
                "multi-node coordination",
                "no native equivalent: operators for MPI or training coordinate the pods",
            ),
            says(
                Page::Guide,
                "how to integrate",
                "only a gang scheduler makes the set whole; operators ride on it",
            ),
            says(
                Page::Upstream,
                "kubeflow/trainer, shipped torch runtime, August 2026",
                "the operator's default runtime asks for no pod group",
            ),
        ],
        muster: "requires the gang scheduler whatever operator creates the pods",
    },
    Disagreement {
        id: "native-gang-api",
        kind: DisputeKind::Aged,
        when: All(&[COUPLED, ON_KUBERNETES_OR_K3S]),
        question: "which Kubernetes version runs there, with which feature gates?",
        positions: &[
            says(
                Page::Guide,
                "why use it; note 1",
                "the stock scheduler has no gang scheduling: an add-on is required",
            ),
            says(
                Page::Kentino,
                "why naive Kubernetes is wrong",
                "first in, first out, with no gang semantics",
            ),
            says(
                Page::Upstream,
                "KEP-4671; alpha in Kubernetes 1.35 and 1.36, off by default; beta in 1.37 of August 2026",
                "kube-scheduler places a PodGroup whole where the GenericWorkload feature is on; it has neither queues nor quota",
            ),
        ],
        muster: "still requires that something places gangs: the native API counts once it is switched on and the pods name a PodGroup",
    },
    Disagreement {
        id: "dra-or-device-plugin",
        kind: DisputeKind::Aged,
        when: All(&[Is(Fact::TightlyCoupled), ON_KUBERNETES_OR_K3S]),
        question: "does the job need certain GPUs of a node, or any of them?",
        positions: &[
            says(
                Page::Hyperstack,
                "what separates them: scheduling",
                "topology comes from device plugins and affinity rules, written by hand",
            ),
            says(
                Page::Kentino,
                "MIG and GPU sharing",
                "the device plugin gives whole GPUs, and knows no more of them",
            ),
            says(
                Page::Comparison,
                "how it is set up",
                "jobs describe devices, the scheduler picks them: DRA, stable since Kubernetes 1.34",
            ),
        ],
        muster: "names the GPU Operator, which brings either; prefer DRA on 1.34 and later where the driver supports the model",
    },
    Disagreement {
        id: "split-or-nest",
        kind: DisputeKind::Pages,
        when: Hybrid,
        question: "does capacity have to move between batch and services within a day?",
        positions: &[
            says(Page::Guide, "labeller, last rule", "partition the nodes, with a clear boundary"),
            says(Page::Guide, "how to scale it", "two pools, or Slurm as pods through Slinky or Soperator"),
            says(
                Page::Comparison,
                "hybrid",
                "Slurm on Kubernetes is the answer for both; pools are the simpler split",
            ),
            says(
                Page::Kentino,
                "where Slurm hits its ceiling",
                "two small clusters are often simpler; managed offerings nest them",
            ),
        ],
        muster: "splits: nothing new to operate, and disjoint pools cannot contend; nest when the boundary has to move often",
    },
    Disagreement {
        id: "ray-in-a-hybrid",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::LongLivedServices), Is(Fact::PythonNativePipeline)]),
        question: "which part of the Ray program is coupled, and which part serves?",
        positions: &[
            says(Page::Guide, "how to integrate", "Ray on Slurm where Slurm is the primary"),
            says(
                Page::Guide,
                "how to scale it",
                "Ray inside KubeRay, in the Kubernetes pool, so that there is no third plane",
            ),
        ],
        muster: "draws both: what trains inside a Slurm allocation, what serves under KubeRay in the other pool",
    },
    Disagreement {
        id: "inference-at-scale",
        kind: DisputeKind::Pages,
        when: All(&[Chosen(&[Plane::Kubernetes]), Is(Fact::LongLivedServices), Not(Fact::TightlyCoupled)]),
        question: "how many models and replicas, and does one replica span nodes?",
        positions: &[
            says(Page::Guide, "labeller, rule 4", "kubernetes with the GPU Operator, and no serving layer"),
            says(Page::Guide, "matrix, row 5", "Kubernetes with Ray Serve or KServe"),
            says(Page::Overview, "decision matrix", "Ray Serve, KServe or Dynamo on Kubernetes"),
            says(
                Page::Kentino,
                "summary table, row 3",
                "Kubernetes and the GPU Operator; no batch scheduler",
            ),
        ],
        muster: "gives the label without a serving layer: plain deployments carry a few models, a serving layer is worth its components from there",
    },
    Disagreement {
        id: "slurm-multi-tenancy",
        kind: DisputeKind::Pages,
        when: All(&[ON_SLURM, Is(Fact::MultiTenant)]),
        question: "are the tenants colleagues who compete, or customers who must not see each other?",
        positions: &[
            says(Page::Guide, "how to scale it", "accounts, fair share and QOS are Slurm's multi-tenancy"),
            says(
                Page::Guide,
                "decision flow; labeller, rule 1",
                "coupling is asked before tenancy, which changes nothing: slurm",
            ),
            says(
                Page::Kentino,
                "where Slurm hits its ceiling",
                "fine for a lab, not for a hosted service of many customers",
            ),
        ],
        muster: "keeps slurm: fair shares it enforces, isolation between customers it does not; those get clusters of their own",
    },
    Disagreement {
        id: "slurm-gpu-isolation",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::MultiTenant)]),
        question: "does nvidia-smi -L in a one-GPU job list one GPU?",
        positions: &[
            says(
                Page::Kentino,
                "where Slurm hits its ceiling",
                "GPUs are kept apart by CUDA_VISIBLE_DEVICES, and by code that respects it",
            ),
            says(
                Page::Kentino,
                "slurm.conf",
                "cgroups isolate the GPUs that a job may see, by proctrack/cgroup",
            ),
            says(
                Page::Upstream,
                "Slurm cgroup.conf: ConstrainDevices",
                "devices are fenced by task/cgroup with ConstrainDevices=yes; tracking processes alone fences nothing",
            ),
        ],
        muster: "counts GPUs as fenced only with ConstrainDevices=yes, which neither of the page's two statements mentions",
    },
    Disagreement {
        id: "slurm-resize",
        kind: DisputeKind::Pages,
        when: ON_SLURM,
        question: "does the program itself survive a change of its size?",
        positions: &[
            says(Page::Hyperstack, "Slurm failure modes, 1", "the allocation is fixed at submission"),
            says(
                Page::Upstream,
                "Slurm FAQ: change a job's size; SchedulerParameters=permit_job_expansion",
                "a running job can give nodes back, and can take over another job's where expansion is permitted",
            ),
        ],
        muster: "plans with a fixed size: resizing exists, but by hand, and the program has to follow",
    },
    Disagreement {
        id: "launchers-per-node",
        kind: DisputeKind::Pages,
        when: All(&[ON_SLURM, Not(Fact::PythonNativePipeline)]),
        question: "how many processes does one GPU of the running job have?",
        positions: &[
            says(Page::Comparison, "Slurm job script", "one task per node, which starts one process per GPU"),
            says(
                Page::Kentino,
                "Slurm job script",
                "eight tasks per node, each of which starts eight processes",
            ),
        ],
        muster: "starts one launcher per node: torchrun starts a process per GPU itself, so eight launchers make 64 processes for 8 GPUs",
    },
    Disagreement {
        id: "launchers-per-pod",
        kind: DisputeKind::Pages,
        when: All(&[COUPLED, ON_KUBERNETES_OR_K3S, Not(Fact::PythonNativePipeline)]),
        question: "does each pod ask for as many GPUs as it starts processes?",
        positions: &[
            says(
                Page::Comparison,
                "Volcano manifest",
                "16 pods of one GPU, each of which starts eight processes and knows of no other pod",
            ),
            says(
                Page::Kentino,
                "Volcano manifest",
                "16 pods of one GPU, one process each, 16 nodes to torchrun",
            ),
        ],
        muster: "one pod per node with all its GPUs, or one process per pod: what a pod starts and what it asks for must agree",
    },
    Disagreement {
        id: "gang-word",
        kind: DisputeKind::Pages,
        when: ON_SLURM,
        question: "does the sentence speak of one job's tasks, or of several jobs on one node?",
        positions: &[
            says(Page::Overview, "Slurm", "lists gang scheduling among what Slurm has, for training"),
            says(Page::Kentino, "Slurm", "gang scheduling is built in"),
            says(
                Page::Guide,
                "failure modes, 2",
                "in Slurm the term means time-slicing of jobs; whole allocation is plain behaviour there",
            ),
        ],
        muster: "says gang for all-or-nothing only, and never asks for Slurm's option of that name",
    },
];

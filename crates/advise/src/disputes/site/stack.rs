//! Disagreements about add-ons of the base control plane, their configuration and their operators.
//! Data only.

use muster_model::advice::CitedPage::{
    Comparison, Guide, Hyperstack, Kentino, Muster, Overview, Upstream,
};
use muster_model::advice::DisputeKind::{Itself, Pages};
use muster_model::advice::{ControlPlane, Fact, Threshold};

use super::{dispute, says};
use crate::condition::Condition::{All, Any, Chosen, Gang, Is, Never, Not, Reaches};
use crate::rule::Disagreement;
use crate::site::terms::{
    COUPLED, FINITE, GANGS, KUBERNETES, MIXED, ON_KUBERNETES, POOL, PROVIDED, PYTHON, RUNAI, SLURM,
    SUBSTRATE, TRAINS,
};

/// Disagreements in the order of the parts of labels.
pub(super) const STACK: &[Disagreement] = &[
    dispute(
        "volcano-without-gangs",
        Itself,
        All(&[KUBERNETES, MIXED, Never(&GANGS)]),
        "does any run span nodes?",
        &[
            says(Kentino, "summary table, row 4", "mixed: Kubernetes, Kueue, Volcano, Kubeflow"),
            says(
                Kentino,
                "decision tree, step 2",
                "Kueue, then Volcano if distributed training is in scope",
            ),
            says(
                Kentino,
                "when you do not need Volcano",
                "it earns its keep the moment distributed training is mixed in",
            ),
            says(Kentino, "why naive Kubernetes is wrong", "current best practice is both"),
        ],
        "no gang scheduler until a run spans nodes, because what is one pod cannot be placed partly, and a run on \
         one node can be one pod",
    ),
    dispute(
        "is-kueue-a-gang-scheduler",
        Pages,
        All(&[ON_KUBERNETES, Gang, Never(&RUNAI)]),
        "when quota is free but GPUs are scattered, who waits: the whole job, or some of its pods?",
        &[
            says(
                Guide,
                "labeller; how to integrate",
                "Volcano, Kueue or KAI: any of them is the gang scheduler",
            ),
            says(
                Kentino,
                "why naive Kubernetes is wrong",
                "Kueue admits jobs, Volcano places gangs: both",
            ),
            says(
                Comparison,
                "how it's set up",
                "Kueue admits all or nothing by quota, KAI or Volcano place by gang and topology",
            ),
            says(
                Upstream,
                "Kueue issue 2796",
                "admitted though only one of two pods fits; whole placement needs topology-aware scheduling or waitForPodsReady",
            ),
        ],
        "a gang scheduler that places pods (Volcano, KAI, native), with Kueue as the queue above it, because quota \
         says nothing of where GPUs are free",
    ),
    dispute(
        "who-makes-ray-whole",
        Pages,
        All(&[ON_KUBERNETES, Gang, PYTHON]),
        "what happens to two Ray clusters that start on GPUs for one and a half?",
        &[
            says(Kentino, "KubeRay", "RayJob with Kueue gang scheduling is documented and works"),
            says(
                Upstream,
                "KubeRay pull request 3592 and issue 4723",
                "there is no gang by default: workers can starve the head, and nothing holds several worker groups \
                 together",
            ),
            says(
                Guide,
                "the load-bearing invariant",
                "KubeRay integrates Volcano for exactly this",
            ),
        ],
        "a batch scheduler configured in KubeRay and a queue above it, because neither alone, nor the default, \
         starts a Ray cluster whole",
    ),
    dispute(
        "array-or-tune",
        Itself,
        All(&[Is(Fact::Sweeps), SLURM]),
        "are bad trials stopped early?",
        &[
            says(
                Kentino,
                "batch jobs and services table, row 2",
                "a sweep of 200 jobs: native on Slurm",
            ),
            says(
                Kentino,
                "decision tree, step 5; Ray",
                "hyperparameter search: Ray, best in class for stopping early",
            ),
        ],
        "Ray inside an allocation for search, because arrays cannot stop bad trials early; a plain grid is one job \
         array",
    ),
    dispute(
        "ray-or-a-batch-job",
        Pages,
        All(&[Is(Fact::OperatesRay), FINITE, Never(&PYTHON)]),
        "is there an actor in any of these programs?",
        &[
            says(
                Guide,
                "when not to switch",
                "for batch jobs alone one Volcano job on existing Kubernetes is simpler than Ray",
            ),
            says(
                Overview,
                "Ray",
                "Ray is tasks and actors, with libraries for training, serving, data and RL on top",
            ),
            says(
                Kentino,
                "decision tree, step 5",
                "not heavy on RL, search or distributed Python: leave Ray out",
            ),
        ],
        "no Ray, because a scheduler starts what only starts and ends",
    ),
    dispute(
        "who-keeps-devices-apart",
        Itself,
        All(&[
            SLURM,
            Any(&[Reaches(Threshold::SeveralTeams), Is(Fact::HostileTenants), Is(Fact::Regulated)]),
        ]),
        "does cgroup.conf say ConstrainDevices=yes?",
        &[
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "GPU isolation rests on CUDA_VISIBLE_DEVICES and on code that respects it",
            ),
            says(Kentino, "a minimal slurm.conf", "cgroups isolate the GPUs that a job may see"),
            says(
                Muster,
                "Slurm 22.05 tried with task/cgroup and ConstrainDevices, November 2026",
                "opening a GPU that was not allocated is refused by the kernel",
            ),
        ],
        "a check that the cgroup plugin constrains devices (ConstrainDevices=yes), because GPUs are isolated only \
         where it does",
    ),
    dispute(
        "topology-by-itself",
        Pages,
        All(&[SLURM, COUPLED]),
        "is there more than one leaf switch between these nodes?",
        &[
            says(
                Hyperstack,
                "comparison: scheduling",
                "placement at node granularity needs no additional configuration",
            ),
            says(
                Comparison,
                "failure modes, 5",
                "without topology.conf a run is scattered across distant switches",
            ),
            says(Guide, "labeller, rule 1", "topology.conf for rail-aware placement"),
        ],
        "topology.conf as soon as there are two switches, because whole nodes need no configuration, and near nodes do",
    ),
    dispute(
        "what-gang-means",
        Pages,
        All(&[SLURM, COUPLED]),
        "is the term used as in Slurm's manual, or as elsewhere?",
        &[
            says(Kentino, "Slurm: what you get for free", "gang scheduling is built in"),
            says(
                Comparison,
                "failure modes, 3",
                "in Slurm it means time-slicing of jobs that share nodes; what is meant is that an allocation is granted whole",
            ),
            says(Overview, "Slurm", "partitions, gang scheduling, topology.conf"),
            says(Guide, "failure modes, 2", "do not conflate them: the add-on is mis-scoped"),
        ],
        "`whole allocation` for Slurm and `gang scheduler` for Kubernetes, because in Slurm gang scheduling is \
         another feature",
    ),
    dispute(
        "who-recovers",
        Pages,
        All(&[TRAINS, Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes])]),
        "has recovery been tested by killing a rank?",
        &[
            says(
                Kentino,
                "Slurm: what a user submits",
                "max-restarts with requeue recovers from the last checkpoint, as usually set up",
            ),
            says(
                Hyperstack,
                "fault tolerance and job recovery",
                "on either, a job fails, is looked at and requeued; training code must handle it",
            ),
            says(Kentino, "Volcano", "an evicted pod restarts the job"),
        ],
        "a configured restart and the checkpoint, because a restart without a checkpoint begins again",
    ),
    dispute(
        "provider-or-you",
        Itself,
        All(&[
            Is(Fact::Managed),
            Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes, ControlPlane::K3s]),
        ]),
        "who upgrades the scheduler, and who is called when it is down?",
        &[
            says(
                Hyperstack,
                "Hyperstack Secure Private Cloud",
                "the provider is responsible up to the orchestrator layer, your team takes over from there",
            ),
            says(
                Hyperstack,
                "what Hyperstack manages",
                "the orchestrator layer and the life of the cluster stand in the provider's list",
            ),
        ],
        "an orchestrator that the provider runs and upgrades, and queues, quotas and jobs that you manage, because \
         both statements allow that; put it in the contract",
    ),
    dispute(
        "slurm-in-pods",
        Itself,
        All(&[SLURM, COUPLED, Any(&[PROVIDED, SUBSTRATE])]),
        "does slurmd run on the host or in a pod, and on whose network?",
        &[
            says(
                Hyperstack,
                "comparison: interconnect",
                "Slurm reaches InfiniBand or RoCE directly, with no container network in between",
            ),
            says(
                Hyperstack,
                "orchestrator options",
                "managed Slurm is often deployed on Kubernetes",
            ),
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "SUNK and the managed offerings of 2026 run Slurm on Kubernetes",
            ),
        ],
        "a fabric that counts only after nccl-tests inside a job reports GDRDMA, because a slurmd in a pod has the \
         pod's network unless it was given the host's",
    ),
    dispute(
        "managed-kubernetes-for-training",
        Itself,
        All(&[Is(Fact::Managed), COUPLED, Any(&[SLURM, KUBERNETES])]),
        "who opens the fabric to the pods and keeps it open after an upgrade: the provider or you?",
        &[
            says(
                Hyperstack,
                "how to map your workload, row 1",
                "large distributed training is for Slurm",
            ),
            says(
                Hyperstack,
                "orchestrator options",
                "managed Kubernetes is ideal for pipelines, distributed training and services",
            ),
            says(
                Hyperstack,
                "Kubernetes failure modes",
                "topology and the container network break large training runs",
            ),
            says(
                Hyperstack,
                "questions and answers",
                "Kubernetes trains well, with careful setup of scheduling and network",
            ),
        ],
        "the table: Slurm where coupled runs are the work, and Kubernetes behind a gang scheduler where they are \
         one part of a mix, because that is where its set-up is paid for",
    ),
    dispute(
        "ray-in-which-pool",
        Itself,
        All(&[POOL, PYTHON, Is(Fact::Services)]),
        "does this Ray program end, or does it serve?",
        &[
            says(Guide, "how to integrate", "Ray runs on Slurm where Slurm is the primary"),
            says(
                Guide,
                "how to scale it",
                "Ray runs inside KubeRay, in the Kubernetes pool, so that there is no third control plane",
            ),
            says(
                Kentino,
                "decision tree, step 5",
                "KubeRay on Kubernetes, or salloc with Ray on Slurm",
            ),
        ],
        "a Slurm allocation for what trains or searches and KubeRay on the other side for what serves, because each \
         pool then has the work that it was made for",
    ),
    dispute(
        "which-looks-simpler",
        Pages,
        All(&[Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes]), COUPLED]),
        "when a run is slow at night, where will you look first?",
        &[
            says(
                Kentino,
                "what you pay",
                "Kubernetes is 5 to 10 times the load of Slurm for batch, 20 components at least",
            ),
            says(
                Hyperstack,
                "conclusion",
                "what seems simpler to run is often harder to debug: Kubernetes hides the topology, Slurm exposes it",
            ),
            says(
                Hyperstack,
                "where each system breaks",
                "Slurm needs solid scripts and node health from the start",
            ),
        ],
        "the effort by components and staff, because each system hides something else, of which the answer warns",
    ),
    dispute(
        "elastic-slurm",
        Pages,
        All(&[SLURM, Is(Fact::FleetElastic)]),
        "is the smallest number of nodes that is always there enough for most work?",
        &[
            says(
                Guide,
                "SchedMD's framing",
                "Slurm's pool is known, Kubernetes' can grow without limit",
            ),
            says(
                Comparison,
                "comparison table: node elasticity",
                "Slurm's pool is fixed, with cloud bursting through plugins; Cluster Autoscaler and Karpenter grow \
                 node groups",
            ),
            says(Comparison, "rule of thumb", "services on elastic hardware: Kubernetes"),
        ],
        "batch on Slurm with suspend and resume programs, because elastic nodes alone do not choose",
    ),
    dispute(
        "one-part-time-person",
        Pages,
        All(&[SLURM, FINITE, Not(Fact::Managed), Reaches(Threshold::FederatedGpus)]),
        "who drains a node at two in the morning?",
        &[
            says(Kentino, "Slurm is right when", "one part-time person can operate Slurm"),
            says(
                Hyperstack,
                "how to map your workload, row 1",
                "for large distributed training with a small team managed Slurm is preferred",
            ),
            says(
                Muster,
                "node failures grow with the number of nodes",
                "from some hundreds of GPUs failures are daily, and an operator is on call",
            ),
        ],
        "a part-time person below some hundreds of GPUs, and a provider or an on-call rota above, because failures \
         are daily there",
    ),
    dispute(
        "fractions-by-memory",
        Pages,
        All(&[RUNAI, Any(&[Is(Fact::SharedGpus), Is(Fact::Notebooks), Is(Fact::IsolatedSlices)])]),
        "must a neighbour who takes too much be stopped, or is it enough to ask?",
        &[
            says(
                Kentino,
                "Run:ai and Determined",
                "one GPU is split between workloads at the memory level",
            ),
            says(
                Comparison,
                "failure modes, 6",
                "nothing caps memory per tenant without MIG: hard isolation is MIG",
            ),
            says(
                Upstream,
                "KAI-Scheduler issue 45",
                "in the open core nothing enforces a fraction; users are asked to keep to it",
            ),
        ],
        "a fraction as a share of a queue and never as isolation, because nothing enforces its memory",
    ),
];

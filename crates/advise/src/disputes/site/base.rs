//! Disagreements about which control plane owns the nodes. Data only.

use muster_model::advice::CitedPage::{Comparison, Guide, Hyperstack, Kentino, Overview};
use muster_model::advice::DisputeKind::{Itself, Pages};
use muster_model::advice::{ControlPlane, Fact, Threshold};

use super::{dispute, says};
use crate::condition::Condition::{All, Any, Below, Chosen, Is, Never, Not};
use crate::rule::Disagreement;
use crate::site::terms::{
    COUPLED, FINITE, KUBERNETES, MIXED, ON_KUBERNETES, PURE_SERVICES, PYTHON, SLURM, STAFFED,
};

/// Disagreements in the order of the rules that they concern.
pub(super) const BASE: &[Disagreement] = &[
    dispute(
        "working-slurm-and-services",
        Pages,
        All(&[Is(Fact::OperatesSlurm), Is(Fact::Works), MIXED]),
        "is the training that Slurm runs today still the work that pays for the fleet?",
        &[
            says(
                Kentino,
                "decision tree, step 2",
                "services as well as training: Kubernetes is the base",
            ),
            says(
                Guide,
                "when not to switch; failure modes, 4",
                "a working Slurm stays; services are a reason to switch",
            ),
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "add a second layer for the services rather than torture Slurm",
            ),
            says(Guide, "constraint table, row 6", "hybrid: partition the nodes"),
        ],
        "Slurm for what it does well, and nodes and a control plane of their own for services, because no other \
         answer risks nothing that works",
    ),
    dispute(
        "working-kubernetes-and-coupled",
        Pages,
        All(&[KUBERNETES, Is(Fact::OperatesKubernetes), Is(Fact::Works), COUPLED]),
        "does a gang scheduler there place a run on as few switches as Slurm would?",
        &[
            says(
                Guide,
                "constraint table, row 1",
                "coupled training across nodes on bare metal: Slurm",
            ),
            says(
                Comparison,
                "why it's needed",
                "a team fluent in one pays a real tax to operate the other",
            ),
            says(
                Guide,
                "decision flow",
                "distributed training on Kubernetes: add a gang scheduler",
            ),
            says(Comparison, "hybrid", "run Slurm on that Kubernetes (Slinky, Soperator)"),
        ],
        "Kubernetes behind a gang scheduler, because it is there and works; Slurm inside it where users know Slurm",
    ),
    dispute(
        "ray-owns-the-nodes",
        Itself,
        All(&[PYTHON, Below(Threshold::SharedUsers)]),
        "will a second person ever use these nodes?",
        &[
            says(
                Kentino,
                "when Ray standalone is right",
                "a lab where one person owns the cluster, heavy on RL or search: Ray alone",
            ),
            says(
                Kentino,
                "the same paragraph, last sentence",
                "do not install Ray as the top-level scheduler",
            ),
            says(
                Kentino,
                "decision tree, step 5",
                "Ray on Kubernetes, or inside a Slurm allocation",
            ),
            says(
                Overview,
                "don't-miss checklist",
                "on the existing platform, not as a parallel stack",
            ),
        ],
        "Ray alone for one person with several nodes and no services, because no one else needs a share of them; on \
         one node it is a library of that person, and for more users it runs on the base plane",
    ),
    dispute(
        "ray-as-primary",
        Pages,
        All(&[PYTHON, Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes, ControlPlane::K3s])]),
        "do you ask for a programming model, or for something that owns the nodes?",
        &[
            says(
                Guide,
                "constraint table, row 4",
                "RL and data, train, rollout pipelines: Ray, on Kubernetes or on Slurm",
            ),
            says(
                Kentino,
                "Ray: the hybrid most teams converge on",
                "the base control plane owns nodes and tenancy, Ray lives inside for one run",
            ),
            says(Kentino, "summary table, row 5", "Ray, or KubeRay, on top of Slurm or Kubernetes"),
        ],
        "first the control plane that owns the nodes, and Ray as a program on it, because a runtime cannot divide \
         the nodes; `advise` on one workload names Ray first, as the guide does",
    ),
    dispute(
        "serving-without-training",
        Itself,
        All(&[PURE_SERVICES, ON_KUBERNETES]),
        "is there any work on these GPUs that ends?",
        &[
            says(
                Kentino,
                "decision tree, step 2",
                "training with services needs Kubernetes, and anything else, taken literally, is Slurm",
            ),
            says(
                Kentino,
                "summary table, row 3",
                "an inference platform is Kubernetes without a batch scheduler",
            ),
            says(
                Kentino,
                "decision tree, step 3",
                "without a platform team: Slurm regardless of the mix",
            ),
            says(
                Guide,
                "constraint table, row 5",
                "inference at scale: Kubernetes with Ray Serve or KServe",
            ),
        ],
        "Kubernetes, k3s when small and unstaffed, because Slurm has nothing for an endpoint",
    ),
    dispute(
        "mix-or-staff",
        Itself,
        All(&[MIXED, Never(&STAFFED)]),
        "who will be called when the control plane is down?",
        &[
            says(
                Kentino,
                "decision tree, step 2",
                "services as well as training: Kubernetes is the base, and the first yes of the tree decides",
            ),
            says(Kentino, "decision tree, step 3", "no platform team: Slurm regardless of the mix"),
            says(
                Kentino,
                "summary table, row 4",
                "mixed: Kubernetes, Kueue, Volcano, Kubeflow; staff is not mentioned",
            ),
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "two separate small clusters are often simpler",
            ),
            says(
                Hyperstack,
                "how to map your workload, rows 3 and 4",
                "mixed work with a platform or infrastructure team: Kubernetes",
            ),
        ],
        "Slurm with a partition for services, because a control plane without operators is worse than one that fits \
         less; what works already stays",
    ),
    dispute(
        "where-the-tree-ends",
        Itself,
        All(&[MIXED, STAFFED, Any(&[Is(Fact::StrictQuotas), PYTHON, Is(Fact::IsolatedSlices)])]),
        "does a yes at step 2 answer the later questions too?",
        &[
            says(Kentino, "decision tree, introduction", "the first yes of the tree decides"),
            says(
                Kentino,
                "decision tree, steps 3 to 6",
                "some questions only make sense after a yes at step 2",
            ),
            says(Kentino, "decision tree, last line", "most conversations end at step 1, 2 or 3"),
        ],
        "all steps, because a yes at step 1 ends the decision, step 2 chooses the base, step 3 can replace it, and \
         steps 4 to 6 add components",
    ),
    dispute(
        "mixed-fleet",
        Pages,
        All(&[MIXED, STAFFED]),
        "what takes most of the GPU-hours, and do nodes have to move between the two?",
        &[
            says(
                Kentino,
                "summary table, row 4",
                "a mixed fleet is Kubernetes with Kueue, Volcano and Kubeflow",
            ),
            says(
                Guide,
                "constraint table, row 6",
                "hybrid: partition the nodes, Slurm and Kubernetes side by side",
            ),
            says(
                Hyperstack,
                "how to map your workload, row 3",
                "a platform team and several tenants: Kubernetes",
            ),
            says(
                Comparison,
                "hybrid",
                "real Slurm on Kubernetes (Slinky, Soperator), or a static partition as the simpler split",
            ),
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "SUNK and managed offerings run Slurm on Kubernetes; at 1 to 32 nodes two small clusters are often simpler",
            ),
            says(
                Kentino,
                "batch jobs and services table, row 4",
                "Slurm: painful; Kubernetes: native, with Kueue",
            ),
            says(
                Guide,
                "footnote 2",
                "common practice: Kubernetes for inference, Slurm, often on Kubernetes, for training, pools partitioned",
            ),
        ],
        "Kubernetes with a queue and a gang scheduler, because one pool lends what is idle; a partition where \
         coupled training on bare metal is the main work or Slurm is established; Slurm inside Kubernetes where that \
         works already",
    ),
    dispute(
        "coupled-on-bare-metal",
        Pages,
        All(&[
            KUBERNETES,
            COUPLED,
            Is(Fact::FleetBareMetal),
            Never(&All(&[Is(Fact::OperatesKubernetes), Is(Fact::Works)])),
        ]),
        "how large is the part of the GPU-hours that runs coupled?",
        &[
            says(
                Guide,
                "labeller, rule 1; constraint table, row 1",
                "coupled across nodes on bare metal: Slurm, before anything else is asked",
            ),
            says(Kentino, "summary table, row 4", "mixed: Kubernetes, Kueue, Volcano, Kubeflow"),
            says(
                Guide,
                "constraint table, row 2",
                "several tenants, services, GitOps: Kubernetes with a gang scheduler for batch",
            ),
            says(
                Hyperstack,
                "performance-sensitive single-tenant deployments",
                "fast fabric, fixed pool: Slurm maps more directly",
            ),
        ],
        "Kubernetes while coupled training is not the main work (needs.mainly-coupled) and Slurm is not \
         established, because the labeller asks about one workload, and this answer is about all of them",
    ),
    dispute(
        "simple-batch",
        Pages,
        All(&[SLURM, FINITE, Never(&COUPLED), Not(Fact::Services), Not(Fact::OperatesSlurm)]),
        "does the work come as scripts or as containers, and who is there to run it?",
        &[
            says(
                Guide,
                "decision flow",
                "not coupled, no services, no Python pipeline, simple batch: Kubernetes or k3s",
            ),
            says(Kentino, "decision tree, step 2", "no services: Slurm is the base"),
            says(Guide, "labeller, rule 4", "containerised batch: Kubernetes"),
            says(Kentino, "summary table, row 2", "batch training in a research lab: Slurm"),
            says(
                Hyperstack,
                "scheduling model",
                "batch with very different needs of resources: Kubernetes gives finer control",
            ),
        ],
        "Slurm, because for work that only starts and ends it is a fifth to a tenth of the load to operate",
    ),
];

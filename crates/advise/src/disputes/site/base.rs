//! Disagreements about which plane owns the nodes. Data only.

use muster_model::advice::DisputeKind::{Itself, Pages};
use muster_model::advice::Page::{Comparison, Guide, Hyperstack, Kentino, Overview, Upstream};
use muster_model::advice::{Fact, Plane, Threshold};

use super::{dispute, says};
use crate::condition::Condition::{All, Any, Below, Chosen, Is, Never, Not, Reaches};
use crate::rule::Disagreement;
use crate::site::terms::{
    COMMERCIAL, COUPLED, FINITE, KUBERNETES, MIXED, ON_KUBERNETES, PURE_SERVICES, PYTHON, RUNAI, SLURM,
    STAFFED,
};

/// In the order of the rules that they touch.
pub(super) const BASE: &[Disagreement] = &[
    dispute(
        "working-slurm-and-services",
        Pages,
        All(&[Is(Fact::OperatesSlurm), Is(Fact::Works), MIXED]),
        "is the training that Slurm runs today still the work that pays for the fleet?",
        &[
            says(Kentino, "decision tree, step 2", "services as well as training: Kubernetes is the base"),
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "add a second layer for the services rather than torture Slurm",
            ),
            says(
                Guide,
                "when not to switch; failure modes, 4",
                "a working Slurm stays; services are a reason to switch",
            ),
            says(Guide, "constraint table, row 6", "hybrid: partition the nodes"),
        ],
        "Slurm stays for what it does well, services get nodes and a plane of their own: the only answer that risks nothing that works",
    ),
    dispute(
        "working-kubernetes-and-coupled",
        Pages,
        All(&[KUBERNETES, Is(Fact::OperatesKubernetes), Is(Fact::Works), COUPLED]),
        "does a gang scheduler there place a run on as few switches as Slurm would?",
        &[
            says(Guide, "constraint table, row 1", "coupled training across nodes on bare metal: Slurm"),
            says(Guide, "decision flow", "distributed training on Kubernetes: add a gang scheduler"),
            says(Comparison, "why it's needed", "a team fluent in one pays a real tax to operate the other"),
            says(Comparison, "hybrid", "run Slurm on that Kubernetes (Slinky, Soperator)"),
        ],
        "stays on Kubernetes behind a gang scheduler; Slurm inside it where people are at home in Slurm",
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
            says(Kentino, "decision tree, step 5", "Ray on Kubernetes, or inside a Slurm allocation"),
            says(Overview, "don't-miss checklist", "on the existing platform, not as a parallel stack"),
        ],
        "Ray alone for one person with several nodes and no services; on one node it is a library under the person's own hands; for \
         anybody else it is a guest of the base plane",
    ),
    dispute(
        "ray-as-primary",
        Pages,
        All(&[PYTHON, Chosen(&[Plane::Slurm, Plane::Kubernetes, Plane::K3s])]),
        "do you ask for a programming model, or for something that owns the nodes?",
        &[
            says(
                Guide,
                "constraint table, row 4",
                "RL and data, train, rollout pipelines: Ray, on Kubernetes or on Slurm",
            ),
            says(Kentino, "summary table, row 5", "Ray, or KubeRay, on top of Slurm or Kubernetes"),
            says(
                Kentino,
                "Ray: the hybrid most teams converge on",
                "the base plane owns nodes and tenancy, Ray lives inside for one run",
            ),
        ],
        "names the plane that owns the nodes first and Ray as what rides on it; `advise` on one workload names Ray first, as the guide does",
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
                "services as well as training: yes; anything else, taken literally: Slurm",
            ),
            says(
                Kentino,
                "summary table, row 3",
                "an inference platform: Kubernetes with the GPU Operator, no batch scheduler",
            ),
            says(Kentino, "decision tree, step 3", "without a platform team: Slurm regardless of the mix"),
            says(Guide, "constraint table, row 5", "inference at scale: Kubernetes with Ray Serve or KServe"),
        ],
        "Kubernetes, k3s when small and unstaffed: step 2 asks about training clusters that also serve, and Slurm has nothing for an endpoint",
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
                "services as well as training: Kubernetes is the base, and the first yes ends the conversation",
            ),
            says(Kentino, "decision tree, step 3", "no platform team: Slurm regardless of the mix"),
            says(
                Kentino,
                "summary table, row 4",
                "mixed: Kubernetes, Kueue, Volcano, Kubeflow; no word of staff",
            ),
            says(Kentino, "where Slurm hits its ceiling", "two separate small clusters are often simpler"),
            says(
                Hyperstack,
                "how to map your workload, rows 3 and 4",
                "mixed work with a platform or infrastructure team: Kubernetes",
            ),
        ],
        "Slurm with a partition for services: a plane that nobody runs is worse than one that fits less; what works already stays",
    ),
    dispute(
        "where-the-tree-ends",
        Itself,
        All(&[MIXED, STAFFED, Any(&[Is(Fact::StrictQuotas), PYTHON, Is(Fact::IsolatedSlices)])]),
        "does a yes at step 2 answer the later questions too?",
        &[
            says(Kentino, "decision tree, introduction", "the first yes ends the conversation"),
            says(
                Kentino,
                "decision tree, steps 3 to 6",
                "questions that only make sense after a yes at step 2",
            ),
            says(Kentino, "decision tree, last line", "most conversations end at step 1, 2 or 3"),
        ],
        "walks on: step 1 ends it, step 2 chooses the base, step 3 can take that back, steps 4 to 6 add to it",
    ),
    dispute(
        "mixed-fleet",
        Pages,
        All(&[MIXED, STAFFED]),
        "what takes most of the GPU-hours, and do nodes have to move between the two?",
        &[
            says(Kentino, "summary table, row 4", "Kubernetes, Kueue, Volcano, Kubeflow"),
            says(
                Hyperstack,
                "how to map your workload, row 3",
                "a platform team and several tenants: Kubernetes",
            ),
            says(
                Guide,
                "constraint table, row 6",
                "hybrid: partition the nodes, Slurm and Kubernetes side by side",
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
        "Kubernetes with a queue and a gang scheduler; a partition where coupled training on bare metal is the main work or Slurm is \
         at home; Slurm inside Kubernetes where that works already",
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
            says(Kentino, "summary table, row 4", "mixed: Kubernetes, Kueue, Volcano, Kubeflow"),
        ],
        "Kubernetes while coupled training is not the main work (needs.mainly-coupled) and Slurm is nobody's home; the labeller asks \
         about one workload, this answer about all of them",
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
            says(Guide, "labeller, rule 4", "containerised batch: Kubernetes"),
            says(Kentino, "decision tree, step 2", "no services: Slurm is the base"),
            says(Kentino, "summary table, row 2", "batch training in a research lab: Slurm"),
            says(
                Hyperstack,
                "scheduling model",
                "batch with very different needs of resources: Kubernetes gives finer control",
            ),
        ],
        "Slurm: for work that only starts and ends it is a fifth to a tenth of the load to operate",
    ),
    dispute(
        "teams-on-slurm",
        Pages,
        All(&[SLURM, Reaches(Threshold::SeveralTeams), Not(Fact::Services)]),
        "are the tenants colleagues who share, or customers who must not see each other?",
        &[
            says(Guide, "constraint table, row 2", "a platform of several tenants: Kubernetes"),
            says(
                Comparison,
                "why it's needed",
                "namespaces, RBAC, quota and GitOps help platforms that mix teams, services and batch",
            ),
            says(
                Guide,
                "how to scale it",
                "on Slurm tenancy is the accounting database with fair share and QOS",
            ),
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "fine for labs, not for a hosted service of many customers",
            ),
        ],
        "Slurm for colleagues with work that ends; Kubernetes as soon as tenants must be kept apart",
    ),
    dispute(
        "declared-or-staffed",
        Pages,
        All(&[
            SLURM,
            Any(&[Is(Fact::Gitops), Is(Fact::Autoscaling), Is(Fact::MultiCluster)]),
            Never(&STAFFED),
        ]),
        "is declared state worth a quarter of a person?",
        &[
            says(Guide, "constraint table, row 2", "GitOps: Kubernetes"),
            says(
                Kentino,
                "Kubernetes is the right choice when",
                "declarative everything, several clusters, and a platform team",
            ),
            says(Kentino, "decision tree, step 3", "no platform team: Slurm regardless"),
        ],
        "Slurm until somebody can run Kubernetes; its configuration can live in a repository too",
    ),
    dispute(
        "many-clusters",
        Pages,
        Is(Fact::MultiCluster),
        "the same queue over several clusters, or the same manifests in any of them?",
        &[
            says(Kentino, "Kubernetes is the right choice when", "multi-cluster portability"),
            says(Kentino, "Kueue and quota borrowing", "MultiKueue dispatches to several clusters"),
            says(
                Upstream,
                "slurm.schedmd.com, federation",
                "Slurm clusters federate: one job, the cluster that can start it first",
            ),
        ],
        "Kubernetes for portability; Slurm's federation where all clusters are Slurm and work",
    ),
    dispute(
        "ten-or-more-than-ten",
        Itself,
        All(&[
            Reaches(Threshold::CommercialTeams),
            Below(Threshold::CommercialTeamsTree),
            Any(&[Is(Fact::ToolingBudget), Is(Fact::StrictQuotas)]),
        ]),
        "are ten teams the limit, or the last below it?",
        &[
            says(Kentino, "summary table, row 6; Run:ai and Determined", "10 teams or more"),
            says(Kentino, "decision tree, step 4", "more than 10 teams"),
        ],
        "counts from 10: two statements of three do, and nothing happens at the eleventh team",
    ),
    dispute(
        "budget-or-quotas",
        Itself,
        All(&[
            Reaches(Threshold::CommercialTeams),
            Any(&[
                All(&[Is(Fact::ToolingBudget), Not(Fact::StrictQuotas)]),
                All(&[Is(Fact::StrictQuotas), Not(Fact::ToolingBudget)]),
            ]),
        ]),
        "must shares be enforced, and is there money to have that done?",
        &[
            says(Kentino, "summary table, row 6", "many teams and a budget for tools: Run:ai on Kubernetes"),
            says(Kentino, "decision tree, step 4", "many teams and strict quotas: evaluate Run:ai"),
            says(
                Kentino,
                "Run:ai and Determined",
                "below that Kueue with the GPU Operator covers most of it for free",
            ),
        ],
        "Run:ai only where both hold: without enforced shares there is nothing to buy, without a budget nothing to buy it with",
    ),
    dispute(
        "bought-or-batch",
        Itself,
        All(&[COMMERCIAL, FINITE, Not(Fact::Services)]),
        "do the teams compete with more than caps and past use can settle?",
        &[
            says(Kentino, "decision tree, step 2", "no services: Slurm is the base"),
            says(Kentino, "summary table, row 6", "many teams with a budget: Run:ai on Kubernetes"),
            says(
                Comparison,
                "comparison table: quota and fairness",
                "Slurm: multifactor priority, fair share, QOS limits",
            ),
        ],
        "Run:ai on Kubernetes when somebody runs it and coupled training is not the main work: guaranteed quotas that lend are what \
         Slurm lacks",
    ),
    dispute(
        "cohorts-or-product",
        Itself,
        RUNAI,
        "which of the missing fifth do you need?",
        &[
            says(Kentino, "decision tree, step 4", "yes: evaluate Run:ai"),
            says(Kentino, "decision tree, step 4", "no: Kueue with cohorts, 80 % of the way"),
            says(
                Kentino,
                "Run:ai and Determined",
                "Kubernetes, Volcano, Kueue and the operator are much to write; some would rather buy",
            ),
        ],
        "recommends the evaluation; its open core (KAI) gives queues and gangs without fractions that are enforced",
    ),
    dispute(
        "familiarity",
        Pages,
        Any(&[
            All(&[ON_KUBERNETES, Is(Fact::HpcFluent), Not(Fact::KubernetesFluent)]),
            All(&[SLURM, Is(Fact::KubernetesFluent), Not(Fact::HpcFluent)]),
        ]),
        "will the same people still run it in three years?",
        &[
            says(
                Comparison,
                "why it's needed: operational model",
                "fluency in one makes the other cost a real tax",
            ),
            says(
                Hyperstack,
                "how to map your workload, rows 2 and 4",
                "HPC tooling known: Slurm; Kubernetes tooling in use: Kubernetes",
            ),
            says(Hyperstack, "conclusion", "choose by the main work, not by what is familiar"),
        ],
        "chooses by the work, counts familiarity only where coupled training and services are both there, and warns of the tax",
    ),
    dispute(
        "regulated-on-slurm",
        Pages,
        Is(Fact::Regulated),
        "must tenants of one cluster be isolated from each other, or the cluster from the world?",
        &[
            says(
                Hyperstack,
                "how to map your workload, row 5",
                "either, in a single-tenant secure environment",
            ),
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "no namespaces, no network policy per job, no tenancy of the container kind",
            ),
        ],
        "either on machines of one tenant; Kubernetes as soon as the tenants are inside the cluster",
    ),
];

//! Disagreements about teams that share the fleet: their budgets, quotas and habits. Data only.

use muster_model::advice::CitedPage::{Comparison, Guide, Hyperstack, Kentino, Upstream};
use muster_model::advice::DisputeKind::{Itself, Pages};
use muster_model::advice::{Fact, Threshold};

use super::{dispute, says};
use crate::condition::Condition::{All, Any, Below, Is, Never, Not, Reaches};
use crate::rule::Disagreement;
use crate::site::terms::{
    COMMERCIAL, COUPLED, DECLARED, FINITE, ON_KUBERNETES, RUNAI, RUNAI_WORKS, SLURM, STAFFED,
};

/// Disagreements in the order of the rules that they concern.
pub(super) const TEAMS: &[Disagreement] = &[
    dispute(
        "teams-on-slurm",
        Pages,
        All(&[SLURM, Reaches(Threshold::SeveralTeams), Not(Fact::Services)]),
        "are the tenants colleagues who share, or customers who must not see each other?",
        &[
            says(Guide, "constraint table, row 2", "a platform of several tenants: Kubernetes"),
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "Slurm is fine for labs, not for a hosted service of many customers",
            ),
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
        ],
        "Slurm for colleagues with work that ends, and Kubernetes as soon as tenants must be kept apart, because \
         Slurm does not isolate them",
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
            says(Kentino, "decision tree, step 3", "no platform team: Slurm regardless"),
            says(
                Kentino,
                "Kubernetes is the right choice when",
                "declarative everything, several clusters, and a platform team",
            ),
        ],
        "Slurm until there is staff to run Kubernetes, because its configuration can live in a repository too",
    ),
    dispute(
        "declared-or-coupled",
        Itself,
        All(&[SLURM, DECLARED, STAFFED, COUPLED]),
        "what must be declared: the cluster and its configuration, or every job?",
        &[
            says(
                Guide,
                "labeller, rule 1; decision flow",
                "coupled on bare metal is asked first: Slurm, whatever else is wanted",
            ),
            says(
                Guide,
                "constraint table, row 2",
                "GitOps: Kubernetes, with a gang scheduler for batch",
            ),
            says(
                Guide,
                "failure modes, 4",
                "services, tenancy or GitOps are what justifies leaving a Slurm that works",
            ),
            says(
                Comparison,
                "comparison table: GitOps",
                "not native on Slurm; Argo CD or Flux on Kubernetes",
            ),
        ],
        "Slurm while coupled training is the main work or Slurm is established, because a repository can declare \
         its cluster, though not the jobs",
    ),
    dispute(
        "many-clusters",
        Pages,
        Is(Fact::MultiCluster),
        "the same queue over several clusters, or the same manifests in any of them?",
        &[
            says(
                Kentino,
                "Kubernetes is the right choice when",
                "multi-cluster portability is Kubernetes",
            ),
            says(
                Upstream,
                "slurm.schedmd.com, federation",
                "Slurm clusters federate: a job runs on the cluster that can start it first",
            ),
            says(Kentino, "Kueue and quota borrowing", "MultiKueue dispatches to several clusters"),
        ],
        "Kubernetes for portability, and Slurm's federation where all clusters are Slurm and work, because what \
         works is kept",
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
        "10 teams as enough, because two of three statements say so, and the eleventh team changes nothing",
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
            says(
                Kentino,
                "summary table, row 6",
                "many teams and a budget for tools: Run:ai on Kubernetes",
            ),
            says(Kentino, "decision tree, step 4", "many teams and strict quotas: evaluate Run:ai"),
            says(
                Kentino,
                "Run:ai and Determined",
                "below that Kueue with the GPU Operator covers most of it for free",
            ),
        ],
        "Run:ai only with both, because strict quotas are what it enforces, and it costs a budget",
    ),
    dispute(
        "bought-or-batch",
        Itself,
        All(&[COMMERCIAL, FINITE, Not(Fact::Services)]),
        "do the teams need more than caps and fair share by past use?",
        &[
            says(Kentino, "decision tree, step 2", "no services: Slurm is the base"),
            says(Kentino, "summary table, row 6", "many teams with a budget: Run:ai on Kubernetes"),
            says(
                Comparison,
                "comparison table: quota and fairness",
                "Slurm: multifactor priority, fair share, QOS limits",
            ),
        ],
        "Run:ai on Kubernetes if there is staff to run it and coupled training is not the main work, because \
         guaranteed quotas that lend are what Slurm lacks",
    ),
    dispute(
        "cohorts-or-product",
        Itself,
        All(&[RUNAI, Never(&RUNAI_WORKS)]),
        "which of the 20 % that Kueue lacks do you need?",
        &[
            says(
                Kentino,
                "decision tree, step 4",
                "with many teams and strict quotas evaluate Run:ai",
            ),
            says(
                Kentino,
                "decision tree, step 4",
                "without them Kueue with cohorts is 80 % of the way",
            ),
            says(
                Kentino,
                "Run:ai and Determined",
                "Kubernetes, Volcano, Kueue and the operator take much configuration; some would rather buy",
            ),
        ],
        "an evaluation, because its open core (KAI) gives queues and gangs, but no fractions that are enforced",
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
        "the main work decides, because both can be learned; familiarity counts only where coupled training and \
         services are both there",
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
                "either fits, in a single-tenant secure environment",
            ),
            says(
                Kentino,
                "where Slurm hits its ceiling",
                "Slurm has no namespaces, no network policy per job, no tenancy of the container kind",
            ),
        ],
        "either on machines of one tenant, and Kubernetes as soon as the tenants are inside the cluster, because \
         namespaces and policies keep them apart",
    ),
];

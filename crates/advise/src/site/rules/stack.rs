//! Add-ons of the base control plane, and the split of the fleet. Data only. The words are labels:
//! programs compare them, and none contains the separator of labels.

use muster_model::advice::{Citation, CitedPage, ControlPlane, Fact, Threshold};

use crate::condition::Condition::{All, Any, Chosen, Is, Never, Reaches};
use crate::rule::{Rule, RuleChange};
use crate::site::terms::{
    BOTH_OPERATED, COUPLED, FEDERATED, GANGS, KAI_WORKS, KUBEFLOW, KUBERNETES, MULTIKUEUE, NOTHING,
    ON_KUBERNETES, PROVIDED, PYTHON, QUEUED, RUNAI, SLURM, STAFFED, SUBSTRATE,
};

/// Rules that require, add and split, in the order of the parts of labels.
pub(super) const STACK: &[Rule] = &[
    Rule {
        id: "runai-gang",
        source: Citation::new(
            CitedPage::Guide,
            "the load-bearing invariant; Run:ai places gangs with the scheduler that KAI came from",
        ),
        when: All(&[RUNAI, GANGS]),
        effect: RuleChange::Require("Run:ai gang scheduling (REQUIRED)"),
        sentence: "the default scheduler binds pod by pod, so all coupled runs use the gang scheduler of the product",
    },
    Rule {
        id: "kai-gang-required",
        source: Citation::new(
            CitedPage::Guide,
            "the load-bearing invariant; KAI is one of its three schedulers",
        ),
        when: All(&[ON_KUBERNETES, GANGS, KAI_WORKS, Never(&RUNAI)]),
        effect: RuleChange::Require("KAI gang scheduler (REQUIRED)"),
        sentence: "the default scheduler binds pod by pod: KAI works here, and all coupled runs use it",
    },
    Rule {
        id: "site-gang-required",
        source: Citation::new(CitedPage::Guide, "the load-bearing invariant; kentino: Volcano"),
        when: All(&[ON_KUBERNETES, GANGS, Never(&RUNAI), Never(&KAI_WORKS)]),
        effect: RuleChange::Require("Volcano gang scheduler (REQUIRED)"),
        sentence: "without a gang scheduler coupled runs are placed partly, hold GPUs and wait forever",
    },
    Rule {
        id: "runai",
        source: Citation::new(CitedPage::Kentino, "Run:ai and Determined; decision tree, step 4"),
        when: RUNAI,
        effect: RuleChange::Add("Run:ai"),
        sentence: "one product has departments, projects, quotas and fractions, instead of Kueue with parts of your own",
    },
    Rule {
        id: "kueue",
        source: Citation::new(
            CitedPage::Kentino,
            "decision tree, step 2; Kueue and quota borrowing",
        ),
        when: QUEUED,
        effect: RuleChange::Add("Kueue"),
        sentence: "work that ends needs a queue with quotas, which Kubernetes does not have",
    },
    Rule {
        id: "multikueue",
        source: Citation::new(CitedPage::Kentino, "Kueue and quota borrowing: MultiKueue"),
        when: MULTIKUEUE,
        effect: RuleChange::Add("MultiKueue"),
        sentence: "the same jobs run in several clusters: one queue dispatches to all",
    },
    Rule {
        id: "kubeflow",
        source: Citation::new(CitedPage::Kentino, "summary table, row 4"),
        when: KUBEFLOW,
        effect: RuleChange::Add("Kubeflow"),
        sentence: "training runs beside services and tools: Kubeflow turns a training script into pods that find each other",
    },
    Rule {
        id: "serving-layer",
        source: Citation::new(CitedPage::Guide, "constraint table, row 5"),
        when: All(&[ON_KUBERNETES, Is(Fact::Services), Is(Fact::Autoscaling)]),
        effect: RuleChange::Add("KServe or Ray Serve"),
        sentence: "endpoints that follow their load need a serving layer that scales them on requests in flight; for language models \
                   Dynamo is a third",
    },
    Rule {
        id: "kuberay",
        source: Citation::new(CitedPage::Kentino, "decision tree, step 5; guide: how to integrate"),
        when: All(&[ON_KUBERNETES, PYTHON]),
        effect: RuleChange::Add("KubeRay"),
        sentence: "reinforcement learning, search or distributed Python: Ray runs on the platform, under its quota",
    },
    Rule {
        id: "ray-on-slurm",
        source: Citation::new(CitedPage::Kentino, "decision tree, step 5; overview: Ray-on-Slurm"),
        when: All(&[SLURM, PYTHON]),
        effect: RuleChange::Add("Ray inside a Slurm allocation"),
        sentence: "reinforcement learning, search or distributed Python: Ray starts inside an allocation and ends with it",
    },
    Rule {
        id: "ray-by-hand",
        source: Citation::new(CitedPage::Kentino, "decision tree, steps 1 and 5"),
        when: All(&[NOTHING, PYTHON]),
        effect: RuleChange::Add("Ray, started by hand for the run"),
        sentence: "Ray is a library here, not a control plane: started by hand on the agreed GPUs",
    },
    Rule {
        id: "autoscaled-nodes",
        source: Citation::new(CitedPage::Comparison, "comparison table: node elasticity"),
        when: All(&[KUBERNETES, Is(Fact::FleetElastic)]),
        effect: RuleChange::Add("Karpenter or Cluster Autoscaler"),
        sentence: "pending pods request nodes, which are returned when idle",
    },
    Rule {
        id: "rail-aware",
        source: Citation::new(CitedPage::Guide, "labeller, rule 1"),
        when: All(&[SLURM, COUPLED]),
        effect: RuleChange::Add("topology.conf for rail-aware placement"),
        sentence: "coupled runs slow down with every switch between them: Slurm packs them only if the switches are configured",
    },
    Rule {
        id: "slurm-accounting",
        source: Citation::new(CitedPage::Comparison, "how it's set up: multi-tenancy"),
        when: All(&[SLURM, Any(&[Reaches(Threshold::SeveralTeams), Is(Fact::StrictQuotas)])]),
        effect: RuleChange::Add("slurmdbd for fair share and limits"),
        sentence: "teams share by recorded usage, and usage is recorded in the accounting database",
    },
    Rule {
        id: "run-by-a-provider",
        source: Citation::new(
            CitedPage::Hyperstack,
            "how to map your workload, row 1; what Hyperstack manages",
        ),
        when: All(&[Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes]), PROVIDED]),
        effect: RuleChange::Add("run by a provider"),
        sentence: "no team operates it, and a provider is allowed: the provider manages hardware, drivers, fabric and \
                   cluster; jobs and their failures stay yours",
    },
    Rule {
        id: "split-slurm-on-kubernetes",
        source: Citation::new(CitedPage::Comparison, "hybrid: real Slurm on Kubernetes"),
        when: All(&[SLURM, SUBSTRATE]),
        effect: RuleChange::Split(
            "Slurm on Kubernetes: Slinky or Soperator, one substrate for both",
        ),
        sentence: "Slurm runs as pods on nodes that Kubernetes lends it: batch keeps its scheduler, services keep theirs",
    },
    Rule {
        id: "split-federated",
        source: Citation::new(CitedPage::Kentino, "summary table, row 8"),
        when: All(&[SLURM, FEDERATED, STAFFED, Never(&SUBSTRATE)]),
        effect: RuleChange::Split("federated: Slurm for batch, Kubernetes for services"),
        sentence: "batch and services each get a cluster, and teams get a share in both",
    },
    Rule {
        id: "split-partition",
        source: Citation::new(CitedPage::Guide, "constraint table, row 6; how to scale it"),
        when: All(&[
            SLURM,
            Any(&[All(&[Is(Fact::Services), STAFFED]), BOTH_OPERATED]),
            Never(&SUBSTRATE),
        ]),
        effect: RuleChange::Split("partition nodes: Slurm pool + K8s pool, clear boundary"),
        sentence: "two control planes share one fleet: every node belongs to exactly one of them",
    },
    Rule {
        id: "split-services-partition",
        source: Citation::new(CitedPage::Hyperstack, "SLURM failure modes: serving"),
        when: All(&[SLURM, Is(Fact::Services)]),
        effect: RuleChange::Split("a Slurm partition of its own for services"),
        sentence: "services that must run on Slurm get nodes of their own, so that batch does not queue behind jobs that never end",
    },
];

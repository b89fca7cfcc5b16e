//! Every table, tree, list and profile of the pages that is about a site, one row per row, with its
//! source.

use muster_model::advice::ControlPlane::{self, K3s, Kubernetes, Ray, Slurm};
use muster_model::advice::Fact::{self, *};

use crate::rows::{Deviation, SiteRow, ask, label, said};

const CONVENTIONS: &str = "ssh, tmux, nvidia-smi and a page of conventions";
const PARTITION: &str = "partition nodes: Slurm pool + K8s pool, clear boundary";
const FEDERATED: &str = "federated: Slurm for batch, Kubernetes for services";
const SLINKY: &str = "Slurm on Kubernetes: Slinky or Soperator, one substrate for both";
const SERVICES_PARTITION: &str = "a Slurm partition of its own for services";

const fn row(
    source: &'static str,
    flags: &'static [Fact],
    numbers: &'static [(Fact, u32)],
    label: (ControlPlane, &'static str, &'static str),
) -> SiteRow {
    SiteRow { source, flags, numbers, label, deviation: None }
}

/// Returns a row with a dispute: the page's answer, and another of its statements in the dispute;
/// or Muster's answer, and the page's in the dispute.
const fn disputed(row: SiteRow, dispute: &'static str, position: &'static str) -> SiteRow {
    SiteRow { deviation: Some(Deviation { dispute, position }), ..row }
}

/// A lab that is too large to talk.
const LAB: &[(Fact, u32)] = &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20)];
/// The same, with staff to run Kubernetes.
const STAFFED: &[(Fact, u32)] = &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (PlatformFte, 50)];

/// Kentino: "When each tool fits".
pub const SUMMARY: &[SiteRow] = &[
    row(
        "row 1, least",
        &[Talk, Training],
        &[(FleetNodes, 1), (FleetGpus, 4), (Users, 2)],
        (ControlPlane::None, CONVENTIONS, ""),
    ),
    disputed(
        row(
            "row 1, most",
            &[Talk, Training],
            &[(FleetNodes, 2), (FleetGpus, 16), (Users, 6)],
            (ControlPlane::None, CONVENTIONS, ""),
        ),
        "no-scheduler-boundary",
        "fewer than 16 GPUs",
    ),
    row(
        "row 2, 4 nodes",
        &[Training, Batch],
        &[(FleetNodes, 4), (FleetGpus, 32), (Users, 12)],
        (Slurm, "", ""),
    ),
    row(
        "row 2, 32 nodes",
        &[Training, Batch],
        &[(FleetNodes, 32), (FleetGpus, 256), (Users, 40)],
        (Slurm, "", ""),
    ),
    disputed(
        row(
            "row 2, as small as the small team",
            &[Training, Batch, Talk],
            &[(FleetNodes, 4), (FleetGpus, 32), (Users, 6)],
            (ControlPlane::None, CONVENTIONS, ""),
        ),
        "no-scheduler-boundary",
        "from 4 nodes with batch training: Slurm",
    ),
    row("row 3", &[Services], STAFFED, (Kubernetes, "GPU Operator", "")),
    disputed(
        row("row 3, no staff to run it", &[Services], LAB, (K3s, "GPU Operator", "")),
        "small-platform-k3s",
        "serving customer traffic: Kubernetes with the GPU Operator",
    ),
    row(
        "row 4, runs span nodes",
        &[Services, Training, CoupledTraining, Notebooks],
        STAFFED,
        (Kubernetes, "Volcano gang scheduler (REQUIRED) + GPU Operator + Kueue + Kubeflow", ""),
    ),
    disputed(
        row(
            "row 4, no run spans nodes",
            &[Services, Training, Notebooks],
            STAFFED,
            (Kubernetes, "GPU Operator + Kueue + Kubeflow", ""),
        ),
        "volcano-without-gangs",
        "mixed: Kubernetes, Kueue, Volcano, Kubeflow",
    ),
    disputed(
        row(
            "row 4, no staff to run it",
            &[Services, Training],
            LAB,
            (Slurm, "", SERVICES_PARTITION),
        ),
        "mix-or-staff",
        "mixed: Kubernetes, Kueue, Volcano, Kubeflow",
    ),
    row("row 5, on Slurm", &[Rl, Sweeps], LAB, (Slurm, "Ray inside a Slurm allocation", "")),
    row(
        "row 5, on Kubernetes",
        &[Rl, Sweeps, OperatesKubernetes, Works],
        LAB,
        (Kubernetes, "Volcano gang scheduler (REQUIRED) + GPU Operator + Kueue + KubeRay", ""),
    ),
    disputed(
        row(
            "row 6, exactly 10 teams",
            &[Training, ToolingBudget, StrictQuotas],
            &[(FleetNodes, 16), (FleetGpus, 128), (Users, 60), (Teams, 10), (PlatformFte, 100)],
            (Kubernetes, "GPU Operator + Run:ai", ""),
        ),
        "ten-or-more-than-ten",
        "10 teams or more",
    ),
    disputed(
        row(
            "row 6, as it stands: a budget, no word of quotas",
            &[Training, ToolingBudget],
            &[(FleetNodes, 16), (FleetGpus, 128), (Users, 60), (Teams, 12), (PlatformFte, 100)],
            (Slurm, "slurmdbd for fair share and limits", ""),
        ),
        "budget-or-quotas",
        "many teams and a budget for tools: Run:ai on Kubernetes",
    ),
    disputed(
        row(
            "row 7",
            &[Training, Sweeps, Tracking],
            LAB,
            (Slurm, "Ray inside a Slurm allocation", ""),
        ),
        "determined-ended",
        "managed experiments with tracking: Determined.AI",
    ),
    row(
        "row 8",
        &[Training, Batch, Services],
        &[(FleetNodes, 25), (FleetGpus, 200), (Users, 60), (Teams, 4), (PlatformFte, 100)],
        (Slurm, "slurmdbd for fair share and limits", FEDERATED),
    ),
    disputed(
        row(
            "row 8 against row 6",
            &[Training, Batch, Services, ToolingBudget, StrictQuotas],
            &[(FleetNodes, 25), (FleetGpus, 200), (Users, 60), (Teams, 12), (PlatformFte, 100)],
            (Kubernetes, "GPU Operator + Run:ai", ""),
        ),
        "one-large-fleet",
        "federated, Slurm for batch, Kubernetes for services",
    ),
];

/// Kentino: "the decision tree", each answer of each step.
pub const TREE: &[SiteRow] = &[
    row(
        "step 1 yes",
        &[Talk, Training],
        &[(FleetNodes, 3), (FleetGpus, 15), (Users, 6)],
        (ControlPlane::None, CONVENTIONS, ""),
    ),
    disputed(
        row(
            "step 1 yes, 7 users",
            &[Talk, Training],
            &[(FleetNodes, 2), (FleetGpus, 15), (Users, 7)],
            (ControlPlane::None, CONVENTIONS, ""),
        ),
        "how-many-users",
        "2 to 6 users",
    ),
    row(
        "step 1 no, 8 users",
        &[Talk, Training],
        &[(FleetNodes, 2), (FleetGpus, 15), (Users, 8)],
        (Slurm, "", ""),
    ),
    row(
        "step 1 no, 16 GPUs and 7 users",
        &[Talk, Training],
        &[(FleetNodes, 2), (FleetGpus, 16), (Users, 7)],
        (Slurm, "", ""),
    ),
    row(
        "step 1 no, they do not talk",
        &[Training],
        &[(FleetNodes, 2), (FleetGpus, 8), (Users, 4)],
        (Slurm, "", ""),
    ),
    row(
        "step 1, coordination broke",
        &[Talk, Training, CoordinationFailing],
        &[(FleetNodes, 2), (FleetGpus, 8), (Users, 4)],
        (Slurm, "", ""),
    ),
    disputed(
        row(
            "step 1 yes, 33 GPUs less one",
            &[Talk, Training],
            &[(FleetNodes, 4), (FleetGpus, 32), (Users, 5)],
            (ControlPlane::None, CONVENTIONS, ""),
        ),
        "no-scheduler-boundary",
        "fewer than 16 GPUs",
    ),
    disputed(
        row(
            "the same, coordination failing",
            &[Talk, Training, CoordinationFailing],
            &[(FleetNodes, 4), (FleetGpus, 32), (Users, 5)],
            (Slurm, "", ""),
        ),
        "no-scheduler-boundary",
        "4 to 32 GPUs on 1 to 4 nodes",
    ),
    row(
        "step 1 no, 33 GPUs",
        &[Talk, Training],
        &[(FleetNodes, 4), (FleetGpus, 33), (Users, 5)],
        (Slurm, "", ""),
    ),
    row(
        "step 1 no, 5 nodes",
        &[Talk, Training],
        &[(FleetNodes, 5), (FleetGpus, 32), (Users, 5)],
        (Slurm, "", ""),
    ),
    row(
        "step 2 yes",
        &[Services, Training],
        STAFFED,
        (Kubernetes, "GPU Operator + Kueue + Kubeflow", ""),
    ),
    row(
        "step 2 yes, distributed",
        &[Services, Training, CoupledTraining],
        STAFFED,
        (Kubernetes, "Volcano gang scheduler (REQUIRED) + GPU Operator + Kueue + Kubeflow", ""),
    ),
    row("step 2 no", &[Training], STAFFED, (Slurm, "", "")),
    disputed(
        row("step 2 no, taken literally", &[Services], STAFFED, (Kubernetes, "GPU Operator", "")),
        "serving-without-training",
        "anything else, taken literally, is Slurm",
    ),
    row(
        "step 3 yes, at 0.25",
        &[Services, Training],
        &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (PlatformFte, 25)],
        (Kubernetes, "GPU Operator + Kueue + Kubeflow", ""),
    ),
    disputed(
        row(
            "step 3 no, at 0.24",
            &[Services, Training],
            &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (PlatformFte, 24)],
            (Slurm, "", SERVICES_PARTITION),
        ),
        "mix-or-staff",
        "Kubernetes is the base, and the first yes of the tree decides",
    ),
    row(
        "step 4 yes",
        &[Services, Training, StrictQuotas, ToolingBudget],
        &[(FleetNodes, 16), (FleetGpus, 128), (Users, 60), (Teams, 11), (PlatformFte, 100)],
        (Kubernetes, "GPU Operator + Run:ai", ""),
    ),
    row(
        "step 4 yes, runs span nodes",
        &[Services, Training, CoupledTraining, StrictQuotas, ToolingBudget],
        &[(FleetNodes, 16), (FleetGpus, 128), (Users, 60), (Teams, 11), (PlatformFte, 100)],
        (Kubernetes, "Run:ai gang scheduling (REQUIRED) + GPU Operator + Run:ai", ""),
    ),
    disputed(
        row(
            "step 4 yes, as it stands: quotas, no word of a budget",
            &[Services, Training, StrictQuotas],
            &[(FleetNodes, 16), (FleetGpus, 128), (Users, 60), (Teams, 11), (PlatformFte, 100)],
            (Kubernetes, "GPU Operator + Kueue + Kubeflow", ""),
        ),
        "budget-or-quotas",
        "many teams and strict quotas: evaluate Run:ai",
    ),
    row(
        "step 4 no",
        &[Services, Training, StrictQuotas, ToolingBudget],
        &[(FleetNodes, 16), (FleetGpus, 128), (Users, 60), (Teams, 9), (PlatformFte, 100)],
        (Kubernetes, "GPU Operator + Kueue + Kubeflow", ""),
    ),
    row(
        "step 5 yes, on Kubernetes",
        &[Services, DistributedPython],
        STAFFED,
        (Kubernetes, "GPU Operator + Kueue + KubeRay", ""),
    ),
    row(
        "step 5 yes, on Slurm",
        &[DistributedPython],
        LAB,
        (Slurm, "Ray inside a Slurm allocation", ""),
    ),
    row("step 5 no", &[Batch], LAB, (Slurm, "", "")),
    row("step 6 no", &[Services, IsolatedSlices], STAFFED, (Kubernetes, "GPU Operator", "")),
    row(
        "step 6 yes",
        &[Services, IsolatedSlices, FleetMig],
        STAFFED,
        (Kubernetes, "GPU Operator", ""),
    ),
];

/// Kentino: "is right when", for each tool, and the three places where Slurm hits its ceiling.
pub const RIGHT_WHEN: &[SiteRow] = &[
    row(
        "Slurm: training",
        &[Training, HpcFluent],
        &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (PlatformFte, 20)],
        (Slurm, "", ""),
    ),
    row(
        "Slurm: batch inference",
        &[Batch, HpcFluent],
        &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (PlatformFte, 20)],
        (Slurm, "", ""),
    ),
    row(
        "Slurm: simulation",
        &[Mpi, HpcFluent],
        &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (PlatformFte, 20)],
        (Slurm, "topology.conf for rail-aware placement", ""),
    ),
    row(
        "Kubernetes: inference alongside training",
        &[Services, Training],
        STAFFED,
        (Kubernetes, "GPU Operator + Kueue + Kubeflow", ""),
    ),
    row(
        "Kubernetes: declarative everything",
        &[Batch, Gitops],
        STAFFED,
        (Kubernetes, "GPU Operator + Kueue", ""),
    ),
    row(
        "Kubernetes: multi-cluster portability",
        &[Batch, MultiCluster],
        STAFFED,
        (Kubernetes, "GPU Operator + Kueue + MultiKueue", ""),
    ),
    disputed(
        row(
            "Kubernetes: declarative, without a platform team",
            &[Batch, Gitops],
            LAB,
            (Slurm, "", ""),
        ),
        "declared-or-staffed",
        "declarative everything, several clusters, and a platform team",
    ),
    disputed(
        row(
            "Ray standalone",
            &[Rl, Sweeps],
            &[(FleetNodes, 4), (FleetGpus, 32), (Users, 1)],
            (Ray, "standalone, started by its owner", ""),
        ),
        "ray-owns-the-nodes",
        "do not install Ray as the top-level scheduler",
    ),
    disputed(
        row(
            "Ray standalone, one node",
            &[Rl],
            &[(FleetNodes, 1), (FleetGpus, 8), (Users, 1)],
            (
                ControlPlane::None,
                "ssh, tmux, nvidia-smi and a page of conventions + Ray, started by hand for the run",
                "",
            ),
        ),
        "ray-owns-the-nodes",
        "one person owns the cluster",
    ),
    row(
        "Ray standalone, a second person",
        &[Rl, Sweeps],
        &[(FleetNodes, 5), (FleetGpus, 40), (Users, 2)],
        (Slurm, "Ray inside a Slurm allocation", ""),
    ),
    row("no Volcano: pure inference", &[Services], STAFFED, (Kubernetes, "GPU Operator", "")),
    row(
        "ceiling: services beside a working Slurm",
        &[OperatesSlurm, Works, Training, Services],
        STAFFED,
        (Slurm, "", PARTITION),
    ),
    row(
        "ceiling: customers who must be kept apart",
        &[HostileTenants, Training],
        STAFFED,
        (Kubernetes, "GPU Operator + Kueue", ""),
    ),
];

/// Hyperstack: "how to map your workload", and the paragraph below it.
pub const PROFILES: &[SiteRow] = &[
    row(
        "row 1: large distributed training, small team, managed preferred",
        &[Training, CoupledTraining, MainlyCoupled, Managed],
        &[(FleetNodes, 32), (FleetGpus, 256), (Users, 20)],
        (Slurm, "topology.conf for rail-aware placement + run by a provider", ""),
    ),
    row("row 2: HPC batch, at home in job scripts", &[Batch, HpcFluent], LAB, (Slurm, "", "")),
    row(
        "row 3: training, serving and processing, platform team, several tenants",
        &[Training, Services, Batch],
        &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (Teams, 3), (PlatformFte, 100)],
        (Kubernetes, "GPU Operator + Kueue + Kubeflow", ""),
    ),
    row(
        "row 4: autoscaled endpoints, periodic fine-tuning, Kubernetes in use",
        &[Training, Services, Autoscaling, OperatesKubernetes, Works, KubernetesFluent],
        LAB,
        (Kubernetes, "GPU Operator + Kueue + Kubeflow + KServe or Ray Serve", ""),
    ),
    row(
        "row 5: regulated, single tenant, batch",
        &[Regulated, FleetSingleTenant, Batch],
        LAB,
        (Slurm, "", ""),
    ),
    row(
        "row 5: regulated, single tenant, services",
        &[Regulated, FleetSingleTenant, Services],
        STAFFED,
        (Kubernetes, "GPU Operator", ""),
    ),
    row(
        "performance-sensitive, dedicated, fixed pool",
        &[Training, CoupledTraining, FleetRdma, FleetBareMetal, FleetSingleTenant],
        LAB,
        (Slurm, "topology.conf for rail-aware placement", ""),
    ),
    row(
        "shared infrastructure, diverse work",
        &[Training, Services, Batch, Notebooks],
        &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (Teams, 5), (PlatformFte, 50)],
        (Kubernetes, "GPU Operator + Kueue + Kubeflow", ""),
    ),
    disputed(
        row(
            "managed Kubernetes",
            &[Services, Managed],
            LAB,
            (Kubernetes, "GPU Operator + run by a provider", ""),
        ),
        "provider-or-you",
        "the orchestrator layer and the life of the cluster stand in the provider's list",
    ),
];

/// Guide: the constraint table, "when not to switch", and the hybrids of its architecture and of
/// the comparison.
pub const CONSTRAINTS: &[SiteRow] = &[
    row(
        "row 1",
        &[Training, CoupledTraining, FleetBareMetal],
        LAB,
        (Slurm, "topology.conf for rail-aware placement", ""),
    ),
    row(
        "row 2",
        &[Services, Gitops],
        &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (Teams, 5), (PlatformFte, 50)],
        (Kubernetes, "GPU Operator", ""),
    ),
    row(
        "row 2, with batch that must be placed whole",
        &[Services, Gitops, CoupledTraining],
        &[(FleetNodes, 8), (FleetGpus, 64), (Users, 20), (Teams, 5), (PlatformFte, 50)],
        (Kubernetes, "Volcano gang scheduler (REQUIRED) + GPU Operator + Kueue + Kubeflow", ""),
    ),
    disputed(
        row(
            "row 3, edge",
            &[FleetEdge],
            &[(FleetNodes, 2), (FleetGpus, 2)],
            (K3s, "GPU Operator", ""),
        ),
        "edge-or-nothing",
        "edge, small, CI or development: k3s",
    ),
    row(
        "row 3, CI or development",
        &[FleetDev, Batch],
        &[(FleetNodes, 3), (FleetGpus, 12), (Users, 20)],
        (K3s, "GPU Operator", ""),
    ),
    row(
        "row 3, small",
        &[Services],
        &[(FleetNodes, 3), (FleetGpus, 16), (Users, 20)],
        (K3s, "GPU Operator", ""),
    ),
    disputed(
        row(
            "row 4",
            &[Rl, DistributedPython, Training],
            LAB,
            (Slurm, "Ray inside a Slurm allocation", ""),
        ),
        "ray-as-primary",
        "RL and data, train, rollout pipelines: Ray",
    ),
    row(
        "row 5",
        &[Services, Autoscaling],
        &[(FleetNodes, 50), (FleetGpus, 400), (Users, 20), (PlatformFte, 200)],
        (Kubernetes, "GPU Operator + KServe or Ray Serve", ""),
    ),
    row(
        "row 6, coupled training on bare metal is the main work",
        &[Training, CoupledTraining, MainlyCoupled, Services, FleetBareMetal],
        STAFFED,
        (Slurm, "topology.conf for rail-aware placement", PARTITION),
    ),
    disputed(
        row(
            "row 6, it is not",
            &[Training, CoupledTraining, Services],
            STAFFED,
            (Kubernetes, "Volcano gang scheduler (REQUIRED) + GPU Operator + Kueue + Kubeflow", ""),
        ),
        "mixed-fleet",
        "hybrid: partition the nodes",
    ),
    row(
        "when not to switch, 1: working Slurm",
        &[Training, CoupledTraining, OperatesSlurm, Works, Modernise, KubernetesFluent],
        STAFFED,
        (Slurm, "topology.conf for rail-aware placement", ""),
    ),
    row(
        "when not to switch, 1: it gets tenants and declared state to serve",
        &[Training, OperatesSlurm, Works, Gitops],
        STAFFED,
        (Kubernetes, "GPU Operator + Kueue", ""),
    ),
    disputed(
        row(
            "when not to switch, 2: Ray for batch beside Kubernetes",
            &[Batch, OperatesKubernetes, OperatesRay, Works],
            STAFFED,
            (Kubernetes, "GPU Operator + Kueue", ""),
        ),
        "ray-or-a-batch-job",
        "one Volcano job on existing Kubernetes is simpler than Ray",
    ),
    row(
        "when not to switch, 3: k3s for a datacentre",
        &[Services, OperatesK3s, Works],
        &[(FleetNodes, 9), (FleetGpus, 72), (Users, 20), (PlatformFte, 50)],
        (Kubernetes, "GPU Operator", ""),
    ),
    row(
        "two teams, each with an orchestrator",
        &[Training, OperatesSlurm, OperatesKubernetes, Works],
        STAFFED,
        (Slurm, "", PARTITION),
    ),
    row(
        "comparison, hybrid: Slurm inside the Kubernetes that is there",
        &[Training, CoupledTraining, Services, OperatesKubernetes, Works, HpcFluent],
        STAFFED,
        (Slurm, "topology.conf for rail-aware placement", SLINKY),
    ),
];

/// Returns the rows of all tables.
pub fn all() -> impl Iterator<Item = &'static SiteRow> {
    [SUMMARY, TREE, RIGHT_WHEN, PROFILES, CONSTRAINTS].into_iter().flatten()
}

#[test]
fn every_row_of_every_table() {
    let mut wrong = Vec::new();
    for row in all() {
        let advice = ask(&row.site());
        if label(&advice) != row.label {
            wrong.push(format!("{}: {:?} instead of {:?}", row.source, label(&advice), row.label));
        }
        if let Some(deviation) = row.deviation {
            let shown =
                advice.advice.disputes.iter().find(|dispute| dispute.id == deviation.dispute);
            let holds = shown.is_some_and(|dispute| {
                dispute.positions.iter().any(|position| position.text.contains(deviation.position))
            });
            if !holds {
                wrong.push(format!(
                    "{}: {} is not shown with that position: {:?}",
                    row.source,
                    deviation.dispute,
                    said(&advice)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Statements of the pages about a row beside its recommendation.
#[test]
fn what_stands_beside_the_recommendation() {
    let check = |source: &str, expected: &[&str]| {
        let row = all().find(|row| row.source == source).unwrap();
        let advice = ask(&row.site());
        let said = said(&advice);
        for id in expected {
            assert!(said.contains(id), "{source}: {id} is not among {said:?}");
        }
    };
    check("row 1, least", &["no-scheduler", "revisit-conventions", "nothing-but-agreement"]);
    check("row 3", &["pure-inference", "no-batch-scheduler", "mix-shifts"]);
    check(
        "row 4, runs span nodes",
        &["mixed-cluster", "queue-above-gang", "twenty-components", "past-the-gang-scheduler"],
    );
    check("row 7", &["tracking-is-a-library"]);
    check("row 8", &["federated", "boundary-in-heads", "stranded-half"]);
    check("step 3 no, at 0.24", &["no-platform-team", "service-on-slurm"]);
    check("step 3 yes, at 0.25", &["build-phase"]);
    check("step 4 no", &["cohorts-borrow"]);
    check("step 6 no", &["whole-gpus", "slices-without-hardware"]);
    check("Slurm: training", &["part-time-operator", "job-scripts"]);
    check(
        "performance-sensitive, dedicated, fixed pool",
        &["known-hardware", "whole-allocation", "collectives-on-tcp"],
    );
    check("row 5: regulated, single tenant, batch", &["regulated-either", "regulated-on-slurm"]);
    check("managed Kubernetes", &["run-by-a-provider", "jobs-stay-yours"]);
    check(
        "when not to switch, 1: working Slurm",
        &["modern-is-no-need", "moved-for-fashion", "gang-means-two-things"],
    );
    check(
        "when not to switch, 2: Ray for batch beside Kubernetes",
        &["ray-beside-the-plane", "ray-for-batch"],
    );
    check("when not to switch, 3: k3s for a datacentre", &["k3s-past-its-envelope", "size-of-k3s"]);
}

/// Slices exist where hardware makes them, and nowhere else.
#[test]
fn nothing_is_promised_without_hardware() {
    let advice = ask(&all().find(|row| row.source == "step 6 yes").unwrap().site());
    assert!(!said(&advice).contains(&"whole-gpus"));
    assert!(!said(&advice).contains(&"slices-without-hardware"));
}

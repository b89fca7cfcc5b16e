//! Disagreements about the control plane of one workload. Data only.

use muster_model::advice::{CitedPage, ControlPlane, DisputeKind, Fact, Threshold};

use super::{RAY, says};
use crate::condition::Condition::{All, Any, Chosen, Is, Never, Not, Reaches};
use crate::rule::Disagreement;
use crate::workload::terms::{COUPLED, ON_K3S, ON_KUBERNETES_OR_K3S, ON_SLURM};

/// Disagreements that would change the label.
pub(super) const CHOICE: &[Disagreement] = &[
    Disagreement {
        id: "tenancy-before-python",
        kind: DisputeKind::Itself,
        when: All(&[RAY, Is(Fact::MultiTenant)]),
        question: "do your users write actors, or do they submit containers?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, rule 2",
                "a Python pipeline is ray, whatever the tenancy",
            ),
            says(CitedPage::Guide, "decision flow", "tenancy comes before Python: kubernetes"),
        ],
        muster: "ray, because the labeller is the guide's checked part; KubeRay keeps the platform's quota either way",
    },
    Disagreement {
        id: "services-before-python",
        kind: DisputeKind::Pages,
        when: All(&[RAY, Is(Fact::LongLivedServices)]),
        question: "do the services belong to the pipeline, or would they be there without it?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, rule 2",
                "a Python pipeline is ray, also beside services",
            ),
            says(
                CitedPage::Kentino,
                "decision tree, steps 2 and 5",
                "services make kubernetes the base; Ray is added to it afterwards",
            ),
            says(
                CitedPage::Guide,
                "decision flow; matrix, row 5",
                "services come first: kubernetes, with Ray Serve or KServe on it",
            ),
        ],
        muster: "the label ray with Kubernetes below it in the stack, because both readings install the same \
                 components, and differ only in the primary control plane",
    },
    Disagreement {
        id: "ray-as-label",
        kind: DisputeKind::Pages,
        when: RAY,
        question: "what owns the nodes and the quota while no Ray job runs?",
        positions: &[
            says(CitedPage::Guide, "labeller, rule 2", "ray is the primary, its host an addon"),
            says(
                CitedPage::Kentino,
                "Ray and KubeRay",
                "Ray is not a cluster scheduler: never at the top, always inside a Slurm job or a namespace",
            ),
            says(
                CitedPage::Guide,
                "composition stack",
                "Ray is a runtime, and needs a resource manager underneath",
            ),
        ],
        muster: "the label ray, because programs compare it; the stack shows the host as the control plane",
    },
    Disagreement {
        id: "coupled-rl-on-bare-metal",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::PythonNativePipeline)]),
        question: "is it the trainer that fills the nodes, or the rollouts?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, rule 1",
                "coupling on bare metal is tested first: slurm, and the label does not name Ray",
            ),
            says(
                CitedPage::Guide,
                "matrix, row 4",
                "a Python pipeline is ray, on Kubernetes or on Slurm",
            ),
            says(
                CitedPage::Kentino,
                "Ray and KubeRay",
                "actors map onto Ray cleanly, and onto batch jobs poorly",
            ),
        ],
        muster: "slurm, because it places the coupled part whole; the stack shows Ray on it, and only the label \
                 does not name Ray",
    },
    Disagreement {
        id: "slurm-at-the-edge",
        kind: DisputeKind::Itself,
        when: All(&[ON_SLURM, Is(Fact::EdgeOrDev)]),
        question: "is this the small cluster's only work, or is a large job developed on it?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, rule 1",
                "coupling on bare metal is asked for first: slurm",
            ),
            says(CitedPage::Guide, "matrix, row 3", "edge, small, CI or development: k3s"),
        ],
        muster: "the labeller's order, because the guide's edge case for this contradiction covers one node only, \
                 where k3s is chosen",
    },
    Disagreement {
        id: "coupled-without-bare-metal",
        kind: DisputeKind::Itself,
        when: All(&[COUPLED, Not(Fact::BareMetal)]),
        question: "must this run in containers, or does it merely do so today?",
        positions: &[
            says(
                CitedPage::Guide,
                "decision flow",
                "after the question about coupling, the flow chart continues for bare metal only: no answer",
            ),
            says(
                CitedPage::Guide,
                "labeller, rules 2 to 4",
                "the other questions follow, and a gang scheduler is added",
            ),
            says(CitedPage::Guide, "matrix, row 1", "names coupled training on bare metal only"),
        ],
        muster: "what the labeller says, because it alone of the three has an answer; the required gang scheduler \
                 makes it safe",
    },
    Disagreement {
        id: "batch-in-containers",
        kind: DisputeKind::Pages,
        when: All(&[
            Chosen(&[ControlPlane::Kubernetes]),
            Not(Fact::LongLivedServices),
            Not(Fact::MultiTenant),
            Never(&COUPLED),
        ]),
        question: "does anything else on this fleet need Kubernetes, and who operates it?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, rule 4; decision flow",
                "simple batch, in containers: kubernetes",
            ),
            says(
                CitedPage::Comparison,
                "rule of thumb",
                "what ends and is known in size is for slurm; what stays and is elastic is for kubernetes",
            ),
            says(
                CitedPage::Kentino,
                "decision tree, steps 2 and 3",
                "no services, or no platform team: slurm",
            ),
            says(
                CitedPage::Hyperstack,
                "workload profiles, 2; scheduling model",
                "HPC-style batch: slurm; batch of varying shapes: kubernetes has the finer control",
            ),
        ],
        muster: "the guide's label, because one workload does not say what else runs here; when nothing needs \
                 Kubernetes, Slurm is less to operate, and muster advise with a site file says so",
    },
    Disagreement {
        id: "hybrid-without-slurm",
        kind: DisputeKind::Pages,
        when: All(&[ON_KUBERNETES_OR_K3S, Is(Fact::TightlyCoupled), Is(Fact::LongLivedServices)]),
        question: "does training crowd out the services, or the other way round, often enough to separate them?",
        positions: &[
            says(
                CitedPage::Guide,
                "matrix, row 6",
                "a fleet with batch training and services is split",
            ),
            says(
                CitedPage::Kentino,
                "summary table, rows 4 and 8",
                "one Kubernetes for a mixed cluster; two control planes from 200 GPUs",
            ),
            says(
                CitedPage::Guide,
                "labeller, last rule; edge 4",
                "splits only where slurm is the primary",
            ),
            says(
                CitedPage::Hyperstack,
                "workload profiles, 3 and 4",
                "training and serving on a shared cluster: kubernetes",
            ),
        ],
        muster: "no split, because one Kubernetes with a gang scheduler and quotas runs both, until one of them \
                 starves the other",
    },
    Disagreement {
        id: "python-on-bare-metal",
        kind: DisputeKind::Pages,
        when: All(&[RAY, Is(Fact::BareMetal)]),
        question: "which of the two do you operate already?",
        positions: &[
            says(CitedPage::Guide, "labeller, rule 2", "Ray runs through KubeRay, always"),
            says(
                CitedPage::Kentino,
                "decision tree, step 5; Ray standalone",
                "KubeRay, or Ray inside an salloc; alone where one person owns the cluster",
            ),
            says(CitedPage::Guide, "matrix, row 4", "on Kubernetes through KubeRay, or on Slurm"),
        ],
        muster: "the labeller's host, because the label names no other; where Slurm runs already, start Ray inside \
                 an allocation instead of installing Kubernetes for it",
    },
    Disagreement {
        id: "k3s-for-tenants",
        kind: DisputeKind::Itself,
        when: All(&[
            Chosen(&[ControlPlane::K3s]),
            Any(&[Is(Fact::MultiTenant), Is(Fact::LongLivedServices)]),
        ]),
        question: "would an outage of an hour affect anyone but its owners?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, rule 3",
                "small comes before services and tenants: k3s",
            ),
            says(
                CitedPage::Guide,
                "matrix, row 2",
                "a platform of many tenants with online services: kubernetes",
            ),
            says(CitedPage::Guide, "decision flow", "services or tenants: either of the two"),
        ],
        muster: "k3s, because it is the same API, so that manifests move when the cluster grows",
    },
    Disagreement {
        id: "k3s-size",
        kind: DisputeKind::Pages,
        when: All(&[ON_K3S, Reaches(Threshold::MultiNode)]),
        question: "how many nodes does the cluster have, whatever one job spans?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, its facts",
                "this fact means small, CI or a single node",
            ),
            says(
                CitedPage::Overview,
                "Kubernetes and k3s",
                "k3s is for edge nodes, small clusters, CI and development",
            ),
            says(
                CitedPage::Guide,
                "failure modes, 6",
                "not a large datacentre; no number is given",
            ),
        ],
        muster: "a warning from a number of nodes that a site can set (k3s-nodes), because no page has one",
    },
];

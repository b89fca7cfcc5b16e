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
                "asks for a Python pipeline first, and never for tenancy: ray",
            ),
            says(
                CitedPage::Guide,
                "decision flow",
                "asks for tenancy and services before Python: kubernetes",
            ),
        ],
        muster: "follows the labeller, which is the guide's checked part; Ray through KubeRay keeps the platform's quota either way",
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
                CitedPage::Guide,
                "decision flow; matrix, row 5",
                "services come first: kubernetes, with Ray Serve or KServe on it",
            ),
            says(
                CitedPage::Kentino,
                "decision tree, steps 2 and 5",
                "services make kubernetes the base; Ray is added to it afterwards",
            ),
        ],
        muster: "keeps the label ray and shows Kubernetes below it in the stack: both readings install the same components, and differ only in the primary control plane",
    },
    Disagreement {
        id: "ray-as-label",
        kind: DisputeKind::Pages,
        when: RAY,
        question: "what owns the nodes and the quota while no Ray job runs?",
        positions: &[
            says(CitedPage::Guide, "labeller, rule 2", "ray is the primary, its host an addon"),
            says(
                CitedPage::Guide,
                "composition stack",
                "Ray is a runtime, and needs a resource manager underneath",
            ),
            says(
                CitedPage::Kentino,
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
        muster: "keeps slurm, which places the coupled part whole, and shows Ray on it in the stack: only the label does not name Ray",
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
                "asks for coupling on bare metal first: slurm",
            ),
            says(CitedPage::Guide, "matrix, row 3", "edge, small, CI or development: k3s"),
        ],
        muster: "follows the labeller's order; the guide's edge case for this contradiction covers one node only, where k3s is chosen",
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
                "goes on with the other questions, and adds a gang scheduler",
            ),
            says(CitedPage::Guide, "matrix, row 1", "names coupled training on bare metal only"),
        ],
        muster: "follows the labeller, the only one of the three with an answer; the required gang scheduler makes it safe",
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
                "what ends and is known in size: slurm; what stays and is elastic: kubernetes",
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
        muster: "gives the guide's label; when nothing else here needs Kubernetes, Slurm is less to operate, and muster advise with a site file says so",
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
                "batch training and services on one fleet: split it",
            ),
            says(
                CitedPage::Guide,
                "labeller, last rule; edge 4",
                "splits only where slurm is the primary",
            ),
            says(
                CitedPage::Kentino,
                "summary table, rows 4 and 8",
                "one Kubernetes for a mixed cluster; two control planes from 200 GPUs",
            ),
            says(
                CitedPage::Hyperstack,
                "workload profiles, 3 and 4",
                "training and serving on a shared cluster: kubernetes",
            ),
        ],
        muster: "does not split: one Kubernetes with a gang scheduler and quotas runs both, until one of them starves the other",
    },
    Disagreement {
        id: "python-on-bare-metal",
        kind: DisputeKind::Pages,
        when: All(&[RAY, Is(Fact::BareMetal)]),
        question: "which of the two do you operate already?",
        positions: &[
            says(CitedPage::Guide, "labeller, rule 2", "always through KubeRay"),
            says(CitedPage::Guide, "matrix, row 4", "on Kubernetes through KubeRay, or on Slurm"),
            says(
                CitedPage::Kentino,
                "decision tree, step 5; Ray standalone",
                "KubeRay, or Ray inside an salloc; alone where one person owns the cluster",
            ),
        ],
        muster: "gives the labeller's host; where Slurm runs already, start Ray inside an allocation instead of installing Kubernetes for it",
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
        muster: "follows the labeller: it is the same API, so that manifests move when the cluster grows",
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
                "edge nodes, small clusters, CI and development",
            ),
            says(
                CitedPage::Guide,
                "failure modes, 6",
                "not a large datacentre; no number is given",
            ),
        ],
        muster: "warns from a threshold in nodes, which a site can set (k3s-nodes)",
    },
];

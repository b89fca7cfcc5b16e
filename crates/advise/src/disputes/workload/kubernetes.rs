//! Disagreements about add-ons of Kubernetes or k3s for one workload. Data only.

use muster_model::advice::{CitedPage, ControlPlane, DisputeKind, Fact};

use super::{RAY, says};
use crate::condition::Condition::{All, Chosen, Is, Not};
use crate::rule::Disagreement;
use crate::workload::terms::{COUPLED, COUPLED_INSIDE, ON_KUBERNETES_OR_K3S};

/// Disagreements about add-ons, those about gang scheduling first.
pub(super) const KUBERNETES: &[Disagreement] = &[
    Disagreement {
        id: "ray-on-k3s-gang",
        kind: DisputeKind::Itself,
        when: All(&[RAY, COUPLED, Is(Fact::EdgeOrDev)]),
        question: "can two such jobs want the cluster at the same time?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, its comment; the load-bearing invariant",
                "Ray on k3s is under kube-scheduler too: a gang scheduler is required",
            ),
            says(
                CitedPage::Guide,
                "labeller, its code; edge 7",
                "Ray at the edge requires no gang scheduler, and the oracle that checks the code agrees",
            ),
        ],
        muster: "a gang scheduler, because the guide calls the invariant load-bearing; --ruleset guide gives the \
                 label of the code",
    },
    Disagreement {
        id: "pods-or-nodes",
        kind: DisputeKind::Pages,
        when: All(&[COUPLED_INSIDE, ON_KUBERNETES_OR_K3S]),
        question: "is the job one pod on its node, or several?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller; edge 2",
                "on one node there is nothing to place together: no gang scheduler",
            ),
            says(
                CitedPage::Kentino,
                "batch against services, table",
                "already an 8-hour training run needs Kueue or Volcano",
            ),
            says(
                CitedPage::Guide,
                "failure modes, 1; the proof, where a pod is a GPU",
                "a gang scheduler for every job of several pods",
            ),
        ],
        muster: "a gang scheduler from two nodes on, because the labeller counts nodes; the answer warns of several \
                 pods on one node",
    },
    Disagreement {
        id: "kueue-as-gang",
        kind: DisputeKind::Pages,
        when: All(&[COUPLED, ON_KUBERNETES_OR_K3S]),
        question: "what places the pods once the quota is granted?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller",
                "Volcano, Kueue or KAI: any of them satisfies the requirement",
            ),
            says(
                CitedPage::Comparison,
                "how it is set up",
                "Volcano or KAI place gangs; Kueue admits by quota, all or nothing",
            ),
            says(
                CitedPage::Kentino,
                "why naive Kubernetes is wrong",
                "Kueue admits jobs, Volcano places pods: both, one above the other",
            ),
            says(
                CitedPage::Upstream,
                "Kueue: all-or-nothing with ready pods, kubernetes-sigs/kueue issue 2796",
                "admission reserves quota, not nodes: a job was admitted with free GPUs for a part of it only; topology-aware scheduling looks at nodes, waitForPodsReady gives up late",
            ),
        ],
        muster: "the label, which names all three, and in the stack Kueue above a scheduler that places gangs, \
                 because Kueue reserves quota and not nodes",
    },
    Disagreement {
        id: "operators-for-gangs",
        kind: DisputeKind::Pages,
        when: All(&[COUPLED, ON_KUBERNETES_OR_K3S, Not(Fact::PythonNativePipeline)]),
        question: "does your training operator create a PodGroup, and does its scheduler read it?",
        positions: &[
            says(
                CitedPage::Hyperstack,
                "multi-node coordination",
                "there is no native equivalent: operators for MPI or training coordinate the pods",
            ),
            says(
                CitedPage::Guide,
                "how to integrate",
                "only a gang scheduler places the set whole; operators depend on it",
            ),
            says(
                CitedPage::Upstream,
                "kubeflow/trainer, shipped torch runtime, August 2026",
                "the operator's default runtime asks for no pod group",
            ),
        ],
        muster: "a gang scheduler whatever operator creates the pods, because an operator creates them and does not \
                 place them",
    },
    Disagreement {
        id: "native-gang-api",
        kind: DisputeKind::Aged,
        when: All(&[COUPLED, ON_KUBERNETES_OR_K3S]),
        question: "which Kubernetes version runs there, with which feature gates?",
        positions: &[
            says(
                CitedPage::Guide,
                "why use it; note 1",
                "the stock scheduler has no gang scheduling: an add-on is required",
            ),
            says(
                CitedPage::Upstream,
                "KEP-4671 and kube_features.go: alpha in 1.35 and 1.36, beta in 1.37 of August 2026, off by default in all three",
                "kube-scheduler places a PodGroup whole where the GenericWorkload feature and its API are switched on; it has neither queues nor quota",
            ),
            says(
                CitedPage::Kentino,
                "why naive Kubernetes is wrong",
                "first in, first out, with no gang semantics",
            ),
            says(
                CitedPage::Kentino,
                "what a scheduler actually does",
                "every scheduler in the article places, queues and starts all ranks at once",
            ),
            says(
                CitedPage::Upstream,
                "kubernetes.io: pod priority and preemption, stable since 1.14",
                "not first in, first out: pods are ordered by priority, and the highest preempt; between equals that helps no gang",
            ),
        ],
        muster: "something that places gangs, because the native API counts only once it is switched on and the \
                 pods name a PodGroup",
    },
    Disagreement {
        id: "dra-or-device-plugin",
        kind: DisputeKind::Aged,
        when: All(&[Is(Fact::TightlyCoupled), ON_KUBERNETES_OR_K3S]),
        question: "does the job need certain GPUs of a node, or any of them?",
        positions: &[
            says(
                CitedPage::Hyperstack,
                "what separates them: scheduling",
                "topology comes from device plugins and affinity rules, written by hand",
            ),
            says(
                CitedPage::Comparison,
                "how it is set up",
                "jobs describe devices, the scheduler picks them: DRA, stable since Kubernetes 1.34",
            ),
            says(
                CitedPage::Kentino,
                "MIG and GPU sharing",
                "the device plugin gives whole GPUs, and has no more information about them",
            ),
        ],
        muster: "the GPU Operator, because it brings either; prefer DRA on 1.34 and later where the driver supports \
                 the model",
    },
    Disagreement {
        id: "inference-at-scale",
        kind: DisputeKind::Pages,
        when: All(&[
            Chosen(&[ControlPlane::Kubernetes]),
            Is(Fact::LongLivedServices),
            Not(Fact::TightlyCoupled),
        ]),
        question: "how many models and replicas, and does one replica span nodes?",
        positions: &[
            says(
                CitedPage::Guide,
                "labeller, rule 4",
                "inference needs kubernetes with the GPU Operator, and no serving layer",
            ),
            says(
                CitedPage::Overview,
                "decision matrix",
                "it needs Ray Serve, KServe or Dynamo on Kubernetes",
            ),
            says(CitedPage::Guide, "matrix, row 5", "Kubernetes with Ray Serve or KServe"),
            says(
                CitedPage::Kentino,
                "summary table, row 3",
                "Kubernetes and the GPU Operator; no batch scheduler",
            ),
        ],
        muster: "no serving layer in the label, because plain Deployments suffice for a few models; with more, a \
                 serving layer is worth its components",
    },
    Disagreement {
        id: "launchers-per-pod",
        kind: DisputeKind::Pages,
        when: All(&[COUPLED, ON_KUBERNETES_OR_K3S, Not(Fact::PythonNativePipeline)]),
        question: "does each pod ask for as many GPUs as it starts processes?",
        positions: &[
            says(
                CitedPage::Comparison,
                "Volcano manifest",
                "a manifest has 16 pods of one GPU, each of which starts eight processes and knows of no other pod",
            ),
            says(
                CitedPage::Kentino,
                "Volcano manifest",
                "a manifest has 16 pods of one GPU, one process each, which are 16 nodes to torchrun",
            ),
        ],
        muster: "one pod per node with all its GPUs, or one process per pod, because what a pod starts and what it \
                 asks for must agree",
    },
];

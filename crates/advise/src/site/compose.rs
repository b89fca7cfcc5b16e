//! Composition of a site: its layers from the top, and the layer that each one runs on. It decides
//! nothing.

use muster_model::advice::{ControlPlane, Fact, Threshold};

use crate::condition::Condition::{All, Always, Any, Chosen, Gang, Is, Never, Reaches};
use crate::site::terms::{
    GANGS, KAI_WORKS, KUBEFLOW as KUBEFLOW_RUNS, KUBERNETES as KUBERNETES_CHOSEN, NOTHING,
    ON_KUBERNETES, POOL, PROVIDED, PYTHON, QUEUED, RUNAI as RUNAI_RUNS, SLURM as SLURM_CHOSEN,
    SUBSTRATE, TRAINS,
};
use crate::workload::Stratum;

const CONVENTIONS: &str = "conventions: ssh, tmux, nvidia-smi";
const SLURM: &str = "Slurm";
const KUBERNETES: &str = "Kubernetes";
const K3S: &str = "k3s";
const RAY: &str = "Ray cluster of its owner";
const RAY_BY_HAND: &str = "Ray, started by hand";
const ALLOCATION: &str = "Ray inside a Slurm allocation";
const KUBERAY: &str = "KubeRay";
const RUNAI: &str = "Run:ai";
const KUEUE: &str = "Kueue";
const KUBEFLOW: &str = "Kubeflow";
const SERVING: &str = "KServe or Ray Serve";
const GANG: &str = "Volcano gang scheduler";
const KAI: &str = "KAI gang scheduler";
const FAIR_SHARE: &str = "slurmdbd (accounts, fair share, QOS)";
const SLINKY: &str = "Slinky or Soperator";
const GPU_OPERATOR: &str = "GPU Operator";
const SLURM_POOL: &str = "Slurm pool of nodes";
const KUBERNETES_POOL: &str = "Kubernetes pool of nodes";
const NODES: &str = "node stack (driver, NCCL, fabric)";
const PROVIDER: &str = "a provider";

/// Every layer that an answer about a site can have, from the top: work, runtime, queue, gang
/// scheduler, control plane, nodes. A layer runs on the first of its candidates that is present.
/// Sources: guide, "composition stack"; Kentino, "Kueue at the top, Volcano underneath";
/// comparison, "hybrid: real Slurm on Kubernetes".
pub(crate) const LAYERS: &[Stratum] = &[
    Stratum {
        name: "training",
        when: TRAINS,
        on: &[
            KUBEFLOW,
            RUNAI,
            KUEUE,
            KAI,
            GANG,
            FAIR_SHARE,
            SLURM,
            KUBERNETES,
            K3S,
            RAY,
            RAY_BY_HAND,
            CONVENTIONS,
        ],
    },
    Stratum {
        name: "batch jobs",
        when: Any(&[Is(Fact::Batch), Is(Fact::Mpi)]),
        on: &[RUNAI, KUEUE, FAIR_SHARE, SLURM, KUBERNETES, K3S, RAY, CONVENTIONS],
    },
    Stratum {
        name: "Ray libraries (Tune, RLlib, Data, Train)",
        when: PYTHON,
        on: &[KUBERAY, ALLOCATION, RAY, RAY_BY_HAND],
    },
    Stratum {
        name: "services",
        when: Is(Fact::Services),
        on: &[SERVING, KUBERNETES, K3S, SLURM, RAY, CONVENTIONS],
    },
    Stratum {
        name: "notebooks",
        when: Is(Fact::Notebooks),
        on: &[RUNAI, KUEUE, SLURM, KUBERNETES, K3S, RAY, CONVENTIONS],
    },
    Stratum {
        name: SERVING,
        when: All(&[ON_KUBERNETES, Is(Fact::Services), Is(Fact::Autoscaling)]),
        on: &[KUBERNETES, K3S],
    },
    Stratum { name: KUBEFLOW, when: KUBEFLOW_RUNS, on: &[KUEUE] },
    Stratum {
        name: KUBERAY,
        when: All(&[ON_KUBERNETES, PYTHON]),
        on: &[RUNAI, KUEUE, KAI, GANG, KUBERNETES, K3S],
    },
    Stratum { name: ALLOCATION, when: All(&[SLURM_CHOSEN, PYTHON]), on: &[FAIR_SHARE, SLURM] },
    Stratum { name: RAY_BY_HAND, when: All(&[NOTHING, PYTHON]), on: &[CONVENTIONS] },
    Stratum { name: RUNAI, when: RUNAI_RUNS, on: &[KUBERNETES] },
    Stratum { name: KUEUE, when: QUEUED, on: &[KAI, GANG, KUBERNETES, K3S] },
    Stratum {
        name: KAI,
        when: All(&[Gang, ON_KUBERNETES, GANGS, KAI_WORKS, Never(&RUNAI_RUNS)]),
        on: &[KUBERNETES],
    },
    Stratum {
        name: GANG,
        when: All(&[Gang, ON_KUBERNETES, GANGS, Never(&RUNAI_RUNS), Never(&KAI_WORKS)]),
        on: &[KUBERNETES, K3S],
    },
    Stratum {
        name: FAIR_SHARE,
        when: All(&[
            SLURM_CHOSEN,
            Any(&[Reaches(Threshold::SeveralTeams), Is(Fact::StrictQuotas)]),
        ]),
        on: &[SLURM],
    },
    Stratum { name: SLURM, when: SLURM_CHOSEN, on: &[SLINKY, SLURM_POOL, NODES] },
    Stratum { name: SLINKY, when: All(&[SLURM_CHOSEN, SUBSTRATE]), on: &[KUBERNETES] },
    Stratum { name: KUBERNETES, when: Any(&[KUBERNETES_CHOSEN, POOL]), on: &[GPU_OPERATOR] },
    Stratum { name: K3S, when: Chosen(&[ControlPlane::K3s]), on: &[GPU_OPERATOR] },
    Stratum { name: RAY, when: Chosen(&[ControlPlane::Ray]), on: &[NODES] },
    Stratum { name: CONVENTIONS, when: NOTHING, on: &[NODES] },
    Stratum {
        name: GPU_OPERATOR,
        when: Any(&[ON_KUBERNETES, POOL]),
        on: &[KUBERNETES_POOL, NODES],
    },
    Stratum { name: SLURM_POOL, when: All(&[POOL, Never(&SUBSTRATE)]), on: &[NODES] },
    Stratum { name: KUBERNETES_POOL, when: All(&[POOL, Never(&SUBSTRATE)]), on: &[NODES] },
    Stratum { name: NODES, when: Always, on: &[PROVIDER] },
    Stratum {
        name: PROVIDER,
        when: All(&[Chosen(&[ControlPlane::Slurm, ControlPlane::Kubernetes]), PROVIDED]),
        on: &[],
    },
];

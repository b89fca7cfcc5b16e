//! Composition: the layers of a decided answer, from the top, and the layer that each one runs on.
//! It is the guide's composition stack with the facts filled in; it decides nothing.

use muster_model::advice::{Fact, Layer};

use super::terms::{BATCH, COUPLED, ON_K3S, ON_KUBERNETES, ON_KUBERNETES_OR_K3S, ON_SLURM};
use crate::case::FactsCase;
use crate::condition::Condition::{self, All, Always, Any, Gang, Hybrid, Is, Not};

/// A layer that may be part of the composition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stratum {
    pub(crate) name: &'static str,
    /// Evaluated on the finished answer.
    pub(crate) when: Condition,
    /// Candidates for the layer below; the first that is present counts.
    pub(crate) on: &'static [&'static str],
}

/// Returns the layers of a decided case, from the top.
pub(crate) fn stack(strata: &'static [Stratum], case: &FactsCase<'_>) -> Vec<Layer> {
    let there: Vec<&Stratum> = strata.iter().filter(|stratum| stratum.when.holds(case)).collect();
    let is_there = |name: &&&str| there.iter().any(|stratum| stratum.name == **name);
    there
        .iter()
        .map(|stratum| Layer {
            name: stratum.name,
            on: stratum.on.iter().find(is_there).map(|name| vec![*name]).unwrap_or_default(),
        })
        .collect()
}

const KUBERNETES: &str = "Kubernetes";
const K3S: &str = "k3s";
const SLURM: &str = "Slurm";
const RAY: &str = "Ray";
const KUBERAY: &str = "KubeRay";
const ALLOCATION: &str = "one Slurm allocation that starts Ray's head and workers";
const KUEUE: &str = "Kueue (quota per team)";
const FAIR_SHARE: &str = "slurmdbd (accounts, fair share, QOS)";
const GANG_SCHEDULER: &str = "gang scheduler (Volcano, KAI or the native gang API)";
const GPU_OPERATOR: &str = "GPU Operator";
const SLURM_POOL: &str = "Slurm pool of nodes";
const KUBERNETES_POOL: &str = "Kubernetes pool of nodes";
const NODE_STACK: &str = "NVIDIA node stack (driver, NCCL, RDMA)";

const PYTHON: Condition = Is(Fact::PythonNativePipeline);
const SERVICES: Condition = Is(Fact::LongLivedServices);

/// Every layer that an answer about one workload can have, from the top: runtime, operator, quota,
/// gang scheduler, control plane, node stack. Source: guide, "composition stack" and "how to scale
/// it"; overview, "composition"; Kentino, "Kueue on top, Volcano underneath".
pub(crate) const LAYERS: &[Stratum] = &[
    Stratum { name: "Ray Train", when: All(&[PYTHON, Is(Fact::TightlyCoupled)]), on: &[RAY] },
    Stratum { name: "Ray tasks and actors (Data, Tune, RLlib)", when: PYTHON, on: &[RAY] },
    // Beside Slurm, a service lives longer than any allocation, so it runs in the other pool.
    Stratum { name: "Ray Serve", when: All(&[PYTHON, SERVICES, ON_SLURM]), on: &[KUBERAY] },
    Stratum { name: "Ray Serve", when: All(&[PYTHON, SERVICES, ON_KUBERNETES_OR_K3S]), on: &[RAY] },
    Stratum { name: RAY, when: PYTHON, on: &[ALLOCATION, KUBERAY] },
    Stratum {
        name: "torchrun or MPI, started by srun",
        when: All(&[COUPLED, Not(Fact::PythonNativePipeline), ON_SLURM]),
        on: &[FAIR_SHARE, SLURM],
    },
    Stratum {
        name: "torchrun or MPI",
        when: All(&[
            Is(Fact::TightlyCoupled),
            Not(Fact::PythonNativePipeline),
            ON_KUBERNETES_OR_K3S,
        ]),
        on: &[KUEUE, GANG_SCHEDULER, KUBERNETES, K3S],
    },
    Stratum {
        name: "batch jobs in containers",
        when: All(&[
            Not(Fact::TightlyCoupled),
            Not(Fact::PythonNativePipeline),
            Not(Fact::LongLivedServices),
        ]),
        on: &[KUEUE, KUBERNETES, K3S],
    },
    Stratum {
        name: "services and inference",
        when: All(&[SERVICES, Not(Fact::PythonNativePipeline)]),
        on: &[KUBERNETES, K3S],
    },
    Stratum { name: ALLOCATION, when: All(&[PYTHON, ON_SLURM]), on: &[FAIR_SHARE, SLURM] },
    Stratum {
        name: KUBERAY,
        when: All(&[PYTHON, Any(&[ON_KUBERNETES_OR_K3S, Hybrid])]),
        on: &[KUEUE, GANG_SCHEDULER, KUBERNETES, K3S],
    },
    Stratum { name: "Slinky or Soperator, instead of two pools", when: Hybrid, on: &[KUBERNETES] },
    Stratum { name: FAIR_SHARE, when: All(&[Is(Fact::MultiTenant), ON_SLURM]), on: &[SLURM] },
    Stratum {
        name: KUEUE,
        when: All(&[Is(Fact::MultiTenant), BATCH, ON_KUBERNETES_OR_K3S]),
        on: &[GANG_SCHEDULER, KUBERNETES, K3S],
    },
    Stratum { name: GANG_SCHEDULER, when: Gang, on: &[KUBERNETES, K3S] },
    Stratum { name: SLURM, when: ON_SLURM, on: &[SLURM_POOL, NODE_STACK] },
    Stratum { name: KUBERNETES, when: Any(&[ON_KUBERNETES, Hybrid]), on: &[GPU_OPERATOR] },
    Stratum { name: K3S, when: ON_K3S, on: &[GPU_OPERATOR] },
    Stratum {
        name: GPU_OPERATOR,
        when: Any(&[ON_KUBERNETES_OR_K3S, Hybrid]),
        on: &[KUBERNETES_POOL, NODE_STACK],
    },
    Stratum { name: SLURM_POOL, when: Hybrid, on: &[NODE_STACK] },
    Stratum { name: KUBERNETES_POOL, when: Hybrid, on: &[NODE_STACK] },
    Stratum { name: NODE_STACK, when: Always, on: &[] },
];

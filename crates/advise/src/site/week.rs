//! Steps of the first week after an answer, by control plane, with the numbers of the site.

use std::borrow::Cow;

use muster_model::advice::{ControlPlane, Fact};

use crate::case::FactsCase;
use crate::site::terms::{GANGS, POOL};

/// Returns the steps of the first week, in order.
pub(crate) fn of(case: &FactsCase<'_>) -> Vec<Cow<'static, str>> {
    let number = |fact: Fact| case.facts.get(fact);
    let primary = case.label().primary;
    let first: Cow<'static, str> = match primary {
        ControlPlane::None if number(Fact::FleetNodes) == 1 => {
            "day 1: install Muster on the machine and start one job with `muster run`".into()
        }
        ControlPlane::None => format!(
            "day 1: write the conventions: muster init none --nodes {} --gpus {} --users {}",
            number(Fact::FleetNodes),
            number(Fact::FleetGpus),
            number(Fact::Users),
        )
        .into(),
        _ => "day 1: list the nodes with `muster inventory`, and check them with `muster check`"
            .into(),
    };
    let second = match primary {
        ControlPlane::None => {
            "day 2: agree where GPUs are announced, and on a time limit for notebooks"
        }
        ControlPlane::Slurm if case.facts.is(Fact::OperatesSlurm) => {
            "day 2: compare slurm.conf with `muster init slurm`: GPU accounting, cgroups, topology"
        }
        ControlPlane::Slurm => {
            "day 2: two nodes of Slurm from `muster init slurm`, with cgroups and slurmdbd"
        }
        ControlPlane::Kubernetes if case.facts.is(Fact::OperatesKubernetes) => {
            "day 2: GPU Operator on two nodes of the cluster that runs; nvidia-smi in a pod"
        }
        ControlPlane::Kubernetes => {
            "day 2: a cluster of two nodes with the GPU Operator; nvidia-smi in a pod"
        }
        ControlPlane::K3s => "day 2: k3s on one node with the GPU Operator; nvidia-smi in a pod",
        ControlPlane::Ray => "day 2: `ray start` on two nodes, and one run of the real work",
    };
    let third = match (GANGS.holds(case), primary) {
        (_, ControlPlane::None) => "day 3: one week of use, and a list of collisions",
        (true, _) => {
            "day 3: nccl-tests over all nodes of one run, under the scheduler; RDMA, not TCP"
        }
        (false, _) => "day 3: one queue per team, and a job of each kind of work",
    };
    let fourth = match primary {
        _ if POOL.holds(case) => {
            "day 4: draw the boundary with `muster init hybrid`; one endpoint on its pool"
        }
        ControlPlane::None => "day 4: restart one training run from its checkpoint",
        _ => "day 4: kill a rank and drain a node: what restarts, and from which checkpoint",
    };
    let last = "day 5: commit site.yaml and the answer; `muster advise --expect` in CI";
    vec![first, second.into(), third.into(), fourth.into(), last.into()]
}

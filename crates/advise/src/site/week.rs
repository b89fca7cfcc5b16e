//! Steps of the first week after an answer, by control plane, with the numbers of the site.

use std::borrow::Cow;

use muster_model::advice::{ControlPlane, Fact, Threshold};

use crate::case::FactsCase;
use crate::condition::Condition::{self, All, Any, Below, Is, Never};
use crate::site::terms::{
    GANGS, NOTHING, POOL, PURE_SERVICES, QUEUED, RUNAI, SLURM, SUBSTRATE, TRAINS,
};

/// A batch scheduler or a queue holds the work of teams apart.
const HAS_QUEUES: Condition = Any(&[SLURM, QUEUED, RUNAI]);

/// One step of the week, and the sites that it is for.
type Step = (Condition, &'static str);

/// Steps of the third day; the first whose condition holds is taken.
const THIRD: &[Step] = &[
    (NOTHING, "day 3: two days of use, and a list of collisions"),
    (
        All(&[GANGS, Is(Fact::FleetRdma)]),
        "day 3: nccl-tests over all nodes of one run, under the scheduler; RDMA, not TCP",
    ),
    (GANGS, "day 3: nccl-tests over all nodes of one run, under the scheduler"),
    (HAS_QUEUES, "day 3: one queue per team, and a job of each kind of work"),
    (Condition::Always, "day 3: one job of each kind of work"),
];

/// Steps of the fourth day.
const FOURTH: &[Step] = &[
    (
        All(&[POOL, Never(&SUBSTRATE)]),
        "day 4: draw the boundary with `muster init hybrid`; one endpoint on its pool",
    ),
    (All(&[NOTHING, TRAINS]), "day 4: restart one training run from its checkpoint"),
    (NOTHING, "day 4: reboot the machine: what comes back by itself?"),
    (PURE_SERVICES, "day 4: kill a replica and drain a node: does the address keep answering?"),
    (
        Condition::Always,
        "day 4: kill a rank and drain a node: what restarts, and from which checkpoint",
    ),
];

/// Steps of the second day without a scheduler.
const SECOND_WITHOUT: &[Step] = &[
    (
        All(&[Below(Threshold::SharedUsers), Is(Fact::Services)]),
        "day 2: reserve a GPU for each service",
    ),
    (
        All(&[Below(Threshold::SharedUsers), Is(Fact::Notebooks)]),
        "day 2: give each notebook a time limit: `muster run --time 4h`",
    ),
    (
        Below(Threshold::SharedUsers),
        "day 2: submit two jobs that need the same GPUs: the second waits for the first",
    ),
    (
        Is(Fact::Notebooks),
        "day 2: agree where GPUs are announced, and on a time limit for notebooks",
    ),
    (Condition::Always, "day 2: agree where GPUs are announced"),
];

/// Returns the steps of the first week, in order.
pub(crate) fn of(case: &FactsCase<'_>) -> Vec<Cow<'static, str>> {
    let last = "day 5: commit site.yaml and `muster advise --site site.yaml --json > decision.json`; in CI \
                `--expect decision.json`";
    let later = [second(case), taken(THIRD, case), taken(FOURTH, case), last];
    std::iter::once(first(case)).chain(later.map(Cow::Borrowed)).collect()
}

fn taken(steps: &[Step], case: &FactsCase<'_>) -> &'static str {
    let step = steps.iter().find(|(when, _)| when.holds(case));
    step.expect("the last step of each day is for every site").1
}

fn first(case: &FactsCase<'_>) -> Cow<'static, str> {
    let number = |fact: Fact| case.facts.get(fact);
    match case.label().primary {
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
    }
}

fn second(case: &FactsCase<'_>) -> &'static str {
    match case.label().primary {
        ControlPlane::None => taken(SECOND_WITHOUT, case),
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
    }
}

//! Rules on launchers: the processes that a command starts, compared with the pods of its job.

use muster_model::check::Severity;

use super::super::finding::{ObjectFacts, ObjectRule, RoleFacts, RuleHit};
use super::super::launch::{FoundLauncher, launcher};

pub(in super::super) const RULES: &[ObjectRule] = &[
    ObjectRule {
        id: "more-processes-than-gpus",
        severity: Severity::High,
        title: "a pod has fewer GPUs than processes that need one",
        cure: "make both numbers the same: the GPUs in `limits`, and `--nproc-per-node`",
        find: more_processes,
    },
    ObjectRule {
        id: "gpus-without-process",
        severity: Severity::Medium,
        title: "requested GPUs are not used by any process",
        cure: "request fewer, or start a process for each: `--nproc-per-node`",
        find: fewer_processes,
    },
    ObjectRule {
        id: "no-rendezvous",
        severity: Severity::High,
        title: "several nodes are requested from the launcher, but no place where they meet",
        cure: "write `--rdzv-backend=c10d --rdzv-endpoint=HOST:29500` with the first pod's name, for which the pods need a headless Service; in a job of Muster `torchrun train.py` is enough",
        find: without_rendezvous,
    },
    ObjectRule {
        id: "nnodes-differ",
        severity: Severity::High,
        title: "the launcher waits for another number of nodes than there are pods",
        cure: "make both numbers the same: with too few pods it waits until its time-out",
        find: nodes_differ,
    },
];

fn launched<'a>(
    facts: &'a ObjectFacts<'_>,
) -> impl Iterator<Item = (RoleFacts<'a>, FoundLauncher)> {
    facts.roles().filter_map(|role| {
        let launcher = launcher(&role.group.task.run)?;
        Some((role, launcher))
    })
}

fn hit(role: &RoleFacts<'_>, says: &str) -> RuleHit {
    (role.line("containers/0/command"), format!("{}: {says}", role.title()))
}

fn more_processes(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = launched(facts).filter_map(|(role, launcher)| {
        let processes = role.job.processes(role.group, &launcher)?;
        let gpus = role.group.task.gpus;
        (gpus > 0 && processes > gpus).then(|| {
            hit(
                &role,
                &format!("{} starts {processes} processes, the pod has {gpus} GPUs", launcher.name),
            )
        })
    });
    hits.collect()
}

fn fewer_processes(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = launched(facts).filter_map(|(role, launcher)| {
        let processes = role.job.processes(role.group, &launcher)?;
        let gpus = role.group.task.gpus;
        (processes < gpus).then(|| {
            hit(&role, &format!("{} starts {processes} of {gpus} processes", launcher.name))
        })
    });
    hits.collect()
}

fn without_rendezvous(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = launched(facts).filter_map(|(role, launcher)| {
        let nodes = launcher.nodes().filter(|nodes| *nodes > 1)?;
        let is_set = |name: &str| role.job.draft.env.iter().any(|(known, _)| known == name);
        let is_known = launcher.has_rendezvous()
            || role.job.is_own
            || is_set("MASTER_ADDR")
            || is_set("PET_RDZV_ENDPOINT")
            || is_set("PET_MASTER_ADDR")
            || ["PyTorchJob", "TrainJob", "MPIJob"].contains(&role.object.kind());
        (!is_known && launcher.name != "mpirun")
            .then(|| hit(&role, &format!("{} for {nodes} nodes without an address", launcher.name)))
    });
    hits.collect()
}

fn nodes_differ(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = launched(facts).filter_map(|(role, launcher)| {
        let nodes = launcher.nodes()?;
        // Replicas that wait for each other have a rule of their own.
        if matches!(role.object.kind(), "Deployment" | "StatefulSet") {
            return None;
        }
        let pods = role.group.pods;
        let is_array = role.job.draft.array.is_some();
        let are_fewer = nodes > pods;
        let are_more = nodes < pods && role.job.draft.groups.len() == 1 && nodes > 1;
        (are_fewer && role.job.draft.pods() < nodes || is_array && nodes > 1 || are_more).then(
            || {
                hit(
                    &role,
                    &format!("{} waits for {nodes} nodes, there are {pods} pods", launcher.name),
                )
            },
        )
    });
    hits.collect()
}

//! Rules on objects of operators: what a controller adds to the pods that a job elsewhere lacks, and
//! numbers of processes that differ from those of GPUs.

use muster_document::child;
use muster_model::check::Severity;

use super::super::draft::ProgramDraft;
use super::super::finding::{ObjectFacts, ObjectRule, RuleHit};
use super::super::found::FoundJob;
use super::super::launch::launcher;
use crate::names;

pub(in super::super) const RULES: &[ObjectRule] = &[
    ObjectRule {
        id: "mpi-slots-differ",
        severity: Severity::High,
        title: "MPI starts another number of processes on a worker than that has GPUs",
        cure: "make both numbers the same: `slotsPerWorker` (`numProcPerNode` of a TrainJob), and the GPUs of a worker",
        find: slots,
    },
    ObjectRule {
        id: "mpi-ranks-differ",
        severity: Severity::High,
        title: "mpirun starts another number of processes than the workers have slots",
        cure: "write `-np` as workers × `slotsPerWorker`: more are refused, with fewer GPUs are idle",
        find: ranks,
    },
    ObjectRule {
        id: "launcher-holds-gpus",
        severity: Severity::Medium,
        title: "the launcher of an MPIJob requests GPUs that it does not use",
        cure: "remove them from the launcher, or set `runLauncherAsWorker: true`",
        find: launcher_gpus,
    },
    ObjectRule {
        id: "needs-mpi-operator",
        severity: Severity::High,
        title: "mpirun gets no host file and no SSH keys without the MPI operator",
        cure: "keep the MPIJob; or, for a program that reads RANK and WORLD_SIZE, write `[mpirun, -np, N, PROGRAM]` as a list, with as many slots for each worker as divide its GPUs: each rank then becomes a task",
        find: needs_operator,
    },
    ObjectRule {
        id: "runtime-not-in-file",
        severity: Severity::Medium,
        title: "the runtime of a TrainJob is not in the file",
        cure: "put it into the same file: `kubectl get clustertrainingruntime NAME -o yaml`; image, command and resources may be there",
        find: without_runtime,
    },
    ObjectRule {
        id: "trainer-starts-in-part",
        severity: Severity::High,
        title: "nothing starts the nodes of a TrainJob together",
        cure: "add `podGroupPolicy` to the runtime, for Volcano or coscheduling, or the label of a queue of Kueue to the TrainJob",
        find: trainer_in_part,
    },
    ObjectRule {
        id: "processes-per-node-differ",
        severity: Severity::High,
        title: "a TrainJob starts another number of processes on a node than that has GPUs",
        cure: "make both numbers the same: `numProcPerNode`, and the GPUs in `resourcesPerNode`",
        find: processes_per_node,
    },
    ObjectRule {
        id: "variable-of-operator",
        severity: Severity::High,
        title: "the command reads variables that the job does not have",
        cure: "use those of a job: $MASTER_ADDR, $RANK, $WORLD_SIZE, and $MUSTER_ARRAY_INDEX in an array",
        find: variables,
    },
];

/// Template of the launcher of an MPIJob.
const LAUNCHER: &str = "/spec/mpiReplicaSpecs/Launcher/template";

fn slots(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.jobs.iter().filter_map(|job| {
        let mpi = job.mpi.as_ref()?;
        let object = &facts.objects[job.object];
        let at = if job.trainer.is_some() {
            "/spec/trainer/numProcPerNode"
        } else {
            "/spec/slotsPerWorker"
        };
        (mpi.worker_gpus > 0 && mpi.slots != mpi.worker_gpus).then(|| {
            let says = format!(
                "{}: {} slots for each worker, which has {} GPUs",
                object.title(),
                mpi.slots,
                mpi.worker_gpus
            );
            (object.line(at), says)
        })
    });
    hits.collect()
}

fn ranks(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.jobs.iter().filter_map(|job| {
        let mpi = job.mpi.as_ref()?;
        let ranks = mpi.ranks?;
        let slots = mpi.workers * mpi.slots;
        let object = &facts.objects[job.object];
        (ranks != slots).then(|| {
            let says = format!(
                "{}: {ranks} processes, {} workers have {slots} slots",
                object.title(),
                mpi.workers
            );
            let template = if job.trainer.is_some() { &job.templates[0] } else { LAUNCHER };
            (object.line(&format!("{template}/spec/containers/0/command")), says)
        })
    });
    hits.collect()
}

fn launcher_gpus(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.jobs.iter().filter_map(|job| {
        let gpus = job.mpi.as_ref()?.launcher_gpus;
        let object = &facts.objects[job.object];
        let at = format!("{LAUNCHER}/spec/containers/0/resources");
        (gpus > 0).then(|| (object.line(&at), format!("{}: {gpus} GPUs", object.title())))
    });
    hits.collect()
}

fn needs_operator(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let jobs =
        facts.jobs.iter().filter(|job| job.mpi.as_ref().is_some_and(|mpi| !mpi.has_rank_tasks));
    let hits = jobs.map(|job| {
        let object = &facts.objects[job.object];
        (object.line("/spec/mpiReplicaSpecs"), object.title())
    });
    hits.collect()
}

fn without_runtime(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let has_none = |job: &&FoundJob| job.trainer.as_ref().is_some_and(|one| !one.has_runtime);
    let hits = facts.jobs.iter().filter(has_none).map(|job| {
        let object = &facts.objects[job.object];
        let at = "/spec/runtimeRef/name";
        let name = object.peek_text(at).unwrap_or_default();
        (object.line(at), format!("{}: {name}", object.title()))
    });
    hits.collect()
}

/// Pods of kube-scheduler without a PodGroup, and without Kueue.
fn trainer_in_part(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.jobs.iter().filter_map(|job| {
        let trainer = job.trainer.as_ref()?;
        let object = &facts.objects[job.object];
        let scheduler = format!("{}/spec/schedulerName", job.templates[0]);
        let is_stock = object.peek_text(&scheduler).is_none_or(|name| name == "default-scheduler");
        let has_queue = object.get(&child("/metadata/labels", names::KUEUE_QUEUE)).is_some();
        let pods = job.draft.pods();
        let is_known = trainer.has_runtime && is_stock && !has_queue && pods > 1;
        (is_known && !trainer.has_pod_group)
            .then(|| (object.line("/spec/runtimeRef"), format!("{}: {pods} pods", object.title())))
    });
    hits.collect()
}

/// Compares the numbers where no launcher in the command has one of its own.
fn processes_per_node(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter_map(|role| {
        let processes = role.job.trainer.as_ref()?.processes?;
        let gpus = role.group.task.gpus;
        let is_other = launcher(&role.group.task.run).is_some() || role.job.mpi.is_some();
        (gpus > 0 && processes != gpus && !is_other).then(|| {
            let says = format!("{}: {processes} processes, {gpus} GPUs", role.title());
            (role.object.line("/spec/trainer/numProcPerNode"), says)
        })
    });
    hits.collect()
}

/// Variables that controllers set in their pods.
const VARIABLES: [&str; 7] = [
    "LWS_LEADER_ADDRESS",
    "LWS_GROUP_SIZE",
    "LWS_WORKER_INDEX",
    "VC_TASK_INDEX",
    "JOB_COMPLETION_INDEX",
    "TPU_WORKER_ID",
    "JOBSET_REPLICATED_JOB_NAME",
];

fn variables(facts: &ObjectFacts<'_>) -> Vec<RuleHit> {
    let hits = facts.roles().filter(|role| !role.job.is_own).filter_map(|role| {
        let text = match &role.group.task.run {
            ProgramDraft::Text(text) => text.clone(),
            ProgramDraft::Words(words) => words.join(" "),
        };
        let is_set = |name: &str| role.job.draft.env.iter().any(|(known, _)| known == name);
        let read: Vec<&str> =
            VARIABLES.into_iter().filter(|name| text.contains(name) && !is_set(name)).collect();
        (!read.is_empty()).then(|| {
            (role.line("containers/0/command"), format!("{}: {}", role.title(), read.join(", ")))
        })
    });
    hits.collect()
}

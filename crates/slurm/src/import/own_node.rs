//! Conversion of scripts that start their processes themselves on nodes with several tasks: the job
//! has one task per node with the resources of all of them. With several tasks, the one that runs
//! the script would see only its own share, while a batch script sees the whole node.

use muster_model::imported::{ImportOutcome, ImportedOption};

use super::draft::{DraftGroup, ImportedJob};
use super::geometry::Geometry;
use super::launch::LaunchCommand;
use super::sizes::{Memory, RequestedSizes, TaskLayout};
use super::variables::ShellVariables;

/// Options that are translated differently than for several tasks.
const MERGED: [&str; 12] = [
    "cpus-per-task",
    "gpus",
    "gpus-per-node",
    "gpus-per-task",
    "gres",
    "mem",
    "mem-per-cpu",
    "nodes",
    "ntasks",
    "ntasks-per-gpu",
    "ntasks-per-node",
    "tres-per-task",
];

/// Variables of Slurm that would differ in a job with one task.
const COUNTS: [&str; 7] = [
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
];

/// Programs that start several tasks.
const LAUNCHERS: [&str; 5] = ["srun", "mpirun", "mpiexec", "orterun", "prterun"];

/// Returns whether a body names a launcher, in any language.
pub(super) fn names_launcher(body: &str) -> bool {
    LAUNCHERS.iter().any(|name| body.contains(name))
}

/// Returns whether one task can have the resources of its node: they are certain, and neither
/// `srun` nor `mpirun` needs several tasks.
pub(super) fn is_for_one_task(
    sizes: &RequestedSizes,
    body: &str,
    steps: &[(LaunchCommand, Geometry)],
) -> bool {
    let is_known = match sizes.shape() {
        TaskLayout::One => false,
        TaskLayout::Anywhere { .. } => sizes.gpus_per_node.is_some(),
        TaskLayout::Nodes { per_node, .. } => per_node > 1,
        TaskLayout::Uneven { nodes, .. } => nodes == 1,
    };
    let starts_tasks = steps.iter().any(|(step, _)| step.srun.is_some() || step.mpirun.is_some());
    is_known && !starts_tasks && !names_launcher(body)
}

/// Sets those of Slurm's variables that the script reads.
pub(super) fn variables(sizes: &RequestedSizes, body: &str) -> String {
    let known = ShellVariables::of_job(sizes);
    let lines: String = COUNTS
        .iter()
        .filter(|name| body.contains(*name))
        .filter_map(|name| Some(format!("export {name}={}\n", known.get(name)?)))
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("# Slurm's variables for the requested tasks.\n{lines}")
    }
}

/// Merges the tasks of a node into one, and updates the results of their options.
pub(super) fn merge(
    sizes: &RequestedSizes,
    draft: &mut ImportedJob,
    options: &mut [ImportedOption],
) {
    let Some(tasks) = sizes.per_node().or(sizes.task_count()) else { return };
    let Some(group) = draft.groups.first_mut() else { return };
    // 1. One task, with all GPUs, CPUs, memory and other resources of the node.
    let cpus = match (sizes.cpus_per_task, sizes.cpus_per_gpu) {
        (None, Some(_)) => None,
        (each, _) => Some(tasks * each.unwrap_or(1)),
    };
    let gpus = sizes.gpus_on_node().or_else(|| sizes.gpu_count()).filter(|count| *count > 0);
    let memory = match sizes.memory {
        Some(Memory::Node(all)) => Some(all),
        Some(Memory::Cpu(each)) => {
            cpus.or_else(|| Some(sizes.cpus_per_gpu? * gpus?)).map(|cpus| cpus * each)
        }
        Some(Memory::WholeNode | Memory::Gpu(_)) | None => None,
    };
    *group = DraftGroup {
        name: group.name.take(),
        nodes: group.nodes.filter(|nodes| *nodes > 1),
        min_nodes: group.min_nodes,
        gpus,
        gpu: gpus.and_then(|_| sizes.model().map(str::to_owned)),
        cpus,
        memory: memory.filter(|all| *all > 0),
        extras: sizes.extras.clone(),
        run: std::mem::take(&mut group.run),
        ..DraftGroup::default()
    };
    // 2. Update the results of the options.
    let is_one_node = group.nodes.is_none();
    for answer in options.iter_mut().filter(|answer| MERGED.contains(&answer.option.as_str())) {
        let is_said_again = answer.text.contains("is given again");
        if is_said_again
            || answer.becomes == ImportOutcome::Raw
            || answer.option == "nodes" && !is_one_node
        {
            continue;
        }
        let says = match answer.option.as_str() {
            "nodes" => "one node, the default of a job".to_owned(),
            "ntasks" | "ntasks-per-node" | "ntasks-per-gpu" => {
                let each = if is_one_node { "one task" } else { "one task of each node" };
                format!("{each} with the resources of {tasks}: nothing in the script starts tasks")
            }
            "cpus-per-task" => format!("cpus of {tasks} tasks, for the only one"),
            "mem" | "mem-per-cpu" => "memory of the node, for the only task".to_owned(),
            _ => "the resources of all tasks on the node, for the only one".to_owned(),
        };
        let is_understood = match answer.option.as_str() {
            "gpus" | "gpus-per-node" | "gpus-per-task" => gpus.is_some(),
            "gres" => gpus.is_some() || !sizes.extras.is_empty(),
            "mem" | "mem-per-cpu" => memory.is_some(),
            _ => true,
        };
        if is_understood {
            (answer.becomes, answer.text) = (ImportOutcome::Near, says);
        }
    }
}

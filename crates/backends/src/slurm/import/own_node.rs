//! A script that starts its processes itself, on nodes of several tasks: the job has one task on
//! each node with all that these tasks would have there. With several, the task that runs the
//! script would see its own share alone, where a batch script sees the whole of its node.

use muster_model::imported::{Becomes, ImportedOption};

use super::draft::{Draft, Group};
use super::geometry::Geometry;
use super::known::Variables;
use super::launch::Step;
use super::sizes::{Memory, Shape, Sizes};

/// Options of which something else is made than of those of several tasks.
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

/// Variables of Slurm that would say something else in a job of one task.
const COUNTS: [&str; 7] = [
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
];

/// What starts several tasks.
const LAUNCHERS: [&str; 5] = ["srun", "mpirun", "mpiexec", "orterun", "prterun"];

/// Whether a body names what starts tasks, in whatever language.
pub(super) fn names_launcher(body: &str) -> bool {
    LAUNCHERS.iter().any(|name| body.contains(name))
}

/// Whether one task can have all of its node: it is certain what that is, and neither `srun` nor
/// `mpirun` is to find several tasks.
pub(super) fn is_for_one_task(sizes: &Sizes, body: &str, steps: &[(Step, Geometry)]) -> bool {
    let is_known = match sizes.shape() {
        Shape::One => false,
        Shape::Anywhere { .. } => sizes.gpus_per_node.is_some(),
        Shape::Nodes { per_node, .. } => per_node > 1,
        Shape::Uneven { nodes, .. } => nodes == 1,
    };
    let starts_tasks = steps.iter().any(|(step, _)| step.srun.is_some() || step.mpirun.is_some());
    is_known && !starts_tasks && !names_launcher(body)
}

/// What Slurm would tell the script, where it asks.
pub(super) fn variables(sizes: &Sizes, body: &str) -> String {
    let known = Variables::of_job(sizes);
    let lines: String = COUNTS
        .iter()
        .filter(|name| body.contains(*name))
        .filter_map(|name| Some(format!("export {name}={}\n", known.get(name)?)))
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("# What Slurm says of the tasks that were asked for.\n{lines}")
    }
}

/// Gives one task what all have, and says so for every option of theirs.
pub(super) fn merge(sizes: &Sizes, draft: &mut Draft, options: &mut [ImportedOption]) {
    let Some(tasks) = sizes.per_node().or(sizes.task_count()) else { return };
    let Some(group) = draft.groups.first_mut() else { return };
    // 1. One task, with GPUs, CPUs, memory and the rest of the node.
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
    *group = Group {
        name: group.name.take(),
        nodes: group.nodes.filter(|nodes| *nodes > 1),
        min_nodes: group.min_nodes,
        gpus,
        gpu: gpus.and_then(|_| sizes.model().map(str::to_owned)),
        cpus,
        memory: memory.filter(|all| *all > 0),
        extras: sizes.extras.clone(),
        run: std::mem::take(&mut group.run),
        ..Group::default()
    };
    // 2. What that means for each option.
    let is_one_node = group.nodes.is_none();
    for answer in options.iter_mut().filter(|answer| MERGED.contains(&answer.option.as_str())) {
        let is_said_again = answer.says.contains("is given again");
        if is_said_again
            || answer.becomes == Becomes::Raw
            || answer.option == "nodes" && !is_one_node
        {
            continue;
        }
        let says = match answer.option.as_str() {
            "nodes" => "one node, which is what a job without `nodes` has".to_owned(),
            "ntasks" | "ntasks-per-node" | "ntasks-per-gpu" => {
                let each = if is_one_node { "one task" } else { "one task of each node" };
                format!("{each} with what {tasks} would have: nothing in the script starts tasks")
            }
            "cpus-per-task" => format!("cpus of {tasks} tasks, for the one"),
            "mem" | "mem-per-cpu" => "memory of the node, for the one task".to_owned(),
            _ => "what the node gives all tasks, for the one".to_owned(),
        };
        let is_understood = match answer.option.as_str() {
            "gpus" | "gpus-per-node" | "gpus-per-task" => gpus.is_some(),
            "gres" => gpus.is_some() || !sizes.extras.is_empty(),
            "mem" | "mem-per-cpu" => memory.is_some(),
            _ => true,
        };
        if is_understood {
            (answer.becomes, answer.says) = (Becomes::Near, says);
        }
    }
}

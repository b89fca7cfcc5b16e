//! Translates the sizes of a component to those of a group: number of tasks and nodes, and the
//! GPUs, CPUs and memory per task.

use std::collections::BTreeMap;

use muster_model::imported::ImportOutcome;

use super::super::draft::DraftGroup;
use super::super::option::GivenOption;
use super::super::sizes::{Memory, RequestedSizes, TaskLayout};
use super::{Translation, field, near, nothing};

/// Options that are translated together.
pub(super) const NAMES: &[&str] = &[
    "cpus-per-task",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
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

/// Returns the option that is kept instead of this one, where sbatch rejects both together (tested
/// on 22.05).
pub(super) fn beaten(given: &[GivenOption], name: &str) -> Option<&'static str> {
    let said = |wanted: &str| given.iter().any(|one| one.name == Some(wanted));
    match name {
        "cpus-per-gpu" => said("cpus-per-task").then_some("cpus-per-task"),
        "mem" | "mem-per-cpu" | "mem-per-gpu" => {
            let of_memory = |one: &&GivenOption| {
                matches!(one.name, Some("mem" | "mem-per-cpu" | "mem-per-gpu"))
            };
            given
                .iter()
                .rev()
                .find(of_memory)
                .and_then(|last| last.name)
                .filter(|last| *last != name)
        }
        _ => None,
    }
}

/// Builds the group, and the result for each of its options.
pub(super) fn group(
    sizes: &RequestedSizes,
    given: &[GivenOption],
    is_het: bool,
) -> (DraftGroup, BTreeMap<&'static str, Translation>) {
    let mut group = DraftGroup::default();
    let mut verdicts = BTreeMap::new();
    let said = |name: &str| given.iter().any(|one| one.name == Some(name));
    // 1. Number and layout of tasks.
    let shape = tasks(sizes, &mut group, &mut verdicts, is_het);
    // 2. GPUs.
    gpus(sizes, shape, &mut group, &mut verdicts);
    // 3. CPUs and memory per task.
    group.cpus = sizes.cpus_per_task;
    verdicts.insert(
        "cpus-per-task",
        sizes.cpus_per_task.map_or_else(|| nothing("not a number of CPUs"), |_| field("cpus")),
    );
    memory(sizes, shape, &mut group, &mut verdicts, is_het);
    // 4. The rest of --gres.
    gres(sizes, shape, &mut group, &mut verdicts);
    if said("gpus-per-socket") {
        let why = "a job has no field for sockets; set the GPUs per node: `gpus`";
        verdicts.insert("gpus-per-socket", nothing(why));
    }
    if said("tres-per-task") {
        let says = if sizes.gpus_per_task.is_some() || sizes.cpus_per_task.is_some() {
            field("cpus and GPUs of each task")
        } else {
            nothing("only cpu and gres/gpu per task are supported")
        };
        verdicts.insert("tres-per-task", says);
    }
    verdicts.retain(|name, _| said(name));
    (group, verdicts)
}

fn tasks(
    sizes: &RequestedSizes,
    group: &mut DraftGroup,
    verdicts: &mut BTreeMap<&'static str, Translation>,
    is_het: bool,
) -> TaskLayout {
    let mut shape = sizes.shape();
    verdicts.insert("ntasks-per-node", field("tasks-per-node"));
    verdicts.insert("ntasks", field("nodes × tasks-per-node"));
    verdicts.insert("nodes", field("nodes"));
    verdicts.insert(
        "ntasks-per-gpu",
        match sizes.tasks_per_gpu {
            Some(1) => near("tasks: one for each GPU"),
            _ => nothing("several tasks on one GPU: each task of a job has its own GPUs"),
        },
    );
    // GPUs per node without a number of nodes: one node is what most such scripts get.
    let is_open = matches!(shape, TaskLayout::Anywhere { .. }) && sizes.gpus_per_node.is_some();
    if let (TaskLayout::Anywhere { tasks }, true) = (shape, is_open) {
        shape = TaskLayout::Nodes { fewest: 1, most: 1, per_node: tasks };
        let says = "nodes: 1 with tasks-per-node: GPUs are requested per node, and Slurm may use several nodes";
        verdicts.insert("ntasks", near(says));
    }
    match shape {
        TaskLayout::One => {
            verdicts.insert("ntasks", field("one task"));
        }
        TaskLayout::Nodes { fewest, most, per_node } => {
            // One task on one node is the default of a job.
            group.nodes = (most > 1 || per_node > 1).then_some(most);
            group.tasks_per_node = (per_node > 1).then_some(per_node);
            group.min_nodes = (fewest < most && !is_het).then_some(fewest);
            verdicts.extend(node_answers(sizes, (fewest, most, per_node), is_het, is_open));
        }
        TaskLayout::Anywhere { tasks } => {
            group.tasks = Some(tasks);
            verdicts.insert("ntasks", field("tasks"));
        }
        TaskLayout::Uneven { nodes, tasks } => {
            group.tasks = Some(tasks);
            verdicts.insert("ntasks", field("tasks"));
            let why = format!(
                "{tasks} tasks do not divide evenly among {nodes} nodes: they are placed wherever they fit"
            );
            verdicts.insert("nodes", nothing(why.clone()));
            verdicts.insert("ntasks-per-node", nothing(why));
        }
    }
    shape
}

/// Returns the results for the options that set the nodes of a fixed number of tasks per node:
/// `(fewest, most, per_node)`.
fn node_answers(
    sizes: &RequestedSizes,
    (fewest, most, per_node): (u64, u64, u64),
    is_het: bool,
    is_open: bool,
) -> BTreeMap<&'static str, Translation> {
    let mut answers = BTreeMap::new();
    if fewest < most && is_het {
        answers.insert("nodes", near("nodes: the maximum of the range; a group has a fixed size"));
    } else if fewest < most {
        answers.insert("nodes", field("nodes and min-nodes"));
    }
    if sizes.nodes.is_some_and(|(_, asked)| asked > most) {
        let says = format!("nodes: {most}, as in Slurm: there are no more tasks");
        answers.insert("nodes", near(says));
    } else if sizes.nodes.is_none() && sizes.tasks.is_some() && !is_open {
        let says = "tasks-per-node; in Slurm it is the maximum per node";
        answers.insert("ntasks-per-node", near(says));
    }
    if sizes.tasks_per_node.is_some_and(|asked| asked != per_node) {
        let says = format!("tasks-per-node: {per_node}, as --ntasks takes precedence");
        answers.insert("ntasks-per-node", near(says));
    }
    answers
}

fn gpus(
    sizes: &RequestedSizes,
    shape: TaskLayout,
    group: &mut DraftGroup,
    verdicts: &mut BTreeMap<&'static str, Translation>,
) {
    let all = [
        ("gpus-per-node", &sizes.gpus_per_node),
        ("gpus-per-task", &sizes.gpus_per_task),
        ("gpus", &sizes.gpus),
    ];
    for name in ["gpus-per-node", "gpus-per-task", "gpus"] {
        verdicts.insert(name, nothing("a job accepts GPUs of one model, such as `8` or `h100:8`"));
    }
    // The first option decides, if its GPUs divide evenly among the tasks.
    let mut decided: Option<&'static str> = None;
    for (name, asked) in all.iter().filter_map(|(name, asked)| Some((*name, (*asked).as_ref()?))) {
        if let Some(first) = decided {
            verdicts.insert(name, near(format!("--{first} sets the number; the two must agree")));
            continue;
        }
        let (amount, verdict) = share(name, asked.count, shape);
        verdicts.insert(name, verdict);
        match amount {
            Some(0) => decided = Some(name),
            Some(count) => {
                match shape {
                    TaskLayout::Anywhere { .. } | TaskLayout::Uneven { .. } => {
                        group.gpus_per_task = Some(count)
                    }
                    TaskLayout::One | TaskLayout::Nodes { .. } => group.gpus = Some(count),
                }
                group.gpu = asked.model.clone();
                decided = Some(name);
            }
            None => {}
        }
    }
}

/// Returns the GPUs per node, or per task where tasks have no fixed nodes.
fn share(name: &str, count: u64, shape: TaskLayout) -> (Option<u64>, Translation) {
    let uneven = |tasks: u64| {
        (
            None,
            nothing(format!(
                "{count} GPUs do not divide evenly among {tasks} tasks: each task of a job has its own whole GPUs"
            )),
        )
    };
    match (name, shape) {
        ("gpus-per-node", TaskLayout::One) => (Some(count), field("gpus")),
        ("gpus-per-node", TaskLayout::Nodes { per_node, .. }) => match count % per_node {
            0 => (Some(count), field("gpus")),
            _ => uneven(per_node),
        },
        ("gpus-per-node", _) => (None, nothing("the number of nodes is not set")),
        ("gpus-per-task", TaskLayout::One) => (Some(count), field("gpus")),
        ("gpus-per-task", TaskLayout::Nodes { per_node, .. }) => {
            (Some(count * per_node), field("gpus, per node"))
        }
        ("gpus-per-task", _) => (Some(count), field("gpus-per-task")),
        (_, TaskLayout::One) => (Some(count), near("gpus, on one node; Slurm may use several")),
        (_, TaskLayout::Nodes { fewest, most, per_node }) => {
            match (fewest == most, count % (most * per_node)) {
                (true, 0) if most == 1 => (Some(count), field("gpus")),
                (true, 0) => (
                    Some(count / most),
                    near("gpus per node, evenly; Slurm may distribute them differently"),
                ),
                _ => uneven(most * per_node),
            }
        }
        (_, TaskLayout::Anywhere { tasks } | TaskLayout::Uneven { tasks, .. }) => {
            match count % tasks {
                0 => (Some(count / tasks), near("gpus-per-task, evenly")),
                _ => uneven(tasks),
            }
        }
    }
}

fn memory(
    sizes: &RequestedSizes,
    shape: TaskLayout,
    group: &mut DraftGroup,
    verdicts: &mut BTreeMap<&'static str, Translation>,
    is_het: bool,
) {
    let by_shape = match (sizes.memory, shape) {
        (Some(Memory::Node(all)), TaskLayout::Nodes { per_node, .. }) => {
            (all % per_node == 0).then_some(all / per_node)
        }
        _ => sizes.memory_of_task(),
    };
    group.memory = by_shape.filter(|each| *each > 0);
    let verdict = match (sizes.memory, group.memory) {
        (Some(Memory::WholeNode), _) if is_het => {
            nothing("all memory of a node: groups have no field for it")
        }
        (Some(Memory::WholeNode), _) => {
            (ImportOutcome::Raw, "slurm: {options: --mem=0}".to_owned())
        }
        (Some(_), Some(each)) => field(format!("memory: {} per task", super::value::memory(each))),
        (Some(Memory::Node(all)), None) => nothing(format!(
            "{all} MiB of a node do not divide evenly among its tasks, or the tasks have no fixed nodes"
        )),
        _ => nothing("not a memory size"),
    };
    verdicts.insert("mem", verdict.clone());
    verdicts.insert("mem-per-cpu", verdict);
}

fn gres(
    sizes: &RequestedSizes,
    shape: TaskLayout,
    group: &mut DraftGroup,
    verdicts: &mut BTreeMap<&'static str, Translation>,
) {
    let gpus = verdicts.get("gpus-per-node").cloned();
    let per_node = match shape {
        TaskLayout::One => Some(1),
        TaskLayout::Nodes { per_node, .. } => Some(per_node),
        TaskLayout::Anywhere { .. } | TaskLayout::Uneven { .. } => None,
    };
    let shared: Option<Vec<(String, u64)>> = sizes
        .extras
        .iter()
        .map(|(name, count)| {
            let per_node = per_node.filter(|per_node| *count > 0 && count % per_node == 0)?;
            Some((name.clone(), count / per_node))
        })
        .collect();
    let verdict = match (shared, gpus) {
        (None, _) => nothing(
            "these do not divide evenly among the tasks of a node: `extras` counts per task",
        ),
        (Some(extras), Some(gpus)) if sizes.gpus_per_node.is_some() => {
            group.extras = extras;
            if group.extras.is_empty() || gpus.0 == ImportOutcome::NotMapped {
                gpus
            } else {
                (gpus.0, "gpus and extras".to_owned())
            }
        }
        (Some(extras), _) if !extras.is_empty() => {
            group.extras = extras;
            field("extras")
        }
        _ => nothing("not resources such as `gpu:4` or `gpu:h100:4,nvme:1`"),
    };
    verdicts.insert("gres", verdict);
}

/// Adds the sizes in normal form.
pub(super) fn requested(
    sizes: &RequestedSizes,
    put: &mut impl FnMut(&str, String) -> Option<String>,
) {
    match sizes.shape() {
        TaskLayout::One => {
            put("nodes", "1".to_owned());
            put("ntasks", "1".to_owned());
        }
        TaskLayout::Nodes { fewest, most, per_node } => {
            put(
                "nodes",
                if fewest == most { most.to_string() } else { format!("{fewest}-{most}") },
            );
            put(
                "ntasks",
                if fewest == most {
                    (most * per_node).to_string()
                } else {
                    format!("{per_node} of each node")
                },
            );
        }
        TaskLayout::Anywhere { tasks } => {
            put("ntasks", tasks.to_string());
        }
        TaskLayout::Uneven { nodes, tasks } => {
            put("nodes", nodes.to_string());
            put("ntasks", tasks.to_string());
        }
    }
    if sizes.has_gpus() {
        put(
            "gpus-per-task",
            sizes.gpus_of_task().map_or_else(|| "uneven".to_owned(), |count| count.to_string()),
        );
    }
    if let Some(model) = sizes.model() {
        put("gpu-model", model.to_owned());
    }
    if let Some(cpus) = sizes.cpus_per_task {
        put("cpus-per-task", cpus.to_string());
    }
    match (sizes.memory, sizes.memory_of_task()) {
        (Some(Memory::WholeNode), _) => drop(put("memory", "all of the node".to_owned())),
        (Some(_), Some(each)) => drop(put("memory-per-task", format!("{each} MiB"))),
        _ => {}
    }
    let mut extras: Vec<String> =
        sizes.extras.iter().map(|(name, count)| format!("{name}:{count}")).collect();
    extras.sort();
    if !extras.is_empty() {
        put("gres", extras.join(","));
    }
}

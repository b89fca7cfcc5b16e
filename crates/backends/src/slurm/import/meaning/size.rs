//! Sizes of a component as those of a group of a job: how many tasks on how many nodes, with which
//! GPUs, CPUs and memory each.

use std::collections::BTreeMap;

use muster_model::imported::Becomes;

use super::super::draft::Group;
use super::super::option::Given;
use super::super::sizes::{Memory, Shape, Sizes};
use super::{Verdict, field, near, nothing};

/// Options that are understood together.
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

/// Of options that sbatch refuses together (tried on 22.05) the one that is kept in place of this
/// one.
pub(super) fn beaten(given: &[Given], name: &str) -> Option<&'static str> {
    let said = |wanted: &str| given.iter().any(|one| one.name == Some(wanted));
    match name {
        "cpus-per-gpu" => said("cpus-per-task").then_some("cpus-per-task"),
        "mem" | "mem-per-cpu" | "mem-per-gpu" => {
            let of_memory =
                |one: &&Given| matches!(one.name, Some("mem" | "mem-per-cpu" | "mem-per-gpu"));
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

/// The group, and what became of each of its options.
pub(super) fn group(
    sizes: &Sizes,
    given: &[Given],
    is_het: bool,
) -> (Group, BTreeMap<&'static str, Verdict>) {
    let mut group = Group::default();
    let mut verdicts = BTreeMap::new();
    let said = |name: &str| given.iter().any(|one| one.name == Some(name));
    // 1. How many, and where.
    let shape = tasks(sizes, &mut group, &mut verdicts, is_het);
    // 2. GPUs.
    gpus(sizes, shape, &mut group, &mut verdicts);
    // 3. CPUs and memory of each task.
    group.cpus = sizes.cpus_per_task;
    verdicts.insert(
        "cpus-per-task",
        sizes.cpus_per_task.map_or_else(|| nothing("no number of CPUs"), |_| field("cpus")),
    );
    memory(sizes, shape, &mut group, &mut verdicts, is_het);
    // 4. The rest of --gres.
    gres(sizes, shape, &mut group, &mut verdicts);
    if said("gpus-per-socket") {
        let why = "a job has no word for sockets; say how many GPUs a node gives: `gpus`";
        verdicts.insert("gpus-per-socket", nothing(why));
    }
    if said("tres-per-task") {
        let says = match sizes.gpus_per_task.is_some() || sizes.cpus_per_task.is_some() {
            true => field("cpus and GPUs of each task"),
            false => nothing("only cpu and gres/gpu of a task are understood"),
        };
        verdicts.insert("tres-per-task", says);
    }
    verdicts.retain(|name, _| said(name));
    (group, verdicts)
}

fn tasks(
    sizes: &Sizes,
    group: &mut Group,
    verdicts: &mut BTreeMap<&'static str, Verdict>,
    is_het: bool,
) -> Shape {
    let mut shape = sizes.shape();
    verdicts.insert("ntasks-per-node", field("tasks-per-node"));
    verdicts.insert("ntasks", field("nodes × tasks-per-node"));
    verdicts.insert("nodes", field("nodes"));
    verdicts.insert(
        "ntasks-per-gpu",
        match sizes.tasks_per_gpu {
            Some(1) => near("tasks: one for each GPU"),
            _ => nothing("several tasks on one GPU: a task of a job has GPUs of its own"),
        },
    );
    // GPUs of each node, and nobody says how many nodes: one is what most such scripts get.
    let is_open = matches!(shape, Shape::Anywhere { .. }) && sizes.gpus_per_node.is_some();
    if let (Shape::Anywhere { tasks }, true) = (shape, is_open) {
        shape = Shape::Nodes { fewest: 1, most: 1, per_node: tasks };
        let says = "nodes: 1 with tasks-per-node: GPUs are asked for per node, and Slurm may take several nodes";
        verdicts.insert("ntasks", near(says));
    }
    match shape {
        Shape::One => {
            verdicts.insert("ntasks", field("one task"));
        }
        Shape::Nodes { fewest, most, per_node } => {
            // One task on one node is a job without any of this.
            group.nodes = (most > 1 || per_node > 1).then_some(most);
            group.tasks_per_node = (per_node > 1).then_some(per_node);
            if fewest < most && is_het {
                verdicts.insert(
                    "nodes",
                    near("nodes: the most of the range; a group has a fixed size"),
                );
            } else if fewest < most {
                group.min_nodes = Some(fewest);
                verdicts.insert("nodes", field("nodes and min-nodes"));
            }
            if sizes.nodes.is_some_and(|(_, asked)| asked > most) {
                let says = format!("nodes: {most}, as Slurm makes it: there are no more tasks");
                verdicts.insert("nodes", near(says));
            } else if sizes.nodes.is_none() && sizes.tasks.is_some() && !is_open {
                verdicts.insert(
                    "ntasks-per-node",
                    near("tasks-per-node; for Slurm it is the most that a node may take"),
                );
            }
            if sizes.tasks_per_node.is_some_and(|asked| asked != per_node) {
                verdicts.insert(
                    "ntasks-per-node",
                    near(format!("tasks-per-node: {per_node}, since --ntasks counts more")),
                );
            }
        }
        Shape::Anywhere { tasks } => {
            group.tasks = Some(tasks);
            verdicts.insert("ntasks", field("tasks"));
        }
        Shape::Uneven { nodes, tasks } => {
            group.tasks = Some(tasks);
            verdicts.insert("ntasks", field("tasks"));
            let why = format!(
                "{tasks} tasks do not divide over {nodes} nodes: they are placed wherever they fit"
            );
            verdicts.insert("nodes", nothing(why.clone()));
            verdicts.insert("ntasks-per-node", nothing(why));
        }
    }
    shape
}

fn gpus(
    sizes: &Sizes,
    shape: Shape,
    group: &mut Group,
    verdicts: &mut BTreeMap<&'static str, Verdict>,
) {
    let all = [
        ("gpus-per-node", &sizes.gpus_per_node),
        ("gpus-per-task", &sizes.gpus_per_task),
        ("gpus", &sizes.gpus),
    ];
    for name in ["gpus-per-node", "gpus-per-task", "gpus"] {
        verdicts.insert(
            name,
            nothing("GPUs of one model, such as `8` or `h100:8`, can stand in a job"),
        );
    }
    // The first that is said decides, if the tasks can share it out evenly.
    let mut decided: Option<&'static str> = None;
    for (name, asked) in all.iter().filter_map(|(name, asked)| Some((*name, (*asked).as_ref()?))) {
        if let Some(first) = decided {
            verdicts.insert(
                name,
                near(format!("--{first} decides how many; together they must agree")),
            );
            continue;
        }
        let (amount, verdict) = share(name, asked.count, shape);
        verdicts.insert(name, verdict);
        match amount {
            Some(0) => decided = Some(name),
            Some(count) => {
                match shape {
                    Shape::Anywhere { .. } | Shape::Uneven { .. } => {
                        group.gpus_per_task = Some(count)
                    }
                    Shape::One | Shape::Nodes { .. } => group.gpus = Some(count),
                }
                group.gpu = asked.model.clone();
                decided = Some(name);
            }
            None => {}
        }
    }
}

/// GPUs of each node, or of each task where tasks go anywhere.
fn share(name: &str, count: u64, shape: Shape) -> (Option<u64>, Verdict) {
    let uneven = |tasks: u64| {
        (
            None,
            nothing(format!(
                "{count} GPUs do not divide among {tasks} tasks: a task of a job has whole GPUs of its own"
            )),
        )
    };
    match (name, shape) {
        ("gpus-per-node", Shape::One) => (Some(count), field("gpus")),
        ("gpus-per-node", Shape::Nodes { per_node, .. }) => match count % per_node {
            0 => (Some(count), field("gpus")),
            _ => uneven(per_node),
        },
        ("gpus-per-node", _) => (None, nothing("how many nodes there are is not said")),
        ("gpus-per-task", Shape::One) => (Some(count), field("gpus")),
        ("gpus-per-task", Shape::Nodes { per_node, .. }) => {
            (Some(count * per_node), field("gpus, of each node"))
        }
        ("gpus-per-task", _) => (Some(count), field("gpus-per-task")),
        (_, Shape::One) => {
            (Some(count), near("gpus, on one node; Slurm may take them from several"))
        }
        (_, Shape::Nodes { fewest, most, per_node }) => {
            match (fewest == most, count % (most * per_node)) {
                (true, 0) if most == 1 => (Some(count), field("gpus")),
                (true, 0) => (
                    Some(count / most),
                    near("gpus of each node, evenly; Slurm may spread them otherwise"),
                ),
                _ => uneven(most * per_node),
            }
        }
        (_, Shape::Anywhere { tasks } | Shape::Uneven { tasks, .. }) => match count % tasks {
            0 => (Some(count / tasks), near("gpus-per-task, evenly")),
            _ => uneven(tasks),
        },
    }
}

fn memory(
    sizes: &Sizes,
    shape: Shape,
    group: &mut Group,
    verdicts: &mut BTreeMap<&'static str, Verdict>,
    is_het: bool,
) {
    let by_shape = match (sizes.memory, shape) {
        (Some(Memory::Node(all)), Shape::Nodes { per_node, .. }) => {
            (all % per_node == 0).then_some(all / per_node)
        }
        _ => sizes.memory_of_task(),
    };
    group.memory = by_shape.filter(|each| *each > 0);
    let verdict = match (sizes.memory, group.memory) {
        (Some(Memory::WholeNode), _) if is_het => {
            nothing("all memory of a node: groups have no word for it")
        }
        (Some(Memory::WholeNode), _) => (Becomes::Raw, "slurm: {options: --mem=0}".to_owned()),
        (Some(_), Some(each)) => {
            field(format!("memory: {} of each task", super::value::memory(each)))
        }
        (Some(Memory::Node(all)), None) => nothing(format!(
            "{all} MiB of a node do not divide among its tasks, or go to tasks that lie anywhere"
        )),
        _ => nothing("no size of memory"),
    };
    verdicts.insert("mem", verdict.clone());
    verdicts.insert("mem-per-cpu", verdict);
}

fn gres(
    sizes: &Sizes,
    shape: Shape,
    group: &mut Group,
    verdicts: &mut BTreeMap<&'static str, Verdict>,
) {
    let gpus = verdicts.get("gpus-per-node").cloned();
    let per_node = match shape {
        Shape::One => Some(1),
        Shape::Nodes { per_node, .. } => Some(per_node),
        Shape::Anywhere { .. } | Shape::Uneven { .. } => None,
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
        (None, _) => {
            nothing("these do not divide among the tasks of a node: `extras` counts per task")
        }
        (Some(extras), Some(gpus)) if sizes.gpus_per_node.is_some() => {
            group.extras = extras;
            match group.extras.is_empty() || gpus.0 == Becomes::NotMapped {
                true => gpus,
                false => (gpus.0, "gpus and extras".to_owned()),
            }
        }
        (Some(extras), _) if !extras.is_empty() => {
            group.extras = extras;
            field("extras")
        }
        _ => nothing("no resources such as `gpu:4` or `gpu:h100:4,nvme:1`"),
    };
    verdicts.insert("gres", verdict);
}

/// The sizes in one way of writing.
pub(super) fn asks(sizes: &Sizes, put: &mut impl FnMut(&str, String) -> Option<String>) {
    match sizes.shape() {
        Shape::One => {
            put("nodes", "1".to_owned());
            put("ntasks", "1".to_owned());
        }
        Shape::Nodes { fewest, most, per_node } => {
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
        Shape::Anywhere { tasks } => {
            put("ntasks", tasks.to_string());
        }
        Shape::Uneven { nodes, tasks } => {
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

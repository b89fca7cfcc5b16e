//! How many processes a script starts, multiplied out: nodes, tasks of a step, workers of each
//! task. Where a factor is not certain, the product is not, and that is said.

use muster_model::imported::LaunchStep;

use super::launch::{Started, Starter, Step, Value};
use super::sizes::Sizes;

/// What a step comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Nodes on which it starts something.
    pub(super) nodes: Option<u64>,
    /// Copies of its program.
    pub(super) tasks: Option<u64>,
    /// Copies on each node.
    pub(super) on_node: Option<u64>,
    /// Processes of each copy.
    pub(super) per_task: Option<u64>,
    /// It may be started several times, or never.
    pub(super) is_repeated: bool,
    /// What is not certain.
    pub(super) unknown: Vec<String>,
}

impl Geometry {
    /// Processes in all.
    pub(super) fn processes(&self) -> Option<u64> {
        let (tasks, per_task) = (self.tasks?, self.per_task?);
        tasks.checked_mul(per_task).filter(|_| !self.is_repeated)
    }

    /// Processes on each node.
    pub(super) fn processes_on_node(&self) -> Option<u64> {
        self.on_node?.checked_mul(self.per_task?)
    }

    /// As it is answered.
    pub(super) fn answer(&self, step: &Step, first_line: u32) -> LaunchStep {
        LaunchStep {
            line: first_line + step.line - 1,
            launchers: step.launchers.clone(),
            tasks: self.tasks,
            per_task: self.per_task,
            processes: self.processes(),
            unknown: self.unknown.clone(),
        }
    }
}

/// Multiplies a step out.
pub(super) fn geometry(step: &Step, sizes: &Sizes) -> Geometry {
    let mut geometry = Geometry::default();
    // 1. Copies.
    if step.srun.is_some() {
        copies_of_srun(step, sizes, &mut geometry);
    } else if let Some(mpirun) = &step.mpirun {
        let number = mpirun.processes.as_ref().map_or(sizes.task_count(), Value::number);
        geometry.tasks = number;
        geometry.nodes = sizes.node_count();
        geometry.on_node = number
            .zip(geometry.nodes)
            .and_then(|(tasks, nodes)| (tasks % nodes == 0).then_some(tasks / nodes));
        if number.is_none() {
            geometry.unknown.push("how many mpirun starts".to_owned());
        }
    } else if step.started.as_ref().is_some_and(is_on_hosts) {
        geometry.unknown.push("on which hosts deepspeed starts".to_owned());
    } else {
        (geometry.nodes, geometry.tasks, geometry.on_node) = (Some(1), Some(1), Some(1));
    }
    // 2. What each of them starts.
    geometry.per_task = workers(step, sizes, &mut geometry);
    // 3. How often.
    geometry.is_repeated = step.is_repeated;
    if step.is_repeated {
        geometry.unknown.push("how often a loop or a function starts it".to_owned());
    }
    geometry
}

/// Whether deepspeed goes to other hosts by itself, which its own files name.
fn is_on_hosts(started: &Started) -> bool {
    let names = ["hostfile", "H", "include", "i", "exclude", "e", "num-nodes"];
    started.by == Starter::Deepspeed && started.has(&names)
}

fn copies_of_srun(step: &Step, sizes: &Sizes, geometry: &mut Geometry) {
    let Some(srun) = &step.srun else { return };
    if step.component().is_none() {
        return geometry.unknown.push("how many tasks the components have together".to_owned());
    }
    let number = |name: &str| -> Option<Option<u64>> {
        let text = srun.value(name)?;
        Some(match name {
            "nodes" => super::value::nodes(text).map(|(_, most)| most),
            _ => super::value::count(text),
        })
    };
    for name in ["nodes", "ntasks", "ntasks-per-node"] {
        if number(name) == Some(None) {
            geometry
                .unknown
                .push(format!("srun --{name}={}", srun.value(name).unwrap_or_default()));
        }
    }
    let first = srun.program.first().map(super::shell::Word::shown);
    geometry.unknown.extend(
        first.filter(|first| srun.unknown.contains(first)).map(|first| format!("srun {first}")),
    );
    if !geometry.unknown.is_empty() {
        return;
    }
    let given = |name: &str| number(name).flatten();
    let nodes = given("nodes").or(sizes.node_count());
    let per_node = given("ntasks-per-node");
    let tasks = match (given("ntasks"), per_node, given("nodes")) {
        (Some(tasks), ..) => Some(tasks),
        (None, Some(per_node), _) => nodes.map(|nodes| nodes * per_node),
        // What sbatch was told comes through the environment.
        (None, None, Some(nodes)) => match (sizes.tasks_per_node, sizes.tasks) {
            (Some(per_node), _) => Some(nodes * per_node),
            (None, Some(tasks)) => Some(tasks),
            (None, None) => Some(nodes),
        },
        (None, None, None) => sizes.task_count(),
    };
    geometry.tasks = tasks;
    geometry.nodes = match (tasks, nodes) {
        (Some(tasks), Some(nodes)) => Some(nodes.min(tasks)),
        _ => nodes,
    };
    geometry.on_node = match (per_node, tasks, geometry.nodes) {
        (Some(per_node), ..) => Some(per_node),
        (None, Some(tasks), Some(nodes)) if nodes > 0 && tasks % nodes == 0 => Some(tasks / nodes),
        _ => sizes.per_node().filter(|_| given("ntasks").is_none()),
    };
    if tasks.is_none() {
        geometry.unknown.push("how many tasks srun starts".to_owned());
    }
}

/// GPUs that a task of a step can see: its own where they are bound to it, else those of its node.
fn visible(step: &Step, sizes: &Sizes) -> Option<u64> {
    let own = step
        .srun
        .as_ref()
        .and_then(|srun| srun.value("gpus-per-task"))
        .and_then(super::value::gpus);
    let bound = own.or_else(|| sizes.gpus_per_task.clone().filter(|_| step.srun.is_some()));
    bound.map(|gpus| gpus.count).or_else(|| sizes.gpus_on_node()).filter(|count| *count > 0)
}

fn workers(step: &Step, sizes: &Sizes, geometry: &mut Geometry) -> Option<u64> {
    let Some(started) = &step.started else {
        let hidden = step.hidden.as_ref().map(|what| format!("what `{what}` starts"));
        let is_certain = hidden.is_none();
        geometry.unknown.extend(hidden);
        return is_certain.then_some(1);
    };
    let mut not_known = |what: String| {
        geometry.unknown.push(what);
        None
    };
    match started.by {
        Starter::Torchrun | Starter::OldLaunch => {
            match started.value(&["nproc-per-node", "nproc-per-gpu"]) {
                None => Some(1),
                Some(value) => match (value.known.as_deref(), value.number()) {
                    (_, Some(number)) => Some(number),
                    (Some("gpu" | "auto"), None) => visible(step, sizes)
                        .or_else(|| not_known("how many GPUs torchrun will see".to_owned())),
                    _ => not_known(format!("--nproc-per-node={}", value.shown)),
                },
            }
        }
        Starter::Accelerate => {
            let machines = match started.value(&["num-machines"]) {
                None => Some(1),
                Some(value) => value.number().filter(|count| *count > 0),
            };
            let all = started.value(&["num-processes"]);
            match (all.map(Value::number), machines) {
                (Some(Some(all)), Some(machines)) if all % machines == 0 => Some(all / machines),
                (None, _) => not_known("what accelerate's own configuration says".to_owned()),
                _ => not_known("--num_processes over --num_machines".to_owned()),
            }
        }
        Starter::Deepspeed => match started.value(&["num-gpus"]) {
            Some(value) => {
                value.number().or_else(|| not_known(format!("--num_gpus={}", value.shown)))
            }
            None if is_on_hosts(started) => {
                not_known("how many GPUs deepspeed takes there".to_owned())
            }
            None => visible(step, sizes)
                .or_else(|| not_known("how many GPUs deepspeed will see".to_owned())),
        },
    }
}

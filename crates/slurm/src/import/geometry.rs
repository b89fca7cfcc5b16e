//! Number of processes that a script starts: nodes × tasks of a step × workers per task. Where a
//! factor is uncertain, the product is unknown and the reason is reported.

use muster_model::imported::LaunchStep;

use super::launch::{LaunchCommand, OptionValue, Started, Starter};
use super::sizes::RequestedSizes;

/// Process counts of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Number of nodes on which it starts processes.
    pub(super) nodes: Option<u64>,
    /// Number of copies of its program.
    pub(super) tasks: Option<u64>,
    /// Number of copies per node.
    pub(super) on_node: Option<u64>,
    /// Number of processes per copy.
    pub(super) per_task: Option<u64>,
    /// Set when it may run several times, or never.
    pub(super) is_repeated: bool,
    /// Reasons for uncertain counts.
    pub(super) unknown: Vec<String>,
}

impl Geometry {
    /// Returns the total number of processes.
    pub(super) fn processes(&self) -> Option<u64> {
        let tasks = self.tasks?;
        let per_task = self.per_task?;
        tasks.checked_mul(per_task).filter(|_| !self.is_repeated)
    }

    /// Returns the number of processes per node.
    pub(super) fn processes_on_node(&self) -> Option<u64> {
        self.on_node?.checked_mul(self.per_task?)
    }

    /// Converts the counts for the report.
    pub(super) fn answer(&self, step: &LaunchCommand, first_line: u32) -> LaunchStep {
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

/// Computes the counts of a step.
pub(super) fn geometry(step: &LaunchCommand, sizes: &RequestedSizes) -> Geometry {
    let mut geometry = Geometry::default();
    // 1. Number of copies.
    if step.srun.is_some() {
        copies_of_srun(step, sizes, &mut geometry);
    } else if let Some(mpirun) = &step.mpirun {
        let number = mpirun.processes.as_ref().map_or(sizes.task_count(), OptionValue::number);
        geometry.tasks = number;
        geometry.nodes = sizes.node_count();
        geometry.on_node = number
            .zip(geometry.nodes)
            .and_then(|(tasks, nodes)| (tasks % nodes == 0).then_some(tasks / nodes));
        if number.is_none() {
            geometry.unknown.push("how many processes mpirun starts".to_owned());
        }
    } else if step.started.as_ref().is_some_and(is_on_hosts) {
        geometry.unknown.push("the hosts on which deepspeed starts".to_owned());
    } else {
        (geometry.nodes, geometry.tasks, geometry.on_node) = (Some(1), Some(1), Some(1));
    }
    // 2. Processes of each copy.
    geometry.per_task = workers(step, sizes, &mut geometry);
    // 3. Repetitions.
    geometry.is_repeated = step.is_repeated;
    if step.is_repeated {
        geometry.unknown.push("how often a loop or a function starts it".to_owned());
    }
    geometry
}

/// Returns whether deepspeed starts processes on other hosts itself, from its own hostfile.
fn is_on_hosts(started: &Started) -> bool {
    let names = ["hostfile", "H", "include", "i", "exclude", "e", "num-nodes"];
    started.by == Starter::Deepspeed && started.has(&names)
}

fn copies_of_srun(step: &LaunchCommand, sizes: &RequestedSizes, geometry: &mut Geometry) {
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
    let first = srun.program.first().map(super::shell::ShellWord::shown);
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
        // sbatch's options reach srun through the environment.
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

/// Returns the GPUs that a task of a step sees: its own where they are bound to it, else those of
/// its node.
fn visible(step: &LaunchCommand, sizes: &RequestedSizes) -> Option<u64> {
    let own = step
        .srun
        .as_ref()
        .and_then(|srun| srun.value("gpus-per-task"))
        .and_then(super::value::gpus);
    let bound = own.or_else(|| sizes.gpus_per_task.clone().filter(|_| step.srun.is_some()));
    bound.map(|gpus| gpus.count).or_else(|| sizes.gpus_on_node()).filter(|count| *count > 0)
}

fn workers(step: &LaunchCommand, sizes: &RequestedSizes, geometry: &mut Geometry) -> Option<u64> {
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
            match (all.map(OptionValue::number), machines) {
                (Some(Some(all)), Some(machines)) if all % machines == 0 => Some(all / machines),
                (None, _) => not_known("accelerate's own configuration".to_owned()),
                _ => not_known("--num_processes over --num_machines".to_owned()),
            }
        }
        Starter::Deepspeed => match started.value(&["num-gpus"]) {
            Some(value) => {
                value.number().or_else(|| not_known(format!("--num_gpus={}", value.shown)))
            }
            None if is_on_hosts(started) => {
                not_known("how many GPUs deepspeed uses there".to_owned())
            }
            None => visible(step, sizes)
                .or_else(|| not_known("how many GPUs deepspeed will see".to_owned())),
        },
    }
}

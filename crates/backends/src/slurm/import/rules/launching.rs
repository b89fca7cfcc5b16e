//! Rules on how many processes a script starts, compared with what it asked for.

use muster_model::check::Severity;

use super::super::finding::{Facts, Rule, Seen};
use super::super::geometry::Geometry;
use super::super::launch::{Starter, Step};
use super::super::shell::{Command, assignment};

pub(in super::super) const RULES: &[Rule] = &[
    Rule {
        id: "processes-squared",
        severity: Severity::High,
        title: "every task of srun starts workers for all GPUs of its node",
        cure: "ask for one task on each node, `--ntasks-per-node=1`, which `--cure processes-squared` of `muster import` and `muster run` writes; or start the program by srun alone: srun or torchrun makes the processes, not both",
        find: squared,
    },
    Rule {
        id: "first-node-only",
        severity: Severity::High,
        title: "without srun the first node alone runs it",
        cure: "write `srun` before it: a script runs on the first of its nodes, the others stay idle",
        find: first_node,
    },
    Rule {
        id: "no-srun",
        severity: Severity::High,
        title: "several nodes are asked for, and nothing starts a process on them",
        cure: "start the program with `srun`, or ask for one node",
        find: no_srun,
    },
    Rule {
        id: "more-workers-than-gpus",
        severity: Severity::High,
        title: "a node has fewer GPUs than processes that want one",
        cure: "make both numbers the same: `--gpus-per-node` and `--nproc-per-node`",
        find: more_workers,
    },
    Rule {
        id: "gpus-unused",
        severity: Severity::Medium,
        title: "GPUs are asked for that no process uses",
        cure: "ask for fewer, or start a process for each",
        find: unused,
    },
    Rule {
        id: "nodes-differ",
        severity: Severity::High,
        title: "the launcher waits for another number of nodes than there are",
        cure: "write `--nnodes=$SLURM_NNODES`",
        find: nodes_differ,
    },
    Rule {
        id: "srun-wants-more",
        severity: Severity::High,
        title: "srun asks for more than the job has",
        cure: "ask sbatch for as much, or srun for less: the step waits or is refused",
        find: srun_more,
    },
    Rule {
        id: "cpus-not-handed-on",
        severity: Severity::Medium,
        title: "srun does not get the job's --cpus-per-task",
        cure: "write `srun --cpus-per-task=$SLURM_CPUS_PER_TASK`, or export SRUN_CPUS_PER_TASK: since 22.05 srun does not take it over",
        find: cpus,
    },
    Rule {
        id: "world-size-differs",
        severity: Severity::High,
        title: "WORLD_SIZE is set to another number than there are processes",
        cure: "leave it out, or write `WORLD_SIZE=$SLURM_NTASKS`: with more the first collective call waits for ever",
        find: world_size,
    },
    Rule {
        id: "visible-devices-set",
        severity: Severity::Medium,
        title: "CUDA_VISIBLE_DEVICES is set by hand",
        cure: "leave it out: Slurm sets it to the devices that the job was given",
        find: devices,
    },
    Rule {
        id: "started-by-ssh",
        severity: Severity::Medium,
        title: "processes are started by ssh, past Slurm",
        cure: "start them with `srun`: what ssh starts is not counted, not limited and may outlive the job",
        find: ssh,
    },
    Rule {
        id: "old-launcher",
        severity: Severity::Low,
        title: "torch.distributed.launch is out of use",
        cure: "write `torchrun`; the program reads LOCAL_RANK in place of --local-rank",
        find: old_launcher,
    },
    Rule {
        id: "placeholder",
        severity: Severity::Medium,
        title: "the script holds its nodes without doing anything",
        cure: "run the work itself, or `salloc` for a session: the GPUs idle until the time limit",
        find: placeholder,
    },
];

/// Steps that can be compared: those in the component that the facts are of.
fn each<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = (&'a Step, &'a Geometry, u32)> {
    facts
        .steps
        .iter()
        .filter(|(step, _)| step.component() == Some(0))
        .map(|(step, geometry)| (step, geometry, facts.line(step.line)))
}

fn is_squared(facts: &Facts<'_>, step: &Step, geometry: &Geometry) -> bool {
    let workers = geometry.per_task.unwrap_or_default();
    let gpus = facts.sizes.gpus_on_node().unwrap_or_default();
    step.srun.is_some()
        && step.started.is_some()
        && workers > 1
        && geometry.on_node.is_some_and(|on_node| on_node > 1)
        && geometry.processes_on_node().is_some_and(|processes| processes > gpus)
}

fn squared(facts: &Facts<'_>) -> Vec<Seen> {
    each(facts)
        .filter(|(step, geometry, _)| is_squared(facts, step, geometry))
        .map(|(_, geometry, line)| {
            let (tasks, workers) =
                (geometry.tasks.unwrap_or_default(), geometry.per_task.unwrap_or_default());
            let gpus =
                facts.sizes.gpu_count().map_or(String::new(), |gpus| format!(" on {gpus} GPUs"));
            (
                Some(line),
                format!("{tasks} tasks × {workers} workers = {} processes{gpus}", tasks * workers),
            )
        })
        .collect()
}

fn first_node(facts: &Facts<'_>) -> Vec<Seen> {
    if !facts.is_multi_node() {
        return Vec::new();
    }
    each(facts)
        .filter(|(step, ..)| {
            let starts =
                step.started.as_ref().is_some_and(|started| started.by != Starter::Deepspeed);
            step.srun.is_none() && step.mpirun.is_none() && starts
        })
        .map(|(step, _, line)| {
            let nodes = facts.sizes.nodes.map_or(0, |(_, most)| most);
            (Some(line), format!("{} on 1 of {nodes} nodes", step.launchers.join(" ")))
        })
        .collect()
}

fn no_srun(facts: &Facts<'_>) -> Vec<Seen> {
    let others = ["ssh", "pdsh", "ray", "srun", "parallel", "charmrun", "prun"];
    let starts = facts.commands.iter().any(|command| {
        command.words.iter().any(|word| {
            let text = word.shown();
            let name = text.rsplit('/').next().unwrap_or_default();
            others.contains(&name) || text.contains("srun ") || name.starts_with("mpi")
        })
    });
    let runs = facts.commands.iter().any(|command| command.program().is_some());
    // A command in a variable may be srun.
    let is_hidden = |command: &Command| {
        command.program().is_none() && command.words.iter().any(|word| assignment(word).is_none())
    };
    let starts = starts || facts.commands.iter().any(is_hidden);
    if !facts.is_multi_node() || !facts.steps.is_empty() || starts || !runs {
        return Vec::new();
    }
    let nodes = facts.sizes.nodes.map_or(0, |(_, most)| most);
    vec![(facts.script.last("nodes").map(|one| one.line), format!("{nodes} nodes, and no srun"))]
}

fn more_workers(facts: &Facts<'_>) -> Vec<Seen> {
    let Some(gpus) = facts.sizes.gpus_on_node().filter(|_| facts.sizes.has_gpus()) else {
        return Vec::new();
    };
    each(facts)
        .filter(|(step, geometry, _)| !is_squared(facts, step, geometry))
        .filter_map(|(step, geometry, line)| {
            step.started.as_ref()?;
            let own =
                step.srun.as_ref().and(facts.sizes.gpus_per_task.as_ref()).map(|gpus| gpus.count);
            let (has, wants, of) = match own {
                Some(own) => (own, geometry.per_task?, "a task"),
                None => (gpus, geometry.processes_on_node()?, "a node"),
            };
            (wants > has)
                .then(|| (Some(line), format!("{wants} processes of {of} with {has} GPUs")))
        })
        .collect()
}

fn unused(facts: &Facts<'_>) -> Vec<Seen> {
    let Some(gpus) = facts.sizes.gpus_on_node().filter(|gpus| *gpus > 0) else { return Vec::new() };
    // Several steps may share them; a program without a launcher may use several.
    let [(step, geometry)] = facts.steps else { return Vec::new() };
    if geometry.is_repeated || step.component() != Some(0) {
        return Vec::new();
    }
    let Some(processes) = geometry.processes_on_node().filter(|_| step.started.is_some()) else {
        return Vec::new();
    };
    if processes >= gpus {
        return Vec::new();
    }
    vec![(Some(facts.line(step.line)), format!("of {gpus} GPUs of a node {processes} are used"))]
}

fn nodes_differ(facts: &Facts<'_>) -> Vec<Seen> {
    let Some(nodes) = facts.sizes.node_count() else { return Vec::new() };
    each(facts)
        .filter_map(|(step, geometry, line)| {
            // Of its file of hosts deepspeed takes as many as it is told.
            let started =
                step.started.as_ref().filter(|started| started.by != Starter::Deepspeed)?;
            let given = started.value(&["nnodes", "num-machines"])?;
            let nodes = step.srun.as_ref().and(geometry.nodes).unwrap_or(nodes);
            let said = given.number().filter(|said| *said != nodes)?;
            Some((Some(line), format!("it waits for {said} nodes and gets {nodes}")))
        })
        .collect()
}

fn srun_more(facts: &Facts<'_>) -> Vec<Seen> {
    each(facts)
        .filter_map(|(step, _, line)| {
            let srun = step.srun.as_ref()?;
            let number = |name| srun.value(name).and_then(super::super::value::count);
            // Tasks of a step need no tasks of the job, but its CPUs; all of a node are more than
            // are asked for.
            let tasks = number("ntasks").filter(|tasks| {
                let each = number("cpus-per-task").unwrap_or(1);
                let has = facts
                    .sizes
                    .task_count()
                    .map(|tasks| tasks * facts.sizes.cpus_per_task.unwrap_or(1));
                facts.script.last("exclusive").is_none() && has.is_none_or(|has| tasks * each > has)
            });
            let pairs = [
                ("nodes", number("nodes"), facts.sizes.node_count()),
                ("ntasks", tasks, facts.sizes.task_count()),
            ];
            pairs.into_iter().find_map(|(name, wants, has)| {
                let (wants, has) = (wants?, has?);
                (wants > has)
                    .then(|| (Some(line), format!("srun --{name}={wants}, of the job: {has}")))
            })
        })
        .collect()
}

fn cpus(facts: &Facts<'_>) -> Vec<Seen> {
    let Some(cpus) = facts.sizes.cpus_per_task.filter(|cpus| *cpus > 1) else { return Vec::new() };
    if facts.settings().any(|(name, ..)| name == "SRUN_CPUS_PER_TASK") {
        return Vec::new();
    }
    let first = each(facts).find(|(step, ..)| {
        step.srun.as_ref().is_some_and(|srun| srun.value("cpus-per-task").is_none())
    });
    first
        .map(|(.., line)| (Some(line), format!("--cpus-per-task={cpus} of sbatch, none of srun")))
        .into_iter()
        .collect()
}

fn world_size(facts: &Facts<'_>) -> Vec<Seen> {
    let processes: Option<u64> = match facts.steps {
        [(_, geometry)] => geometry.processes(),
        _ => None,
    };
    let Some(processes) = processes else { return Vec::new() };
    facts
        .settings()
        .filter(|(name, ..)| name == "WORLD_SIZE")
        .filter_map(|(_, value, line)| {
            let said: u64 = facts.variables.resolve(&value)?.parse().ok()?;
            (said != processes)
                .then(|| (Some(line), format!("WORLD_SIZE={said}, processes: {processes}")))
        })
        .collect()
}

fn devices(facts: &Facts<'_>) -> Vec<Seen> {
    let by_hand = |value: &super::super::shell::Word| {
        value.literal().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    };
    facts
        .settings()
        .filter(|(name, value, _)| name == "CUDA_VISIBLE_DEVICES" && by_hand(value))
        .map(|(_, value, line)| (Some(line), format!("CUDA_VISIBLE_DEVICES={}", value.shown())))
        .collect()
}

fn ssh(facts: &Facts<'_>) -> Vec<Seen> {
    facts
        .commands
        .iter()
        .filter(|command| matches!(command.program().as_deref(), Some("ssh" | "pdsh" | "clush")))
        .map(|command| {
            let words: Vec<String> =
                command.words.iter().take(3).map(super::super::shell::Word::shown).collect();
            (Some(facts.line(command.line)), words.join(" "))
        })
        .collect()
}

fn old_launcher(facts: &Facts<'_>) -> Vec<Seen> {
    let is_old =
        |step: &Step| step.started.as_ref().is_some_and(|started| started.by == Starter::OldLaunch);
    facts
        .steps
        .iter()
        .filter(|(step, _)| is_old(step))
        .map(|(step, _)| {
            (Some(facts.line(step.line)), "python -m torch.distributed.launch".to_owned())
        })
        .collect()
}

fn placeholder(facts: &Facts<'_>) -> Vec<Seen> {
    let is_long = |text: &str| {
        text == "infinity"
            || text.ends_with('d')
            || text.parse::<u64>().is_ok_and(|seconds| seconds >= 3600)
            || text.strip_suffix('h').is_some_and(|hours| hours.parse::<u64>().is_ok())
    };
    facts
        .commands
        .iter()
        .filter(|command| {
            let words: Vec<String> =
                command.words.iter().map(super::super::shell::Word::shown).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["sleep", long] | ["srun", .., "sleep", long] => is_long(long),
                ["tail", "-f", "/dev/null"] | ["srun", .., "tail", "-f", "/dev/null"] => true,
                _ => false,
            }
        })
        .map(|command| {
            let words: Vec<String> =
                command.words.iter().map(super::super::shell::Word::shown).collect();
            (Some(facts.line(command.line)), words.join(" "))
        })
        .collect()
}

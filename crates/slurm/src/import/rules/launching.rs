//! Rules on the number of processes that a script starts, compared with its request.

use muster_model::check::Severity;

use super::super::finding::{ImportRule, RuleHit, ScriptFacts};
use super::super::geometry::Geometry;
use super::super::launch::{LaunchCommand, Starter};
use super::super::shell::{ShellCommand, assignment};

pub(in super::super) const RULES: &[ImportRule] = &[
    ImportRule {
        id: "processes-squared",
        severity: Severity::High,
        title: "every task of srun starts workers for all GPUs of its node",
        cure: "request one task per node, `--ntasks-per-node=1`, which `--cure processes-squared` of `muster import` and `muster run` applies; or start the program by srun alone: use srun or torchrun to start the processes, not both",
        find: squared,
    },
    ImportRule {
        id: "first-node-only",
        severity: Severity::High,
        title: "without srun only the first node runs it",
        cure: "write `srun` before it: a script runs on its first node, and the others stay idle",
        find: first_node,
    },
    ImportRule {
        id: "no-srun",
        severity: Severity::High,
        title: "several nodes are requested, but nothing starts a process on them",
        cure: "start the program with `srun`, or request one node",
        find: no_srun,
    },
    ImportRule {
        id: "more-workers-than-gpus",
        severity: Severity::High,
        title: "a node has fewer GPUs than processes that need one",
        cure: "make both numbers the same: `--gpus-per-node` and `--nproc-per-node`",
        find: more_workers,
    },
    ImportRule {
        id: "gpus-unused",
        severity: Severity::Medium,
        title: "requested GPUs are not used by any process",
        cure: "request fewer, or start a process for each",
        find: unused,
    },
    ImportRule {
        id: "nodes-differ",
        severity: Severity::High,
        title: "the launcher waits for another number of nodes than there are",
        cure: "write `--nnodes=$SLURM_NNODES`",
        find: nodes_differ,
    },
    ImportRule {
        id: "srun-wants-more",
        severity: Severity::High,
        title: "srun requests more than the job has",
        cure: "request as much from sbatch, or less from srun: the step waits or is rejected",
        find: srun_more,
    },
    ImportRule {
        id: "cpus-not-handed-on",
        severity: Severity::Medium,
        title: "srun does not get the job's --cpus-per-task",
        cure: "write `srun --cpus-per-task=$SLURM_CPUS_PER_TASK`, or export SRUN_CPUS_PER_TASK: since 22.05 srun does not inherit it",
        find: cpus,
    },
    ImportRule {
        id: "world-size-differs",
        severity: Severity::High,
        title: "WORLD_SIZE differs from the number of processes",
        cure: "remove it, or write `WORLD_SIZE=$SLURM_NTASKS`: if it is too large the first collective call hangs",
        find: world_size,
    },
    ImportRule {
        id: "visible-devices-set",
        severity: Severity::Medium,
        title: "CUDA_VISIBLE_DEVICES is set by hand",
        cure: "remove it: Slurm sets it to the devices allocated to the job",
        find: devices,
    },
    ImportRule {
        id: "started-by-ssh",
        severity: Severity::Medium,
        title: "processes are started by ssh, outside Slurm",
        cure: "start them with `srun`: processes started by ssh are not accounted, not limited, and may outlive the job",
        find: ssh,
    },
    ImportRule {
        id: "old-launcher",
        severity: Severity::Low,
        title: "torch.distributed.launch is deprecated",
        cure: "use `torchrun`; the program reads LOCAL_RANK instead of --local-rank",
        find: old_launcher,
    },
    ImportRule {
        id: "placeholder",
        severity: Severity::Medium,
        title: "the script holds its nodes without doing anything",
        cure: "run the work itself, or `salloc` for a session: the GPUs are idle until the time limit",
        find: placeholder,
    },
];

/// Returns the steps in the component that the facts describe.
fn each<'a>(
    facts: &'a ScriptFacts<'_>,
) -> impl Iterator<Item = (&'a LaunchCommand, &'a Geometry, u32)> {
    facts
        .steps
        .iter()
        .filter(|(step, _)| step.component() == Some(0))
        .map(|(step, geometry)| (step, geometry, facts.line(step.line)))
}

fn is_squared(facts: &ScriptFacts<'_>, step: &LaunchCommand, geometry: &Geometry) -> bool {
    let workers = geometry.per_task.unwrap_or_default();
    let gpus = facts.sizes.gpus_on_node().unwrap_or_default();
    step.srun.is_some()
        && step.started.is_some()
        && workers > 1
        && geometry.on_node.is_some_and(|on_node| on_node > 1)
        && geometry.processes_on_node().is_some_and(|processes| processes > gpus)
}

fn squared(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    each(facts)
        .filter(|(step, geometry, _)| is_squared(facts, step, geometry))
        .map(|(_, geometry, line)| {
            let tasks = geometry.tasks.unwrap_or_default();
            let workers = geometry.per_task.unwrap_or_default();
            let gpus =
                facts.sizes.gpu_count().map_or(String::new(), |gpus| format!(" on {gpus} GPUs"));
            (
                Some(line),
                format!("{tasks} tasks × {workers} workers = {} processes{gpus}", tasks * workers),
            )
        })
        .collect()
}

fn first_node(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
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

fn no_srun(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
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
    let is_hidden = |command: &ShellCommand| {
        command.program().is_none() && command.words.iter().any(|word| assignment(word).is_none())
    };
    let starts = starts || facts.commands.iter().any(is_hidden);
    if !facts.is_multi_node() || !facts.steps.is_empty() || starts || !runs {
        return Vec::new();
    }
    let nodes = facts.sizes.nodes.map_or(0, |(_, most)| most);
    vec![(facts.script.last("nodes").map(|one| one.line), format!("{nodes} nodes, but no srun"))]
}

fn more_workers(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
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

fn unused(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let Some(gpus) = facts.sizes.gpus_on_node().filter(|gpus| *gpus > 0) else { return Vec::new() };
    // Several steps may share the GPUs; a program without a launcher may use several.
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
    vec![(Some(facts.line(step.line)), format!("{processes} of {gpus} GPUs per node are used"))]
}

fn nodes_differ(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let Some(nodes) = facts.sizes.node_count() else { return Vec::new() };
    each(facts)
        .filter_map(|(step, geometry, line)| {
            // deepspeed takes the requested number of hosts out of its hostfile.
            let started =
                step.started.as_ref().filter(|started| started.by != Starter::Deepspeed)?;
            let given = started.value(&["nnodes", "num-machines"])?;
            let nodes = step.srun.as_ref().and(geometry.nodes).unwrap_or(nodes);
            let said = given.number().filter(|said| *said != nodes)?;
            Some((Some(line), format!("it waits for {said} nodes and gets {nodes}")))
        })
        .collect()
}

fn srun_more(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    each(facts)
        .filter_map(|(step, _, line)| {
            let srun = step.srun.as_ref()?;
            let number = |name| srun.value(name).and_then(super::super::value::count);
            // Steps may have more tasks than the job, but not more CPUs; all memory of a node is
            // more than requested.
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
                let wants = wants?;
                let has = has?;
                (wants > has)
                    .then(|| (Some(line), format!("srun --{name}={wants}, but the job has {has}")))
            })
        })
        .collect()
}

fn cpus(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let Some(cpus) = facts.sizes.cpus_per_task.filter(|cpus| *cpus > 1) else { return Vec::new() };
    if facts.settings().any(|(name, ..)| name == "SRUN_CPUS_PER_TASK") {
        return Vec::new();
    }
    let first = each(facts).find(|(step, ..)| {
        step.srun.as_ref().is_some_and(|srun| srun.value("cpus-per-task").is_none())
    });
    first
        .map(|(.., line)| (Some(line), format!("--cpus-per-task={cpus} for sbatch, none for srun")))
        .into_iter()
        .collect()
}

fn world_size(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
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

fn devices(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let by_hand = |value: &super::super::shell::ShellWord| {
        value.literal().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    };
    facts
        .settings()
        .filter(|(name, value, _)| name == "CUDA_VISIBLE_DEVICES" && by_hand(value))
        .map(|(_, value, line)| (Some(line), format!("CUDA_VISIBLE_DEVICES={}", value.shown())))
        .collect()
}

fn ssh(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    facts
        .commands
        .iter()
        .filter(|command| matches!(command.program().as_deref(), Some("ssh" | "pdsh" | "clush")))
        .map(|command| {
            let words: Vec<String> =
                command.words.iter().take(3).map(super::super::shell::ShellWord::shown).collect();
            (Some(facts.line(command.line)), words.join(" "))
        })
        .collect()
}

fn old_launcher(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let is_old = |step: &LaunchCommand| {
        step.started.as_ref().is_some_and(|started| started.by == Starter::OldLaunch)
    };
    facts
        .steps
        .iter()
        .filter(|(step, _)| is_old(step))
        .map(|(step, _)| {
            (Some(facts.line(step.line)), "python -m torch.distributed.launch".to_owned())
        })
        .collect()
}

fn placeholder(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
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
                command.words.iter().map(super::super::shell::ShellWord::shown).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["sleep", long] | ["srun", .., "sleep", long] => is_long(long),
                ["tail", "-f", "/dev/null"] | ["srun", .., "tail", "-f", "/dev/null"] => true,
                _ => false,
            }
        })
        .map(|command| {
            let words: Vec<String> =
                command.words.iter().map(super::super::shell::ShellWord::shown).collect();
            (Some(facts.line(command.line)), words.join(" "))
        })
        .collect()
}

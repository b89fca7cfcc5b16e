//! Rules on requests: directives that Slurm does not read, or reads differently than expected.

use muster_model::check::Severity;
use muster_model::imported::ImportOutcome;

use super::super::finding::{ImportRule, RuleHit, ScriptFacts};
use super::super::meaning::container;
use super::super::option::{DEPRECATED, GivenOption};
use super::super::sizes::Memory;

/// Numbers that authors mean as hours; 5, 15, 30, 45 and 60 are meant as minutes.
const HOURS: [u64; 8] = [12, 18, 24, 36, 48, 72, 96, 168];
/// Minimum number of GPUs that most GPU nodes have.
const GPUS_OF_A_NODE: u64 = 4;

pub(in super::super) const RULES: &[ImportRule] = &[
    ImportRule {
        id: "late-directive",
        severity: Severity::High,
        title: "a directive is after the first command",
        cure: "move it above the first command, where sbatch stops reading",
        find: late,
    },
    ImportRule {
        id: "misspelled-directive",
        severity: Severity::High,
        title: "a directive is written as a comment",
        cure: "write `#SBATCH` at the beginning of the line, without a blank, in capitals; use `##SBATCH` for a comment",
        find: misspelled,
    },
    ImportRule {
        id: "unknown-option",
        severity: Severity::High,
        title: "sbatch has no such option, and rejects the script",
        cure: "correct the name: `man sbatch` lists them",
        find: unknown,
    },
    ImportRule {
        id: "plugin-option",
        severity: Severity::Medium,
        title: "sbatch itself has no such option; a SPANK plugin of the site may have it",
        cure: "look for it in `sbatch --help` where the script runs: correct the name, or pass it on with `slurm: {options: …}`",
        find: of_a_plugin,
    },
    ImportRule {
        id: "container-option-dropped",
        severity: Severity::Medium,
        title: "a container option has no counterpart in a job",
        cure: "remove it, or start the program by `srun` with it in the script: the image and its mounts are `slurm: {container, container-mounts}`",
        find: container_option,
    },
    ImportRule {
        id: "image-cut",
        severity: Severity::High,
        title: "an image name ends at `#`, where sbatch begins a comment",
        cure: "write `\\#`",
        find: image_cut,
    },
    ImportRule {
        id: "variable-in-directive",
        severity: Severity::High,
        title: "a directive has a variable, which no shell expands",
        cure: "write the value, or give the option on sbatch's command line; file names support %j, %x, %u and %A_%a",
        find: variable,
    },
    ImportRule {
        id: "options-exclude-each-other",
        severity: Severity::High,
        title: "options exclude each other",
        cure: "keep one of --mem, --mem-per-cpu and --mem-per-gpu, and one of --cpus-per-task and --cpus-per-gpu: sbatch rejects both",
        find: exclusive_options,
    },
    ImportRule {
        id: "said-twice",
        severity: Severity::Medium,
        title: "an option is given twice with different values; the last one counts",
        cure: "remove the other one",
        find: twice,
    },
    ImportRule {
        id: "time-means-minutes",
        severity: Severity::Medium,
        title: "a time limit that looks like hours counts as minutes",
        cure: "write HH:MM:SS: `--time=24:00:00`",
        find: minutes,
    },
    ImportRule {
        id: "no-time",
        severity: Severity::Medium,
        title: "no time limit is requested",
        cure: "add `#SBATCH --time=HH:MM:SS`: the partition's default may be too short, and backfill needs one",
        find: |facts| missing(facts, "time", "no --time"),
    },
    ImportRule {
        id: "no-memory",
        severity: Severity::Low,
        title: "no memory is requested",
        cure: "add `--mem=…`, or `--mem=0` for all memory of an exclusive node: the default per CPU may be small",
        find: no_memory,
    },
    ImportRule {
        id: "few-cpus",
        severity: Severity::Medium,
        title: "a task that drives GPUs gets a single CPU",
        cure: "add `--cpus-per-task`, such as 8 per GPU: one CPU is too few for data loaders",
        find: few_cpus,
    },
    ImportRule {
        id: "output-folder",
        severity: Severity::Medium,
        title: "the output goes to a directory that Slurm does not create",
        cure: "create the directory before sbatch: without it the job fails at its start, and its output is lost; `mkdir` in the script is too late",
        find: output_folder,
    },
    ImportRule {
        id: "array-shares-output",
        severity: Severity::Medium,
        title: "all elements of an array write to one file",
        cure: "use %A_%a in its name",
        find: array_output,
    },
    ImportRule {
        id: "exclusive-part",
        severity: Severity::Medium,
        title: "whole nodes are allocated, but only a part of their GPUs is requested",
        cure: "request all GPUs of the node, or remove --exclusive: you pay for GPUs that no job can use",
        find: exclusive_part,
    },
    ImportRule {
        id: "more-nodes-than-tasks",
        severity: Severity::Medium,
        title: "more nodes than tasks are requested",
        cure: "request one task per node: `--ntasks-per-node=1`; Slurm drops the other nodes",
        find: more_nodes,
    },
    ImportRule {
        id: "node-count-open",
        severity: Severity::Medium,
        title: "GPUs are requested per node, but the number of nodes is open",
        cure: "add `--nodes`: more nodes mean more GPUs",
        find: open_nodes,
    },
    ImportRule {
        id: "deprecated-option",
        severity: Severity::Low,
        title: "an option is deprecated",
        cure: "use its replacement",
        find: deprecated,
    },
];

fn missing(facts: &ScriptFacts<'_>, name: &str, says: &str) -> Vec<RuleHit> {
    match facts.script.last(name) {
        None => vec![(None, says.to_owned())],
        Some(_) => Vec::new(),
    }
}

fn late(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    facts.script.late.iter().map(|(line, text)| (Some(*line), (*text).to_owned())).collect()
}

fn misspelled(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    facts
        .script
        .misspelled
        .iter()
        .map(|(line, text)| (Some(*line), (*text).trim_end().to_owned()))
        .collect()
}

fn unknown(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    without_name(facts, |written| written.starts_with('-') && !written.starts_with("--"))
}

fn of_a_plugin(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    without_name(facts, |written| written.starts_with("--"))
}

fn without_name(facts: &ScriptFacts<'_>, is_meant: fn(&str) -> bool) -> Vec<RuleHit> {
    let unknown = facts.script.given().filter(|one| one.name.is_none() && is_meant(&one.written));
    unknown.map(|one| (Some(one.line), one.written.clone())).collect()
}

fn container_option(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let dropped = facts.options.iter().filter(|one| {
        one.becomes == ImportOutcome::NotMapped
            && container::is_one(&one.option)
            && !one.text.contains("given again")
    });
    dropped.map(|one| (Some(one.line), format!("{}: {}", one.written, one.text))).collect()
}

fn image_cut(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let Some(image) = facts.script.last("container-image") else { return Vec::new() };
    let at = usize::try_from(image.line).unwrap_or(usize::MAX) - 1;
    let is_cut = facts
        .script
        .lines
        .get(at)
        .is_some_and(|line| line.contains(&format!("{}#", image.written)));
    if is_cut {
        vec![(Some(image.line), format!("only {} is read", image.written))]
    } else {
        Vec::new()
    }
}

fn variable(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let has = |one: &&GivenOption| {
        one.value.as_deref().is_some_and(|value| value.contains('$') || value.starts_with('~'))
            && !matches!(one.name, Some("comment" | "wrap"))
    };
    facts.script.given().filter(has).map(|one| (Some(one.line), one.written.clone())).collect()
}

fn exclusive_options(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let together: [&[&str]; 2] =
        [&["mem", "mem-per-cpu", "mem-per-gpu"], &["cpus-per-task", "cpus-per-gpu"]];
    let mut seen = Vec::new();
    for names in together {
        let given: Vec<&GivenOption> =
            names.iter().filter_map(|name| facts.script.last(name)).collect();
        if let [first, second, ..] = given.as_slice() {
            let line = first.line.max(second.line);
            seen.push((Some(line), format!("{} and {}", first.written, second.written)));
        }
    }
    seen
}

fn twice(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let mut seen = Vec::new();
    for given in &facts.script.components {
        for (index, one) in given.iter().enumerate().filter(|(_, one)| one.name.is_some()) {
            let later = given[index + 1..].iter().find(|later| later.name == one.name);
            if let Some(later) = later.filter(|later| later.value != one.value) {
                seen.push((
                    Some(one.line),
                    format!("{} here, {} on line {}", one.written, later.written, later.line),
                ));
            }
        }
    }
    seen
}

fn minutes(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let Some(given) = facts.script.last("time") else { return Vec::new() };
    let text = given.value.as_deref().unwrap_or_default();
    let is_short = match text.split(':').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>() {
        Ok(parts) => match parts.as_slice() {
            [number] | [number, 0] => HOURS.contains(number),
            _ => false,
        },
        Err(_) => false,
    };
    let number = text.split(':').next().unwrap_or_default();
    if is_short && facts.sizes.has_gpus() {
        vec![(Some(given.line), format!("{} is {number} minutes", given.written))]
    } else {
        Vec::new()
    }
}

fn no_memory(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let is_said =
        ["mem", "mem-per-cpu", "mem-per-gpu"].iter().any(|name| facts.script.last(name).is_some());
    if is_said || !facts.sizes.has_gpus() {
        return Vec::new();
    }
    vec![(None, "none of --mem, --mem-per-cpu, --mem-per-gpu".to_owned())]
}

fn few_cpus(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let said = ["cpus-per-task", "cpus-per-gpu", "exclusive", "tres-per-task", "mincpus"];
    if said.iter().any(|name| facts.script.last(name).is_some())
        || facts.sizes.memory == Some(Memory::WholeNode)
    {
        return Vec::new();
    }
    match facts.sizes.gpus_of_task() {
        Some(gpus) if gpus > 0 => {
            let each = if gpus == 1 { "1 GPU".to_owned() } else { format!("{gpus} GPUs") };
            vec![(None, format!("no --cpus-per-task: 1 CPU for each task with {each}"))]
        }
        _ => Vec::new(),
    }
}

fn output_folder(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let mut seen = Vec::new();
    for given in ["output", "error"].iter().filter_map(|name| facts.script.last(name)) {
        let Some((folder, _)) = given.value.as_deref().and_then(|path| path.rsplit_once('/'))
        else {
            continue;
        };
        let is_there = matches!(folder, "" | "." | ".." | "/dev" | "/tmp");
        if is_there || seen.iter().any(|(_, text): &RuleHit| text.contains(&format!("`{folder}/`")))
        {
            continue;
        }
        let made = facts.commands.iter().find(|command| {
            command.program().as_deref() == Some("mkdir")
                && command.words.iter().any(|word| {
                    word.shown()
                        .trim_start_matches("./")
                        .starts_with(folder.trim_start_matches("./"))
                })
        });
        let too_late = made.map_or(String::new(), |command| {
            format!("; mkdir on line {} comes too late", facts.line(command.line))
        });
        seen.push((
            Some(given.line),
            format!("`{folder}/` must exist before the job starts{too_late}"),
        ));
    }
    seen
}

fn array_output(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let (Some(_), Some(output)) = (facts.script.last("array"), facts.script.last("output")) else {
        return Vec::new();
    };
    let path = output.value.as_deref().unwrap_or_default();
    // %j is the job number of each element, %A that of the array.
    if ["%a", "%j", "%J", "/dev/null"].iter().any(|mark| path.contains(mark)) {
        return Vec::new();
    }
    vec![(Some(output.line), output.written.clone())]
}

fn exclusive_part(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let Some(given) = facts.script.last("exclusive").filter(|one| one.value.is_none()) else {
        return Vec::new();
    };
    match facts.sizes.gpus_on_node() {
        Some(gpus) if (1..GPUS_OF_A_NODE).contains(&gpus) => {
            vec![(Some(given.line), format!("--exclusive with {gpus} GPUs per node"))]
        }
        _ => Vec::new(),
    }
}

fn more_nodes(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    match (facts.sizes.nodes, facts.sizes.tasks, facts.script.last("nodes")) {
        (Some((_, nodes)), Some(tasks), Some(given)) if tasks < nodes => {
            vec![(Some(given.line), format!("{nodes} nodes, {tasks} in --ntasks"))]
        }
        _ => Vec::new(),
    }
}

fn open_nodes(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let sizes = facts.sizes;
    match (sizes.nodes, sizes.tasks, &sizes.gpus_per_node) {
        (None, Some(tasks), Some(gpus)) if tasks > 1 && sizes.tasks_per_node.is_none() => {
            vec![(None, format!("{tasks} tasks with {} GPUs per node", gpus.count))]
        }
        _ => Vec::new(),
    }
}

fn deprecated(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let mut seen = Vec::new();
    for one in facts.script.given() {
        let name =
            one.written.trim_start_matches("--").split(['=', ' ']).next().unwrap_or_default();
        let name = if one.written.starts_with("--") { name } else { one.name.unwrap_or_default() };
        if let Some((_, new)) = DEPRECATED.iter().find(|(old, _)| *old == name) {
            seen.push((Some(one.line), format!("{}: {new}", one.written)));
        }
    }
    let packs = facts.script.hets.iter().filter(|(_, word)| *word == "packjob");
    seen.extend(packs.map(|(line, _)| (Some(*line), "packjob: hetjob".to_owned())));
    seen
}

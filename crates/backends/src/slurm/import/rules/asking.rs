//! Rules on what a script asks for: directives that Slurm does not read, or reads otherwise than
//! they look.

use muster_model::check::Severity;
use muster_model::imported::Becomes;

use super::super::finding::{Facts, Rule, Seen};
use super::super::meaning::container;
use super::super::option::{DEPRECATED, Given};
use super::super::sizes::Memory;

/// Numbers that people mean as hours; 5, 15, 30, 45 and 60 they mean as minutes.
const HOURS: [u64; 8] = [12, 18, 24, 36, 48, 72, 96, 168];
/// Of nodes with GPUs few have fewer than these.
const GPUS_OF_A_NODE: u64 = 4;

pub(in super::super) const RULES: &[Rule] = &[
    Rule {
        id: "late-directive",
        severity: Severity::High,
        title: "a directive stands after the first command",
        cure: "move it above the first command: sbatch reads no further",
        find: late,
    },
    Rule {
        id: "misspelled-directive",
        severity: Severity::High,
        title: "a directive is written so that it is a comment",
        cure: "write `#SBATCH` at the beginning of the line, without a blank, in capitals; `##SBATCH` where it is meant as a comment",
        find: misspelled,
    },
    Rule {
        id: "unknown-option",
        severity: Severity::High,
        title: "sbatch has no such option, and refuses the script",
        cure: "correct the name: `man sbatch` lists them",
        find: unknown,
    },
    Rule {
        id: "plugin-option",
        severity: Severity::Medium,
        title: "sbatch itself has no such option; a SPANK plugin of the site may have it",
        cure: "look for it in `sbatch --help` where the script runs: correct the name, or hand it on by `slurm: {options: …}`",
        find: of_a_plugin,
    },
    Rule {
        id: "container-option-dropped",
        severity: Severity::Medium,
        title: "an option of the container has no counterpart in a job",
        cure: "do without it, or start the program by `srun` with it in the script: the image and its mounts are `slurm: {container, container-mounts}`",
        find: container_option,
    },
    Rule {
        id: "image-cut",
        severity: Severity::High,
        title: "the name of an image ends at `#`, where sbatch begins a comment",
        cure: "write `\\#`, as sbatch takes it",
        find: image_cut,
    },
    Rule {
        id: "variable-in-directive",
        severity: Severity::High,
        title: "a variable stands in a directive, where no shell expands it",
        cure: "write the value, or give the option on sbatch's command line; of file names %j, %x, %u and %A_%a are filled in",
        find: variable,
    },
    Rule {
        id: "options-exclude-each-other",
        severity: Severity::High,
        title: "options exclude each other",
        cure: "keep one of --mem, --mem-per-cpu and --mem-per-gpu, and one of --cpus-per-task and --cpus-per-gpu: sbatch refuses both",
        find: exclusive_options,
    },
    Rule {
        id: "said-twice",
        severity: Severity::Medium,
        title: "an option is given twice with different values, and the last counts",
        cure: "take the other one away",
        find: twice,
    },
    Rule {
        id: "time-means-minutes",
        severity: Severity::Medium,
        title: "a time limit that looks like hours is minutes",
        cure: "write HH:MM:SS: `--time=24:00:00`",
        find: minutes,
    },
    Rule {
        id: "no-time",
        severity: Severity::Medium,
        title: "no time limit is asked for",
        cure: "add `#SBATCH --time=HH:MM:SS`: the partition's default may be too short, and backfill needs one",
        find: |facts| missing(facts, "time", "no --time"),
    },
    Rule {
        id: "no-memory",
        severity: Severity::Low,
        title: "no memory is asked for",
        cure: "add `--mem=…`, or `--mem=0` for all of a node that is yours: the default may be little for each CPU",
        find: no_memory,
    },
    Rule {
        id: "few-cpus",
        severity: Severity::Medium,
        title: "a task that drives GPUs gets a single CPU",
        cure: "add `--cpus-per-task`, such as 8 for each GPU: data loaders starve on one",
        find: few_cpus,
    },
    Rule {
        id: "output-folder",
        severity: Severity::Medium,
        title: "the output goes to a folder that Slurm does not make",
        cure: "make the folder before sbatch: without it the job ends at its start, and its output is lost; `mkdir` in the script is too late",
        find: output_folder,
    },
    Rule {
        id: "array-shares-output",
        severity: Severity::Medium,
        title: "all elements of an array write into one file",
        cure: "name it by %A_%a",
        find: array_output,
    },
    Rule {
        id: "exclusive-part",
        severity: Severity::Medium,
        title: "whole nodes are taken, of which a part of the GPUs is asked for",
        cure: "ask for all GPUs of the node, or leave --exclusive out: you pay for what nobody else may use",
        find: exclusive_part,
    },
    Rule {
        id: "more-nodes-than-tasks",
        severity: Severity::Medium,
        title: "there are more nodes than tasks",
        cure: "ask for one task on each node: `--ntasks-per-node=1`; Slurm takes the other nodes away",
        find: more_nodes,
    },
    Rule {
        id: "node-count-open",
        severity: Severity::Medium,
        title: "GPUs are asked for per node, and how many nodes is left open",
        cure: "add `--nodes`: with more nodes there are more GPUs",
        find: open_nodes,
    },
    Rule {
        id: "deprecated-option",
        severity: Severity::Low,
        title: "an option is out of use",
        cure: "write what takes its place",
        find: deprecated,
    },
];

fn missing(facts: &Facts<'_>, name: &str, says: &str) -> Vec<Seen> {
    match facts.script.last(name) {
        None => vec![(None, says.to_owned())],
        Some(_) => Vec::new(),
    }
}

fn late(facts: &Facts<'_>) -> Vec<Seen> {
    facts.script.late.iter().map(|(line, text)| (Some(*line), (*text).to_owned())).collect()
}

fn misspelled(facts: &Facts<'_>) -> Vec<Seen> {
    facts
        .script
        .misspelled
        .iter()
        .map(|(line, text)| (Some(*line), (*text).trim_end().to_owned()))
        .collect()
}

fn unknown(facts: &Facts<'_>) -> Vec<Seen> {
    without_name(facts, |written| written.starts_with('-') && !written.starts_with("--"))
}

fn of_a_plugin(facts: &Facts<'_>) -> Vec<Seen> {
    without_name(facts, |written| written.starts_with("--"))
}

fn without_name(facts: &Facts<'_>, is_meant: fn(&str) -> bool) -> Vec<Seen> {
    let unknown = facts.script.given().filter(|one| one.name.is_none() && is_meant(&one.written));
    unknown.map(|one| (Some(one.line), one.written.clone())).collect()
}

fn container_option(facts: &Facts<'_>) -> Vec<Seen> {
    let dropped = facts.options.iter().filter(|one| {
        one.becomes == Becomes::NotMapped
            && container::is_one(&one.option)
            && !one.says.contains("given again")
    });
    dropped.map(|one| (Some(one.line), format!("{}: {}", one.written, one.says))).collect()
}

fn image_cut(facts: &Facts<'_>) -> Vec<Seen> {
    let Some(image) = facts.script.last("container-image") else { return Vec::new() };
    let at = usize::try_from(image.line).unwrap_or(usize::MAX) - 1;
    let is_cut = facts
        .script
        .lines
        .get(at)
        .is_some_and(|line| line.contains(&format!("{}#", image.written)));
    if is_cut {
        vec![(Some(image.line), format!("{} is all that is read", image.written))]
    } else {
        Vec::new()
    }
}

fn variable(facts: &Facts<'_>) -> Vec<Seen> {
    let has = |one: &&Given| {
        one.value.as_deref().is_some_and(|value| value.contains('$') || value.starts_with('~'))
            && !matches!(one.name, Some("comment" | "wrap"))
    };
    facts.script.given().filter(has).map(|one| (Some(one.line), one.written.clone())).collect()
}

fn exclusive_options(facts: &Facts<'_>) -> Vec<Seen> {
    let together: [&[&str]; 2] =
        [&["mem", "mem-per-cpu", "mem-per-gpu"], &["cpus-per-task", "cpus-per-gpu"]];
    let mut seen = Vec::new();
    for names in together {
        let given: Vec<&Given> = names.iter().filter_map(|name| facts.script.last(name)).collect();
        if let [first, second, ..] = given.as_slice() {
            let line = first.line.max(second.line);
            seen.push((Some(line), format!("{} and {}", first.written, second.written)));
        }
    }
    seen
}

fn twice(facts: &Facts<'_>) -> Vec<Seen> {
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

fn minutes(facts: &Facts<'_>) -> Vec<Seen> {
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

fn no_memory(facts: &Facts<'_>) -> Vec<Seen> {
    let is_said =
        ["mem", "mem-per-cpu", "mem-per-gpu"].iter().any(|name| facts.script.last(name).is_some());
    if is_said || !facts.sizes.has_gpus() {
        return Vec::new();
    }
    vec![(None, "none of --mem, --mem-per-cpu, --mem-per-gpu".to_owned())]
}

fn few_cpus(facts: &Facts<'_>) -> Vec<Seen> {
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

fn output_folder(facts: &Facts<'_>) -> Vec<Seen> {
    let mut seen = Vec::new();
    for given in ["output", "error"].iter().filter_map(|name| facts.script.last(name)) {
        let Some((folder, _)) = given.value.as_deref().and_then(|path| path.rsplit_once('/'))
        else {
            continue;
        };
        let is_there = matches!(folder, "" | "." | ".." | "/dev" | "/tmp");
        if is_there || seen.iter().any(|(_, text): &Seen| text.contains(&format!("`{folder}/`"))) {
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
            format!("`{folder}/` must be there before the job starts{too_late}"),
        ));
    }
    seen
}

fn array_output(facts: &Facts<'_>) -> Vec<Seen> {
    let (Some(_), Some(output)) = (facts.script.last("array"), facts.script.last("output")) else {
        return Vec::new();
    };
    let path = output.value.as_deref().unwrap_or_default();
    // %j is of each element, %A of all.
    if ["%a", "%j", "%J", "/dev/null"].iter().any(|mark| path.contains(mark)) {
        return Vec::new();
    }
    vec![(Some(output.line), output.written.clone())]
}

fn exclusive_part(facts: &Facts<'_>) -> Vec<Seen> {
    let Some(given) = facts.script.last("exclusive").filter(|one| one.value.is_none()) else {
        return Vec::new();
    };
    match facts.sizes.gpus_on_node() {
        Some(gpus) if (1..GPUS_OF_A_NODE).contains(&gpus) => {
            vec![(Some(given.line), format!("--exclusive with GPUs of each node: {gpus}"))]
        }
        _ => Vec::new(),
    }
}

fn more_nodes(facts: &Facts<'_>) -> Vec<Seen> {
    match (facts.sizes.nodes, facts.sizes.tasks, facts.script.last("nodes")) {
        (Some((_, nodes)), Some(tasks), Some(given)) if tasks < nodes => {
            vec![(Some(given.line), format!("{nodes} nodes, {tasks} in --ntasks"))]
        }
        _ => Vec::new(),
    }
}

fn open_nodes(facts: &Facts<'_>) -> Vec<Seen> {
    let sizes = facts.sizes;
    match (sizes.nodes, sizes.tasks, &sizes.gpus_per_node) {
        (None, Some(tasks), Some(gpus)) if tasks > 1 && sizes.tasks_per_node.is_none() => {
            vec![(None, format!("{tasks} tasks, GPUs of each node: {}", gpus.count))]
        }
        _ => Vec::new(),
    }
}

fn deprecated(facts: &Facts<'_>) -> Vec<Seen> {
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

//! Rules on what a script loses on its way to a job: nothing is wrong with it for Slurm, and the job would not do the same.

use muster_model::check::Severity;
use muster_model::imported::LaunchMode;

use super::super::arguments;
use super::super::body::is_repeatable;
use super::super::finding::{Facts, Rule, Seen};
use super::super::option::Given;

/// Commands that move files, for which a share of a node is enough.
pub(super) const FILES: [&str; 11] =
    ["chmod", "cp", "exec", "gzip", "ln", "mv", "rm", "rsync", "tar", "tee", "touch"];

pub(in super::super) const RULES: &[Rule] = &[
    Rule {
        id: "arguments-lost",
        severity: Severity::Medium,
        title: "the script reads arguments, which sbatch gets beside it and a job does not",
        cure: "name them: `muster import SCRIPT -- ARGUMENT …`",
        find: arguments_lost,
    },
    Rule {
        id: "gpus-dropped",
        severity: Severity::High,
        title: "the job has no GPUs, and the script asks for some",
        cure: "ask for as many as divide among the tasks of each node, or write `gpus` or `gpus-per-task` into the job file",
        find: dropped,
    },
    Rule {
        id: "batch-narrowed",
        severity: Severity::High,
        title: "a program outside of srun gets one task's share of the node",
        cure: "start it with `srun`, or ask for one task on each node with all of its GPUs and CPUs: Slurm shows a batch script all that the job has on its node, a job shows each task its own",
        find: narrowed,
    },
];

fn arguments_lost(facts: &Facts<'_>) -> Vec<Seen> {
    let used = arguments::used(facts.script, facts.commands);
    let given = facts.script.arguments.len();
    // With some named, those that are numbered beyond them.
    let lost: Vec<&(String, u32)> = used
        .iter()
        .filter(|(name, _)| {
            given == 0
                || name
                    .strip_prefix('$')
                    .and_then(|name| name.parse::<usize>().ok())
                    .is_some_and(|nth| nth > given)
        })
        .collect();
    let names: Vec<&str> = lost.iter().map(|(name, _)| name.as_str()).collect();
    let named = if given == 0 { "none is named".to_owned() } else { format!("{given} are named") };
    let first = lost.first().map(|(_, line)| *line);
    first
        .map(|line| (Some(facts.line(line)), format!("it reads {}; {named}", names.join(", "))))
        .into_iter()
        .collect()
}

fn dropped(facts: &Facts<'_>) -> Vec<Seen> {
    // A component has a group each; the rest of the facts are of the first.
    if facts.groups.first().is_none_or(|group| group.gpus.or(group.gpus_per_task).is_some()) {
        return Vec::new();
    }
    let asks = |one: &&Given| {
        let value = one.value.as_deref().unwrap_or_default();
        let is_none = value == "0" || value.ends_with(":0") || value.ends_with("=0");
        let is_of_gpus = one.name.is_some_and(|name| name.starts_with("gpus")) || value.contains("gpu");
        is_of_gpus && !is_none
    };
    let names = ["gpus-per-node", "gpus-per-task", "gpus", "gpus-per-socket", "gres", "tres-per-task"];
    let given = names.iter().filter_map(|name| facts.script.last(name)).find(asks);
    given.map(|one| (Some(one.line), format!("{} is not in the job", one.written))).into_iter().collect()
}

fn narrowed(facts: &Facts<'_>) -> Vec<Seen> {
    // Of the job, in which one task may have what several would have.
    let tasks = facts.groups.first().and_then(|group| group.tasks_per_node.or(group.tasks)).unwrap_or(1);
    let has_share = facts.sizes.has_gpus() || facts.sizes.cpus_per_task.is_some();
    if facts.how != LaunchMode::FirstTask || tasks < 2 || !has_share {
        return Vec::new();
    }
    // What another interpreter starts by itself cannot be told from the rest.
    if !facts.script.is_shell() {
        let evidence = format!("the {} script gets 1 share of {tasks}", facts.script.interpreter());
        return vec![(Some(1), evidence)];
    }
    let starts = |index: usize| {
        facts
            .steps
            .iter()
            .any(|(step, _)| step.command == index && (step.srun.is_some() || step.mpirun.is_some()))
    };
    let own = facts.commands.iter().enumerate().find(|(index, command)| {
        let name = command.program().unwrap_or_default();
        let mentions = command.words.iter().any(|word| word.raw.contains("srun") || word.raw.contains("mpi"));
        !starts(*index)
            && !mentions
            && !name.is_empty()
            && !FILES.contains(&name.as_str())
            && !is_repeatable(command)
    });
    own.map(|(_, command)| {
        let words: Vec<String> = command.words.iter().take(3).map(super::super::shell::Word::shown).collect();
        (Some(facts.line(command.line)), format!("`{}` gets 1 share of {tasks}", words.join(" ")))
    })
    .into_iter()
    .collect()
}

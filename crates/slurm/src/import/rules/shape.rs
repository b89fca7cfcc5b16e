//! Rules on the script as a program: handling of failures, background processes and signals.

use muster_model::check::Severity;

use super::super::body::is_repeatable;
use super::super::finding::{ImportRule, RuleHit, ScriptFacts};
use super::super::launch::LaunchCommand;
use super::super::shell::{ShellCommand, ShellWord, Then};
use super::losses::FILES;

pub(in super::super) const RULES: &[ImportRule] = &[
    ImportRule {
        id: "failure-unseen",
        severity: Severity::Medium,
        title: "a failure is lost: other commands follow",
        cure: "add `set -e`, or exit with the code of srun: the job's state is that of its last command",
        find: unseen,
    },
    ImportRule {
        id: "pipe-hides-failure",
        severity: Severity::Medium,
        title: "a failure is hidden by a pipe",
        cure: "add `set -o pipefail`: the exit code of a pipe is that of its last command",
        find: piped,
    },
    ImportRule {
        id: "background-without-wait",
        severity: Severity::High,
        title: "background processes are killed when the script ends",
        cure: "end the script with `wait`",
        find: background,
    },
    ImportRule {
        id: "signal-not-handled",
        severity: Severity::Medium,
        title: "the signal before the limit does not reach its trap",
        cure: "write `--signal=B:…` and start the program with `&` and `wait`, so that the script's shell can handle it",
        find: signal,
    },
    ImportRule {
        id: "no-shebang",
        severity: Severity::High,
        title: "the first line is not `#!`: sbatch rejects the script",
        cure: "begin with `#!/bin/bash`",
        find: |facts| match facts.script.shebang {
            Some(_) => Vec::new(),
            None => vec![(Some(1), "no #! in the first line".to_owned())],
        },
    },
];

/// Returns whether a shell option is set: `set -e`, `set -euo pipefail`, `#!/bin/bash -e`.
pub(super) fn is_set(facts: &ScriptFacts<'_>, letter: char, long: &str, before: usize) -> bool {
    let shebang = facts.script.shebang.unwrap_or_default();
    let in_shebang = shebang
        .split_whitespace()
        .skip(1)
        .any(|word| word.starts_with('-') && word.contains(letter));
    let in_script = facts.commands.iter().take(before).any(|command| {
        command.program().as_deref() == Some("set")
            && command.words.iter().map(ShellWord::shown).any(|word| {
                word == long
                    || word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
            })
    });
    in_shebang || in_script
}

fn shown(command: &ShellCommand) -> String {
    command.words.iter().take(3).map(ShellWord::shown).collect::<Vec<_>>().join(" ")
}

fn unseen(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let Some((step, _)) = facts.steps.last() else { return Vec::new() };
    if is_set(facts, 'e', "errexit", step.command) {
        return Vec::new();
    }
    let Some(command) = facts.commands.get(step.command) else { return Vec::new() };
    let rest = facts.commands.get(step.command + 1..).unwrap_or_default();
    let is_asked = matches!(command.then, Then::Or | Then::And | Then::Background | Then::Pipe)
        || command.depth > 0;
    // `status=$?`, `exit $?`, `wait`, `if [ $? …`.
    let is_kept = rest
        .iter()
        .any(|later| later.words.iter().any(|word| word.variables().any(|name| name == "?")));
    let next = rest
        .iter()
        .find(|later| later.program().is_some_and(|name| !matches!(name.as_str(), "wait")));
    match next {
        Some(next) if !is_asked && !is_kept => {
            let line = facts.line(step.line);
            vec![(
                Some(line),
                format!("`{}` follows on line {}", shown(next), facts.line(next.line)),
            )]
        }
        _ => Vec::new(),
    }
}

fn piped(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    facts
        .steps
        .iter()
        .filter(|(step, _)| {
            let is_piped =
                facts.commands.get(step.command).is_some_and(|command| command.then == Then::Pipe);
            is_piped
                && !facts.commands.iter().any(|command| {
                    command.words.iter().any(|word| {
                        word.raw.contains("pipefail") || word.raw.contains("PIPESTATUS")
                    })
                })
        })
        .map(|(step, _)| (Some(facts.line(step.line)), format!("{} … |", step.launchers.join(" "))))
        .collect()
}

fn background(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let in_background = |step: &LaunchCommand| {
        facts.commands.get(step.command).is_some_and(|command| command.then == Then::Background)
    };
    let Some((step, _)) = facts.steps.iter().rev().find(|(step, _)| in_background(step)) else {
        return Vec::new();
    };
    let rest = facts.commands.get(step.command + 1..).unwrap_or_default();
    let waits = rest.iter().any(|later| {
        matches!(later.program().as_deref(), Some("wait" | "fg"))
            // A program in the foreground, such as the driver of a cluster whose workers run in the
            // background.
            || later.program().is_some_and(|name| !FILES.contains(&name.as_str()))
                && later.then != Then::Background
                && !is_repeatable(later)
            || facts
                .steps
                .iter()
                .any(|(one, _)| facts.commands.get(one.command) == Some(later) && !in_background(one))
    });
    if waits {
        Vec::new()
    } else {
        vec![(
            Some(facts.line(step.line)),
            format!("{} … &, but no wait", step.launchers.join(" ")),
        )]
    }
}

fn signal(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let Some(given) = facts.script.last("signal") else { return Vec::new() };
    let text = given.value.as_deref().unwrap_or_default();
    let (whom, rest) = text.split_once(':').unwrap_or(("", text));
    let name =
        rest.split('@').next().unwrap_or_default().trim_start_matches("SIG").to_ascii_uppercase();
    let has_trap = facts.commands.iter().any(|command| {
        command.program().as_deref() == Some("trap")
            && command
                .words
                .iter()
                .skip(2)
                .any(|word| word.shown().trim_start_matches("SIG").eq_ignore_ascii_case(&name))
    });
    if !has_trap {
        return Vec::new();
    }
    if !whom.contains('B') {
        let evidence =
            format!("{} is sent to the steps, but the trap is in the script", given.written);
        return vec![(Some(given.line), evidence)];
    }
    let in_front = facts.steps.iter().find(|(step, _)| {
        facts.commands.get(step.command).is_some_and(|command| command.then != Then::Background)
    });
    match in_front {
        Some((step, _)) => {
            let line = facts.line(step.line);
            vec![(Some(line), "the trap runs only after this foreground command".to_owned())]
        }
        None => Vec::new(),
    }
}

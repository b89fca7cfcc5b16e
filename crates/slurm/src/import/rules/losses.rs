//! Rules on what a script loses in the conversion: it is correct for Slurm, but the job would
//! behave differently.

use muster_model::check::Severity;
use muster_model::imported::{ImportOutcome, ImportedOption, LaunchMode};

use super::super::arguments;
use super::super::body::is_repeatable;
use super::super::finding::{ImportRule, RuleHit, ScriptFacts};
use super::super::launch::LaunchCommand;
use super::super::option::GivenOption;
use super::super::shell::{ShellCommand, ShellWord};

/// Commands that move files, for which a share of a node is enough.
pub(super) const FILES: [&str; 11] =
    ["chmod", "cp", "exec", "gzip", "ln", "mv", "rm", "rsync", "tar", "tee", "touch"];

pub(in super::super) const RULES: &[ImportRule] = &[
    ImportRule {
        id: "arguments-lost",
        severity: Severity::Medium,
        title: "the script reads arguments, which are on sbatch's command line and not in the job",
        cure: "add them: `muster import SCRIPT -- ARGUMENT …`",
        find: arguments_lost,
    },
    ImportRule {
        id: "gpus-dropped",
        severity: Severity::High,
        title: "the job has no GPUs, but the script requests some",
        cure: "request a number that divides evenly among the tasks of each node, or set `gpus` or `gpus-per-task` in the job file",
        find: dropped,
    },
    ImportRule {
        id: "option-lost",
        severity: Severity::Medium,
        title: "an option of sbatch is not in the job",
        cure: "see above for its replacement; if there is none, submit the script itself with sbatch",
        find: options_lost,
    },
    ImportRule {
        id: "step-of-several-programs",
        severity: Severity::Medium,
        title: "one srun starts several programs, which remain one step of the first task",
        cure: "write a group for each program into the job file, and let Muster start them together",
        find: several_programs,
    },
    ImportRule {
        id: "step-split",
        severity: Severity::Medium,
        title: "one srun starts the programs of several components as one step, but the job starts a step for each",
        cure: "nothing if the programs use RANK, WORLD_SIZE and MASTER_ADDR, which count over all groups; programs in one MPI world need one step: submit the script itself with sbatch",
        find: split,
    },
    ImportRule {
        id: "requeues-itself",
        severity: Severity::High,
        title: "the script requeues its own job, without Muster",
        cure: "remove `scontrol requeue` and exit after saving: Muster restarts a preempted job automatically, and a job at its limit with `checkpoint` and `restarts`; the next start must find the checkpoint, in a file whose name does not contain the step",
        find: requeues,
    },
    ImportRule {
        id: "batch-narrowed",
        severity: Severity::High,
        title: "a program without srun gets one task's share of the node",
        cure: "start it with `srun`, or request one task per node with all of its GPUs and CPUs: in Slurm a batch script sees all of the job's resources on its node, in a job each task sees its own",
        find: narrowed,
    },
];

fn arguments_lost(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let used = arguments::used(facts.script, facts.commands);
    let given = facts.script.arguments.len();
    // If some are given, only higher-numbered ones are missing.
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
    let named = if given == 0 { "none is given".to_owned() } else { format!("{given} are given") };
    let first = lost.first().map(|(_, line)| *line);
    first
        .map(|line| (Some(facts.line(line)), format!("it reads {}; {named}", names.join(", "))))
        .into_iter()
        .collect()
}

fn dropped(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    // Each component has its own group; the other facts are those of the first.
    if facts.groups.first().is_none_or(|group| group.gpus.or(group.gpus_per_task).is_some()) {
        return Vec::new();
    }
    let asks = |one: &&GivenOption| {
        let value = one.value.as_deref().unwrap_or_default();
        let is_none = value == "0" || value.ends_with(":0") || value.ends_with("=0");
        let is_of_gpus =
            one.name.is_some_and(|name| name.starts_with("gpus")) || value.contains("gpu");
        is_of_gpus && !is_none
    };
    let names =
        ["gpus-per-node", "gpus-per-task", "gpus", "gpus-per-socket", "gres", "tres-per-task"];
    let given = names.iter().filter_map(|name| facts.script.last(name)).find(asks);
    given
        .map(|one| (Some(one.line), format!("{} is not in the job", one.written)))
        .into_iter()
        .collect()
}

/// Options without effect on the job's work: the mode of its output file, and the submission.
const OF_SUBMISSION: [&str; 14] = [
    "open-mode",
    "comment",
    "kill-on-invalid-dep",
    "wait",
    "test-only",
    "parsable",
    "quiet",
    "verbose",
    "help",
    "usage",
    "version",
    "ignore-pbs",
    "immediate",
    "wrap",
];

/// Returns whether an option has its own rule, as most container options do.
fn has_its_own_rule(name: &str) -> bool {
    (name.starts_with("container-") && name != "container-id") || name.starts_with("no-container-")
}

fn options_lost(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let is_lost = |option: &&ImportedOption| {
        let name = option.option.strip_prefix("srun --").unwrap_or(&option.option);
        option.becomes == ImportOutcome::NotMapped
            && !name.is_empty()
            && !OF_SUBMISSION.contains(&name)
            && !has_its_own_rule(name)
            && !option.text.contains("is given again below")
            && !option.text.starts_with("sbatch refuses it beside")
    };
    let lost = facts.options.iter().filter(is_lost);
    lost.map(|option| (Some(option.line), format!("{}: {}", option.written, option.text))).collect()
}

fn several_programs(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    // Components each run their own program.
    if facts.how == LaunchMode::Roles { Vec::new() } else { steps_of_several(facts) }
}

fn split(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    if facts.how == LaunchMode::Roles { steps_of_several(facts) } else { Vec::new() }
}

fn steps_of_several(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let is_several = |step: &LaunchCommand| {
        step.srun.as_ref().is_some_and(|srun| srun.program.iter().any(|word| word.raw == ":"))
    };
    let steps = facts.steps.iter().filter(|(step, _)| is_several(step));
    steps.map(|(step, _)| (Some(facts.line(step.line)), "srun … : …".to_owned())).collect()
}

/// Finds `scontrol requeue`, even in a trap, whose command is one word.
fn requeues(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    let names = |command: &&ShellCommand| {
        let text: Vec<String> = command.words.iter().map(ShellWord::shown).collect();
        let text = text.join(" ");
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || c == ';')
            .filter(|word| !word.is_empty())
            .collect();
        words.windows(2).any(|pair| {
            pair[0].rsplit('/').next() == Some("scontrol")
                && matches!(pair[1], "requeue" | "requeuehold")
        })
    };
    let seen = facts.commands.iter().find(names);
    seen.map(|command| {
        let is_trap = command.program().as_deref() == Some("trap");
        let what = if is_trap { "a trap runs `scontrol requeue`" } else { "`scontrol requeue`" };
        (Some(facts.line(command.line)), what.to_owned())
    })
    .into_iter()
    .collect()
}

fn narrowed(facts: &ScriptFacts<'_>) -> Vec<RuleHit> {
    // The job may have merged several tasks into one.
    let tasks =
        facts.groups.first().and_then(|group| group.tasks_per_node.or(group.tasks)).unwrap_or(1);
    let has_share = facts.sizes.has_gpus() || facts.sizes.cpus_per_task.is_some();
    if facts.how != LaunchMode::FirstTask || tasks < 2 || !has_share {
        return Vec::new();
    }
    // Programs that another interpreter starts cannot be identified.
    if !facts.script.is_shell() {
        let evidence = format!("the {} script gets 1 share of {tasks}", facts.script.interpreter());
        return vec![(Some(1), evidence)];
    }
    let starts = |index: usize| {
        facts.steps.iter().any(|(step, _)| {
            step.command == index && (step.srun.is_some() || step.mpirun.is_some())
        })
    };
    let own = facts.commands.iter().enumerate().find(|(index, command)| {
        let name = command.program().unwrap_or_default();
        let mentions =
            command.words.iter().any(|word| word.raw.contains("srun") || word.raw.contains("mpi"));
        !starts(*index)
            && !mentions
            && !name.is_empty()
            && !FILES.contains(&name.as_str())
            && !is_repeatable(command)
    });
    own.map(|(_, command)| {
        let words: Vec<String> =
            command.words.iter().take(3).map(super::super::shell::ShellWord::shown).collect();
        (Some(facts.line(command.line)), format!("`{}` gets 1 share of {tasks}", words.join(" ")))
    })
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::option::{OptionArity, SBATCH};
    use super::super::super::{ImportInput, import};
    use super::*;

    /// A valid value, an invalid one, and a list.
    const VALUES: [&str; 4] = ["1", "x y", "a,b,7-9%2", "singleton"];

    #[test]
    fn every_option_of_sbatch_is_carried_or_named() {
        for option in SBATCH {
            let values =
                if option.takes == OptionArity::Nothing { &VALUES[..1] } else { &VALUES[..] };
            for value in values {
                let given = match option.takes {
                    OptionArity::Nothing => format!("--{}", option.name),
                    OptionArity::Value | OptionArity::Perhaps => {
                        format!("--{}=\"{value}\"", option.name)
                    }
                };
                let text = format!("#!/bin/bash\n#SBATCH {given}\npython train.py\n");
                let report = import(&text, "x.sh", &ImportInput::default()).unwrap();
                let answers: Vec<_> = report.options.iter().filter(|one| one.line == 2).collect();
                assert!(!answers.is_empty(), "{given} is not answered");
                let is_lost = answers.iter().any(|one| one.becomes == ImportOutcome::NotMapped);
                let is_named =
                    report.findings.iter().any(|finding| finding.evidence.contains(option.name));
                let is_silent = OF_SUBMISSION.contains(&option.name);
                assert!(!is_lost || is_named || is_silent, "{given} is lost unsaid: {report:?}");
            }
        }
    }

    /// Rules on losses, with what is in the script; most bodies request eight tasks on two nodes.
    #[test]
    fn what_a_script_loses_is_named_and_nothing_else() {
        for (head, body, expected) in [
            ("", "srun -n4 ./a : -n4 ./b", &["step-of-several-programs"][..]),
            ("--array=1,3,x", "srun ./a", &["option-lost"]),
            ("--dependency=singleton", "srun ./a", &[]),
            ("--dependency=afterok:3,singleton", "srun ./a", &[]),
            ("--dependency=afterok:3?singleton", "srun ./a", &["option-lost"]),
            (
                "--partition=gpu\n#SBATCH hetjob\n#SBATCH --partition=cpu",
                "srun ./a : ./b",
                &["step-split"],
            ),
            (
                "--qos=a\n#SBATCH hetjob\n#SBATCH --qos=b",
                "srun ./a : ./b",
                &["option-lost", "step-split"],
            ),
            ("--output=x-%N", "srun ./a", &["option-lost"]),
            ("--output=x", "srun --output=y ./a", &["option-lost"]),
            (
                "",
                "trap 'wait $pid; scontrol requeue $SLURM_JOB_ID' USR1\nsrun ./a",
                &["requeues-itself"],
            ),
            ("", "scontrol requeue 7\nsrun ./a", &["requeues-itself"]),
            ("", "scontrol show job 7\n# scontrol requeue 7\nsrun ./a", &[]),
            ("--output=x --comment=y", "srun ./a", &[]),
            (
                "",
                "A[0]=x\nA[$i]=y\nA+=(z)\nsrun ./a &\nwhile kill -0 $!; do sleep 5; done\nsrun ./b",
                &[],
            ),
            ("", "for i in 1 2; do srun -N1 -n1 ./a & done\nwait", &[]),
            ("", "./prepare --all\nsrun ./a\nsrun ./b", &["batch-narrowed"]),
        ] {
            let head = if head.is_empty() { String::new() } else { format!("#SBATCH {head}\n") };
            let text = format!(
                "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --time=5\n{head}{body}\n"
            );
            let report = import(&text, "x.sh", &ImportInput::default()).unwrap();
            let found = report.findings.iter().map(|finding| finding.rule);
            let found: Vec<&str> =
                found.filter(|rule| RULES.iter().any(|own| own.id == *rule)).collect();
            assert_eq!(found, expected, "{text}\n{}", report.job);
        }
    }

    /// A word in a comment starts nothing.
    #[test]
    fn a_comment_makes_no_script_one_of_steps() {
        let job = |comment: &str| {
            let text = format!(
                "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8\necho go\n{comment}\ntorchrun --nproc-per-node=8 x.py # {comment}\n"
            );
            import(&text, "x.sh", &ImportInput::default()).unwrap()
        };
        let plain = job("# nothing");
        let named = job("# no srun, no mpirun");
        assert_eq!(plain.launch.how, named.launch.how);
        assert!(
            named.job.contains("gpus: 8\n") && !named.job.contains("tasks-per-node"),
            "{}",
            named.job
        );
    }

    #[test]
    fn a_cure_is_written_where_it_is_chosen() {
        let text = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --cpus-per-task=4 --time=5\n\
            srun torchrun --nnodes=2 --nproc-per-node=8 x.py\n";
        let job = |cures: &[&str]| {
            let cures = cures.iter().map(|rule| (*rule).to_owned()).collect();
            import(text, "x.sh", &ImportInput { cures, ..ImportInput::default() }).unwrap()
        };
        let has = |report: &muster_model::imported::ImportReport| {
            report.findings.iter().any(|finding| finding.rule == "processes-squared")
        };
        let plain = job(&[]);
        let cured = job(&["processes-squared"]);
        assert!(has(&plain) && plain.job.contains("tasks-per-node: 8"), "{}", plain.job);
        assert!(!has(&cured) && !cured.job.contains("tasks-per-node"), "{}", cured.job);
        assert!(
            cured.job.contains("gpus: 8\n") && cured.job.contains("cpus: 32\n"),
            "{}",
            cured.job
        );
    }
}

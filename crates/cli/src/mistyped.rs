//! Better errors for some command lines that clap rejects: facts under other names, options of a
//! related subcommand, names of subcommands in other tools. All others keep clap's message.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use muster_model::advice::Fact;
use muster_spec::fact_meant_by;

use crate::cmd::Cli;
use crate::dashes;
use crate::exit::Failure;

/// Subcommands that take facts as options.
const FACT_COMMANDS: [&str; 2] = ["advise", "compare"];

/// Returns an error to show in place of clap's; `None` to keep clap's.
pub fn explain(error: &Error) -> Option<Failure> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let verbs = verbs();
    if error.use_stderr()
        && verbs.first().is_some_and(|verb| verb == "run")
        && let Some(offer) = dashes::suggestion(&dashes::object_conditions())
    {
        return Some(offer);
    }
    match error.kind() {
        ErrorKind::InvalidSubcommand if verbs.is_empty() => {
            let word = word(ContextKind::InvalidSubcommand)?;
            match of_other_tool(word) {
                Some(failure) => Some(failure),
                None if error.get(ContextKind::SuggestedSubcommand).is_none() => {
                    Some(subcommand(&verbs, word))
                }
                None => None,
            }
        }
        ErrorKind::InvalidSubcommand if verbs == ["export"] => {
            let word = word(ContextKind::InvalidSubcommand)?;
            let is_suggested = error.get(ContextKind::SuggestedSubcommand).is_some();
            export_for(word).or_else(|| (!is_suggested).then(|| subcommand(&verbs, word)))
        }
        ErrorKind::UnknownArgument
            if verbs.iter().any(|verb| FACT_COMMANDS.contains(&verb.as_str())) =>
        {
            option(verbs.last()?, word(ContextKind::InvalidArg)?)
        }
        ErrorKind::InvalidSubcommand if error.get(ContextKind::SuggestedSubcommand).is_none() => {
            Some(subcommand(&verbs, word(ContextKind::InvalidSubcommand)?))
        }
        _ => None,
    }
}

/// Names that other schedulers and tools use, and the equivalent subcommand here. They are hints
/// and not aliases: aliases would have to be documented and kept, and words such as `stop` and
/// `status` are ambiguous.
const OTHER_TOOLS: [(&[&str], &str); 12] = [
    (
        &["kill", "delete", "rm", "del", "scancel", "qdel", "bkill"],
        "`muster cancel JOB` ends a job",
    ),
    (&["stop"], "`muster cancel JOB` ends a job, `muster stop-daemon` stops the daemon"),
    (
        &["status", "stat", "state"],
        "`muster ps` lists jobs, `muster show JOB` shows one, `muster nodes` lists nodes",
    ),
    (&["list", "ls", "jobs", "squeue", "qstat", "bjobs"], "`muster ps` lists jobs"),
    (&["queue"], "`muster ps` lists jobs, `muster queues` lists queues"),
    (
        &["submit", "start", "sbatch", "srun", "qsub", "bsub"],
        "`muster run FILE` or `muster run -- COMMAND` submits a job",
    ),
    (&["log", "tail", "output"], "`muster logs JOB` shows output, -f follows it"),
    (&["describe", "scontrol"], "`muster show JOB` shows a job in full"),
    (&["why", "reason"], "`muster explain JOB` says why a job is pending"),
    (&["sinfo", "node"], "`muster nodes` lists nodes"),
    (&["restart", "rerun"], "`muster requeue JOB` runs a job again"),
    (&["exec", "ssh", "shell"], "`muster attach JOB` opens a terminal in a running job"),
];

/// Returns an error that names the equivalent of another tool's subcommand.
fn of_other_tool(word: &str) -> Option<Failure> {
    let (_, hint) = OTHER_TOOLS.iter().find(|(words, _)| words.contains(&word))?;
    Some(Failure::usage(format!("there is no `muster {word}`")).hint(*hint))
}

/// Returns an error for a scheduler or an object of Kubernetes as a target of `muster export`.
fn export_for(word: &str) -> Option<Failure> {
    let options = match word {
        "kai" | "kueue" | "volcano" | "pod-groups" => format!(" --scheduler {word}"),
        "job" | "jobset" | "k8s" => String::new(),
        _ => return None,
    };
    let failure = Failure::usage(format!("there is no `muster export {word}`"));
    Some(failure.hint(format!("`muster export kubernetes{options} FILE` writes these objects")))
}

/// Converts an error of clap: its first line becomes the message, the whole text is what is shown.
pub fn as_failure(error: &Error) -> Failure {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    Failure { rendered: Some(text.trim_end().to_owned()), ..Failure::usage(message) }
}

/// Returns the subcommands on the command line, outermost first.
fn verbs() -> Vec<String> {
    let mut command = Cli::command();
    let mut verbs = Vec::new();
    for word in std::env::args().skip(1).take_while(|word| word != "--") {
        if let Some(inner) = command.find_subcommand(&word).cloned() {
            verbs.push(inner.get_name().to_owned());
            command = inner;
        }
    }
    verbs
}

/// Returns an error for an unknown option of a subcommand that takes facts.
fn option(verb: &str, word: &str) -> Option<Failure> {
    let name = word.strip_prefix("--")?.split('=').next().filter(|name| !name.is_empty())?;
    let failure = |why: &str| Failure::usage(format!("there is no option `--{name}`: {why}"));
    let denied = name.strip_prefix("no-").map(|name| name.replace('-', "_"));
    if let Some(fact) =
        denied.and_then(|name| Fact::WORKLOAD.iter().find(|fact| fact.name() == name))
    {
        let option = fact.name().replace('_', "-");
        return Some(
            failure("facts that are not given are false")
                .hint(format!("`--{option}=false` overrides a file")),
        );
    }
    let command = Cli::command();
    let has = |verb: &str| {
        command
            .find_subcommand(verb)?
            .get_arguments()
            .find(|argument| argument.get_long() == Some(name))
    };
    if let Some(other) = FACT_COMMANDS.iter().find(|other| **other != verb && has(other).is_some())
    {
        return Some(failure(&format!("it is an option of `muster {other}`")));
    }
    let facts: Vec<String> =
        Fact::WORKLOAD.iter().map(|fact| format!("--{}", fact.name().replace('_', "-"))).collect();
    let why = fact_meant_by(name).filter(|_| name != "rules")?;
    Some(failure(&why).hint(format!("the facts are {}", facts.join(", "))))
}

/// Returns an error for an unknown subcommand, with the known ones as a hint.
fn subcommand(verbs: &[String], word: &str) -> Failure {
    let mut command = Cli::command();
    for verb in verbs {
        command = command.find_subcommand(verb).cloned().unwrap_or(command);
    }
    let known: Vec<&str> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(clap::Command::get_name)
        .collect();
    let path = ["muster"]
        .into_iter()
        .chain(verbs.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ");
    Failure::usage(format!("there is no `{path} {word}`"))
        .hint(format!("subcommands of `{path}`: {}", known.join(", ")))
}

//! Command lines that clap refuses and of which more is known than their spelling: facts under
//! other people's names, options of a sibling, verbs that are not there. Everything else is told in
//! clap's own words.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use muster_model::advice::Fact;
use muster_spec::fact_meant_by;

use crate::args::Cli;
use crate::dashes;
use crate::exit::Failure;

/// Verbs that take facts as options.
const OF_FACTS: [&str; 2] = ["advise", "compare"];

/// What to say in clap's place; `None` where nothing more is known.
pub fn explained(error: &Error) -> Option<Failure> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let verbs = verbs();
    if error.use_stderr()
        && verbs.first().is_some_and(|verb| verb == "run")
        && let Some(offer) = dashes::offered(&dashes::own_words())
    {
        return Some(offer);
    }
    match error.kind() {
        ErrorKind::InvalidSubcommand if verbs.is_empty() => {
            let word = word(ContextKind::InvalidSubcommand)?;
            match meant(word) {
                Some(failure) => Some(failure),
                None if error.get(ContextKind::SuggestedSubcommand).is_none() => {
                    Some(subcommand(&verbs, word))
                }
                None => None,
            }
        }
        ErrorKind::UnknownArgument
            if verbs.iter().any(|verb| OF_FACTS.contains(&verb.as_str())) =>
        {
            option(verbs.last()?, word(ContextKind::InvalidArg)?)
        }
        ErrorKind::InvalidSubcommand if error.get(ContextKind::SuggestedSubcommand).is_none() => {
            Some(subcommand(&verbs, word(ContextKind::InvalidSubcommand)?))
        }
        _ => None,
    }
}

/// Words of other schedulers and tools, and the verbs that do the same here. They are no aliases:
/// what a script says then stands in every page of the manual, and words such as `stop` and
/// `status` mean several things.
const ELSEWHERE: [(&[&str], &str); 12] = [
    (
        &["kill", "delete", "rm", "del", "scancel", "qdel", "bkill"],
        "`muster cancel JOB` ends a job",
    ),
    (&["stop"], "`muster cancel JOB` ends a job, `muster stop-daemon` the daemon"),
    (
        &["status", "stat", "state"],
        "`muster ps` lists jobs, `muster show JOB` shows one, `muster nodes` the nodes",
    ),
    (&["list", "ls", "jobs", "squeue", "qstat", "bjobs"], "`muster ps` lists jobs"),
    (&["queue"], "`muster ps` lists jobs, `muster queues` the queues"),
    (
        &["submit", "start", "sbatch", "srun", "qsub", "bsub"],
        "`muster run FILE` or `muster run -- COMMAND` submits",
    ),
    (&["log", "tail", "output"], "`muster logs JOB` shows output, with -f as it comes"),
    (&["describe", "scontrol"], "`muster show JOB` shows a job in full"),
    (&["why", "reason"], "`muster explain JOB` says why a job waits"),
    (&["sinfo", "node"], "`muster nodes` lists nodes"),
    (&["restart", "rerun"], "`muster requeue JOB` runs a job again"),
    (&["exec", "ssh", "shell"], "`muster attach JOB` opens a terminal in a job"),
];

/// What a word of others is called here.
fn meant(word: &str) -> Option<Failure> {
    let (_, hint) = ELSEWHERE.iter().find(|(words, _)| words.contains(&word))?;
    Some(Failure::usage(format!("there is no `muster {word}`")).hint(*hint))
}

/// What clap says, as an error of the program: its first line, and the rest as it is shown to
/// people.
pub fn as_failure(error: &Error) -> Failure {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    Failure { rendered: Some(text.trim_end().to_owned()), ..Failure::usage(message) }
}

/// The verbs of the command line, outermost first, as far as there are such.
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

/// An option that is not there, of a verb that takes facts.
fn option(verb: &str, word: &str) -> Option<Failure> {
    let name = word.strip_prefix("--")?.split('=').next().filter(|name| !name.is_empty())?;
    let failure = |why: &str| Failure::usage(format!("there is no option `--{name}`: {why}"));
    let denied = name.strip_prefix("no-").map(|name| name.replace('-', "_"));
    if let Some(fact) =
        denied.and_then(|name| Fact::WORKLOAD.iter().find(|fact| fact.name() == name))
    {
        let option = fact.name().replace('_', "-");
        return Some(
            failure("what is not given is no")
                .hint(format!("a file is overruled with `--{option}=false`")),
        );
    }
    let command = Cli::command();
    let has = |verb: &str| {
        command
            .find_subcommand(verb)?
            .get_arguments()
            .find(|argument| argument.get_long() == Some(name))
    };
    if let Some(other) = OF_FACTS.iter().find(|other| **other != verb && has(other).is_some()) {
        return Some(failure(&format!("it is one of `muster {other}`")));
    }
    let facts: Vec<String> =
        Fact::WORKLOAD.iter().map(|fact| format!("--{}", fact.name().replace('_', "-"))).collect();
    let why = fact_meant_by(name).filter(|_| name != "rules")?;
    Some(failure(&why).hint(format!("the facts are {}", facts.join(", "))))
}

/// A verb that is not there.
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
        .hint(format!("after `{path}`: {}", known.join(", ")))
}

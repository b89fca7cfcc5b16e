//! Effects of a command on what follows it in a script: the variables that it sets and exports, and the
//! environment and folder that it changes.

use super::super::super::script::quote;
use super::super::shell::{ShellCommand, ShellWord, assignment};

/// Commands that change the environment or the folder of what follows.
const CHANGES: [&str; 18] = [
    ".",
    "alias",
    "cd",
    "conda",
    "eval",
    "export",
    "mamba",
    "micromamba",
    "ml",
    "module",
    "popd",
    "pushd",
    "shopt",
    "source",
    "spack",
    "ulimit",
    "umask",
    "unset",
];

/// Commands that set the variables that they name.
pub(super) const SETTERS: [&str; 6] =
    ["export", "declare", "readonly", "read", "mapfile", "readarray"];

/// Returns the variables that a command sets in the shell.
pub(super) fn names_set(command: &ShellCommand) -> Vec<String> {
    let words = match command.program().as_deref() {
        None => &command.words[..],
        Some("for" | "select") => command.words.get(1..2).unwrap_or_default(),
        Some("printf") if is_printed_to_variable(command) => &command.words[2..],
        Some("unset" | "typeset" | "local") => &command.words[1..],
        Some(name) if SETTERS.contains(&name) => &command.words[1..],
        Some(_) => return Vec::new(),
    };
    let name = |word: &ShellWord| match assignment(word) {
        Some((name, _)) => name.split(['[', '+']).next().unwrap_or_default().to_owned(),
        None => word.raw.clone(),
    };
    words.iter().map(name).filter(|name| quote::is_variable(name) && name != "IFS").collect()
}

/// Returns true for `printf -v NAME`.
pub(super) fn is_printed_to_variable(command: &ShellCommand) -> bool {
    command.words.get(1).is_some_and(|word| word.raw == "-v")
}

/// Returns true for a command that changes the environment or the folder of what follows.
pub(super) fn changes_environment(command: &ShellCommand) -> bool {
    let name = command.program().unwrap_or_default();
    let exports_all = |word: &ShellWord| {
        word.raw == "allexport" || word.raw.starts_with('-') && word.raw.contains('a')
    };
    CHANGES.contains(&name.as_str())
        || exports(command)
        || name == "set" && command.words.iter().any(exports_all)
}

/// Returns true for a command that exports variables.
pub(super) fn exports(command: &ShellCommand) -> bool {
    let is_exported = |word: &ShellWord| word.raw.starts_with('-') && word.raw.contains('x');
    match command.program().as_deref() {
        Some("export") => true,
        Some("declare" | "typeset" | "readonly") => command.words.iter().any(is_exported),
        _ => false,
    }
}

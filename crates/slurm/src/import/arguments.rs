//! Arguments of a script, which are on sbatch's command line: finds those that the body reads, and
//! passes on those that were given.

use muster_model::payload::shell_word;

use super::read::BatchScript;
use super::shell::{ShellCommand, ShellWord, Then, WordPart, commands, expansions};

/// Expressions by which scripts in other languages read their arguments.
const ELSEWHERE: [&str; 7] =
    ["sys.argv", "argparse", "@ARGV", "$ARGV", "commandArgs(", "$argv", "$1"];

/// Returns the arguments that the body reads, in order of first use, with their line in the body.
pub(super) fn used(script: &BatchScript<'_>, all: &[ShellCommand]) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    if !script.is_shell() {
        for (line, number) in script.lines.iter().skip(script.body).zip(1..) {
            for name in ELSEWHERE.iter().filter(|name| line.contains(**name)) {
                add(&mut found, (*name).to_owned(), number);
            }
        }
        return found;
    }
    let mut before = Then::Next;
    for command in all {
        let behind = std::mem::replace(&mut before, command.then);
        let words: Vec<String> = command.words.iter().map(ShellWord::shown).collect();
        if command.is_in_function {
            continue;
        }
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["shift", ..] => add(&mut found, "shift".to_owned(), command.line),
            ["getopts", _, _] => add(&mut found, "getopts".to_owned(), command.line),
            ["for", _] => add(&mut found, "$@".to_owned(), command.line),
            _ => {}
        }
        let targets = command.redirects.iter().map(|(_, target)| target);
        let mut parts: Vec<WordPart> =
            command.words.iter().chain(targets).flat_map(|word| word.parts.clone()).collect();
        if let Some(document) = command.document.as_ref().filter(|document| !document.is_quoted) {
            parts.extend(expansions(&document.text));
        }
        parts.iter().for_each(|part| of_part(part, command.line, &mut found));
        // From here on the script sets the arguments itself.
        let is_named =
            command.program().as_deref() == Some("set") && words.iter().any(|word| word == "--");
        if is_named && always_runs(command, behind) {
            return found;
        }
    }
    found
}

/// Returns whether a command always runs once in the script's own shell.
fn always_runs(command: &ShellCommand, behind: Then) -> bool {
    let is_own = !command.is_piped && !matches!(command.then, Then::Pipe | Then::Background);
    command.depth == 0 && is_own && !matches!(behind, Then::And | Then::Or)
}

/// Collects the arguments that a part of a word reads, even in `$( … )` and `$(( … ))`.
fn of_part(part: &WordPart, line: u32, found: &mut Vec<(String, u32)>) {
    match part {
        WordPart::Text(..) => {}
        WordPart::Variable { name, .. } => {
            let is_one = name.bytes().all(|byte| byte.is_ascii_digit()) && name.as_str() != "0";
            if !name.is_empty() && is_one || matches!(name.as_str(), "@" | "*" | "#") {
                add(found, format!("${name}"), line);
            }
        }
        WordPart::Arithmetic(text) => {
            expansions(text).iter().for_each(|part| of_part(part, line, found))
        }
        WordPart::Substitution(text) => {
            for command in commands(text) {
                let words = command.words.iter().flat_map(|word| &word.parts);
                words.for_each(|part| of_part(part, line, found));
            }
        }
    }
}

fn add(found: &mut Vec<(String, u32)>, name: String, line: u32) {
    if !found.iter().any(|(known, _)| *known == name) {
        found.push((name, line));
    }
}

/// Returns the command that sets the shell's arguments.
pub(super) fn set(arguments: &[String]) -> String {
    match arguments {
        [] => String::new(),
        some => format!("# The arguments of the script.\nset -- {}\n", words(some)),
    }
}

/// Quotes the arguments as words of a shell.
pub(super) fn words(arguments: &[String]) -> String {
    arguments.iter().map(|argument| shell_word(argument)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    #[test]
    fn arguments_are_found_where_the_script_itself_reads_them() {
        let check = |body: &str, expected: &[(&str, u32)]| {
            let text = format!("#!/bin/bash\n{body}\n");
            let script = read::read(&text).unwrap();
            let found = used(&script, &commands(&script.body()));
            let found: Vec<_> = found.iter().map(|(name, line)| (name.as_str(), *line)).collect();
            assert_eq!(found, expected, "{body}");
        };
        check("a $1 ${2:-x} \"$@\"\nb $1 $0 $? $$", &[("$1", 1), ("$2", 1), ("$@", 1)]);
        check("a ${@:2} $# ${#} ${#name}", &[("$@", 1), ("$#", 1)]);
        check("awk '{print $1}' x; a \\$1", &[]);
        check("a $(b $1) $(( $2 + 1 )) > $3", &[("$1", 1), ("$2", 1), ("$3", 1)]);
        check("a <<E\n$1\nE\na <<'E'\n$2\nE", &[("$1", 1)]);
        check("f() {\n  a $1\n}\nf $2\nshift", &[("$2", 4), ("shift", 5)]);
        check("set -- x\na $1", &[]);
        check("set -- \"$@\" x\na $1", &[("$@", 1)]);
        check("if [ -f d ]; then set -- a b; fi; python t.py \"$1\"", &[("$1", 1)]);
        check("[ -f d ] && set -- a\na $1", &[("$1", 2)]);
        check("[ -f d ] ||\n  set -- a\na $1\nset -- b\na $2", &[("$1", 3)]);
        check("(set -- a)\na $1\nb | set -- c\na $2", &[("$1", 2), ("$2", 4)]);
        check("for one; do a $one; done", &[("$@", 1)]);
        let script =
            read::read("#!/usr/bin/env python3\n#SBATCH -n1\nimport sys\nprint(sys.argv)\n")
                .unwrap();
        assert_eq!(used(&script, &[]), [("sys.argv".to_owned(), 2)]);
    }
}

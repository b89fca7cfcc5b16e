//! Test that every command of this program that a message, a help text or a page names exists, with its options:
//! what stands in backticks, in a block of code or among the examples is pasted into a shell.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};

/// Returns the command line with what clap adds to it.
fn root() -> Command {
    let mut root = super::Cli::command();
    root.build();
    root
}

/// Returns the files with texts for users: sources of the crates, and pages.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        folders.push(entry.unwrap().path().join("src"));
    }
    while let Some(folder) = folders.pop() {
        // Decisions keep the words of their time.
        let entries = fs::read_dir(&folder).into_iter().flatten();
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_text = [".rs", ".md"].iter().any(|end| name.ends_with(end));
            if path.is_dir() && !["adr", "tests"].contains(&name.as_str()) {
                folders.push(path);
            } else if is_text && !["tests.rs", "mentioned.rs"].contains(&name.as_str()) {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the commands in backticks, blocks and examples, without those in tests and those that a text says not to
/// exist.
fn commands(text: &str) -> Vec<&str> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut is_block = false;
    for line in text.lines() {
        is_block ^= line.trim_start().starts_with("```");
        // Examples of the help texts are indented by two or three blanks.
        let example = line.strip_prefix("///   ").or_else(|| line.strip_prefix("  "));
        let shown = if is_block { Some(line.trim_start_matches("$ ")) } else { example };
        if let Some(command) = shown.and_then(|line| line.strip_prefix("muster ")) {
            found.push(command.trim_end_matches('\\'));
        }
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("`muster ") {
            let Some((command, next)) = after.split_once('`') else { break };
            if !before.ends_with("there is no ") {
                found.push(command);
            }
            rest = next;
        }
    }
    found
}

/// Returns what is wrong with a command; `None` if it exists as far as it is spelt out.
fn defect(root: &Command, command: &str) -> Option<String> {
    let mut at = root;
    let mut takes_words = false;
    for word in command.split_whitespace() {
        let word = word.trim_matches(|c: char| matches!(c, '\'' | '"' | '[' | ']' | ',' | ';'));
        if word.starts_with('#') || word.starts_with('&') {
            return None;
        }
        let is_open = |c: char| matches!(c, '{' | '…' | '|' | '$' | '>' | '<' | '(');
        if word == "--" || word == "-" || word.contains(is_open) {
            return None;
        }
        if let Some(option) = word.strip_prefix("--") {
            let name = option.split('=').next().unwrap_or_default();
            let has = |command: &Command| {
                command.get_arguments().any(|one| {
                    one.get_long() == Some(name)
                        || one.get_all_aliases().is_some_and(|all| all.contains(&name))
                })
            };
            if !has(at) && !has(root) && name != "help" && name != "version" {
                return Some(format!("no option --{name}"));
            }
            // What follows may be its value.
            takes_words = true;
        } else if word.starts_with('-') {
            takes_words = true;
        } else if let Some(inner) = at.find_subcommand(word).filter(|_| !takes_words) {
            at = inner;
        } else if at.has_subcommands() && !takes_words && !is_placeholder(word) {
            return Some(format!("no subcommand {word}"));
        } else if !takes_words && at.get_positionals().next().is_none() && !at.has_subcommands() {
            return Some(format!("{word}: it takes no words"));
        } else {
            takes_words = true;
        }
    }
    None
}

/// Returns true for a word that stands for others, such as `COMMAND`.
fn is_placeholder(word: &str) -> bool {
    word.chars().all(|c| c.is_uppercase() || !c.is_alphabetic())
}

#[test]
fn every_command_that_is_named_exists() {
    let root = root();
    let mut defects = Vec::new();
    let mut count = 0;
    for path in files() {
        let text = fs::read_to_string(&path).unwrap();
        for command in commands(&text) {
            count += 1;
            if let Some(what) = defect(&root, command) {
                defects.push(format!("{}: `muster {command}`: {what}", path.display()));
            }
        }
    }
    assert!(defects.is_empty(), "{}", defects.join("\n"));
    assert!(count > 500, "{count} commands: where are the files?");
}

#[test]
fn a_wrong_command_is_found() {
    let root = root();
    let check = |command: &str, expected: Option<&str>| {
        assert_eq!(defect(&root, command).as_deref(), expected, "{command}");
    };
    check("inventory kubernetes", Some("kubernetes: it takes no words"));
    check("inventory --form nodes.json", Some("no option --form"));
    check("init yarn", Some("no subcommand yarn"));
    check("inventory --from nodes.json", None);
    check("run --gpus 1 -- python --lr 3", None);
    check("check slurm --conf DIR --on slurm", None);
    check("init COMMAND", None);
}

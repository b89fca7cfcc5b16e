//! Keeps the order of a script. What prepares the nodes runs before its program, wherever it stood; a script
//! in which that would change a value, a folder or an environment is not converted.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::body::of_the_node;
use super::super::shell::{ShellCommand, ShellWord, WordPart};
use super::blocks::ScriptBlock;
use super::effects::{changes_environment, exports, names_set};
use super::{RayScript, ScriptParts};

/// Variables that the environment of a job has, and that a plain assignment changes for every program.
const OF_ENVIRONMENT: [&str; 14] = [
    "CONDA_PREFIX",
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "HOSTNAME",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "PWD",
    "PYTHONHOME",
    "PYTHONPATH",
    "SHELL",
    "TMPDIR",
    "USER",
    "VIRTUAL_ENV",
];

/// Variables that the activation of a virtual environment changes.
const OF_ACTIVATION: [&str; 3] = ["PATH", "PYTHONHOME", "VIRTUAL_ENV"];

/// Beginnings of variables that Slurm and Muster set.
const OF_JOB: [&str; 3] = ["SLURM_", "RAY_", "CUDA_"];

/// Variables that the blocks so far read and set.
#[derive(Default)]
pub(super) struct VariableUse {
    /// Set by blocks that do not prepare the nodes, also by those that go.
    set: BTreeSet<String>,
    /// Set by blocks that go with the cluster.
    gone: BTreeSet<String>,
    /// Read by blocks of the program.
    read: BTreeSet<String>,
    /// Set for every node.
    prepared: BTreeSet<String>,
    /// Set when the preparation may set any variable.
    is_open: bool,
}

impl RayScript<'_> {
    fn commands_of(&self, block: &ScriptBlock) -> &[ShellCommand] {
        &self.all[block.commands.clone()]
    }

    fn names_set_in(&self, block: &ScriptBlock) -> BTreeSet<String> {
        self.commands_of(block).iter().flat_map(names_set).collect()
    }

    /// Records a block that goes with the cluster.
    pub(super) fn note_gone(&self, block: &ScriptBlock, parts: &mut ScriptParts) {
        let names = self.names_set_in(block);
        parts.variables.gone.extend(names.iter().cloned());
        parts.variables.set.extend(names);
    }

    /// Records a block that every node runs first; `None` if it depends on what would come after it.
    pub(super) fn note_preparation(
        &self,
        block: &ScriptBlock,
        parts: &mut ScriptParts,
    ) -> Option<()> {
        let commands = self.commands_of(block);
        let sets = self.names_set_in(block);
        let reads: BTreeSet<String> =
            commands.iter().flat_map(|command| names_read(command, 0..0)).collect();
        let used = &mut parts.variables;
        let has_argument = |name: &str| {
            name == "@" || name == "*" || name.bytes().all(|byte| byte.is_ascii_digit())
        };
        let is_early = |command: &ShellCommand| {
            let differs =
                exports(command) && command.words.iter().any(|word| of_the_node(word).is_some());
            let flag = |word: &ShellWord| word.raw.starts_with('-');
            command.is_in_function || differs || exports(command) && command.words.iter().any(flag)
        };
        let names =
            |known: &[&str]| reads.iter().chain(&sets).any(|name| known.contains(&name.as_str()));
        // The program activates its environment again, after all of this.
        let is_over_python = parts.python.is_some()
            && (names(&OF_ACTIVATION)
                || !commands.iter().all(|command| {
                    exports(command) || command.program().as_deref() == Some("ulimit")
                }));
        let is_late = parts.has_program
            || reads.iter().any(|name| used.set.contains(name) || has_argument(name))
            || sets.iter().any(|name| used.set.contains(name) || used.read.contains(name))
            || commands.iter().any(is_early)
            || is_over_python;
        let is_open = |command: &ShellCommand| {
            matches!(command.program().as_deref(), Some("source" | "." | "eval"))
        };
        used.is_open |= commands.iter().any(is_open);
        used.prepared.extend(sets);
        (!is_late).then_some(())
    }

    /// Records a block of the program; `None` if it stood before a start and changed the environment of it.
    pub(super) fn note_program(
        &self,
        block: &ScriptBlock,
        is_before: bool,
        parts: &mut ScriptParts,
    ) -> Option<()> {
        let commands = self.commands_of(block);
        let sets = self.names_set_in(block);
        let used = &mut parts.variables;
        let is_inherited = |name: &String| {
            used.prepared.contains(name)
                || OF_ENVIRONMENT.contains(&name.as_str())
                || OF_JOB.iter().any(|begin| name.starts_with(begin))
        };
        let changes = |command: &ShellCommand| {
            let stays = self.is_in_submit_folder && is_submit_folder(command);
            changes_environment(command) && !stays
        };
        if is_before && (sets.iter().any(is_inherited) || commands.iter().any(changes)) {
            return None;
        }
        // What is removed before its programs, such as `srun -w $HEAD`, is not read.
        let reads = block
            .commands
            .clone()
            .flat_map(|index| names_read(&self.all[index], self.cut(index).unwrap_or_default()));
        used.read.extend(reads);
        used.set.extend(sets.iter().cloned());
        // Set again by the program itself.
        used.gone.retain(|name| !sets.contains(name));
        Some(())
    }

    /// Returns true if the program reads no variable that only the cluster had, or that only the shell
    /// of the preparation has.
    pub(super) fn is_complete(&self, parts: &ScriptParts) -> bool {
        let used = &parts.variables;
        let addresses = self.addresses();
        let is_address = |name: &String| addresses.iter().any(|names| names.contains(name));
        let is_known = |name: &String| {
            let is_inherited = OF_ENVIRONMENT.contains(&name.as_str())
                || OF_JOB.iter().any(|begin| name.starts_with(begin));
            is_inherited
                || used.set.contains(name)
                || used.prepared.contains(name)
                || !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        };
        used.read
            .iter()
            .filter(|name| !is_address(name))
            .all(|name| !used.gone.contains(name) && (!used.is_open || is_known(name)))
    }
}

/// Returns true for `cd $SLURM_SUBMIT_DIR`, where most jobs start anyway.
fn is_submit_folder(command: &ShellCommand) -> bool {
    let [program, folder] = command.words.as_slice() else { return false };
    let [WordPart::Variable { name, .. }] = folder.parts.as_slice() else { return false };
    program.raw == "cd" && name == "SLURM_SUBMIT_DIR"
}

/// Returns the variables that a command reads, also in text that it gives to another shell, without those in
/// a range of bytes.
fn names_read(command: &ShellCommand, cut: Range<usize>) -> Vec<String> {
    let targets = command.redirects.iter().map(|(_, target)| target);
    let mut names: Vec<String> = Vec::new();
    let words = command.words.iter().chain(targets);
    for word in words.filter(|word| !cut.contains(&word.start)) {
        expanded(&word.raw, &mut names);
        for part in &word.parts {
            if let WordPart::Arithmetic(text) = part {
                let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let all = text.split(|letter| !is_name(letter));
                names.extend(all.filter(|one| !one.is_empty()).map(str::to_owned));
            }
        }
    }
    if let Some(document) = &command.document {
        expanded(&document.text, &mut names);
    }
    // `export NAME` reads it.
    if exports(command) {
        let bare = command.words[1..].iter().filter(|word| !word.raw.contains(['=', '-', '$']));
        names.extend(bare.map(|word| word.raw.clone()));
    }
    names
}

/// Adds the names behind `$` and `${` in a text.
fn expanded(text: &str, names: &mut Vec<String>) {
    for rest in text.split('$').skip(1) {
        let rest = rest.strip_prefix('{').unwrap_or(rest).trim_start_matches(['#', '!']);
        let is_name = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
        let mut name: String = rest.chars().take_while(is_name).collect();
        if name.is_empty() {
            name = rest.chars().take(1).filter(|letter| ['@', '*'].contains(letter)).collect();
        }
        names.extend((!name.is_empty()).then_some(name));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::shell::commands;
    use super::*;

    #[test]
    fn variables_are_read_also_in_defaults_and_in_text_for_other_shells() {
        let check = |text: &str, expected: &[&str]| {
            let all = commands(text);
            assert_eq!(names_read(&all[0], 0..0), expected, "{text}");
        };
        check("a $B ${C:-$D} ${#E[@]} \"$(f $G)\" > $H", &["B", "C", "D", "E", "G", "H"]);
        check("bash -c 'a $B' $((C + 1))", &["B", "C", "1"]);
        check("export A B=$C", &["C", "A"]);
        check("source \"$1\" \"$@\"", &["1", "@"]);
        check("cat <<X\n$A\nX\n", &["A"]);
    }

    #[test]
    fn commands_that_change_what_follows_are_known() {
        for text in ["cd x", "set -a", "set -o allexport", "declare -x A=1", "unset A", ". x"] {
            assert!(changes_environment(&commands(text)[0]), "{text}");
        }
        for text in ["A=1", "set -e", "declare -i A=1", "echo cd"] {
            assert!(!changes_environment(&commands(text)[0]), "{text}");
        }
        assert!(is_submit_folder(&commands("cd \"$SLURM_SUBMIT_DIR\"")[0]));
        assert!(!is_submit_folder(&commands("cd $SLURM_SUBMIT_DIR/x")[0]));
    }
}

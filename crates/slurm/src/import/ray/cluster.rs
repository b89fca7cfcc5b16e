//! Finds which blocks of a script only serve the cluster: those that build, await and end it, the variables
//! that only they use, and what prints these.

use std::collections::BTreeSet;

use super::super::super::script::quote;
use super::super::body::is_repeatable;
use super::super::shell::{ShellCommand, ShellWord, WordPart, assignment};
use super::blocks::ScriptBlock;
use super::{OF_RAY, RayScript};

/// Commands of Ray that only serve to build, watch or end the cluster.
const CLUSTER_VERBS: [&str; 4] = ["start", "stop", "status", "health-check"];

impl RayScript<'_> {
    /// Returns which blocks go.
    pub(super) fn gone(&self, blocks: &[ScriptBlock]) -> Vec<bool> {
        let mut gone: Vec<bool> = blocks.iter().map(|block| self.is_of_cluster(block)).collect();
        let addresses = self.addresses();
        let mut used: BTreeSet<&str> = addresses.iter().flatten().map(String::as_str).collect();
        let add = |used: &mut BTreeSet<_>, block| used.extend(self.uses(block));
        blocks
            .iter()
            .zip(&gone)
            .filter(|(_, gone)| **gone)
            .for_each(|(one, _)| add(&mut used, one));
        // 1. What the program needs stays; the head's address is known to the job.
        let helpers: Vec<bool> = blocks
            .iter()
            .zip(&gone)
            .map(|(block, gone)| !gone && self.is_helper(block, &used))
            .collect();
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        for (nth, block) in blocks.iter().enumerate() {
            if !gone[nth] && !helpers[nth] && !self.is_print(block) {
                needed.extend(self.uses_in_program(block, true));
                used.extend(self.uses_in_program(block, false));
            }
        }
        for name in addresses.iter().flatten() {
            needed.remove(name.as_str());
        }
        let sets_one = |block, names: &BTreeSet<&str>| {
            self.sets(block).iter().any(|name| names.contains(name.as_str()))
        };
        loop {
            let count = needed.len();
            for (nth, block) in blocks.iter().enumerate().filter(|(nth, _)| helpers[*nth]) {
                if !gone[nth] && sets_one(block, &needed) {
                    add(&mut needed, block);
                }
            }
            if needed.len() == count {
                break;
            }
        }
        // 2. Variables that only the cluster uses go with it.
        loop {
            let count = gone.iter().filter(|gone| **gone).count();
            for (nth, block) in blocks.iter().enumerate() {
                let is_of_ray = self.sets(block).iter().any(|name| OF_RAY.contains(&name.as_str()));
                let is_free = helpers[nth] && !sets_one(block, &needed);
                if !gone[nth] && is_free && (is_of_ray || sets_one(block, &used)) {
                    gone[nth] = true;
                    add(&mut used, block);
                }
            }
            if gone.iter().filter(|gone| **gone).count() == count {
                break;
            }
        }
        // 3. And what prints them.
        let lost: BTreeSet<String> = blocks
            .iter()
            .zip(&gone)
            .filter(|(_, gone)| **gone)
            .flat_map(|(block, _)| self.sets(block))
            .collect();
        for (nth, block) in blocks.iter().enumerate() {
            gone[nth] |= self.is_print(block) && self.uses(block).any(|name| lost.contains(name));
        }
        gone
    }

    /// Returns true for a block that only sets variables; those that it exports are for the program,
    /// unless the cluster uses them.
    pub(super) fn is_helper(&self, block: &ScriptBlock, used: &BTreeSet<&str>) -> bool {
        let sets = self.sets(block);
        let of_cluster =
            |name: &String| used.contains(name.as_str()) || OF_RAY.contains(&name.as_str());
        let exports = self.all[block.commands.clone()]
            .iter()
            .any(|command| command.program().as_deref() == Some("export"));
        !sets.is_empty() && (!exports || sets.iter().any(of_cluster))
    }

    /// Returns true for a block that builds, awaits or ends the cluster and does nothing else.
    pub(super) fn is_of_cluster(&self, block: &ScriptBlock) -> bool {
        let is_quiet = |index: usize| {
            let command = &self.all[index];
            let name = command.program().unwrap_or_default();
            is_repeatable(command) || name == "kill" || name == "break"
        };
        let is_cluster = |index: usize| {
            self.ray_at(index).is_some_and(|ray| CLUSTER_VERBS.contains(&ray.verb.as_str()))
        };
        let header = self.header_line(block);
        let range = || block.commands.clone().filter(|index| Some(self.all[*index].line) != header);
        if range().any(is_cluster) {
            return range().all(|index| is_cluster(index) || is_quiet(index));
        }
        let only = |names: &[&str]| {
            range().all(|index| {
                let name = self.all[index].program().unwrap_or_default();
                names.contains(&name.as_str())
            })
        };
        let of_ray = range()
            .any(|index| self.all[index].words.iter().any(|word| word.raw.contains("ray stop")));
        only(&["sleep", "wait"]) || only(&["trap"]) && of_ray || only(&["kill"])
    }

    /// Returns the variables that a block expands.
    pub(super) fn uses<'b>(&'b self, block: &ScriptBlock) -> impl Iterator<Item = &'b str> {
        let header = self.header_line(block);
        let commands = self.all[block.commands.clone()].iter();
        commands.flat_map(move |command| {
            let targets = command.redirects.iter().map(|(_, target)| target);
            let words = command.words.iter().chain(targets);
            let is_header = header == Some(command.line);
            words.flat_map(move |word| {
                let bare = is_header.then_some(word.raw.as_str());
                words_of(word).into_iter().chain(bare)
            })
        })
    }

    /// Returns the variables that a block expands in its programs, or in what is before them: srun and its
    /// options.
    pub(super) fn uses_in_program<'b>(
        &'b self,
        block: &ScriptBlock,
        in_program: bool,
    ) -> impl Iterator<Item = &'b str> {
        let range = block.commands.clone();
        range.flat_map(move |index| {
            let cut = self.cut(index).unwrap_or_default();
            let words = self.all[index].words.iter();
            words.filter(move |word| cut.contains(&word.start) != in_program).flat_map(words_of)
        })
    }

    /// Returns the line of `for ((i = 1; i < n; i++))`, which reads as commands.
    pub(super) fn header_line(&self, block: &ScriptBlock) -> Option<u32> {
        let mut commands = self.all[block.commands.clone()].iter();
        let header = commands.find(|command| {
            command.program().as_deref() == Some("for") && command.words.len() == 1
        });
        header.map(|command| command.line)
    }

    /// Returns the variables that a block sets, if it does nothing else.
    pub(super) fn sets(&self, block: &ScriptBlock) -> Vec<String> {
        let mut names = Vec::new();
        for command in &self.all[block.commands.clone()] {
            let words = match command.program().as_deref() {
                None => &command.words[..],
                Some(
                    "export" | "declare" | "readonly" | "IFS" | "read" | "mapfile" | "readarray",
                ) => &command.words[1..],
                // Conditions around assignments, and what they print.
                Some("[" | "[[" | "test" | "echo" | "printf" | "for" | "((") => continue,
                Some(_) => return Vec::new(),
            };
            let name = |word: &ShellWord| match assignment(word) {
                Some((name, _)) => name.split(['[', '+']).next().unwrap_or_default().to_owned(),
                None => word.raw.clone(),
            };
            names.extend(
                words.iter().map(name).filter(|name| quote::is_variable(name) && name != "IFS"),
            );
        }
        names
    }

    pub(super) fn is_print(&self, block: &ScriptBlock) -> bool {
        let is_print = |command: &ShellCommand| {
            let name = command.program().unwrap_or_default();
            ["echo", "printf"].contains(&name.as_str())
                && !command.redirects.iter().any(|(sign, target)| {
                    sign.contains('>') && !target.raw.starts_with(['&', '1', '2'])
                })
        };
        self.all[block.commands.clone()].iter().all(is_print)
    }
}

/// Returns the variables in a word, also those in `$( … )` and `$(( … ))`.
fn words_of(word: &ShellWord) -> Vec<&str> {
    let mut names = Vec::new();
    for part in &word.parts {
        match part {
            WordPart::Variable { name, .. } => names.push(name.as_str()),
            WordPart::Substitution(text) | WordPart::Arithmetic(text) => {
                let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                names.extend(text.split(|letter| !is_name(letter)).filter(|one| !one.is_empty()));
            }
            WordPart::Text(..) => {}
        }
    }
    names
}

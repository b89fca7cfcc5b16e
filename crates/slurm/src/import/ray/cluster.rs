//! Finds which blocks of a script only serve the cluster: those that build, await and end it, the variables
//! that only they use, and what prints these.

use std::collections::BTreeSet;

use super::super::body::is_repeatable;
use super::super::shell::{ShellCommand, ShellWord, WordPart, commands};
use super::blocks::ScriptBlock;
use super::effects::{SETTERS, changes_environment, exports, is_printed_to_variable, names_set};
use super::{OF_RAY, RayScript, ray_commands};

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
            .map(|(block, gone)| !gone && self.is_helper(block, &addresses))
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
    /// unless they tell the address of the head.
    pub(super) fn is_helper(&self, block: &ScriptBlock, addresses: &[BTreeSet<String>; 3]) -> bool {
        let sets = self.sets(block);
        let of_ray = |name: &String| {
            OF_RAY.contains(&name.as_str()) || addresses.iter().any(|known| known.contains(name))
        };
        let is_exported = self.all[block.commands.clone()].iter().any(exports);
        !sets.is_empty() && (!is_exported || sets.iter().all(of_ray))
    }

    /// Returns true for a block that builds, awaits or ends the cluster and does nothing else.
    pub(super) fn is_of_cluster(&self, block: &ScriptBlock) -> bool {
        let is_quiet = |index: usize| {
            let command = &self.all[index];
            let is_break = command.program().as_deref() == Some("break");
            is_break || is_repeatable(command) && !changes_environment(command)
        };
        let is_cluster = |index: usize| {
            self.ray_at(index).is_some_and(|ray| CLUSTER_VERBS.contains(&ray.verb.as_str()))
        };
        let range = || block.commands.clone().filter(|index| !self.is_header(block, *index));
        if range().any(is_cluster) {
            return range().all(|index| is_cluster(index) || is_quiet(index));
        }
        let only = |names: &[&str]| {
            let is_one = |index: usize| {
                self.all[index].program().is_some_and(|name| names.contains(&name.as_str()))
            };
            range().next().is_some() && range().all(is_one)
        };
        let is_trap = || range().all(|index| is_trap_of_ray(&self.all[index]));
        only(&["sleep", "wait"]) || only(&["trap"]) && is_trap() || only(&["kill"])
    }

    /// Returns the variables that a block expands.
    pub(super) fn uses<'b>(&'b self, block: &ScriptBlock) -> impl Iterator<Item = &'b str> {
        let is_header: Vec<bool> =
            block.commands.clone().map(|index| self.is_header(block, index)).collect();
        let commands = self.all[block.commands.clone()].iter().zip(is_header);
        commands.flat_map(move |(command, is_header)| {
            let targets = command.redirects.iter().map(|(_, target)| target);
            let words = command.words.iter().chain(targets);
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

    /// Returns true for `for ((i = 1; i < n; i++))`, which reads as commands of their own.
    fn is_header(&self, block: &ScriptBlock, index: usize) -> bool {
        let mut commands = self.all[block.commands.clone()].iter();
        let header = commands.find(|command| {
            command.program().as_deref() == Some("for") && command.words.len() == 1
        });
        let command = &self.all[index];
        header.is_some_and(|header| {
            let is_inside = command.depth >= header.depth + 2;
            command.line == header.line && (is_inside || command == header)
        })
    }

    /// Returns the variables that a block sets, if it does nothing else.
    pub(super) fn sets(&self, block: &ScriptBlock) -> Vec<String> {
        let mut names = Vec::new();
        for command in &self.all[block.commands.clone()] {
            match command.program().as_deref() {
                // Conditions around assignments, and what they print.
                Some("[" | "[[" | "test" | "echo" | "printf" | "for" | "((") => {}
                Some(name) if !SETTERS.contains(&name) => return Vec::new(),
                _ => names.extend(names_set(command)),
            }
        }
        names
    }

    pub(super) fn is_print(&self, block: &ScriptBlock) -> bool {
        self.all[block.commands.clone()].iter().all(prints)
    }
}

/// Returns true for a command that only prints, and not to a file.
pub(super) fn prints(command: &ShellCommand) -> bool {
    let name = command.program().unwrap_or_default();
    ["echo", "printf"].contains(&name.as_str())
        && !is_printed_to_variable(command)
        && !command
            .redirects
            .iter()
            .any(|(sign, target)| sign.contains('>') && !target.raw.starts_with(['&', '1', '2']))
}

/// Returns true for a trap that does nothing but end Ray.
pub(super) fn is_trap_of_ray(command: &ShellCommand) -> bool {
    let is_trap = command.program().as_deref() == Some("trap");
    let Some(text) = command.words.get(1).filter(|_| is_trap).map(ShellWord::shown) else {
        return false;
    };
    let inner = commands(&text);
    let rays = ray_commands(&inner, std::iter::empty());
    let ends = |index: usize| {
        let name = inner[index].program().unwrap_or_default();
        rays.iter().any(|ray| ray.command == index && ray.is_direct && ray.verb == "stop")
            || ["kill", "wait", "true"].contains(&name.as_str())
    };
    !rays.is_empty() && (0..inner.len()).all(ends)
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

//! Sorts what is left of a script into the parts of a job, and removes from its program what Muster does:
//! `srun`, `ray symmetric-run`, `ray job submit`, and a start in the background.

use std::collections::BTreeSet;

use super::super::body::is_repeatable;
use super::super::shell::{self, Quote, ShellCommand, ShellWord, Then, WordPart, assignment};
use super::blocks::ScriptBlock;
use super::effects::exports;
use super::{OF_RAY, RayCommand, RayScript, ScriptParts};

/// Port of a head that is given none.
const DEFAULT_PORT: &str = "6379";

/// Options of srun with which a program may run as one task, on the head.
const OF_ONE_TASK: [&str; 15] = [
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "nodelist",
    "overlap",
    "exact",
    "exclusive",
    "cpus-per-task",
    "gpus",
    "gpus-per-task",
    "gpus-per-node",
    "gres",
    "mem",
    "job-name",
    "unbuffered",
];

/// Options of `ray job submit` without which a program does the same.
const OF_SUBMIT: [&str; 7] = [
    "--address",
    "--job-id",
    "--log-color",
    "--log-style",
    "--submission-id",
    "--verbose",
    "--working-dir",
];

impl RayScript<'_> {
    /// Returns true for a block that loads modules or an environment.
    pub(super) fn is_setup(&self, block: &ScriptBlock) -> bool {
        self.all[block.commands.clone()].iter().all(is_setup)
    }

    /// Returns the interpreter of the virtual environment that a block activates.
    pub(super) fn python_of(&self, block: &ScriptBlock) -> Option<String> {
        let [command] = &self.all[block.commands.clone()] else { return None };
        let is_source = matches!(command.program().as_deref(), Some("source" | "."));
        // `activate NAME` is conda's, of another environment than its own.
        let [_, path] = command.words.as_slice() else { return None };
        let path = path.literal().filter(|_| is_source)?;
        let folder = path.strip_suffix("/bin/activate").filter(|folder| !folder.is_empty())?;
        // Relative to the directory of the job, as the script's.
        (!folder.starts_with('~')).then(|| format!("{folder}/bin/python3"))
    }

    /// Returns true if a block runs something that is not repeated in every task.
    pub(super) fn runs_program(&self, block: &ScriptBlock) -> bool {
        self.all[block.commands.clone()].iter().any(|command| !is_repeatable(command))
    }

    /// Returns the bytes before the program of a command: srun, `ray symmetric-run` or `ray job submit` with
    /// their options.
    pub(super) fn cut(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let srun =
            self.step_at(index).and_then(|step| step.srun.as_ref()).map(|srun| srun.cut.clone());
        let Some(ray) = self.ray_at(index) else { return srun };
        let start = match srun {
            Some(srun) => srun.start,
            None => self.all[index].words.first()?.start,
        };
        Some(start..self.driver_start(ray)?)
    }

    /// Returns whether a command runs once, and not on every node or through another launcher.
    pub(super) fn runs_once(&self, index: usize) -> bool {
        let Some((step, geometry)) = self.steps.iter().find(|(step, _)| step.command == index)
        else {
            return true;
        };
        let is_symmetric = self.ray_at(index).is_some_and(|ray| ray.verb == "symmetric-run");
        let is_single = step.srun.as_ref().is_none_or(|srun| {
            let is_known =
                |name: Option<&str>| name.is_some_and(|name| OF_ONE_TASK.contains(&name));
            let tasks = srun.value("ntasks").or(srun.value("nodes"));
            let is_one = tasks == Some("1") && geometry.tasks == Some(1);
            srun.given.iter().all(|one| is_known(one.name))
                && srun.value("ntasks-per-node").is_none_or(|tasks| tasks == "1")
                && (is_symmetric || is_one)
        });
        step.mpirun.is_none() && is_single
    }

    /// Returns the text of a block that stays: without srun, `ray symmetric-run`, `ray job submit` and `&`.
    pub(super) fn edited(&self, block: &ScriptBlock) -> Option<String> {
        let mut text = self.body[block.bytes.clone()].to_owned();
        // The `&` of a group or a loop is that of no command; the `wait` for it would be lost.
        let is_sign = |word: &&str| word.ends_with('&') && !word.ends_with("&&");
        let signs = text.split_whitespace().filter(is_sign).count();
        if signs > self.count_of_background(block) {
            return None;
        }
        for index in block.commands.clone().rev() {
            if !self.runs_once(index) || self.ray_at(index).is_some() && self.cut(index).is_none() {
                return None;
            }
            if self.all[index].then == Then::Background {
                let end = text.trim_end();
                // Only the last command of a block has its `&` at the end.
                if index + 1 != block.commands.end || !end.ends_with('&') {
                    return None;
                }
                text.truncate(end.len() - 1);
                text = format!("{}\n", text.trim_end());
            }
            if let Some(cut) = self.cut(index) {
                let base = block.bytes.start;
                text.replace_range(cut.start - base..cut.end - base, "");
            }
        }
        Some(text)
    }

    fn count_of_background(&self, block: &ScriptBlock) -> usize {
        let commands = self.all[block.commands.clone()].iter();
        commands.filter(|command| command.then == Then::Background).count()
    }

    /// Returns the offset of the program behind `ray symmetric-run … --` or `ray job submit … --`.
    pub(super) fn driver_start(&self, ray: &RayCommand) -> Option<usize> {
        let of_job =
            ray.verb == "job" && ray.words.first().is_some_and(|word| word.raw == "submit");
        let is_known = |word: &ShellWord| {
            let shown = word.shown();
            let name = shown.split('=').next().unwrap_or_default();
            !name.starts_with('-') || OF_SUBMIT.contains(&name)
        };
        let is_here =
            ray.value("working-dir").is_none_or(|folder| [".", "./"].contains(&folder.as_str()));
        let is_job = of_job && is_here && ray.own_words().iter().all(is_known);
        if !ray.is_direct || !(is_job || ray.verb == "symmetric-run") {
            return None;
        }
        Some(ray.words.get(ray.behind_dashes()?)?.start)
    }

    /// Returns the lines that set those variables of the head's address that the program reads.
    pub(super) fn exported(&self, kept: &str) -> String {
        let values = ["$RAY_ADDRESS", "${RAY_ADDRESS%:*}", "${RAY_ADDRESS##*:}"];
        let exported: BTreeSet<String> = self
            .all
            .iter()
            .filter(|command| exports(command))
            .flat_map(|command| &command.words[1..])
            .map(|word| assignment(word).map_or_else(|| word.raw.clone(), |(name, _)| name))
            .collect();
        let mut lines = String::new();
        for (names, value) in self.addresses().iter().zip(values) {
            for name in names.iter().filter(|name| !OF_RAY.contains(&name.as_str())) {
                let is_read =
                    kept.contains(&format!("${name}")) || kept.contains(&format!("${{{name}"));
                if exported.contains(name) || is_read {
                    lines.push_str(&format!("export {name}=\"{value}\"\n"));
                }
            }
        }
        lines
    }

    /// Returns the variables that hold the address of the head, its host and its port.
    pub(super) fn addresses(&self) -> [BTreeSet<String>; 3] {
        let alone = |option: &str| -> BTreeSet<String> {
            let words = self.rays.iter().filter_map(|ray| ray.word(option));
            let names = words.filter_map(|word| match word.parts.as_slice() {
                [WordPart::Variable { name, plain: true }] => Some(name.clone()),
                _ => None,
            });
            names.collect()
        };
        let mut addresses = alone("address");
        // Without workers, no option names the address: it ends with the port of the head.
        let head = self.rays.iter().find(|ray| ray.is_start(true));
        let port = head.map(|head| head.value("port").unwrap_or_else(|| DEFAULT_PORT.to_owned()));
        let end = port.map(|port| format!(":{port}"));
        let settings = self
            .all
            .iter()
            .filter(|command| matches!(command.program().as_deref(), None | Some("export")));
        let pairs = settings.flat_map(|command| &command.words).filter_map(assignment);
        let given: Vec<String> = self
            .rays
            .iter()
            .filter(|ray| ray.is_node())
            .filter_map(|ray| ray.value("address"))
            .collect();
        for (name, value) in pairs {
            let shown = value.shown();
            let is_end = || end.as_ref().is_some_and(|end| shown.ends_with(end.as_str()));
            let is_head = if given.is_empty() {
                begins_with_expansion(&value) && is_end()
            } else {
                given.contains(&shown)
            };
            if is_head {
                addresses.insert(name);
            }
        }
        [addresses, alone("node-ip-address"), alone("port")]
    }

    /// Puts a block that stays into the part of the job that it belongs to; `None` if it asks Slurm for a
    /// step, or does not do the same there.
    pub(super) fn sort(&self, block: &ScriptBlock, parts: &mut ScriptParts) -> Option<()> {
        let commands = &self.all[block.commands.clone()];
        let is_before =
            |ray: Option<&RayCommand>| ray.is_some_and(|ray| block.commands.end <= ray.command);
        let is_before_first = is_before(self.rays.iter().find(|ray| ray.is_node()));
        let asks =
            |part: &WordPart| matches!(part, WordPart::Substitution(text) if text.contains("srun"));
        if commands.iter().flat_map(|one| &one.words).flat_map(|word| &word.parts).any(asks) {
            return None;
        }
        let text = self.body[block.bytes.clone()].trim_matches('\n');
        if let Some(python) = self.python_of(block).filter(|_| is_before_first) {
            // The program activates it again: it changes its path.
            self.note_preparation(block, parts)?;
            parts.python = Some(python);
            parts.program.push_str(&self.edited(block)?);
            return Some(());
        }
        if is_before_first && (self.is_setup(block) || is_export(commands)) {
            self.note_preparation(block, parts)?;
            match literal_exports(commands).filter(|_| parts.setup.is_empty()) {
                Some(variables) => {
                    parts.env.retain(|(name, _)| variables.iter().all(|(new, _)| new != name));
                    parts.env.extend(variables);
                }
                // What it loads may set the same variables before.
                None => parts.setup.push_str(&format!("{text}\n")),
            }
            return Some(());
        }
        self.note_program(block, is_before(self.rays.iter().rfind(|ray| ray.is_node())), parts)?;
        // What ran beside the next program would end before it.
        if parts.has_background && self.runs_program(block) {
            return None;
        }
        parts.has_program |= self.runs_program(block);
        parts.has_background |= self.count_of_background(block) > 0;
        parts.program.push_str(&self.edited(block)?);
        Some(())
    }
}

/// Returns true for `$HOST:6379`, and not for `redis://cache:6379`.
fn begins_with_expansion(value: &ShellWord) -> bool {
    let is_empty = |part: &&WordPart| matches!(part, WordPart::Text(text, _) if text.is_empty());
    let first = value.parts.iter().find(|part| !is_empty(part));
    matches!(first, Some(WordPart::Variable { .. } | WordPart::Substitution(_)))
}

/// Returns true for a command that loads modules or an environment, and installs none.
fn is_setup(command: &ShellCommand) -> bool {
    let second = command.words.get(1);
    let is_verb = |verbs: &[&str]| second.is_some_and(|word| verbs.contains(&word.raw.as_str()));
    match command.program().as_deref() {
        Some("module" | "ml" | "source" | "." | "ulimit") => true,
        Some("conda" | "mamba" | "micromamba") => is_verb(&["activate", "deactivate"]),
        Some("spack") => is_verb(&["load", "unload", "env"]),
        Some("eval") => second.is_some_and(|word| word.parts.iter().all(is_hook)),
        _ => false,
    }
}

/// Returns true for `$(conda shell.bash hook)` and the like.
fn is_hook(part: &WordPart) -> bool {
    let WordPart::Substitution(text) = part else { return false };
    let name = shell::commands(text).first().and_then(ShellCommand::program).unwrap_or_default();
    let base = name.rsplit('/').next().unwrap_or_default();
    ["conda", "mamba", "micromamba", "spack", "pyenv", "modulecmd"].contains(&base)
}

fn is_export(commands: &[ShellCommand]) -> bool {
    commands.iter().all(|command| command.program().as_deref() == Some("export"))
}

/// Returns the variables of commands that export nothing but literal values.
fn literal_exports(commands: &[ShellCommand]) -> Option<Vec<(String, String)>> {
    let words = commands.iter().flat_map(|command| &command.words[1..]);
    let pair = |word: &ShellWord| {
        let (name, value) = assignment(word)?;
        // `~` is a folder, and `NAME+=` adds to a value.
        let is_home = value.parts.iter().any(|part| match part {
            WordPart::Text(text, quote) => *quote == Quote::None && text.contains('~'),
            _ => false,
        });
        let is_plain = !is_home && !name.ends_with(['+', ']']);
        Some((name, value.literal().filter(|_| is_plain)?))
    };
    let is_plain = commands.iter().all(|command| command.depth == 0 && command.then == Then::Next);
    if !is_export(commands) || !is_plain {
        return None;
    }
    words.map(pair).collect()
}

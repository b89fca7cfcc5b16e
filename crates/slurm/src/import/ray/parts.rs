//! Sorts what is left of a script into the parts of a job, and removes from its program what Muster does:
//! `srun`, `ray symmetric-run`, `ray job submit`, and a start in the background.

use std::collections::BTreeSet;

use super::super::body::is_repeatable;
use super::super::shell::{ShellCommand, ShellWord, Then, WordPart, assignment};
use super::blocks::ScriptBlock;
use super::{OF_RAY, RayCommand, RayScript};

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

/// Parts of a job that a script becomes.
#[derive(Default)]
pub(super) struct ScriptParts {
    pub(super) program: String,
    pub(super) has_program: bool,
    /// Programs that the script starts in the background.
    pub(super) background: usize,
    pub(super) setup: String,
    pub(super) env: Vec<(String, String)>,
    pub(super) python: Option<String>,
}

impl RayScript<'_> {
    /// Returns true for a block that loads modules or an environment.
    pub(super) fn is_setup(&self, block: &ScriptBlock) -> bool {
        let is_it = |command: &ShellCommand| {
            let name = command.program().unwrap_or_default();
            [
                "module",
                "ml",
                "source",
                ".",
                "conda",
                "mamba",
                "micromamba",
                "spack",
                "eval",
                "ulimit",
            ]
            .contains(&name.as_str())
        };
        self.all[block.commands.clone()].iter().all(is_it)
    }

    /// Returns the interpreter of the virtual environment that a block activates.
    pub(super) fn python_of(&self, block: &ScriptBlock) -> Option<String> {
        let [command] = &self.all[block.commands.clone()] else { return None };
        let is_source = matches!(command.program().as_deref(), Some("source" | "."));
        let path = command.words.get(1).filter(|_| is_source)?.literal()?;
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
        let Some(step) = self.step_at(index) else { return true };
        let is_symmetric = self.ray_at(index).is_some_and(|ray| ray.verb == "symmetric-run");
        let is_single = step.srun.as_ref().is_none_or(|srun| {
            let is_known =
                |name: Option<&str>| name.is_some_and(|name| OF_ONE_TASK.contains(&name));
            let tasks = srun.value("ntasks").or(srun.value("nodes"));
            srun.given.iter().all(|one| is_known(one.name)) && (is_symmetric || tasks == Some("1"))
        });
        step.mpirun.is_none() && is_single
    }

    /// Returns the text of a block that stays: without srun, `ray symmetric-run`, `ray job submit` and `&`.
    pub(super) fn edited(&self, block: &ScriptBlock) -> Option<String> {
        let mut text = self.body[block.bytes.clone()].to_owned();
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

    /// Returns the offset of the program behind `ray symmetric-run … --` or `ray job submit … --`.
    pub(super) fn driver_start(&self, ray: &RayCommand) -> Option<usize> {
        let of_job =
            ray.verb == "job" && ray.words.first().is_some_and(|word| word.raw == "submit");
        let has_rest = ["runtime-env", "runtime-env-json", "no-wait", "entrypoint-num-gpus"]
            .iter()
            .any(|option| ray.has(option));
        if !ray.is_direct || has_rest || !(of_job || ray.verb == "symmetric-run") {
            return None;
        }
        Some(ray.words.get(ray.behind_dashes()?)?.start)
    }

    /// Returns the lines that set those variables of the head's address that the program reads.
    pub(super) fn exported(&self, kept: &str) -> String {
        let values = ["$RAY_ADDRESS", "${RAY_ADDRESS%:*}", "${RAY_ADDRESS##*:}"];
        let exports: BTreeSet<String> = self
            .all
            .iter()
            .filter(|command| command.program().as_deref() == Some("export"))
            .flat_map(|command| &command.words[1..])
            .map(|word| assignment(word).map_or_else(|| word.raw.clone(), |(name, _)| name))
            .collect();
        let mut lines = String::new();
        for (names, value) in self.addresses().iter().zip(values) {
            for name in names.iter().filter(|name| !OF_RAY.contains(&name.as_str())) {
                let is_read =
                    kept.contains(&format!("${name}")) || kept.contains(&format!("${{{name}"));
                if exports.contains(name) || is_read {
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
        for (name, value) in pairs {
            if end.as_ref().is_some_and(|end| value.shown().ends_with(end.as_str())) {
                addresses.insert(name);
            }
        }
        [addresses, alone("node-ip-address"), alone("port")]
    }

    /// Puts a block that stays into the part of the job that it belongs to; `None` if it asks Slurm for a
    /// step.
    pub(super) fn sort(
        &self,
        block: &ScriptBlock,
        is_before: bool,
        parts: &mut ScriptParts,
    ) -> Option<()> {
        let commands = &self.all[block.commands.clone()];
        let asks =
            |part: &WordPart| matches!(part, WordPart::Substitution(text) if text.contains("srun"));
        if commands.iter().flat_map(|one| &one.words).flat_map(|word| &word.parts).any(asks) {
            return None;
        }
        let text = self.body[block.bytes.clone()].trim_matches('\n');
        if let Some(python) = self.python_of(block).filter(|_| is_before) {
            parts.python = Some(python);
        } else if let Some(variables) = literal_exports(commands).filter(|_| is_before) {
            parts.env.retain(|(name, _)| variables.iter().all(|(new, _)| new != name));
            parts.env.extend(variables);
            return Some(());
        } else if is_before && (self.is_setup(block) || is_export(commands)) {
            parts.setup.push_str(&format!("{text}\n"));
            return Some(());
        }
        parts.has_program |= self.runs_program(block);
        parts.background +=
            commands.iter().filter(|command| command.then == Then::Background).count();
        parts.program.push_str(&self.edited(block)?);
        Some(())
    }

    /// Returns true if a block comes before the first node is started.
    pub(super) fn is_before_start(&self, block: &ScriptBlock) -> bool {
        self.rays.first().is_some_and(|ray| block.commands.end <= ray.command)
    }
}

fn is_export(commands: &[ShellCommand]) -> bool {
    commands.iter().all(|command| command.program().as_deref() == Some("export"))
}

/// Returns the variables of commands that export nothing but literal values.
fn literal_exports(commands: &[ShellCommand]) -> Option<Vec<(String, String)>> {
    let words = commands.iter().flat_map(|command| &command.words[1..]);
    let pair = |word: &ShellWord| {
        let (name, value) = assignment(word)?;
        Some((name, value.literal()?))
    };
    let is_plain = commands.iter().all(|command| command.depth == 0 && command.then == Then::Next);
    if !is_export(commands) || !is_plain {
        return None;
    }
    words.map(pair).collect()
}

//! Finds the commands of Ray in a script: `ray start`, `ray stop`, `ray symmetric-run` and the like, also
//! behind `srun` and in `bash -c`. It does not judge them.

use super::super::launch::LaunchCommand;
use super::super::shell::{ShellCommand, ShellWord, assignment, commands};

/// Programs that run the words after them, without options of their own that matter here.
const TRANSPARENT: [&str; 4] = ["exec", "nohup", "time", "env"];

/// Programs that run the words after them in a file system of their own.
const CONTAINERS: [&str; 6] = ["singularity", "apptainer", "docker", "podman", "enroot", "shifter"];

/// Call of the program `ray`.
#[derive(Clone, Debug)]
pub(in super::super) struct RayCommand {
    /// Index of the shell's command.
    pub(in super::super) command: usize,
    /// Line in the body, from 1.
    pub(in super::super) line: u32,
    /// Word after `ray`: `start`.
    pub(in super::super) verb: String,
    /// Words after the verb.
    pub(in super::super) words: Vec<ShellWord>,
    /// Variables that are set for this command alone, as far as they have names.
    pub(in super::super) environment: Vec<String>,
    /// Set when the shell that reads the script reads these words, not one that it starts.
    pub(in super::super) is_direct: bool,
    /// Set when it runs in the file system of a container.
    pub(in super::super) is_contained: bool,
}

impl RayCommand {
    /// Returns true for `ray start` of this kind.
    pub(in super::super) fn is_start(&self, is_head: bool) -> bool {
        self.verb == "start" && self.has("head") == is_head
    }

    /// Returns true for a command that makes a node of the cluster.
    pub(super) fn is_node(&self) -> bool {
        ["start", "symmetric-run"].contains(&self.verb.as_str())
    }

    /// Returns the words before `--`: those behind it are the program's.
    pub(super) fn own_words(&self) -> &[ShellWord] {
        let end = self.words.iter().position(|word| word.raw == "--").unwrap_or(self.words.len());
        &self.words[..end]
    }

    /// Returns whether an option is given.
    pub(in super::super) fn has(&self, name: &str) -> bool {
        self.own_words().iter().any(|word| named(word, name).is_some())
    }

    /// Returns the value of an option, with its expansions as written.
    pub(in super::super) fn value(&self, name: &str) -> Option<String> {
        let words = self.own_words();
        let at = words.iter().position(|word| named(word, name).is_some())?;
        match named(&words[at], name).flatten() {
            Some(value) => Some(value),
            None => words.get(at + 1).map(ShellWord::shown),
        }
    }

    /// Returns the value of an option as a word that can be resolved.
    pub(in super::super) fn word(&self, name: &str) -> Option<ShellWord> {
        let value = self.value(name)?;
        commands(&value).first()?.words.first().cloned()
    }

    /// Returns the position of the word after `--`.
    pub(super) fn behind_dashes(&self) -> Option<usize> {
        let at = self.words.iter().position(|word| word.raw == "--")?;
        (at + 1 < self.words.len()).then_some(at + 1)
    }
}

/// Returns whether a word is this option, and its value if that is behind `=`.
fn named(word: &ShellWord, name: &str) -> Option<Option<String>> {
    let shown = word.shown();
    let given = shown.strip_prefix("--")?;
    match given.split_once('=') {
        Some((own, value)) => (own == name).then(|| Some(value.to_owned())),
        None => (given == name).then_some(None),
    }
}

/// Returns the commands of Ray in a script, in order.
pub(in super::super) fn ray_commands<'a>(
    all: &[ShellCommand],
    steps: impl Iterator<Item = &'a LaunchCommand> + Clone,
) -> Vec<RayCommand> {
    let mut found = Vec::new();
    for (index, command) in all.iter().enumerate() {
        let srun =
            steps.clone().find(|step| step.command == index).and_then(|step| step.srun.as_ref());
        let words: Vec<ShellWord> = match srun {
            Some(srun) => srun.program.clone(),
            None => command
                .words
                .iter()
                .skip_while(|word| assignment(word).is_some())
                .cloned()
                .collect(),
        };
        let set = command.words.iter().map_while(assignment).map(|(name, _)| name);
        let of_srun = srun.and_then(|srun| srun.value("export")).map(|_| "--export".to_owned());
        let mut ray = RayCommand {
            command: index,
            line: command.line,
            verb: String::new(),
            words,
            environment: set.chain(of_srun).collect(),
            is_direct: true,
            is_contained: false,
        };
        if unwrap(&mut ray) {
            found.push(ray);
        }
    }
    found
}

/// Removes what is before `ray`, and the verb; returns whether it is a command of Ray.
fn unwrap(ray: &mut RayCommand) -> bool {
    loop {
        let Some(first) = ray.words.first().map(ShellWord::shown) else { return false };
        let base = first.rsplit('/').next().unwrap_or_default().to_owned();
        if base == "ray" {
            let verb = ray.words.get(1).and_then(ShellWord::literal).unwrap_or_default();
            ray.verb = verb;
            ray.words.drain(..2.min(ray.words.len()));
            return !ray.verb.is_empty();
        }
        if ["bash", "sh"].contains(&base.as_str()) {
            return unwrap_shell(ray);
        }
        if CONTAINERS.contains(&base.as_str()) {
            let Some(at) = ray.words.iter().position(is_shell_or_ray) else { return false };
            ray.is_contained = true;
            ray.words.drain(..at);
        } else if TRANSPARENT.contains(&base.as_str()) {
            ray.words.remove(0);
            ray.environment.extend((base == "env").then_some(base));
            let is_before =
                |word: &ShellWord| assignment(word).is_some() || word.raw.starts_with('-');
            let count = ray.words.iter().take_while(|word| is_before(word)).count();
            ray.words.drain(..count);
        } else {
            return false;
        }
    }
}

fn is_shell_or_ray(word: &ShellWord) -> bool {
    let shown = word.shown();
    ["ray", "bash", "sh"].contains(&shown.rsplit('/').next().unwrap_or_default())
}

/// Reads the text after `-c`: the first command of Ray in it.
fn unwrap_shell(ray: &mut RayCommand) -> bool {
    let is_flag = |word: &ShellWord| {
        word.literal().is_some_and(|text| text.starts_with('-') && text.ends_with('c'))
    };
    let Some(at) = ray.words.iter().position(is_flag) else { return false };
    let Some(text) =
        ray.words.get(at + 1).map(|word| word.literal().unwrap_or_else(|| word.shown()))
    else {
        return false;
    };
    let inner = commands(&text);
    let Some(mut found) = ray_commands(&inner, std::iter::empty()).into_iter().next() else {
        return false;
    };
    found.command = ray.command;
    found.line = ray.line;
    found.is_direct = false;
    found.is_contained |= ray.is_contained;
    *ray = found;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<RayCommand> {
        ray_commands(&commands(text), std::iter::empty())
    }

    #[test]
    fn commands_of_ray_are_found_behind_others() {
        for (text, verb) in [
            ("ray start --head", "start"),
            ("/opt/bin/ray stop --force", "stop"),
            ("RAY_X=1 nohup ray start --address=$a &", "start"),
            ("env A=b ray status", "status"),
            ("bash -c 'source env.sh && ray start --block'", "start"),
            ("singularity exec --nv x.sif ray start --head", "start"),
        ] {
            let all = found(text);
            assert_eq!(all.len(), 1, "{text}");
            assert_eq!(all[0].verb, verb, "{text}");
            assert_eq!(all[0].is_contained, text.starts_with("singularity"));
        }
        for text in ["array start", "echo ray start", "python ray", "ray"] {
            assert!(found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_is_set_for_one_command_is_known() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(found(text)[0].environment, expected, "{text}");
        };
        check("nohup ray start --head", &[]);
        check("RAY_X=1 B=2 ray start --head", &["RAY_X", "B"]);
        check("env A=b ray start --head", &["env"]);
    }

    #[test]
    fn options_behind_dashes_are_those_of_the_program() {
        let all = found("ray symmetric-run --address a:1 -- python x.py --num-gpus 3 --address b");
        assert!(!all[0].has("num-gpus"));
        assert_eq!(all[0].value("address").as_deref(), Some("a:1"));
    }

    #[test]
    fn options_have_their_value_behind_a_sign_or_a_blank() {
        let all =
            found("ray start --head --port=$port --num-cpus \"${SLURM_CPUS_PER_TASK}\" --block");
        let ray = &all[0];
        assert!(ray.is_start(true) && !ray.is_start(false) && ray.has("block"));
        assert_eq!(ray.value("port").as_deref(), Some("$port"));
        assert_eq!(ray.value("num-cpus").as_deref(), Some("$SLURM_CPUS_PER_TASK"));
        assert_eq!(ray.value("num-gpus"), None);
        assert_eq!(ray.word("port").unwrap().variables().collect::<Vec<_>>(), ["port"]);
    }
}

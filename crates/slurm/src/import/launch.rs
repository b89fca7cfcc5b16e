//! Finds the launchers in the commands of a script: `srun`, `torchrun`, `accelerate`, `deepspeed`,
//! `mpirun`, also nested and in containers, with their size options. `geometry.rs` computes the
//! counts.

use super::option::{GivenOption, PYXIS, SBATCH, SRUN, options};
use super::shell::{Quote, ShellCommand, ShellWord, WordPart, assignment, commands};
use super::variables::ShellVariables;

/// Programs that start another one; their options are skipped.
const WRAPPERS: &[&str] = &[
    "apptainer",
    "command",
    "docker",
    "enroot",
    "env",
    "exec",
    "ncu",
    "nice",
    "nohup",
    "nsys",
    "numactl",
    "podman",
    "singularity",
    "stdbuf",
    "time",
    "timeout",
    "uv",
    "xvfb-run",
    "catchsegv",
    "setsid",
    "ionice",
    "taskset",
    "shifter",
];

/// Options of torchrun and its variants without a value.
const ELASTIC_FLAGS: &[&str] =
    &["standalone", "no-python", "module", "m", "use-env", "run-path", "help", "h"];

/// Options of `accelerate launch` without a value.
const ACCELERATE_FLAGS: &[&str] = &[
    "multi-gpu",
    "cpu",
    "tpu",
    "mps",
    "use-deepspeed",
    "use-fsdp",
    "use-megatron-lm",
    "use-xpu",
    "use-parallelism-config",
    "debug",
    "quiet",
    "q",
    "no-python",
    "module",
    "m",
    "same-network",
    "ipex",
    "tpu-use-cluster",
    "tpu-use-sudo",
    "enable-cpu-affinity",
    "help",
    "h",
];

/// Options of deepspeed without a value.
const DEEPSPEED_FLAGS: &[&str] = &[
    "no-ssh",
    "no-ssh-check",
    "no-local-rank",
    "no-python",
    "module",
    "force-multi",
    "save-pid",
    "help",
    "h",
];

/// Launcher of the processes of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Starter {
    /// torchrun, or the module with this name.
    Torchrun,
    /// `torch.distributed.launch`, the predecessor of torchrun.
    OldLaunch,
    Accelerate,
    Deepspeed,
}

/// Value of an option: as written, and its value where certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OptionValue {
    pub(super) shown: String,
    pub(super) known: Option<String>,
    pub(super) word: ShellWord,
}

impl OptionValue {
    /// Returns the value as a number.
    pub(super) fn number(&self) -> Option<u64> {
        self.known.as_deref()?.parse().ok()
    }
}

/// Launcher with its options; names have `-` for `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Started {
    pub(super) by: Starter,
    pub(super) options: Vec<(String, Option<OptionValue>)>,
}

impl Started {
    /// Returns the value of the first of these options.
    pub(super) fn value(&self, names: &[&str]) -> Option<&OptionValue> {
        self.options
            .iter()
            .find(|(name, _)| names.contains(&name.as_str()))
            .and_then(|(_, value)| value.as_ref())
    }

    /// Returns whether one of these options is given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// Returns host and port of the rendezvous as written.
    pub(super) fn endpoint(&self) -> Option<(String, Option<String>)> {
        if let Some(endpoint) = self.value(&["rdzv-endpoint"]) {
            let text = endpoint.known.clone().unwrap_or_else(|| endpoint.shown.clone());
            return Some(match text.rsplit_once(':') {
                Some((host, port)) => (host.to_owned(), Some(port.to_owned())),
                None => (text, None),
            });
        }
        let host = self.value(&["master-addr", "main-process-ip"])?;
        let port = self.value(&["master-port", "main-process-port"]);
        let text = |value: &OptionValue| value.known.clone().unwrap_or_else(|| value.shown.clone());
        Some((text(host), port.map(text)))
    }
}

/// An `srun` command with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Srun {
    pub(super) given: Vec<GivenOption>,
    /// Options whose value is uncertain.
    pub(super) unknown: Vec<String>,
    /// Range of bytes from `srun` to its program.
    pub(super) cut: std::ops::Range<usize>,
    /// Words of its program that the batch script's shell expands.
    pub(super) program: Vec<ShellWord>,
}

impl Srun {
    /// Returns the value of an option.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.given
            .iter()
            .rev()
            .find(|one| one.name == Some(name))
            .map(|one| one.value.as_deref().unwrap_or_default())
    }
}

/// An `mpirun` command and its number of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mpirun {
    pub(super) processes: Option<OptionValue>,
}

/// Command that starts the job's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaunchCommand {
    /// Index of the command in the script.
    pub(super) command: usize,
    /// Line in the text, from 1.
    pub(super) line: u32,
    pub(super) launchers: Vec<String>,
    pub(super) srun: Option<Srun>,
    pub(super) mpirun: Option<Mpirun>,
    pub(super) started: Option<Started>,
    /// Program in quotes after `bash -c`, which every task expands itself.
    pub(super) inner: Option<String>,
    /// Reason why the program is unknown: a variable, or a separate script.
    pub(super) hidden: Option<String>,
    /// Set when it is in a loop or a function.
    pub(super) is_repeated: bool,
}

impl LaunchCommand {
    /// Returns the component in which it runs; `None` for several, as in `srun --het-group=0,1` and
    /// `srun a : b`.
    pub(super) fn component(&self) -> Option<usize> {
        let Some(srun) = &self.srun else { return Some(0) };
        let is_several = srun.program.iter().any(|word| word.raw == ":");
        srun.value("het-group").map_or(Some(0), |text| text.parse().ok()).filter(|_| !is_several)
    }
}

/// Returns all launch commands, and the variables after the last of them.
pub(super) fn steps(
    all: &[ShellCommand],
    variables: &ShellVariables,
) -> (Vec<LaunchCommand>, ShellVariables) {
    let mut variables = variables.clone();
    let mut steps = Vec::new();
    for (index, command) in all.iter().enumerate() {
        steps.extend(step(index, command, &variables));
        variables.take(command);
    }
    (steps, variables)
}

fn step(index: usize, command: &ShellCommand, variables: &ShellVariables) -> Option<LaunchCommand> {
    let words: Vec<ShellWord> =
        command.words.iter().skip_while(|word| assignment(word).is_some()).cloned().collect();
    let mut step = LaunchCommand {
        command: index,
        line: command.line,
        launchers: Vec::new(),
        srun: None,
        mpirun: None,
        started: None,
        inner: None,
        hidden: None,
        is_repeated: command.is_repeated,
    };
    unwrap_launchers(&words, &mut step, variables);
    if step.srun.is_some()
        && step.started.is_none()
        && let Some(document) = &command.document
    {
        inner(&document.text, &mut step, variables);
    }
    (step.srun.is_some() || step.mpirun.is_some() || step.started.is_some()).then_some(step)
}

/// Returns the name of a program, also of one in a directory from a variable.
fn base(word: &ShellWord) -> String {
    word.shown().rsplit('/').next().unwrap_or_default().to_owned()
}

/// Returns the words of a variable that holds a command.
fn words_of_variable(word: &ShellWord, variables: &ShellVariables) -> Option<Vec<ShellWord>> {
    let [WordPart::Variable { name, plain: true }] = word.parts.as_slice() else { return None };
    match commands(variables.written(name)?).as_slice() {
        [one] if one.words.first().is_some_and(|first| !base(first).contains('$')) => {
            Some(one.words.clone())
        }
        _ => None,
    }
}

/// Returns whether a word of srun may expand to options: an unquoted variable of unknown value.
fn may_be_options(word: &ShellWord, variables: &ShellVariables) -> bool {
    let [WordPart::Variable { name, .. }] = word.parts.as_slice() else { return false };
    word.raw.starts_with('$')
        && variables.written(name).is_none_or(|text| text.trim_start().starts_with('-'))
}

/// Removes launchers from the front, one after the other.
fn unwrap_launchers(words: &[ShellWord], step: &mut LaunchCommand, variables: &ShellVariables) {
    let Some(first) = words.first() else { return };
    let name = base(first);
    match name.as_str() {
        _ if name.contains('$') => match words_of_variable(first, variables) {
            Some(held) if held.first().is_some_and(|first| base(first) != "srun") => {
                let words: Vec<ShellWord> = held.iter().chain(&words[1..]).cloned().collect();
                unwrap_launchers(&words, step, variables);
            }
            _ => step.hidden = Some(first.shown()),
        },
        name if name.ends_with(".sh") => step.hidden = Some(first.shown()),
        "srun" if step.srun.is_none() => {
            let rest = srun(words, step, variables);
            step.launchers.push(name);
            unwrap_launchers(&rest, step, variables);
        }
        "mpirun" | "mpiexec" | "orterun" | "mpiexec.hydra" | "prterun" if step.mpirun.is_none() => {
            step.launchers.push(name);
            mpirun(words, step, variables);
        }
        "torchrun" => started(Starter::Torchrun, ELASTIC_FLAGS, &words[1..], step, variables),
        "deepspeed" => started(Starter::Deepspeed, DEEPSPEED_FLAGS, &words[1..], step, variables),
        "accelerate" if words.get(1).is_some_and(|word| base(word) == "launch") => {
            started(Starter::Accelerate, ACCELERATE_FLAGS, &words[2..], step, variables);
        }
        "bash" | "sh" => shell(words, step, variables),
        name if name.starts_with("python") => python(words, step, variables),
        // Options of wrappers are skipped: the program is the next known name.
        name if WRAPPERS.contains(&name) => {
            let known = |word: &ShellWord| {
                let name = base(word);
                matches!(
                    name.as_str(),
                    "srun"
                        | "torchrun"
                        | "accelerate"
                        | "deepspeed"
                        | "mpirun"
                        | "mpiexec"
                        | "bash"
                        | "sh"
                ) || name.starts_with("python")
            };
            if let Some(at) = words[1..].iter().position(known) {
                if matches!(
                    name,
                    "singularity" | "apptainer" | "docker" | "podman" | "enroot" | "shifter"
                ) {
                    step.launchers.push(name.to_owned());
                }
                unwrap_launchers(&words[at + 1..], step, variables);
            }
        }
        _ => {}
    }
}

/// Analyses the program of a shell: the text after `-c`, else an unknown script.
fn shell(words: &[ShellWord], step: &mut LaunchCommand, variables: &ShellVariables) {
    let script = words.windows(2).find(|pair| {
        pair[0].literal().is_some_and(|text| text.starts_with('-') && text.ends_with('c'))
    });
    if let Some(script) = script {
        let is_single =
            script[1].parts.iter().all(|part| matches!(part, WordPart::Text(_, Quote::Single)));
        let text = script[1].literal().unwrap_or_else(|| script[1].shown());
        inner(&text, step, variables);
        step.inner = is_single.then_some(text);
    } else {
        let file =
            words[1..].iter().map(ShellWord::shown).find(|text| !text.starts_with(['-', '+']));
        step.hidden = file;
    }
}

/// Analyses the first command in the text for a shell that starts something.
fn inner(text: &str, step: &mut LaunchCommand, variables: &ShellVariables) {
    let mut variables = variables.clone();
    for command in commands(text) {
        let words: Vec<ShellWord> =
            command.words.iter().skip_while(|word| assignment(word).is_some()).cloned().collect();
        if step.started.is_none() {
            unwrap_launchers(&words, step, &variables);
        }
        variables.take(&command);
    }
}

fn srun(
    words: &[ShellWord],
    step: &mut LaunchCommand,
    variables: &ShellVariables,
) -> Vec<ShellWord> {
    let texts: Vec<String> = words[1..]
        .iter()
        .map(|word| variables.resolve(word).unwrap_or_else(|| word.shown()))
        .collect();
    let (given, rest) = options(&[SRUN, SBATCH, PYXIS], &texts, step.line, false);
    let at = words.len() - rest.len();
    let mut unknown: Vec<String> = words[1..at]
        .iter()
        .filter(|word| variables.resolve(word).is_none())
        .map(ShellWord::shown)
        .collect();
    let program = words[at..].to_vec();
    let first = program.first().filter(|first| may_be_options(first, variables));
    unknown.extend(first.map(ShellWord::shown));
    let cut = words[0].start..program.first().map_or(words[0].start, |word| word.start);
    step.srun = Some(Srun { given, unknown, cut, program: program.clone() });
    program
}

fn mpirun(words: &[ShellWord], step: &mut LaunchCommand, variables: &ShellVariables) {
    let texts: Vec<String> = words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    let at =
        texts.iter().position(|text| matches!(text.as_str(), "-np" | "-n" | "--np" | "--n" | "-c"));
    let processes = at.and_then(|at| words.get(at + 1)).map(|word| value(word, variables));
    step.mpirun = Some(Mpirun { processes });
    let known = |word: &ShellWord| {
        matches!(base(word).as_str(), "torchrun" | "accelerate" | "deepspeed" | "bash" | "sh")
    };
    if let Some(at) = words[1..].iter().position(known) {
        unwrap_launchers(&words[at + 1..], step, variables);
    }
}

/// Analyses `python -u -m torch.distributed.run …`.
fn python(words: &[ShellWord], step: &mut LaunchCommand, variables: &ShellVariables) {
    let mut at = 1;
    while let Some(text) = words.get(at).and_then(ShellWord::literal) {
        match text.as_str() {
            "-m" => {
                let module = words.get(at + 1).and_then(ShellWord::literal).unwrap_or_default();
                let rest = words.get(at + 2..).unwrap_or_default();
                match module.as_str() {
                    "torch.distributed.run" | "torch.distributed.elastic.run" => {
                        started(Starter::Torchrun, ELASTIC_FLAGS, rest, step, variables);
                    }
                    "torch.distributed.launch" => {
                        started(Starter::OldLaunch, ELASTIC_FLAGS, rest, step, variables)
                    }
                    "accelerate.commands.launch" => {
                        started(Starter::Accelerate, ACCELERATE_FLAGS, rest, step, variables);
                    }
                    "deepspeed.launcher.runner" => {
                        started(Starter::Deepspeed, DEEPSPEED_FLAGS, rest, step, variables);
                    }
                    _ => {}
                }
                return;
            }
            "-W" | "-X" => at += 2,
            flag if flag.starts_with('-') => at += 1,
            _ => return,
        }
    }
}

fn started(
    by: Starter,
    flags: &[&str],
    words: &[ShellWord],
    step: &mut LaunchCommand,
    variables: &ShellVariables,
) {
    let mut options = Vec::new();
    let mut at = 0;
    while let Some((name, own)) = words.get(at).and_then(option) {
        let is_flag = flags.contains(&name.as_str());
        let next = words.get(at + 1).filter(|_| own.is_none() && !is_flag);
        at += 1 + usize::from(next.is_some());
        let written = own.as_ref().or(next).map(|word| value(word, variables));
        options.push((name, written));
    }
    step.launchers.push(
        match by {
            Starter::Torchrun => "torchrun",
            Starter::OldLaunch => "torch.distributed.launch",
            Starter::Accelerate => "accelerate",
            Starter::Deepspeed => "deepspeed",
        }
        .to_owned(),
    );
    step.started = Some(Started { by, options });
}

/// Returns the name of an option with `-` for `_`, and the value after `=`.
fn option(word: &ShellWord) -> Option<(String, Option<ShellWord>)> {
    let Some(WordPart::Text(text, Quote::None)) = word.parts.first() else { return None };
    let body = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    let (name, rest) = body.split_once('=').map_or((body, None), |(name, rest)| (name, Some(rest)));
    let value = rest.map(|rest| {
        let mut parts = word.parts.clone();
        parts[0] = WordPart::Text(rest.to_owned(), Quote::None);
        ShellWord { raw: rest.to_owned(), parts, start: word.start }
    });
    Some((name.replace('_', "-"), value))
}

fn value(word: &ShellWord, variables: &ShellVariables) -> OptionValue {
    OptionValue { shown: word.shown(), known: variables.resolve(word), word: word.clone() }
}

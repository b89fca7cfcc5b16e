//! What the commands of a script start: `srun`, `torchrun`, `accelerate`, `deepspeed`, `mpirun`,
//! also in one another and in containers, with the options that say how many. How many that comes
//! to is in `geometry.rs`.

use super::known::Variables;
use super::option::{Given, PYXIS, SBATCH, SRUN, options};
use super::shell::{Command, Part, Quote, Word, assignment, commands};

/// Programs that start another one, whose options are passed over.
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

/// Options of torchrun and its like that no value follows.
const ELASTIC_FLAGS: &[&str] =
    &["standalone", "no-python", "module", "m", "use-env", "run-path", "help", "h"];

/// Options of `accelerate launch` that no value follows.
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

/// Options of deepspeed that no value follows.
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

/// What starts the processes of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Starter {
    /// torchrun, or the module of that name.
    Torchrun,
    /// `torch.distributed.launch`, which torchrun took the place of.
    OldLaunch,
    Accelerate,
    Deepspeed,
}

/// An option's value: as it stands there, and what it holds where that is certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) shown: String,
    pub(super) known: Option<String>,
    pub(super) word: Word,
}

impl Value {
    /// As a number.
    pub(super) fn number(&self) -> Option<u64> {
        self.known.as_deref()?.parse().ok()
    }
}

/// A starter with its options; names have `-` for `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Started {
    pub(super) by: Starter,
    pub(super) options: Vec<(String, Option<Value>)>,
}

impl Started {
    /// The value of the first of these options.
    pub(super) fn value(&self, names: &[&str]) -> Option<&Value> {
        self.options
            .iter()
            .find(|(name, _)| names.contains(&name.as_str()))
            .and_then(|(_, value)| value.as_ref())
    }

    /// Whether one of these options is given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// Where the processes of all nodes meet: host and port as they stand there.
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
        let text = |value: &Value| value.known.clone().unwrap_or_else(|| value.shown.clone());
        Some((text(host), port.map(text)))
    }
}

/// An `srun`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Srun {
    pub(super) given: Vec<Given>,
    /// Options whose value nobody can tell.
    pub(super) unknown: Vec<String>,
    /// Bytes of the text from `srun` to its program.
    pub(super) cut: std::ops::Range<usize>,
    /// Words of its program that the batch script's shell expands.
    pub(super) program: Vec<Word>,
}

impl Srun {
    /// The value of an option.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.given
            .iter()
            .rev()
            .find(|one| one.name == Some(name))
            .map(|one| one.value.as_deref().unwrap_or_default())
    }
}

/// An `mpirun`, and how many it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mpirun {
    pub(super) processes: Option<Value>,
}

/// A command that starts what the job is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Which command of the script.
    pub(super) command: usize,
    /// Line in the text, from 1.
    pub(super) line: u32,
    pub(super) launchers: Vec<String>,
    pub(super) srun: Option<Srun>,
    pub(super) mpirun: Option<Mpirun>,
    pub(super) started: Option<Started>,
    /// Its program stands in quotes behind `bash -c`, where every task expands it by itself.
    pub(super) inner: Option<String>,
    /// What its program is cannot be told: a variable, or a script of its own.
    pub(super) hidden: Option<String>,
    /// It stands in a loop or a function.
    pub(super) is_repeated: bool,
}

impl Step {
    /// Which component it runs in, where that is one alone: `srun --het-group=0,1` and `srun a : b`
    /// are in several.
    pub(super) fn component(&self) -> Option<usize> {
        let Some(srun) = &self.srun else { return Some(0) };
        let is_several = srun.program.iter().any(|word| word.raw == ":");
        srun.value("het-group").map_or(Some(0), |text| text.parse().ok()).filter(|_| !is_several)
    }
}

/// Everything that the commands start, and what variables hold before each of them.
pub(super) fn steps(all: &[Command], variables: &Variables) -> (Vec<Step>, Variables) {
    let mut variables = variables.clone();
    let mut steps = Vec::new();
    for (index, command) in all.iter().enumerate() {
        steps.extend(step(index, command, &variables));
        variables.take(command);
    }
    (steps, variables)
}

fn step(index: usize, command: &Command, variables: &Variables) -> Option<Step> {
    let words: Vec<Word> =
        command.words.iter().skip_while(|word| assignment(word).is_some()).cloned().collect();
    let mut step = Step {
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
    peel(&words, &mut step, variables);
    if step.srun.is_some()
        && step.started.is_none()
        && let Some(document) = &command.document
    {
        inner(&document.text, &mut step, variables);
    }
    (step.srun.is_some() || step.mpirun.is_some() || step.started.is_some()).then_some(step)
}

/// The name of a program, also of one in a folder that a variable names.
fn base(word: &Word) -> String {
    word.shown().rsplit('/').next().unwrap_or_default().to_owned()
}

/// The words of a variable that holds a command, as it was set.
fn held(word: &Word, variables: &Variables) -> Option<Vec<Word>> {
    let [Part::Variable { name, plain: true }] = word.parts.as_slice() else { return None };
    match commands(variables.written(name)?).as_slice() {
        [one] if one.words.first().is_some_and(|first| !base(first).contains('$')) => {
            Some(one.words.clone())
        }
        _ => None,
    }
}

/// Whether a word of srun that begins no option may turn into some: a variable without quotes, of
/// which that is not known.
fn may_be_options(word: &Word, variables: &Variables) -> bool {
    let [Part::Variable { name, .. }] = word.parts.as_slice() else { return false };
    word.raw.starts_with('$')
        && variables.written(name).is_none_or(|text| text.trim_start().starts_with('-'))
}

/// Takes launchers off the front, one after the other.
fn peel(words: &[Word], step: &mut Step, variables: &Variables) {
    let Some(first) = words.first() else { return };
    let name = base(first);
    match name.as_str() {
        _ if name.contains('$') => match held(first, variables) {
            Some(held) if held.first().is_some_and(|first| base(first) != "srun") => {
                let words: Vec<Word> = held.iter().chain(&words[1..]).cloned().collect();
                peel(&words, step, variables);
            }
            _ => step.hidden = Some(first.shown()),
        },
        name if name.ends_with(".sh") => step.hidden = Some(first.shown()),
        "srun" if step.srun.is_none() => {
            let rest = srun(words, step, variables);
            step.launchers.push(name);
            peel(&rest, step, variables);
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
        "bash" | "sh" => {
            let script = words.windows(2).find(|pair| {
                pair[0].literal().is_some_and(|text| text.starts_with('-') && text.ends_with('c'))
            });
            if let Some(script) = script {
                let is_single =
                    script[1].parts.iter().all(|part| matches!(part, Part::Text(_, Quote::Single)));
                let text = script[1].literal().unwrap_or_else(|| script[1].shown());
                inner(&text, step, variables);
                step.inner = is_single.then_some(text);
            } else {
                let file =
                    words[1..].iter().map(Word::shown).find(|text| !text.starts_with(['-', '+']));
                step.hidden = file;
            }
        }
        name if name.starts_with("python") => python(words, step, variables),
        // Options of wrappers are theirs: what they start is the next known name.
        name if WRAPPERS.contains(&name) => {
            let known = |word: &Word| {
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
                peel(&words[at + 1..], step, variables);
            }
        }
        _ => {}
    }
}

/// The first command of a text for a shell that starts something.
fn inner(text: &str, step: &mut Step, variables: &Variables) {
    let mut variables = variables.clone();
    for command in commands(text) {
        let words: Vec<Word> =
            command.words.iter().skip_while(|word| assignment(word).is_some()).cloned().collect();
        if step.started.is_none() {
            peel(&words, step, &variables);
        }
        variables.take(&command);
    }
}

fn srun(words: &[Word], step: &mut Step, variables: &Variables) -> Vec<Word> {
    let texts: Vec<String> = words[1..]
        .iter()
        .map(|word| variables.resolve(word).unwrap_or_else(|| word.shown()))
        .collect();
    let (given, rest) = options(&[SRUN, SBATCH, PYXIS], &texts, step.line, false);
    let at = words.len() - rest.len();
    let mut unknown: Vec<String> = words[1..at]
        .iter()
        .filter(|word| variables.resolve(word).is_none())
        .map(Word::shown)
        .collect();
    let program = words[at..].to_vec();
    let first = program.first().filter(|first| may_be_options(first, variables));
    unknown.extend(first.map(Word::shown));
    let cut = words[0].start..program.first().map_or(words[0].start, |word| word.start);
    step.srun = Some(Srun { given, unknown, cut, program: program.clone() });
    program
}

fn mpirun(words: &[Word], step: &mut Step, variables: &Variables) {
    let texts: Vec<String> = words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    let at =
        texts.iter().position(|text| matches!(text.as_str(), "-np" | "-n" | "--np" | "--n" | "-c"));
    let processes = at.and_then(|at| words.get(at + 1)).map(|word| value(word, variables));
    step.mpirun = Some(Mpirun { processes });
    let known = |word: &Word| {
        matches!(base(word).as_str(), "torchrun" | "accelerate" | "deepspeed" | "bash" | "sh")
    };
    if let Some(at) = words[1..].iter().position(known) {
        peel(&words[at + 1..], step, variables);
    }
}

/// `python -u -m torch.distributed.run …`.
fn python(words: &[Word], step: &mut Step, variables: &Variables) {
    let mut at = 1;
    while let Some(text) = words.get(at).and_then(Word::literal) {
        match text.as_str() {
            "-m" => {
                let module = words.get(at + 1).and_then(Word::literal).unwrap_or_default();
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

fn started(by: Starter, flags: &[&str], words: &[Word], step: &mut Step, variables: &Variables) {
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

/// The name of an option with `-` for `_`, and the value behind its `=`.
fn option(word: &Word) -> Option<(String, Option<Word>)> {
    let Some(Part::Text(text, Quote::None)) = word.parts.first() else { return None };
    let body = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    let (name, rest) = body.split_once('=').map_or((body, None), |(name, rest)| (name, Some(rest)));
    let value = rest.map(|rest| {
        let mut parts = word.parts.clone();
        parts[0] = Part::Text(rest.to_owned(), Quote::None);
        Word { raw: rest.to_owned(), parts, start: word.start }
    });
    Some((name.replace('_', "-"), value))
}

fn value(word: &Word, variables: &Variables) -> Value {
    Value { shown: word.shown(), known: variables.resolve(word), word: word.clone() }
}

//! The types of a job's fields: how each is read from one value, and its schema. Fields are
//! independent of each other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use muster_model::hostlist::HostPattern;
use muster_model::job::{AfterCheckpoint, CheckpointBy, CheckpointTo, DependencyKind, Restart};
use muster_model::payload::TaskCommand;
use muster_model::{Array, Bytes, CpuMilli, GpuModel, JobId, Protection, Replicas, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Field, Flag, Item, Whole, document, inline_schema, parsed, scalar, wrong_kind};
use crate::names::{MAX_NAME, check_name, node_pattern};
use crate::quantity::{
    EarliestStart, GpuAmount, Malformed, parse_array, parse_begin, parse_bytes, parse_cpus,
    parse_gpus, parse_limit, parse_range, parse_signal, parse_span,
};
use crate::suggest::nearest;
use crate::yaml::{Node, Value};

/// Longest command line or script: the kernel takes no single argument of 128 KiB or more
/// (`MAX_ARG_STRLEN`, execve(2)), and a script is passed to the shell as one.
pub(crate) const MAX_ARGUMENT_BYTES: usize = (128 << 10) - 1;

/// Most tasks of one job, over all groups.
pub(crate) const MAX_TASKS: i64 = 10_000;

/// Declares a field type around a quantity parser.
macro_rules! quantity_field {
    ($(#[doc = $doc:literal])+ $name:ident($inner:ty), $parse:expr, $expected:literal, $schema:tt) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct $name(pub(crate) $inner);

        inline_schema!($name, $schema);

        impl Field for $name {
            fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
                parsed(node, name, $expected, problems, $parse).map(Self)
            }
        }
    };
}

quantity_field! {
    /// Name of a job or group.
    JobName(String), check_name, "a name", { "type": ["string", "integer"], "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$" }
}
quantity_field! {
    /// A number of GPUs, or a share of one.
    Gpus(GpuAmount), parse_gpus, "a number of GPUs", { "type": "number", "minimum": 0, "maximum": 128, "examples": [8, 0.5] }
}
quantity_field! {
    /// A number of CPUs, in thousandths.
    Cpus(CpuMilli), parse_cpus, "a number of CPUs", { "type": ["number", "string"], "minimum": 0, "examples": [8, 0.5] }
}
quantity_field! {
    /// A size in bytes.
    Size(Bytes), parse_bytes, "a size", { "type": ["string", "integer"], "examples": ["64GB", "512MiB"] }
}
quantity_field! {
    /// A length of time.
    Length(Span), parse_span, "a length of time", { "type": "string", "examples": ["60s", "10m"] }
}
quantity_field! {
    /// A length of time, or no limit.
    LengthOrNone(Option<Span>), parse_limit, "a length of time", { "type": "string", "examples": ["12h", "1-12:00:00", "none"] }
}
quantity_field! {
    /// Time for which a job cannot be preempted.
    Protect(Protection), protection, "a protection", { "type": "string", "examples": ["always", "30m", "none"] }
}
quantity_field! {
    /// The indices of an array.
    ArrayRange(Array), parse_array, "an array", { "type": ["string", "integer"], "minimum": 1, "maximum": 100_000, "examples": ["0-199", "0-199%32", "1,3,7-9"] }
}
quantity_field! {
    /// The earliest start of a job.
    BeginTime(EarliestStart), parse_begin, "a begin time", { "type": "string", "examples": ["+2h", "2026-08-01T06:00:00Z"] }
}
quantity_field! {
    /// A signal, by name or number.
    SignalName(i32), parse_signal, "a signal", { "type": ["string", "integer"], "examples": ["USR1"] }
}
quantity_field! {
    /// A GPU model, as [`GpuModel`] spells them.
    Model(GpuModel), model, "a GPU model", { "type": "string", "examples": ["h100"] }
}
quantity_field! {
    /// A count of tasks, or a range of counts.
    TaskRange((u32, u32)), tasks, "a number of tasks", { "type": ["integer", "string"], "minimum": 1, "maximum": 10_000, "examples": [5, "2..16"] }
}
quantity_field! {
    /// A count of replicas, or a floor and a ceiling.
    ReplicaRange((u32, u32)), replicas, "a number of replicas", { "type": ["integer", "string"], "minimum": 1, "maximum": 1_000, "examples": [2, "2..6"] }
}
quantity_field! {
    /// Kind of workload. Any word is read: an unknown one is refused with the fields of its job.
    KindWord(String), kind_word, "a kind", { "enum": ["task", "service", "notebook", "ray", "sweep"] }
}
quantity_field! {
    /// One or several node names.
    NodeNames(HostPattern), node_pattern, "a node name", { "type": "string", "examples": ["node07", "node[01-04]"] }
}
quantity_field! {
    /// Jobs to wait for, from `afterok:12:13`, `12` or `prepare`.
    After(Vec<Wait>), waits, "a dependency", { "type": ["string", "integer"], "examples": ["afterok:12", "prepare"] }
}

/// One job to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) kind: DependencyKind,
    pub(crate) on: WaitTarget,
}

/// Reference to the job to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitTarget {
    Job(JobId),
    Name(String),
}

/// Parses the name of a GPU model.
pub(crate) fn model(text: &str) -> Result<GpuModel, Malformed> {
    let word: String = text.trim().to_lowercase();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !word.is_empty() && word.len() <= MAX_NAME && word.chars().all(allowed) {
        Ok(GpuModel(word.into()))
    } else {
        Err(Malformed { label: "expected a word such as `h100`".to_owned(), hint: None })
    }
}

fn protection(text: &str) -> Result<Protection, Malformed> {
    match text {
        "none" => Ok(Protection::None),
        "always" => Ok(Protection::Always),
        _ => parse_span(text).map(Protection::For).map_err(|_| Malformed {
            label: "expected `always`, `none`, or a length of time such as `30m`".to_owned(),
            hint: nearest(text, ["none", "always"]).map(|near| format!("did you mean `{near}`?")),
        }),
    }
}

fn tasks(text: &str) -> Result<(u32, u32), Malformed> {
    let (low, high) = parse_range(text)?;
    if 1 <= low && high <= MAX_TASKS {
        Ok((low as u32, high as u32))
    } else {
        Err(Malformed { label: format!("expected 1 to {MAX_TASKS}"), hint: None })
    }
}

fn replicas(text: &str) -> Result<(u32, u32), Malformed> {
    let (low, high) = parse_range(text)?;
    if 0 <= low && 1 <= high && high <= i64::from(Replicas::LIMIT) {
        Ok((low as u32, high as u32))
    } else {
        Err(Malformed {
            label: format!("expected 1 to {}, or a range such as `2..6`", Replicas::LIMIT),
            hint: None,
        })
    }
}

fn kind_word(text: &str) -> Result<String, Malformed> {
    Ok(text.to_owned())
}

fn waits(text: &str) -> Result<Vec<Wait>, Malformed> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let mut words = part.trim().split(':');
        let first = words.next().unwrap_or_default().trim();
        let rest: Vec<&str> = words.map(str::trim).collect();
        if rest.is_empty() {
            found.push(Wait { kind: DependencyKind::AfterOk, on: target(first)? });
            continue;
        }
        let mut kinds = DependencyKind::ALL.into_iter();
        let Some(kind) = kinds.find(|kind| kind.word() == first.to_ascii_lowercase()) else {
            let near = nearest(first, DependencyKind::ALL.map(DependencyKind::word));
            return Err(Malformed {
                label: "expected afterok, afternotok, afterany or after before the `:`".to_owned(),
                hint: near.map(|near| format!("did you mean `{near}`?")),
            });
        };
        for word in rest {
            found.push(Wait { kind, on: target(word)? });
        }
    }
    Ok(found)
}

fn target(word: &str) -> Result<WaitTarget, Malformed> {
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return match word.parse() {
            Ok(0) | Err(_) => {
                Err(Malformed { label: "there is no such job number".to_owned(), hint: None })
            }
            Ok(number) => Ok(WaitTarget::Job(JobId(number))),
        };
    }
    let expected =
        "expected a job number such as `12`, or the name of an earlier document of this file";
    let name =
        check_name(word).map_err(|_| Malformed { label: expected.to_owned(), hint: None })?;
    Ok(WaitTarget::Name(name))
}

/// Program of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program(pub(crate) TaskCommand);

inline_schema!(Program, {
    "anyOf": [
        { "type": "string", "minLength": 1 },
        { "type": "array", "items": { "type": ["string", "number", "boolean"] }, "minItems": 1 },
    ],
    "examples": ["torchrun train.py", ["python", "train.py", "--epochs", "3"]],
});

impl Field for Program {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        let command = match &node.value {
            Value::Scalar(text) => TaskCommand::Script(text.clone()),
            Value::List(nodes) => {
                let word = |node: &Node, problems: &mut Problems| {
                    scalar(node, name, "text, or a list of text", problems).map(str::to_owned)
                };
                let words: Vec<_> = nodes.iter().filter_map(|node| word(node, problems)).collect();
                if words.len() < nodes.len() {
                    return None;
                }
                TaskCommand::Argv(words)
            }
            _ => {
                problems.add(wrong_kind(node, name, "text, or a list of text"));
                return None;
            }
        };
        let parts = command.parts();
        let is_empty = parts.first().is_none_or(|first| first.trim().is_empty());
        let longest = parts.iter().map(|part| part.len()).max().unwrap_or(0);
        if is_empty {
            problems.add(
                Problem::new(format!("`{name}` is empty"))
                    .at(node.place, "expected a program to run"),
            );
            return None;
        }
        if longest > MAX_ARGUMENT_BYTES {
            let problem = Problem::new(format!("`{name}` is too long"))
                .at(node.place, "the system takes less than 128KiB in one argument or script")
                .hint("put it into a file and run that".to_owned());
            problems.add(problem);
            return None;
        }
        Some(Self(command))
    }
}

quantity_field! {
    /// Ranks that must acknowledge a checkpoint for the gang.
    CheckpointVoice(CheckpointBy), parse_voice, "a rule for gangs", { "enum": ["rank0", "all"] }
}
quantity_field! {
    /// Action after a checkpoint before the time limit.
    CheckpointSequel(AfterCheckpoint), parse_sequel, "what follows a checkpoint", { "enum": ["continue", "stop", "requeue"] }
}

quantity_field! {
    /// Processes of a task that get the checkpoint signal.
    CheckpointReceivers(CheckpointTo), parse_receivers, "a choice of processes", { "enum": ["handlers", "outermost", "all"] }
}

fn parse_receivers(text: &str) -> Result<CheckpointTo, Malformed> {
    match text {
        "handlers" => Ok(CheckpointTo::Handlers),
        "outermost" => Ok(CheckpointTo::Outermost),
        "all" => Ok(CheckpointTo::All),
        _ => Err(Malformed {
            label: "expected `handlers`, `outermost` or `all`".to_owned(),
            hint: nearest(text, ["handlers", "outermost", "all"])
                .map(|near| format!("did you mean `{near}`?")),
        }),
    }
}

fn parse_voice(text: &str) -> Result<CheckpointBy, Malformed> {
    match text {
        "rank0" => Ok(CheckpointBy::First),
        "all" => Ok(CheckpointBy::All),
        _ => Err(Malformed {
            label: "expected `rank0` or `all`".to_owned(),
            hint: nearest(text, ["rank0", "all"]).map(|near| format!("did you mean `{near}`?")),
        }),
    }
}

fn parse_sequel(text: &str) -> Result<AfterCheckpoint, Malformed> {
    match text {
        "continue" => Ok(AfterCheckpoint::Continue),
        "stop" => Ok(AfterCheckpoint::Stop),
        "requeue" => Ok(AfterCheckpoint::Requeue),
        _ => Err(Malformed {
            label: "expected `continue`, `stop` or `requeue`".to_owned(),
            hint: nearest(text, ["continue", "stop", "requeue"])
                .map(|near| format!("did you mean `{near}`?")),
        }),
    }
}

document! {
    /// Restarting the whole gang.
    RestartDocument ("restart") requires [] foreign &[("retries", "max"), ("limit", "max"), ("delay", "backoff")] => {
        /// Restart when a task fails or is lost. True by default in this form.
        "on-failure" on_failure: Flag,
        /// Most restarts. 3 by default.
        "max" max: Whole<1, 1_000>,
        /// Wait before the first restart; doubles each time, up to 10m. 10s by default.
        "backoff" backoff: Length,
    }
}

/// Rule for restarts of the gang.
#[derive(Clone, Debug)]
pub(crate) enum RestartRule {
    Never,
    OnFailure,
    /// On failure, at most this many times.
    AtMost(u32),
    Always,
    Detailed(Box<RestartDocument>),
}

impl JsonSchema for RestartRule {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "restart_rule".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let detailed = generator.subschema_for::<RestartDocument>();
        let most = Self::MOST;
        schemars::json_schema!({ "anyOf": [
            { "enum": ["never", "on-failure", "always"] },
            { "type": "integer", "minimum": 0, "maximum": most },
            detailed
        ] })
    }
}

impl Field for RestartRule {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Map(_) => {
                RestartDocument::read(node, name, problems).map(Box::new).map(Self::Detailed)
            }
            _ => parsed(node, name, "a restart rule", problems, |text| {
                match text {
                "never" => Ok(Self::Never),
                "on-failure" => Ok(Self::OnFailure),
                "always" => Ok(Self::Always),
                "0" => Ok(Self::Never),
                number if number.parse().is_ok_and(|most: u32| most <= Self::MOST) => {
                    Ok(Self::AtMost(number.parse().unwrap_or(Self::MOST)))
                }
                number if number.parse::<u64>().is_ok() => {
                    Err(Malformed { label: format!("at most {} restarts", Self::MOST), hint: None })
                }
                _ => Err(Malformed {
                    label: "expected `never`, `on-failure`, a number of restarts or `{max: 3, backoff: 10s}`"
                        .to_owned(),
                    hint: nearest(text, ["never", "on-failure", "always"])
                        .map(|near| format!("did you mean `{near}`?")),
                }),
            }
            }),
        }
    }
}

impl RestartRule {
    /// Most restarts that can be asked for.
    const MOST: u32 = 1_000;
    /// Default maximum number of restarts.
    const DEFAULT_MAX: u32 = 3;

    /// Returns the rule for the engine.
    pub(crate) fn resolve(&self) -> Restart {
        let on_failure = Restart {
            on_failure: true,
            max_restarts: Self::DEFAULT_MAX,
            backoff: Restart::DEFAULT_BACKOFF,
            always: false,
        };
        match self {
            Self::Never => Restart::NEVER,
            Self::Always => Restart::ALWAYS,
            Self::OnFailure => on_failure,
            Self::AtMost(most) => Restart { max_restarts: *most, ..on_failure },
            Self::Detailed(detail)
                if detail.on_failure.as_ref().is_some_and(|flag| !flag.value.0) =>
            {
                Restart::NEVER
            }
            Self::Detailed(detail) => Restart {
                on_failure: true,
                max_restarts: detail
                    .max
                    .as_ref()
                    .map_or(Self::DEFAULT_MAX, |max| max.value.0 as u32),
                backoff: detail
                    .backoff
                    .as_ref()
                    .map_or(Restart::DEFAULT_BACKOFF, |backoff| backoff.value.0),
                always: false,
            },
        }
    }

    /// Returns true for a mapping that sets neither `on-failure` nor `max`.
    pub(crate) fn says_only_how_fast(&self) -> bool {
        matches!(self, Self::Detailed(detail) if detail.on_failure.is_none() && detail.max.is_none())
    }
}

/// Returns pairs of items with the same name: the first, and each that repeats it.
pub(crate) fn duplicates<'a, T>(
    items: &'a [Item<T>],
    key: impl Fn(&'a T) -> &'a str,
) -> Vec<(&'a Item<T>, &'a Item<T>)> {
    let mut seen: BTreeMap<&str, &Item<T>> = BTreeMap::new();
    let mut twice = Vec::new();
    for item in items {
        match seen.get(key(&item.value)) {
            Some(first) => twice.push((*first, item)),
            None => {
                seen.insert(key(&item.value), item);
            }
        }
    }
    twice
}

/// Returns the problem for a name that is used twice.
pub(crate) fn used_twice<T>(
    what: &str,
    name: &str,
    (first, second): (&Item<T>, &Item<T>),
) -> Problem {
    Problem::new(format!("two {what} are named {}", show(name)))
        .at(second.place, "again here")
        .also(first.place, "first here")
}

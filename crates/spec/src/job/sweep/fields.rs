//! The fields of a sweep: its parameters, metric and early stops, each read by itself.

use std::borrow::Cow;
use std::sync::Arc;

use muster_model::sweep::{Goal, Param};
use muster_sweep::Distribution;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Field, Text, Whole, document, inline_schema, parsed, scalar, wrong_kind};
use crate::quantity::Malformed;
use crate::source::Place;
use crate::suggest::nearest;
use crate::yaml::{Node, Value, YamlEntry};

/// Most values of one parameter, and most rows of a table.
pub(super) const MAX_VALUES: usize = 100_000;
/// Most names in one sweep: each is a variable of every task.
const MAX_PARAMS: usize = 100;
/// Largest whole number of a range: a double holds every whole number up to it.
const MAX_WHOLE: f64 = 1e15;
/// Longest value in bytes.
const MAX_VALUE_BYTES: usize = 4096;

/// Parameters as a job file gives them.
#[derive(Clone, Debug)]
pub(crate) enum Params {
    /// Each with the values that it may have.
    Named(Vec<NamedParam>),
    /// Values that belong together: one column for each parameter, all of one length.
    Rows(Vec<Param>),
    /// Path of a file with such rows, which the client reads.
    File(String),
}

/// Parameter with its place.
#[derive(Clone, Debug)]
pub(crate) struct NamedParam {
    pub(crate) name: Arc<str>,
    pub(crate) place: Place,
    pub(crate) values: Distribution,
}

inline_schema!(Params, {
    "anyOf": [
        { "type": "object", "additionalProperties": true, "minProperties": 1 },
        { "type": "array", "items": { "type": "object" }, "minItems": 1 },
        { "type": "string" },
    ],
    "examples": [
        { "lr": [1e-4, 3e-4], "layers": [2, 4] },
        { "lr": { "log": [1e-5, 1e-2] }, "dropout": { "uniform": [0, 0.5] } },
        [{ "lr": 1e-4, "layers": 2 }, { "lr": 3e-4, "layers": 4 }],
    ],
});

impl Field for Params {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        let before = problems.len();
        let found = match &node.value {
            Value::Scalar(path) => return Some(Self::File(path.clone())),
            Value::Map(entries) if !entries.is_empty() => {
                at_most(MAX_PARAMS, entries.len(), "parameters", node.place, problems)?;
                Self::Named(entries.iter().filter_map(|entry| named(entry, problems)).collect())
            }
            Value::List(items) if !items.is_empty() => {
                at_most(MAX_VALUES + 1, items.len(), "rows", node.place, problems)?;
                list(node, items, problems)?
            }
            Value::Map(_) | Value::List(_) => {
                problems.add(
                    Problem::new(format!("`{name}` is empty")).at(
                        node.place,
                        "expected at least one parameter, such as `lr: [1e-4, 3e-4]`",
                    ),
                );
                return None;
            }
            Value::Null => {
                problems.add(wrong_kind(node, name, "a mapping of parameters, or a list of rows"));
                return None;
            }
        };
        (problems.len() == before).then_some(found)
    }
}

/// Refuses more than so many.
fn at_most(
    most: usize,
    count: usize,
    what: &str,
    place: Place,
    problems: &mut Problems,
) -> Option<()> {
    if count > most {
        let problem = Problem::new(format!("the sweep has too many {what}"));
        problems.add(problem.at(place, format!("{count}; at most {most}")));
        return None;
    }
    Some(())
}

/// Reads a list, of which the first item says what it is: parameters in order (`- lr: [1e-4, 3e-4]`), rows
/// (`- {lr: 1e-4}`), or a table with its header as the first row, which is how files are sent.
fn list(node: &Node, items: &[Node], problems: &mut Problems) -> Option<Params> {
    let is_single = |entry: &YamlEntry| matches!(entry.node.value, Value::Scalar(_));
    match items.first().map(|first| &first.value) {
        Some(Value::List(_)) => table(node, items, problems).map(Params::Rows),
        Some(Value::Map(entries)) if !entries.is_empty() && !entries.iter().all(is_single) => {
            let mut named = Vec::new();
            for item in items {
                let entries = entries_of(item, problems)?;
                named.extend(entries.iter().filter_map(|entry| self::named(entry, problems)));
            }
            Some(Params::Named(named))
        }
        _ => rows(node, items, problems).map(Params::Rows),
    }
}

fn entries_of<'a>(node: &'a Node, problems: &mut Problems) -> Option<&'a [YamlEntry]> {
    let Value::Map(entries) = &node.value else {
        problems.add(wrong_kind(node, "params", "a list of mappings, such as `- {lr: 1e-4}`"));
        return None;
    };
    Some(entries)
}

/// Reads rows that name their values; all have the same parameters, in any order.
fn rows(node: &Node, items: &[Node], problems: &mut Problems) -> Option<Vec<Param>> {
    let first = entries_of(items.first()?, problems)?;
    let mut params = Vec::new();
    for entry in first {
        let name = checked_name(&entry.key, entry.key_place, problems)?;
        params.push(Param { name, values: Vec::new() });
    }
    if params.is_empty() {
        let label = "expected a parameter, such as `{lr: 1e-4}`";
        problems.add(Problem::new("`params` has rows without parameters").at(node.place, label));
        return None;
    }
    for (number, item) in (1..).zip(items) {
        let entries = entries_of(item, problems)?;
        for param in &mut params {
            let entry = entries.iter().find(|entry| entry.key == *param.name);
            let Some(entry) = entry.filter(|_| entries.len() == first.len()) else {
                let names: Vec<&str> = first.iter().map(|entry| entry.key.as_str()).collect();
                let message =
                    format!("row {number} of `params` has other parameters than the first");
                let label = format!("expected {}", names.join(", "));
                problems.add(Problem::new(message).at(item.place, label));
                return None;
            };
            param.values.push(value(&entry.node, &entry.key, problems)?);
        }
    }
    Some(params)
}

/// Reads a table: a header, then at least one row of as many values.
fn table(node: &Node, items: &[Node], problems: &mut Problems) -> Option<Vec<Param>> {
    let mut params: Vec<Param> = Vec::new();
    if items.len() < 2 {
        let label = "expected a header and at least one row";
        problems.add(Problem::new("`params` is a table without rows").at(node.place, label));
        return None;
    }
    for (number, item) in (0..).zip(items) {
        let fields = crate::field::items(item, "params", problems)?;
        if fields.is_empty() {
            problems
                .add(Problem::new("a row of `params` is empty").at(item.place, "expected values"));
            return None;
        }
        if number > 0 && fields.len() != params.len() {
            let message = format!("row {number} of `params` has {} values", fields.len());
            let label = format!("the header has {}", params.len());
            problems.add(Problem::new(message).at(item.place, label));
            return None;
        }
        for (position, field) in fields.iter().enumerate() {
            let text = value(field, "params", problems)?;
            match params.get_mut(position).filter(|_| number > 0) {
                Some(param) => param.values.push(text),
                None => {
                    let name = checked_name(&text, field.place, problems)?;
                    params.push(Param { name, values: Vec::new() });
                }
            }
        }
    }
    Some(params)
}

fn named(entry: &YamlEntry, problems: &mut Problems) -> Option<NamedParam> {
    let name = checked_name(&entry.key, entry.key_place, problems)?;
    let key = entry.key.as_str();
    let values = match &entry.node.value {
        Value::List(items) if !items.is_empty() => {
            at_most(MAX_VALUES, items.len(), "values", entry.node.place, problems)?;
            let values: Vec<_> =
                items.iter().filter_map(|item| value(item, key, problems)).collect();
            if values.len() < items.len() {
                return None;
            }
            Distribution::Choice(values)
        }
        Value::Scalar(_) => Distribution::Choice(vec![value(&entry.node, key, problems)?]),
        Value::Map(fields) => match fields.as_slice() {
            [range] => range_of(range, problems)?,
            _ => {
                problems.add(no_range(&entry.node, key));
                return None;
            }
        },
        Value::List(_) | Value::Null => {
            problems.add(wrong_kind(
                &entry.node,
                key,
                "a list of values, or a range such as `{log: [1e-5, 1e-2]}`",
            ));
            return None;
        }
    };
    Some(NamedParam { name, place: entry.key_place, values })
}

/// Words that begin a range, each with two numbers behind it.
const RANGES: [&str; 3] = ["uniform", "log", "whole"];

fn no_range(node: &Node, name: &str) -> Problem {
    Problem::new(format!("{} has no range", show(name)))
        .at(node.place, "expected `{uniform: [0, 1]}`, `{log: [1e-5, 1e-2]}` or `{whole: [1, 8]}`")
}

/// Reads a range of numbers: its name and its two ends.
fn range_of(entry: &YamlEntry, problems: &mut Problems) -> Option<Distribution> {
    let key = entry.key.as_str();
    if !RANGES.contains(&key) {
        let hint = nearest(key, RANGES).map(|near| format!("did you mean `{near}`?"));
        problems.add(no_range(&entry.node, key).hint(hint));
        return None;
    }
    let ends = match &entry.node.value {
        Value::List(items) if items.len() == 2 => [&items[0], &items[1]],
        _ => {
            let expected = "a list of two numbers, the lowest and the highest";
            problems.add(wrong_kind(&entry.node, key, expected));
            return None;
        }
    };
    let [low, high] = ends.map(|end| parsed(end, key, "a number", problems, finite));
    let low = low?;
    let high = high?;
    let refuse = |label: &str, problems: &mut Problems| {
        problems.add(Problem::new(format!("`{key}` is no range")).at(entry.node.place, label));
        None
    };
    match key {
        _ if low > high => refuse("the lowest comes first", problems),
        "uniform" => Some(Distribution::Uniform { low, high }),
        "log" if low <= 0.0 => refuse("a logarithm needs numbers above 0", problems),
        "log" => Some(Distribution::Log { low, high }),
        _ if low.fract() != 0.0 || high.fract() != 0.0 => {
            refuse("expected whole numbers", problems)
        }
        _ if low.abs().max(high.abs()) > MAX_WHOLE => {
            refuse("expected numbers of at most 15 digits", problems)
        }
        _ => Some(Distribution::Whole { low: low as i64, high: high as i64 }),
    }
}

fn finite(text: &str) -> Result<f64, Malformed> {
    let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| Malformed {
        label: "expected a number such as `1e-4`".to_owned(),
        hint: None,
    })
}

fn checked_name(name: &str, place: Place, problems: &mut Problems) -> Option<Arc<str>> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(is_letter)
        && name.len() <= 64;
    if is_name {
        return Some(name.into());
    }
    problems.add(
        Problem::new(format!("{} cannot name a parameter", show(name)))
            .at(place, "expected a letter, then at most 63 letters, digits, `.`, `_` or `-`"),
    );
    None
}

fn value(node: &Node, name: &str, problems: &mut Problems) -> Option<Arc<str>> {
    let text = scalar(node, name, "a single value, or a list of them", problems)?;
    if text.len() > MAX_VALUE_BYTES || text.contains('\n') {
        problems.add(
            Problem::new(format!("a value of {} is too long", show(name)))
                .at(node.place, format!("expected one line of at most {MAX_VALUE_BYTES} bytes")),
        );
        return None;
    }
    Some(text.into())
}

document! {
    /// Figure by which the elements of a sweep are compared.
    MetricDocument ("metric") requires ["name", "goal"] foreign &[("mode", "goal"), ("direction", "goal"), ("regex", "pattern"), ("time-attr", "step")] => {
        /// Name of the metric: a field of the lines of JSON that tasks write to `$MUSTER_REPORT_FILE`.
        "name" name: Text,
        /// `min` if lower values are better, `max` if higher ones are.
        "goal" goal: GoalWord,
        /// Regular expression that finds the metric in the output instead: its first group, or its group
        /// `value`; a group `step` is the step.
        "pattern" pattern: Text,
        /// Field of the lines that has the step. `step` by default; without one, reports are counted.
        "step" step: Text,
    }
}

/// Values that are better.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoalWord(pub(crate) Goal);

inline_schema!(GoalWord, { "enum": ["min", "max"] });

impl Field for GoalWord {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "a goal", problems, |text| match text {
            "min" | "minimize" | "minimise" => Ok(Self(Goal::Min)),
            "max" | "maximize" | "maximise" => Ok(Self(Goal::Max)),
            _ => Err(Malformed { label: "write `min` or `max`".to_owned(), hint: None }),
        })
    }
}

document! {
    /// Stops of elements that do badly.
    EarlyStopDocument ("early-stop") requires ["rule"] foreign &[("grace-period", "first"), ("min-resource", "first"), ("reduction-factor", "factor"), ("divisor", "factor"), ("min-samples", "others")] => {
        /// `asha` (asynchronous successive halving) or `median`.
        "rule" rule: StopRule,
        /// With `asha`: step of the first comparison. 1 by default.
        "first" first: Whole<1, 1_000_000_000>,
        /// With `asha`: factor between the steps of two comparisons, and of the elements of which one goes on. 4
        /// by default.
        "factor" factor: Whole<2, 100>,
        /// With `median`: steps between two comparisons. 1 by default.
        "every" every: Whole<1, 1_000_000_000>,
        /// With `median`: fewest other elements that must have come as far. 3 by default.
        "others" others: Whole<1, 100_000>,
    }
}

/// Rule of an early stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopRule {
    Asha,
    Median,
}

inline_schema!(StopRule, { "enum": ["asha", "median"] });

impl Field for StopRule {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "a rule for early stops", problems, |text| match text {
            "asha" | "ASHA" => Ok(Self::Asha),
            "median" => Ok(Self::Median),
            _ => Err(Malformed {
                label: "write `asha` or `median`".to_owned(),
                hint: nearest(text, ["asha", "median"])
                    .map(|near| format!("did you mean `{near}`?")),
            }),
        })
    }
}

/// An early stop: the rule alone, or with its numbers.
#[derive(Clone, Debug)]
pub(crate) struct EarlyStops(pub(crate) EarlyStopDocument);

impl JsonSchema for EarlyStops {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "early_stops".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rule = generator.subschema_for::<StopRule>();
        let detailed = generator.subschema_for::<EarlyStopDocument>();
        schemars::json_schema!({ "anyOf": [rule, detailed] })
    }
}

impl Field for EarlyStops {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        if matches!(node.value, Value::Map(_)) {
            return EarlyStopDocument::read(node, name, problems).map(Self);
        }
        let value = StopRule::read(node, name, problems)?;
        let rule = crate::field::Located { value, key: node.place, place: node.place };
        Some(Self(EarlyStopDocument { rule: Some(rule), ..EarlyStopDocument::default() }))
    }
}

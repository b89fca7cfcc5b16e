//! Fields given on the command line: converts JSON to entries of the same tree as the file's, each
//! with the option as its place, so that a mistake in `--gpus` is shown as `--gpus`.

use serde_json::{Map, Value as Json};

use crate::diagnostic::{Problem, Problems, show};
use crate::source::{Place, Sources};
use crate::yaml::{Node, Value, YamlEntry};

/// Largest nesting of an override; the deepest field (`groups`) needs four levels.
const MAX_DEPTH: usize = 8;
/// Longest text of an option that diagnostics show.
const MAX_SHOWN: usize = 200;

/// Converts overrides to entries.
pub(super) fn entries(
    overrides: &Map<String, Json>,
    sources: &mut Sources,
    problems: &mut Problems,
) -> Vec<YamlEntry> {
    let mut entries = Vec::new();
    for (key, value) in overrides {
        match value {
            // Each field of `slurm` has an option of its own.
            Json::Object(fields) if key == "slurm" => {
                let options = fields.iter().map(|(field, value)| match field.as_str() {
                    "options" => (field, "sbatch", value),
                    option => (field, option, value),
                });
                let given: Vec<YamlEntry> = options
                    .filter_map(|(field, option, value)| {
                        entry(field, option, value, sources, problems)
                    })
                    .collect();
                if let Some(place) = given.first().map(|first| first.key_place) {
                    let node = Node { value: Value::Map(given), place, quoted: false };
                    entries.push(YamlEntry { key: key.clone(), key_place: place, node });
                }
            }
            value => entries.extend(entry(key, key, value, sources, problems)),
        }
    }
    entries
}

/// Returns one field with its option as the place.
fn entry(
    key: &str,
    option: &str,
    value: &Json,
    sources: &mut Sources,
    problems: &mut Problems,
) -> Option<YamlEntry> {
    let prefix = match option {
        "run" => "-- ".to_owned(),
        _ => format!("--{} ", cleaned(option)),
    };
    let place = sources.add_option(&prefix, &cleaned(&typed(value)));
    let key_place = Place { start: 0, end: prefix.trim_end().len(), ..place };
    match node(value, place, MAX_DEPTH) {
        Ok(node) => Some(YamlEntry { key: key.to_owned(), key_place, node }),
        Err(reason) => {
            let problem = Problem::new(format!("{} cannot be read", show(prefix.trim_end())));
            problems.add(problem.at(place, reason));
            None
        }
    }
}

/// Merges options into a document. A document that is no mapping is left unchanged: reading it
/// reports that.
pub(super) fn merge(node: &mut Node, options: &[YamlEntry]) {
    let Value::Map(entries) = &mut node.value else { return };
    for option in options {
        match entries.iter_mut().find(|entry| entry.key == option.key) {
            None => entries.push(option.clone()),
            Some(entry) => match (&mut entry.node.value, &option.node.value) {
                (Value::Map(_), Value::Map(more)) => merge(&mut entry.node, more),
                _ => *entry = option.clone(),
            },
        }
    }
}

/// Adds defaults to a document, for fields that it does not have.
pub(super) fn fill(node: &mut Node, defaults: &[YamlEntry]) {
    let Value::Map(entries) = &mut node.value else { return };
    for default in defaults {
        if !entries.iter().any(|entry| entry.key == default.key) {
            entries.push(default.clone());
        }
    }
}

fn node(value: &Json, place: Place, depth: usize) -> Result<Node, &'static str> {
    if depth == 0 {
        return Err("nested too deep");
    }
    let value = match value {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Scalar(flag.to_string()),
        Json::Number(number) => Value::Scalar(number.to_string()),
        Json::String(text) => Value::Scalar(without_nul(text)?),
        Json::Array(items) => Value::List(
            items.iter().map(|item| node(item, place, depth - 1)).collect::<Result<_, _>>()?,
        ),
        Json::Object(fields) => {
            let entry = |(key, value): (&String, &Json)| {
                let key = without_nul(key)?;
                let node = node(value, place, depth - 1)?;
                Ok(YamlEntry { key, key_place: place, node })
            };
            Value::Map(fields.iter().map(entry).collect::<Result<_, &'static str>>()?)
        }
    };
    Ok(Node { place, value, quoted: false })
}

fn without_nul(text: &str) -> Result<String, &'static str> {
    if text.contains('\0') { Err("this holds a NUL byte") } else { Ok(text.to_owned()) }
}

/// Returns a value about as it was typed.
fn typed(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(typed).collect::<Vec<_>>().join(" "),
        Json::Object(fields) => {
            let pair = |(key, value): (&String, &Json)| format!("{key}={}", typed(value));
            fields.iter().map(pair).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Returns text as one line without control characters, of bounded length.
fn cleaned(text: &str) -> String {
    let mut line: String =
        text.chars().take(MAX_SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        line.push('…');
    }
    line
}

//! Facts of one workload: a YAML file, or one line of JSON. Both become the same tree, so that both
//! are refused for the same reasons. The advice that follows is made elsewhere.

use std::sync::Arc;

use muster_model::Bytes;
use muster_model::advice::{Fact, Facts, Threshold, Thresholds};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::IgnoredAny;

use crate::advice::recognise::{FileKind, refuse_other};
use crate::advice::written::{Rules, WorkloadFacts};
use crate::advice::{json, names};
use crate::diagnostic::{Diagnostics, Problems};
use crate::field::{Field, ROOT, entries, object_schema};
use crate::source::Sources;
use crate::yaml::{self, Node};

/// Longest line that is read: far beyond all facts and thresholds.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Contents of a facts file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactsFile {
    /// Facts of one workload; those that are not given have their default.
    pub facts: Facts,
    /// Numbers in rules, as set under `rules:` or by default.
    pub thresholds: Thresholds,
    /// Facts that the text itself gives, even as their default, in the order of facts.
    pub given: Vec<Fact>,
}

/// The first problem for which a line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LineError {
    /// Description of the problem, a lowercase fragment.
    pub message: String,
    /// Next step; `None` if there is no obvious one.
    pub hint: Option<String>,
    /// Column in characters, from 1; 0 if the problem is about the line as a whole.
    pub column: u32,
}

/// Reads a facts file: a mapping of facts by name, and `rules:`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_facts(source: &str, file: Option<&str>) -> Result<FactsFile, Diagnostics> {
    let sources = Arc::new(Sources::new(source, file));
    let mut problems = Problems::default();
    let facts = yaml::read_one(&sources, "facts", "nodes: 4", &mut problems)
        .and_then(|node| FactsDocument::read(&node, ROOT, &mut problems));
    match facts {
        Some(facts) => problems.finish(facts.into(), &sources),
        None => Err(problems.into_diagnostics(&sources)),
    }
}

/// Reads facts from one line: a JSON object with the fields of a facts file.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse_facts_line(line: &str) -> Result<FactsFile, LineError> {
    // 1. Strict JSON, and an object.
    if line.len() > MAX_LINE_BYTES {
        let message = format!("the line is too long: at most {}", Bytes(MAX_LINE_BYTES as u64));
        return Err(LineError { message, hint: None, column: 0 });
    }
    if let Err(error) = serde_json::from_str::<IgnoredAny>(line) {
        return Err(not_json(line, &error));
    }
    let start = line.len() - line.trim_start().len();
    if !line[start..].starts_with('{') {
        let message = "this is JSON, but no object".to_owned();
        return Err(LineError { message, hint: example(), column: column(line, start) });
    }
    // 2. Read the object as a facts file is read.
    let mut problems = Problems::default();
    let node = json::read(line, &mut problems);
    let readable = problems.len() == 0;
    match readable.then(|| FactsDocument::read(&node, ROOT, &mut problems)).flatten() {
        Some(facts) => Ok(facts.into()),
        None => Err(first(problems.into_diagnostics(&Arc::new(Sources::new(line, None))))),
    }
}

/// Returns the first problem, on one line.
fn first(complaints: Diagnostics) -> LineError {
    let first = complaints.iter().next().expect("a refusal holds a complaint");
    LineError { message: first.one_line(), hint: first.hint.clone(), column: first.column }
}

fn not_json(line: &str, error: &serde_json::Error) -> LineError {
    if line.trim().is_empty() {
        return LineError { message: "the line is empty".to_owned(), hint: example(), column: 0 };
    }
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    // If the caller passed several lines, a column is of no use.
    let at = match error.line() {
        1 => column(line, error.column().saturating_sub(1).min(line.len())),
        _ => 0,
    };
    LineError { message: format!("this is not JSON: {message}"), hint: example(), column: at }
}

fn example() -> Option<String> {
    Some(
        "a line is one JSON object, such as `{\"nodes\": 4, \"tightly_coupled\": true}`".to_owned(),
    )
}

/// Returns the column of a byte, in characters from 1, counted from the start of its line.
fn column(text: &str, byte: usize) -> u32 {
    let before = &text.as_bytes()[..byte];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    // Continuation bytes are not counted, so the offset need not be a character boundary.
    let characters = before[line_start..].iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    u32::try_from(characters).unwrap_or(u32::MAX).saturating_add(1)
}

/// The fields of a facts file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FactsDocument {
    facts: WorkloadFacts,
    rules: Rules,
}

impl FactsDocument {
    /// Returns true for thresholds compared with a workload's fact; others cannot change advice on
    /// one workload.
    fn matters(threshold: Threshold) -> bool {
        Fact::WORKLOAD.contains(&threshold.fact())
    }
}

impl Field for FactsDocument {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        let before = problems.len();
        refuse_other(node, FileKind::Facts, problems)?;
        let entries = entries(node, name, problems)?;
        let mut document = Self::default();
        for entry in entries {
            if entry.key == "rules" {
                let elsewhere = "a site file can set it, for `muster advise --site`";
                document.rules = Rules::read(&entry.node, Self::matters, elsewhere, problems)
                    .unwrap_or_default();
            } else if !document.facts.take(entry, problems) {
                problems.add(names::unknown_fact(entry, &WorkloadFacts::names(), &["rules"]));
            }
        }
        (problems.len() == before).then_some(document)
    }
}

impl JsonSchema for FactsDocument {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "facts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let rules = ("rules", RULES.to_owned(), Rules::schema(Self::matters));
        let fields = WorkloadFacts::fields().chain([rules]);
        object_schema("Facts of one workload, for Muster's advice. All are optional.", fields, &[])
    }
}

/// Description of `rules` in both files.
pub(super) const RULES: &str =
    "Numbers in rules that are set differently here; they are shown in the answer.";

impl From<FactsDocument> for FactsFile {
    fn from(document: FactsDocument) -> Self {
        let FactsDocument { facts: WorkloadFacts(written), rules } = document;
        Self { facts: written.facts, thresholds: rules.0, given: written.given().collect() }
    }
}

//! `--expect`: compares a committed answer with the present one, and lists the differences.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use muster_model::payload::shell_word;
use muster_report::style::shorten;
use serde_json::{Map, Value};

use super::answer::AnswerField;
use crate::exit::{FAILURE, Failure};
use crate::source;

/// Largest number of differences that are shown; more are only counted.
pub const SHOWN: usize = 20;
/// Largest number of characters of a value that are shown.
const VALUE: usize = 70;

/// Reads one expected answer.
pub fn read(path: &Path) -> Result<Value> {
    let text = source::read(path)?;
    let name = text.file.as_deref().unwrap_or("the file");
    parse(
        &text.source,
        name,
        "--expect takes the output of `muster advise … --json` or `--fields`; for lines, add --batch",
    )
}

/// Expected answers, one per line, read lazily: a batch may have any length.
pub struct ExpectedLines {
    path: PathBuf,
    lines: io::Lines<BufReader<File>>,
    number: usize,
    /// Keys to compare; see [`differences`].
    fields: Option<Vec<AnswerField>>,
    /// Differences found so far.
    pub differences: Differences,
    /// First expected answer, whose keys determine the suggested command.
    pub first: Value,
}

impl ExpectedLines {
    /// Opens a file of answers.
    pub fn open(path: &Path, fields: Option<&[AnswerField]>) -> Result<Self> {
        let file = File::open(path).map_err(|error| source::unreadable(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            lines: BufReader::new(file).lines(),
            number: 0,
            fields: fields.map(<[AnswerField]>::to_vec),
            differences: Differences::default(),
            first: Value::Null,
        })
    }

    /// Compares the next line with the present answer.
    pub fn compare(&mut self, present: &str) -> Result<()> {
        let expected = self.next()?;
        let present: Value = serde_json::from_str(present)?;
        let line = format!("line {}", self.number);
        match expected {
            Some(expected) => {
                for difference in differences(&expected, &present, self.fields.as_deref()) {
                    self.differences.add(format!("{line}: {difference}"));
                }
            }
            None => self
                .differences
                .add(format!("{line}: expected nothing, now {}", shown(Some(&present)))),
        }
        Ok(())
    }

    /// Adds the remaining expected lines as differences.
    pub fn finish(&mut self) -> Result<()> {
        while let Some(expected) = self.next()? {
            let line = format!("line {}", self.number);
            self.differences
                .add(format!("{line}: expected {}, now nothing", shown(Some(&expected))));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Value>> {
        self.number += 1;
        let Some(line) = self.lines.next() else { return Ok(None) };
        let line = line.map_err(|error| source::unreadable(&self.path, &error))?;
        let line =
            source::without_byte_order_mark(&line).filter(|_| self.number == 1).unwrap_or(&line);
        let name = format!("line {} of {}", self.number, self.path.display());
        let value = parse(
            line,
            &name,
            "--expect takes the output of `muster advise --batch`, one answer per line",
        )?;
        if self.number == 1 {
            self.first = value.clone();
        }
        Ok(Some(value))
    }
}

/// Differences: the first ones, and the number of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    shown: Vec<String>,
    count: usize,
}

impl Differences {
    fn add(&mut self, difference: String) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(difference);
        }
    }

    /// Returns whether there are no differences.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl From<Vec<String>> for Differences {
    fn from(all: Vec<String>) -> Self {
        let mut differences = Self::default();
        all.into_iter().for_each(|difference| differences.add(difference));
        differences
    }
}

fn parse(text: &str, name: &str, hint: &str) -> Result<Value> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => {
            Err(Failure::usage(format!("{name} is JSON, but not an answer")).hint(hint).into())
        }
        Err(error) => Err(Failure::usage(format!("{name} is not JSON: {error}")).hint(hint).into()),
    }
}

/// Returns the differences between an expected answer and the present one, one line each. Only keys
/// of the expected answer and of the label are compared; with `fields`, only those keys.
pub fn differences(
    expected: &Value,
    present: &Value,
    fields: Option<&[AnswerField]>,
) -> Vec<String> {
    let mut found = Vec::new();
    let empty = Map::new();
    let expected = expected.as_object().unwrap_or(&empty);
    let present = present.as_object().unwrap_or(&empty);
    let all = AnswerField::value_variants();
    let is_compared = |field: &&AnswerField| match fields {
        Some(fields) => fields.contains(field),
        None => field.is_of_label() || expected.contains_key(field.key()),
    };
    let known = all.iter().filter(is_compared).map(|field| field.key());
    // Keys that no answer has: an error line, or a misspelt key.
    let others = expected
        .keys()
        .map(String::as_str)
        .filter(|key| all.iter().all(|field| field.key() != *key));
    for key in known.chain(others) {
        compare(key, expected.get(key), present.get(key), &mut found);
    }
    found
}

fn compare(path: &str, expected: Option<&Value>, present: Option<&Value>, found: &mut Vec<String>) {
    match (expected, present) {
        (Some(Value::Object(expected)), Some(Value::Object(present))) => {
            let added = present.keys().filter(|key| !expected.contains_key(*key));
            for key in expected.keys().chain(added) {
                compare(&format!("{path}.{key}"), expected.get(key), present.get(key), found);
            }
        }
        (Some(Value::Array(expected)), Some(Value::Array(present))) => {
            compare_lists(path, expected, present, found);
        }
        (expected, present) if expected == present => {}
        (expected, present) => {
            found.push(format!("{path}: expected {}, now {}", shown(expected), shown(present)));
        }
    }
}

/// Compares two lists. Entries with ids are matched by id, so that an added or removed entry is one
/// difference; others are matched by position.
fn compare_lists(path: &str, expected: &[Value], present: &[Value], found: &mut Vec<String>) {
    let all_named = expected.iter().chain(present).all(|value| id(value).is_some());
    if !all_named || has_duplicate_ids(expected) || has_duplicate_ids(present) {
        for place in 0..expected.len().max(present.len()) {
            compare(&format!("{path}[{place}]"), expected.get(place), present.get(place), found);
        }
        return;
    }
    let find =
        |list: &[Value], wanted: &Value| list.iter().position(|value| id(value) == id(wanted));
    for value in expected {
        let place = find(present, value).map(|place| &present[place]);
        compare(&entry(path, value), Some(value), place, found);
    }
    for value in present.iter().filter(|value| find(expected, value).is_none()) {
        compare(&entry(path, value), None, Some(value), found);
    }
    let order = |list: &[Value]| list.iter().filter_map(id).map(str::to_owned).collect::<Vec<_>>();
    let before = order(expected);
    let now = order(present);
    let mut sorted = (before.clone(), now.clone());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    if before != now && sorted.0 == sorted.1 {
        found.push(format!(
            "{path}: expected the order {}, now {}",
            before.join(", "),
            now.join(", ")
        ));
    }
}

fn id(value: &Value) -> Option<&str> {
    value.get("id").or_else(|| value.get("name"))?.as_str()
}

fn has_duplicate_ids(list: &[Value]) -> bool {
    let mut ids: Vec<Option<&str>> = list.iter().map(id).collect();
    ids.sort_unstable();
    ids.windows(2).any(|pair| pair[0] == pair[1])
}

fn entry(path: &str, value: &Value) -> String {
    format!("{path}[{}]", id(value).unwrap_or_default())
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) => shorten(&value.to_string(), VALUE),
    }
}

/// Returns whether a difference is in the decision or in a key that no answer has: all other keys explain the
/// decision, and a new version of Muster may explain it in other words.
pub fn is_of_decision(difference: &str) -> bool {
    let key = difference.split([':', '.', '[']).next().unwrap_or_default();
    let field = AnswerField::value_variants().iter().find(|field| field.key() == key);
    field.is_none_or(|field| field.is_of_label())
}

/// Returns the failure that lists the differences.
pub fn failure(path: &Path, differences: &Differences, again: &str) -> Failure {
    let count = muster_report::amount::count(differences.count as u64, "difference");
    let mut lines = vec![format!("error: the answer differs from {}: {count}", path.display())];
    lines.extend(differences.shown.iter().map(|line| format!("  {line}")));
    if differences.count > differences.shown.len() {
        lines.push(format!("  and {} more", differences.count - differences.shown.len()));
    }
    let failure = Failure { code: FAILURE, rendered: Some(lines.join("\n")), ..Failure::new("") };
    failure.hint(format!("to accept it: {again} > {}", path.display()))
}

/// Returns the present command line, changed to print an answer with the keys of the expected one.
pub fn command_line(expected: &Value) -> String {
    let mut words = vec!["muster".to_owned()];
    let mut given = std::env::args().skip(1);
    let mut has_form = false;
    let mut reads_stdin = false;
    while let Some(word) = given.next() {
        if word == "--expect" {
            given.next();
            continue;
        }
        has_form |= word == "--batch" || word == "--json" || word.starts_with("--fields");
        reads_stdin |= word == "--batch" || word == "-";
        if !word.starts_with("--expect=") {
            words.push(shell_word(&word));
        }
    }
    let of_label = |key: &String| {
        AnswerField::value_variants().iter().any(|field| field.is_of_label() && field.key() == key)
    };
    if !has_form {
        let only_label = expected.as_object().is_some_and(|object| object.keys().all(of_label));
        words.push(if only_label { "--fields primary,addon,hybrid" } else { "--json" }.to_owned());
    }
    if reads_stdin {
        words.push("< FACTS".to_owned());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_file_holds_is_compared_and_the_label_always() {
        let check = |expected: Value, present: Value, lines: &[&str]| {
            assert_eq!(differences(&expected, &present, None), lines, "{expected} {present}");
        };
        let slurm =
            json!({"primary": "slurm", "rules": [{"id": "a", "sentence": "x"}, {"id": "b"}]});
        check(slurm.clone(), slurm.clone(), &[]);
        check(json!({"primary": "slurm"}), slurm.clone(), &[]);
        check(
            json!({"primary": "slurm"}),
            json!({"primary": "ray", "hybrid": "h"}),
            &["primary: expected \"slurm\", now \"ray\"", "hybrid: expected nothing, now \"h\""],
        );
        check(json!({}), json!({"primary": "ray"}), &["primary: expected nothing, now \"ray\""]);
        check(
            slurm.clone(),
            json!({"primary": "slurm", "rules": [{"id": "c"}, {"id": "a", "sentence": "y"}]}),
            &[
                "rules[a].sentence: expected \"x\", now \"y\"",
                "rules[b]: expected {\"id\":\"b\"}, now nothing",
                "rules[c]: expected nothing, now {\"id\":\"c\"}",
            ],
        );
        check(
            slurm,
            json!({"primary": "slurm", "rules": [{"id": "b"}, {"id": "a", "sentence": "x"}]}),
            &["rules: expected the order a, b, now b, a"],
        );
        check(
            json!({"primary": "ray", "flips": [{"change": {"nodes": 1}}]}),
            json!({"primary": "ray", "flips": [{"change": {"nodes": 2}}, {"change": {}}]}),
            &[
                "flips[0].change.nodes: expected 1, now 2",
                "flips[1]: expected nothing, now {\"change\":{}}",
            ],
        );
        check(
            json!({"primray": "ray", "primary": "ray"}),
            json!({"primary": "ray"}),
            &["primray: expected \"ray\", now nothing"],
        );
    }

    #[test]
    fn fields_that_are_asked_for_are_compared_and_no_others() {
        let expected = json!({"primary": "ray"});
        let present = json!({"primary": "ray", "addon": "a", "hybrid": "h"});
        let check = |fields: &[AnswerField], lines: &[&str]| {
            assert_eq!(differences(&expected, &present, Some(fields)), lines, "{fields:?}");
        };
        check(&[AnswerField::Primary], &[]);
        check(&[AnswerField::Primary, AnswerField::Addon], &["addon: expected nothing, now \"a\""]);
    }
}

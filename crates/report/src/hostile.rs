//! Tests that no text of users reaches a terminal with characters that change how other text is
//! shown: every string of every view is replaced by such characters, one at a time, and all text
//! made from the view is checked.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::RenderContext;
use crate::sample::{self, NOON, after};
use crate::style::is_unsafe;
use crate::{advance_reservations, explain, ps, watch};

/// Starts a colour, turns the reading direction, separates lines, has no width, rings a bell.
const HOSTILE: &str = "a\x1b[31m\u{202e}\u{2066}\u{2028}\u{200b}\u{feff}\x07\u{9b}z";

/// Returns the value with one string replaced, for each of its strings that may be any text.
fn variants<T: Serialize + DeserializeOwned>(view: &T) -> Vec<T> {
    let whole = serde_json::to_value(view).unwrap();
    let mut paths = Vec::new();
    strings(&whole, &mut String::new(), &mut paths);
    let replaced = paths.iter().filter_map(|path| {
        let mut value = whole.clone();
        *value.pointer_mut(path).unwrap() = Value::from(HOSTILE);
        // The names of enum variants are not text of users.
        serde_json::from_value(value).ok()
    });
    replaced.collect()
}

fn strings(value: &Value, path: &mut String, paths: &mut Vec<String>) {
    let length = path.len();
    let mut inner = |name: &str, value: &Value| {
        path.push('/');
        path.push_str(name);
        strings(value, path, paths);
        path.truncate(length);
    };
    match value {
        Value::String(_) => paths.push(path.clone()),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| inner(&at.to_string(), value));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| inner(name, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Panics if the text has an unsafe character. Returns whether it shows the replaced string at all.
#[track_caller]
fn shows(text: &str) -> bool {
    let found: Vec<char> = text.chars().filter(|c| is_unsafe(*c) && *c != '\n').collect();
    assert!(found.is_empty(), "{found:?} in {text:?}");
    text.contains("a?[31m")
}

#[test]
fn jobs() {
    let mut shown = 0;
    for reason in sample::every_reason() {
        let mut rows = sample::contention();
        rows[1].waiting_for = Some(reason);
        for rows in variants(&rows) {
            let others = ps::OtherJobs::of(&rows, &[]);
            for context in [RenderContext::plain(), RenderContext::plain().with_width(60)] {
                let lines: String =
                    rows.iter().map(|row| ps::line(row, &others, context.at(after(6)))).collect();
                shown += usize::from(shows(&(ps::jobs(&rows, &[], context.at(after(6))) + &lines)));
            }
            shows(&watch::summary(&rows));
        }
    }
    assert!(shown > 100, "{shown}");
}

#[test]
fn explanations() {
    let mut shown = 0;
    for reason in sample::every_reason() {
        let mut explanation = sample::explanation();
        explanation.reasons = vec![reason];
        for explanation in variants(&explanation) {
            shown += usize::from(shows(&explain::explain(
                &explanation,
                RenderContext::plain().at(NOON),
            )));
            shows(&explain::dry_run(&explanation, RenderContext::plain().at(NOON).with_width(60)));
        }
    }
    assert!(shown > 20, "{shown}");
}

#[test]
fn lists_of_the_site() {
    let mut shown = 0;
    for row in variants(&crate::linear::window(1)) {
        shown += usize::from(shows(&advance_reservations::windows(
            &[row],
            RenderContext::plain().at(NOON),
        )));
    }
    let mut drained = crate::linear::node(1);
    drained.drained = Some("cleaning".to_owned());
    for row in variants(&drained) {
        shown += usize::from(shows(&crate::nodes::nodes(&[row], RenderContext::plain().at(NOON))));
    }
    for row in variants(&crate::linear::queue(1)) {
        shown +=
            usize::from(shows(&crate::queues::queues(&[row], RenderContext::plain().at(NOON))));
    }
    assert!(shown > 4, "{shown}");
}

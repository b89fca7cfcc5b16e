//! Case files to JSON values. Aliases are not supported: a case is read on its own.

use granit_parser::{Event, Options, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// A list or mapping whose end has not been seen.
enum Open {
    List(Vec<Value>),
    Map { entries: Map<String, Value>, key: Option<String> },
}

/// Reads the one document of a file; panics with the place of an error.
pub fn read(name: &str, text: &str) -> Value {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut open: Vec<Open> = Vec::new();
    let mut document = None;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.unwrap_or_else(|error| panic!("{name}: {error}"));
        let complete = match event {
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map { entries: Map::new(), key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(items)) => Value::Array(items),
                Some(Open::Map { entries, .. }) => Value::Object(entries),
                None => panic!("{name}: an end without a start"),
            },
            Event::Scalar(text, style, ..) => scalar(&text, style == ScalarStyle::Plain),
            Event::Alias(_) => panic!("{name}:{}: an alias", span.start.line()),
            _ => continue,
        };
        match open.last_mut() {
            None => document = Some(complete),
            Some(Open::List(items)) => items.push(complete),
            Some(Open::Map { entries, key }) => match key.take() {
                None => *key = Some(text_of(&complete)),
                Some(key) => {
                    let before = entries.insert(key, complete);
                    assert!(before.is_none(), "{name}:{}: a key twice", span.start.line());
                }
            },
        }
    }
    document.unwrap_or_else(|| panic!("{name} is empty"))
}

fn scalar(text: &str, is_plain: bool) -> Value {
    match text {
        "" | "~" | "null" if is_plain => Value::Null,
        "true" if is_plain => Value::Bool(true),
        "false" if is_plain => Value::Bool(false),
        number if is_plain && number.parse::<i64>().is_ok() => {
            Value::from(number.parse::<i64>().unwrap())
        }
        text => Value::from(text),
    }
}

/// Returns a scalar as the key that it is.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

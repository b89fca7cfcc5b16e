//! Documents of YAML or JSON with the line of each value, for importers that say what became of each field.
//! They do not know what the values mean. Text in, values out.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

/// A document, and where its values are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Values, without their places.
    pub value: Value,
    /// Line from 1, by JSON pointer (RFC 6901): of the key in a mapping, of the value in a list.
    pub lines: BTreeMap<String, u32>,
}

/// Parses all documents of a text; empty ones are left out.
///
/// # Errors
///
/// Why the text is neither YAML nor JSON, with its place.
pub fn documents(text: &str) -> Result<Vec<Document>, String> {
    let nodes: Vec<Spanned<Node>> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let documents = nodes.into_iter().map(|node| {
        let mut lines = BTreeMap::new();
        lines.insert(String::new(), line(&node));
        let value = plain(node.value, "", &mut lines);
        Document { value, lines }
    });
    Ok(documents.filter(|document| !document.value.is_null()).collect())
}

/// Returns the pointer of an entry.
#[must_use]
pub fn child(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn line<T>(spanned: &Spanned<T>) -> u32 {
    u32::try_from(spanned.referenced.line()).unwrap_or(u32::MAX)
}

fn plain(node: Node, at: &str, lines: &mut BTreeMap<String, u32>) -> Value {
    match node {
        Node::Scalar(value) => value,
        Node::List(items) => {
            let items = items.into_iter().enumerate().map(|(index, item)| {
                let at = child(at, &index.to_string());
                lines.insert(at.clone(), line(&item));
                plain(item.value, &at, lines)
            });
            Value::Array(items.collect())
        }
        Node::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let at = child(at, &key.value);
                lines.insert(at.clone(), line(&key));
                map.insert(key.value, plain(value.value, &at, lines));
            }
            Value::Object(map)
        }
    }
}

/// Value with the places of what it holds.
enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_line() {
        let text = "a: 1\nb/c:\n  - x: yes\n    y: [1,\n      2]\n---\n# nothing\n---\nd:\n  e: |\n    f\n";
        let documents = documents(text).unwrap();
        assert_eq!(documents.len(), 2);
        let [first, second] = &documents[..] else { panic!("two documents") };
        for (pointer, line) in
            [("/a", 1), ("/b~1c", 2), ("/b~1c/0", 3), ("/b~1c/0/y", 4), ("/b~1c/0/y/1", 5)]
        {
            assert_eq!(first.lines.get(pointer), Some(&line), "{pointer}");
        }
        assert_eq!(second.lines["/d/e"], 10);
        assert_eq!(second.value["d"]["e"], "f\n");
    }

    #[test]
    fn json_is_read_too_and_errors_have_a_place() {
        let text = "{\n  \"kind\": \"Job\",\n  \"spec\": {\"suspend\": true}\n}\n";
        let read = documents(text).unwrap();
        assert_eq!(read[0].lines["/spec/suspend"], 3);
        assert!(documents("a: [1\n").unwrap_err().contains("line"));
    }
}

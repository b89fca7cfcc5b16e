//! JSON to the same tree of located values that YAML becomes, so that one reader serves both. The
//! caller has checked that the text is JSON; only duplicate names, which JSON allows, are refused
//! here.

use std::collections::BTreeMap;

use crate::diagnostic::{Problem, Problems, show};
use crate::source::{Place, Sources};
use crate::yaml::{Node, Value, YamlEntry};

/// Largest nesting of lists and objects, as in YAML; facts need two levels.
const MAX_DEPTH: usize = 64;

/// Reads the value of a text, which must be valid JSON.
pub(super) fn read(text: &str, problems: &mut Problems) -> Node {
    JsonReader { text, at: 0, depth: 0, problems }.value()
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    problems: &'a mut Problems,
}

impl JsonReader<'_> {
    fn value(&mut self) -> Node {
        self.skip(|byte| byte.is_ascii_whitespace());
        let start = self.at;
        let (value, quoted) = match self.peek() {
            Some(b'{' | b'[') if self.depth == MAX_DEPTH => (self.too_deep(), false),
            Some(b'{') => (self.object(), false),
            Some(b'[') => (self.array(), false),
            Some(b'"') => (Value::Scalar(self.string()), true),
            _ => {
                self.skip(|byte| {
                    !matches!(byte, b',' | b']' | b'}') && !byte.is_ascii_whitespace()
                });
                match &self.text[start..self.at] {
                    "null" => (Value::Null, false),
                    text => (Value::Scalar(text.to_owned()), false),
                }
            }
        };
        Node { place: self.place(start), value, quoted }
    }

    /// Reports the problem, and skips the rest.
    fn too_deep(&mut self) -> Value {
        let here = Place { end: self.at + 1, ..self.place(self.at) };
        let label = format!("more than {MAX_DEPTH} levels");
        self.problems.add(Problem::new("the text nests too deep").at(here, label));
        self.at = self.text.len();
        Value::Null
    }

    fn object(&mut self) -> Value {
        let mut entries = Vec::new();
        let mut seen = BTreeMap::new();
        self.at += 1;
        self.depth += 1;
        while self.goes_on(b'}') {
            let start = self.at;
            let key = self.string();
            let key_place = self.place(start);
            self.skip(|byte| byte.is_ascii_whitespace() || byte == b':');
            let node = self.value();
            match seen.get(&key) {
                Some(first) => self.problems.add(
                    Problem::new(format!("{} is written twice", show(&key)))
                        .at(key_place, "again here")
                        .also(*first, "first here"),
                ),
                None => {
                    seen.insert(key.clone(), key_place);
                    entries.push(YamlEntry { key, key_place, node });
                }
            }
        }
        self.depth -= 1;
        Value::Map(entries)
    }

    fn array(&mut self) -> Value {
        let mut items = Vec::new();
        self.at += 1;
        self.depth += 1;
        while self.goes_on(b']') {
            items.push(self.value());
        }
        self.depth -= 1;
        Value::List(items)
    }

    /// Reads a string, without its quotes, escapes replaced.
    fn string(&mut self) -> String {
        let start = self.at;
        let mut escaped = true;
        self.skip(|byte| {
            let inside = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            inside
        });
        self.at = (self.at + 1).min(self.text.len());
        let quoted = &self.text[start..self.at];
        let plain = quoted.trim_matches('"');
        if plain.contains('\\') {
            // Half of a surrogate pair is valid JSON but not text: it stays as it was written.
            serde_json::from_str(quoted).unwrap_or_else(|_| plain.to_owned())
        } else {
            plain.to_owned()
        }
    }

    /// Moves to the next item of a list or object, or past its end. Returns true if there is one.
    fn goes_on(&mut self, end: u8) -> bool {
        self.skip(|byte| byte.is_ascii_whitespace() || byte == b',');
        let goes_on = self.peek().is_some_and(|byte| byte != end);
        self.at += usize::from(self.peek() == Some(end));
        goes_on
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips bytes of a kind; stops only at character boundaries, since every kind here is defined
    /// by ASCII bytes.
    fn skip(&mut self, mut kind: impl FnMut(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| !kind(*byte)).unwrap_or(rest.len());
    }

    fn place(&self, start: usize) -> Place {
        Place { source: Sources::FILE, start, end: self.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as JSON, its scalars as they were written.
    fn shown(node: &Node, text: &str) -> String {
        match &node.value {
            Value::Null => "null".to_owned(),
            Value::Scalar(scalar) if node.quoted => format!("{scalar:?}"),
            Value::Scalar(scalar) => {
                assert_eq!(&text[node.place.start..node.place.end], scalar);
                scalar.clone()
            }
            Value::List(items) => {
                format!(
                    "[{}]",
                    items.iter().map(|item| shown(item, text)).collect::<Vec<_>>().join(",")
                )
            }
            Value::Map(entries) => {
                let entry =
                    |entry: &YamlEntry| format!("{:?}:{}", entry.key, shown(&entry.node, text));
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
            }
        }
    }

    #[test]
    fn depth_is_bounded() {
        for (depth, complaints) in [(63, 0), (64, 0), (65, 1), (30_000, 1)] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let mut problems = Problems::default();
            read(&text, &mut problems);
            assert_eq!(problems.len(), complaints, "{depth}");
        }
    }

    #[test]
    fn the_tree_is_what_the_text_says() {
        for (text, expected) in [
            ("{}", "{}"),
            (" { } \n", "{}"),
            (r#"{"a":1}"#, r#"{"a":1}"#),
            (
                r#" { "a" : [ 1 , -2.5e3 , [] , {} , null ] , "b" : "x\"]}," } "#,
                r#"{"a":[1,-2.5e3,[],{},null],"b":"x\"]},"}"#,
            ),
            (r#"{"\u0061\\":"\\","é":"\ud83d\ude00"}"#, r#"{"a\\":"\\","é":"😀"}"#),
            (r#"{"":"","\"":true}"#, r#"{"":"","\"":true}"#),
            (r#"[[[]],[{}]]"#, "[[[]],[{}]]"),
            (r#""\ud800""#, r#""\\ud800""#),
        ] {
            assert!(serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok(), "{text}");
            let mut problems = Problems::default();
            assert_eq!(shown(&read(text, &mut problems), text), expected, "{text}");
            assert_eq!(problems.len(), 0, "{text}");
        }
    }
}

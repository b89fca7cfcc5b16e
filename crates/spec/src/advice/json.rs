//! JSON to the same tree of located values that YAML becomes, so that one reader serves both. The
//! text was found to be JSON before; nothing is judged here but names that come twice, which JSON
//! allows.

use std::collections::BTreeMap;

use crate::diagnostic::{Problem, Problems, show};
use crate::source::{Place, Sources};
use crate::yaml::{Entry, Node, Value};

/// Nesting of lists and objects, as in YAML; facts need two.
const MAX_DEPTH: usize = 64;

/// The value that a text holds. The text must be JSON.
pub(super) fn read(text: &str, problems: &mut Problems) -> Node {
    Reader { text, at: 0, depth: 0, problems }.value()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    problems: &'a mut Problems,
}

impl Reader<'_> {
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

    /// Complains, and leaves the rest unread.
    fn too_deep(&mut self) -> Value {
        let here = Place { end: self.at + 1, ..self.place(self.at) };
        let label = format!("more than {MAX_DEPTH} levels");
        self.problems.add(Problem::new("the text nests too deep").at(here, label));
        self.at = self.text.len();
        Value::Null
    }

    fn object(&mut self) -> Value {
        let (mut entries, mut seen) = (Vec::new(), BTreeMap::new());
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
                    entries.push(Entry { key, key_place, node });
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

    /// A string without its quotes, escapes replaced.
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
        match plain.contains('\\') {
            false => plain.to_owned(),
            // Half of a surrogate pair passes for JSON and is no text: it stays as it was written.
            true => serde_json::from_str(quoted).unwrap_or_else(|_| plain.to_owned()),
        }
    }

    /// Moves to the next item of a list or object, or past its end.
    fn goes_on(&mut self, end: u8) -> bool {
        self.skip(|byte| byte.is_ascii_whitespace() || byte == b',');
        let goes_on = self.peek().is_some_and(|byte| byte != end);
        self.at += usize::from(self.peek() == Some(end));
        goes_on
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Moves on while bytes are of a kind; never into a character, since every kind here is told by
    /// ASCII bytes.
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
                let entry = |entry: &Entry| format!("{:?}:{}", entry.key, shown(&entry.node, text));
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

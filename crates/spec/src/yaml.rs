//! YAML text to a tree of located values. The only file that knows the YAML parser.
//!
//! Scalars keep their text: whether `0.5` is a share or `1-12:00:00` a time is for whoever reads the field.
//! One tree type serves jobs, queues and clusters, so that no document pays for its own deserialiser. Every
//! limit below is a budget against hostile input; the tree never costs more than they allow.

use std::collections::BTreeMap;

use granit_parser::{Event, Options, Parser, ScalarStyle};

use crate::diagnostic::{Problem, Problems, show};
use crate::source::{Place, Sources};

/// Largest text that is read at all.
const MAX_SOURCE_BYTES: usize = 1 << 20;
/// Values in all documents of a text, aliases expanded.
const MAX_VALUES: usize = 200_000;
/// Bytes of all values, aliases expanded.
const MAX_VALUE_BYTES: usize = 8 << 20;
/// Nesting of lists and mappings. The deepest document, a queue tree, needs two levels per queue.
const MAX_DEPTH: usize = 64;
/// Documents in one text; many similar jobs are an array.
const MAX_DOCUMENTS: usize = 1_000;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// What YAML distinguishes without a schema.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// Any other scalar, as text.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in order, keys distinct.
    Map(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

/// Reads every document that is not empty. Complaints go to `problems`; the first one about syntax ends the
/// reading, since what follows would only echo it.
pub(crate) fn read(text: &str, problems: &mut Problems) -> Vec<Node> {
    if let Err(problem) = admit(text) {
        problems.add(problem);
        return Vec::new();
    }
    let mut options = Options::default();
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    options.set_emit_comments(false);
    let mut builder = Builder::new(problems);
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => builder.take(event, place(&span)),
            Err(error) => Err(syntax(&error)),
        };
        if let Err(problem) = step {
            builder.problems.add(problem);
            break;
        }
    }
    builder.documents
}

/// Reads a text that must hold one document; complains otherwise.
pub(crate) fn read_one(text: &str, what: &str, problems: &mut Problems) -> Option<Node> {
    let before = problems.len();
    let mut nodes = read(text, problems);
    if problems.len() > before {
        return None;
    }
    match nodes.get(1) {
        Some(second) => {
            problems.add(
                Problem::new(format!("more than one document of {what}")).at(second.place, "the second"),
            );
            None
        }
        None if nodes.is_empty() => {
            problems.add(Problem::new(format!("the text holds no {what}")));
            None
        }
        None => nodes.pop(),
    }
}

/// Size and characters, before any parsing.
fn admit(text: &str) -> Result<(), Problem> {
    if text.len() > MAX_SOURCE_BYTES {
        let bytes = muster_model::Bytes(text.len() as u64);
        return Err(Problem::new(format!("the text is too large: {bytes}, at most 1MiB"))
            .hint("many similar jobs are one job with an `array`".to_owned()));
    }
    let forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if let Some((start, character)) = text.char_indices().find(|(_, c)| forbidden(*c)) {
        let place = Place { source: Sources::FILE, start, end: start + character.len_utf8() };
        return Err(match character {
            '\0' => Problem::new("the text holds a NUL byte").at(place, "here; is this a binary file?"),
            _ => Problem::new("the text holds a control character")
                .at(place, format!("U+{:04X}; write an escape inside double quotes", character as u32)),
        });
    }
    Ok(())
}

fn place(span: &granit_parser::Span) -> Place {
    let start = span.start.byte_offset().unwrap_or(0);
    Place { source: Sources::FILE, start, end: span.end.byte_offset().unwrap_or(start) }
}

fn syntax(error: &granit_parser::ScanError) -> Problem {
    use granit_parser::ErrorKind;
    let start = error.marker().byte_offset().unwrap_or(0);
    let here = Place { source: Sources::FILE, start, end: start + 1 };
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(here),
        _ => Problem::new("this is not valid YAML").at(here, error.info()),
    }
}

fn too_deep(place: Place) -> Problem {
    Problem::new("the text nests too deep").at(place, format!("more than {MAX_DEPTH} levels"))
}

/// Builds documents from parser events with a stack of its own: no recursion, whatever the input.
struct Builder<'a> {
    documents: Vec<Node>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, (Node, Cost)>,
    spent: Cost,
    problems: &'a mut Problems,
}

/// What a tree costs, aliases expanded.
#[derive(Clone, Copy, Default)]
struct Cost {
    values: usize,
    bytes: usize,
    depth: usize,
}

/// A list or mapping whose end has not been seen.
struct Open {
    place: Place,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: BTreeMap<String, Place>, key: Option<(String, Place)> },
}

impl<'a> Builder<'a> {
    fn new(problems: &'a mut Problems) -> Self {
        Self {
            documents: Vec::new(),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            spent: Cost::default(),
            problems,
        }
    }

    fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), Problem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.is_some(), place)?;
                if text.contains('\0') {
                    return Err(Problem::new("a value holds a NUL byte").at(place, "`\\0` is not allowed"));
                }
                let value = match is_null(&text, style) {
                    true => Value::Null,
                    false => Value::Scalar(text.into_owned()),
                };
                self.finish(Node { place, value }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_tag(tag.is_some(), place)?;
                self.push(Open { place, anchor, kind: OpenKind::List(Vec::new()) })
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_tag(tag.is_some(), place)?;
                let kind = OpenKind::Map { entries: Vec::new(), seen: BTreeMap::new(), key: None };
                self.push(Open { place, anchor, kind })
            }
            Event::SequenceEnd | Event::MappingEnd => self.pop(place),
            Event::Alias(anchor) => self.alias(anchor, place),
            Event::DocumentStart(..) => {
                self.anchors.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, open: Open) -> Result<(), Problem> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(open.place));
        }
        self.open.push(open);
        Ok(())
    }

    fn pop(&mut self, end: Place) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.kind {
            OpenKind::List(items) => Value::List(items),
            OpenKind::Map { entries, .. } => Value::Map(entries),
        };
        self.finish(
            Node { place: Place { end: end.end.max(open.place.end), ..open.place }, value },
            open.anchor,
        )
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Problem> {
        let Some((node, cost)) = self.anchors.get(&anchor) else {
            return Err(
                Problem::new("an alias stands inside what it names").at(place, "this would never end")
            );
        };
        // The cost is checked before the copy is made: this is what stops an alias bomb. Depth counts too:
        // aliases in aliases would otherwise build a tree too deep to walk.
        let cost = *cost;
        if self.open.len() + cost.depth > MAX_DEPTH {
            return Err(too_deep(place));
        }
        self.spent.values += cost.values;
        self.spent.bytes += cost.bytes;
        self.within_budget(place)?;
        let node = node.clone();
        self.attach(node)
    }

    /// A value is complete: count it, remember its anchor, hand it to its parent.
    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        self.spent.values += 1;
        if let Value::Scalar(text) = &node.value {
            self.spent.bytes += text.len();
        }
        self.within_budget(node.place)?;
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), cost(&node)));
        }
        self.attach(node)
    }

    fn within_budget(&self, place: Place) -> Result<(), Problem> {
        if self.spent.values > MAX_VALUES || self.spent.bytes > MAX_VALUE_BYTES {
            let limit = format!("more than {MAX_VALUES} values or 8MiB of them, aliases expanded");
            return Err(Problem::new("the text holds too much").at(place, limit));
        }
        Ok(())
    }

    fn attach(&mut self, node: Node) -> Result<(), Problem> {
        let Some(open) = self.open.last_mut() else { return self.document(node) };
        match &mut open.kind {
            OpenKind::List(items) => items.push(node),
            OpenKind::Map { entries, seen, key } => match key.take() {
                None => *key = Some(key_text(node)?),
                Some((name, name_place)) => match seen.get(&name) {
                    None => {
                        seen.insert(name.clone(), name_place);
                        entries.push(Entry { key: name, key_place: name_place, node });
                    }
                    Some(first) => self.problems.add(
                        Problem::new(format!("{} is written twice", show(&name)))
                            .at(name_place, "again here")
                            .also(*first, "first here"),
                    ),
                },
            },
        }
        Ok(())
    }

    fn document(&mut self, node: Node) -> Result<(), Problem> {
        if self.documents.len() >= MAX_DOCUMENTS {
            let limit = format!("at most {MAX_DOCUMENTS} in one text");
            return Err(Problem::new("the text holds too many documents").at(node.place, limit));
        }
        if !matches!(node.value, Value::Null) {
            self.documents.push(node);
        }
        Ok(())
    }
}

fn key_text(node: Node) -> Result<(String, Place), Problem> {
    match node.value {
        Value::Scalar(text) if text == "<<" => Err(Problem::new("merge keys (`<<`) are not supported")
            .at(node.place, "write the fields out, or use an alias for a whole value")),
        Value::Scalar(text) => Ok((text, node.place)),
        _ => Err(Problem::new("a field name must be a word").at(node.place, "this is not one")),
    }
}

fn refuse_tag(tagged: bool, place: Place) -> Result<(), Problem> {
    match tagged {
        true => Err(Problem::new("YAML tags (`!…`) are not supported")
            .at(place, "remove the tag before this value")
            .hint("quote a value to keep it text; its meaning comes from its field".to_owned())),
        false => Ok(()),
    }
}

fn is_null(text: &str, style: ScalarStyle) -> bool {
    style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn cost(node: &Node) -> Cost {
    let children: Vec<Cost> = match &node.value {
        Value::Null => Vec::new(),
        Value::Scalar(text) => return Cost { values: 1, bytes: text.len(), depth: 0 },
        Value::List(items) => items.iter().map(cost).collect(),
        Value::Map(entries) => entries.iter().map(|entry| cost(&entry.node)).collect(),
    };
    children.into_iter().fold(Cost { values: 1, bytes: 0, depth: 1 }, |sum, one| Cost {
        values: sum.values.saturating_add(one.values),
        bytes: sum.bytes.saturating_add(one.bytes),
        depth: sum.depth.max(one.depth + 1),
    })
}

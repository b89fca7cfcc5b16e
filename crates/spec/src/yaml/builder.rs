//! Builds documents from parser events, within limits.

use std::collections::BTreeMap;

use granit_parser::{Event, ScalarStyle};

use crate::diagnostic::{Problem, Problems, show};
use crate::source::Place;
use crate::yaml::{MAX_DEPTH, Node, Value, YamlEntry, too_deep};

/// Most values in all documents of a text, aliases expanded.
const MAX_VALUES: usize = 200_000;
/// Most bytes of all values, aliases expanded.
const MAX_VALUE_BYTES: usize = 8 << 20;
/// Most documents in one text; many similar jobs should be an array.
const MAX_DOCUMENTS: usize = 1_000;

/// Builds documents from parser events with a stack of its own: no recursion, whatever the input.
pub(super) struct Builder<'a> {
    documents: Vec<Node>,
    open: Vec<OpenCollection>,
    anchors: BTreeMap<usize, (Node, Cost)>,
    spent: Cost,
    problems: &'a mut Problems,
}

/// Size of a tree, aliases expanded.
#[derive(Clone, Copy, Default)]
struct Cost {
    values: usize,
    bytes: usize,
    depth: usize,
}

/// A list or mapping whose end has not been seen.
struct OpenCollection {
    place: Place,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map { entries: Vec<YamlEntry>, seen: BTreeMap<String, Place>, key: Option<(String, Place)> },
}

impl<'a> Builder<'a> {
    /// Returns a builder that has read nothing yet.
    pub(super) fn new(problems: &'a mut Problems) -> Self {
        Self {
            documents: Vec::new(),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            spent: Cost::default(),
            problems,
        }
    }

    /// Processes the next event.
    pub(super) fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), Problem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.is_some(), place)?;
                if text.contains('\0') {
                    return Err(
                        Problem::new("a value holds a NUL byte").at(place, "`\\0` is not allowed")
                    );
                }
                let value = if is_null(&text, style) {
                    Value::Null
                } else {
                    Value::Scalar(text.into_owned())
                };
                self.finish(Node { place, value, quoted: style != ScalarStyle::Plain }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_tag(tag.is_some(), place)?;
                self.push(OpenCollection { place, anchor, kind: OpenKind::List(Vec::new()) })
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_tag(tag.is_some(), place)?;
                let kind = OpenKind::Map { entries: Vec::new(), seen: BTreeMap::new(), key: None };
                self.push(OpenCollection { place, anchor, kind })
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

    /// Returns the documents that are complete.
    pub(super) fn into_documents(self) -> Vec<Node> {
        self.documents
    }

    /// Adds a problem to the list.
    pub(super) fn complain(&mut self, problem: Problem) {
        self.problems.add(problem);
    }

    fn push(&mut self, open: OpenCollection) -> Result<(), Problem> {
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
            Node {
                place: Place { end: end.end.max(open.place.end), ..open.place },
                value,
                quoted: false,
            },
            open.anchor,
        )
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Problem> {
        let Some((node, cost)) = self.anchors.get(&anchor) else {
            return Err(Problem::new("an alias is inside the value that it refers to")
                .at(place, "its expansion would never end"));
        };
        // The cost is checked before the copy is made: this is what stops an alias bomb. Depth
        // counts too: aliases in aliases would otherwise build a tree too deep to walk.
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

    /// Completes a value: counts it, stores its anchor, and attaches it to its parent.
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
                        entries.push(YamlEntry { key: name, key_place: name_place, node });
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
        Value::Scalar(text) if text == "<<" && !node.quoted => {
            Err(Problem::new("merge keys (`<<`) are not supported")
                .at(node.place, "write the fields out, or use an alias for a whole value"))
        }
        Value::Scalar(text) => Ok((text, node.place)),
        _ => Err(Problem::new("a field name must be a word")
            .at(node.place, "this is a list or a mapping")),
    }
}

fn refuse_tag(tagged: bool, place: Place) -> Result<(), Problem> {
    if tagged {
        Err(Problem::new("YAML tags (`!…`) are not supported")
            .at(place, "remove the tag before this value")
            .hint("quote a value to keep it text; its meaning comes from its field".to_owned()))
    } else {
        Ok(())
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

//! Field types of all documents: text, flags, whole numbers, lists, and mappings with arbitrary
//! names.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::diagnostic::{Problem, Problems};
use crate::field::{Field, entries, inline_schema, items, parsed, scalar};
use crate::quantity::{Malformed, parse_whole};
use crate::source::Place;
use crate::yaml::{Node, Value, YamlEntry};

/// A field that takes any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

inline_schema!(Text, { "type": ["string", "number", "boolean"] });

impl Field for Text {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        scalar(node, name, "text", problems).map(|text| Text(text.to_owned()))
    }
}

/// A boolean field: `true` or `false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flag(pub(crate) bool);

inline_schema!(Flag, { "type": "boolean" });

impl Field for Flag {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "true or false", problems, |text| match text {
            "true" | "True" | "TRUE" => Ok(Flag(true)),
            "false" | "False" | "FALSE" => Ok(Flag(false)),
            _ => Err(Malformed { label: "write `true` or `false`".to_owned(), hint: None }),
        })
    }
}

/// A whole number within a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole<const MIN: i64, const MAX: i64>(pub(crate) i64);

impl<const MIN: i64, const MAX: i64> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("whole_{MIN}_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

impl<const MIN: i64, const MAX: i64> Field for Whole<MIN, MAX> {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        let expected = format!("a whole number from {MIN} to {MAX}");
        parsed(node, name, &expected, problems, |text| match parse_whole(text)? {
            number if (MIN..=MAX).contains(&number) => Ok(Whole(number)),
            0 => Err(Malformed { label: format!("the smallest is {MIN}"), hint: None }),
            number if number < MIN => Err(Malformed { label: format!("below {MIN}"), hint: None }),
            _ => Err(Malformed { label: format!("above {MAX}"), hint: None }),
        })
    }
}

/// A list, or a single item without brackets.
#[derive(Clone, Debug, Default)]
pub(crate) struct OneOrMany<T>(pub(crate) Vec<Item<T>>);

/// An item of a list with its place.
#[derive(Clone, Debug)]
pub(crate) struct Item<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

impl<T: Field> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("one_or_many_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

impl<T: Field> Field for OneOrMany<T> {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::List(nodes) => read_items(node, nodes, name, problems).map(Self),
            _ => T::read(node, name, problems)
                .map(|value| Self(vec![Item { value, place: node.place }])),
        }
    }
}

/// A list of at least one item.
#[derive(Clone, Debug, Default)]
pub(crate) struct Many<T>(pub(crate) Vec<Item<T>>);

impl<T: Field> JsonSchema for Many<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("many_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({ "type": "array", "items": one, "minItems": 1 })
    }
}

impl<T: Field> Field for Many<T> {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        let nodes = items(node, name, problems)?;
        read_items(node, nodes, name, problems).map(Self)
    }
}

fn read_items<T: Field>(
    node: &Node,
    nodes: &[Node],
    name: &str,
    problems: &mut Problems,
) -> Option<Vec<Item<T>>> {
    if nodes.is_empty() {
        problems.add(
            Problem::new(format!("`{name}` is empty"))
                .at(node.place, "expected at least one entry"),
        );
        return None;
    }
    let read: Vec<_> = nodes
        .iter()
        .filter_map(|node| {
            T::read(node, name, problems).map(|value| Item { value, place: node.place })
        })
        .collect();
    (read.len() == nodes.len()).then_some(read)
}

/// A mapping from arbitrary names to values of one type.
#[derive(Clone, Debug)]
pub(crate) struct Named<T>(pub(crate) Vec<NamedItem<T>>);

/// One entry of [`Named`].
#[derive(Clone, Debug)]
pub(crate) struct NamedItem<T> {
    pub(crate) name: String,
    pub(crate) name_place: Place,
    pub(crate) value: T,
    pub(crate) place: Place,
}

impl<T: Field> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("named_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({ "type": "object", "additionalProperties": one })
    }
}

impl<T: Field> Field for Named<T> {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        let entries = entries(node, name, problems)?;
        let item = |entry: &YamlEntry, problems: &mut Problems| {
            let value = T::read(&entry.node, &entry.key, problems)?;
            let name = entry.key.clone();
            let name_place = entry.key_place;
            Some(NamedItem { name, name_place, value, place: entry.node.place })
        };
        let read: Vec<_> = entries.iter().filter_map(|entry| item(entry, problems)).collect();
        (read.len() == entries.len()).then_some(Self(read))
    }
}

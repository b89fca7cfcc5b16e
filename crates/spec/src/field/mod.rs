//! Typed fields read from the tree. Every field type has its reader and its JSON Schema, and
//! `document!` defines a mapping of fields from one list, so that reader, schema and documentation
//! cannot disagree. Only single fields are checked here, not their combinations.

mod types;

use schemars::{JsonSchema, Schema};
use serde_json::{Map, json};

use crate::diagnostic::{Problem, Problems, show};
use crate::quantity::Malformed;
use crate::source::Place;
use crate::suggest::nearest;
use crate::yaml::{Node, Value, YamlEntry};

/// A type of a field.
pub(crate) trait Field: Sized + JsonSchema {
    /// Reads a value. `name` is the field's, for messages. Returns `None` after adding a problem.
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self>;
}

/// A value with the places of its key and its own.
#[derive(Clone, Debug)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) key: Place,
    pub(crate) place: Place,
}

impl<T: Field> Located<T> {
    /// Reads the value of an entry.
    pub(crate) fn read(entry: &YamlEntry, problems: &mut Problems) -> Option<Self> {
        let value = T::read(&entry.node, &entry.key, problems)?;
        Some(Self { value, key: entry.key_place, place: entry.node.place })
    }
}

/// Name of a document as a whole, which is no field.
pub(crate) const ROOT: &str = "";

/// Field names of a mapping; implemented by `document!`.
pub(crate) trait Document {
    /// Allowed field names, in the order of documentation.
    const KEYS: &'static [&'static str];
    /// Field names of other systems, and the field that they correspond to.
    const FOREIGN: &'static [(&'static str, &'static str)];
}

/// Declares a mapping with fields: a struct of optional located values, its reader and its schema.
/// Every field must have a documentation comment; it becomes the schema's description.
macro_rules! document {
    ($(#[doc = $doc:literal])+ $name:ident ($title:literal) requires [$($required:literal),*] foreign $foreign:expr => {
        $($(#[doc = $field_doc:literal])+ $key:literal $field:ident : $type:ty,)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name {
            $($(#[doc = $field_doc])+ pub(crate) $field: Option<$crate::field::Located<$type>>,)+
        }

        impl $crate::field::Document for $name {
            const KEYS: &'static [&'static str] = &[$($key),+];
            const FOREIGN: &'static [(&'static str, &'static str)] = $foreign;
        }

        impl $crate::field::Field for $name {
            fn read(
                node: &$crate::yaml::Node,
                name: &str,
                problems: &mut $crate::diagnostic::Problems,
            ) -> Option<Self> {
                let entries = $crate::field::entries(node, name, problems)?;
                let before = problems.len();
                let mut document = Self::default();
                for entry in entries {
                    match entry.key.as_str() {
                        $($key => document.$field = $crate::field::Located::read(entry, problems),)+
                        _ => problems.add($crate::field::unknown::<Self>(entry)),
                    }
                }
                let required: &[&str] = &[$($required),*];
                for required in required {
                    // After another problem, this one would mostly be a consequence of it: a
                    // misspelt field is missing too.
                    if problems.len() == before && !entries.iter().any(|entry| entry.key == *required) {
                        problems.add($crate::field::missing(node.place, name, required));
                    }
                }
                (problems.len() == before).then_some(document)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $title.into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let fields = [$(($key, concat!($($field_doc),+), generator.subschema_for::<$type>())),+];
                let required: &[&str] = &[$($required),*];
                $crate::field::object_schema(concat!($($doc),+), fields, required)
            }
        }
    };
}
pub(crate) use document;
pub(crate) use types::{Flag, Item, Many, Named, NamedItem, OneOrMany, Text, Whole};

/// Returns the entries of a mapping, or adds a problem.
pub(crate) fn entries<'a>(
    node: &'a Node,
    name: &str,
    problems: &mut Problems,
) -> Option<&'a [YamlEntry]> {
    match &node.value {
        Value::Map(entries) => Some(entries),
        _ => {
            problems.add(wrong_kind(node, name, "a mapping (`field: value`)"));
            None
        }
    }
}

/// Returns the items of a list, or adds a problem.
pub(crate) fn items<'a>(node: &'a Node, name: &str, problems: &mut Problems) -> Option<&'a [Node]> {
    match &node.value {
        Value::List(items) => Some(items),
        _ => {
            problems.add(wrong_kind(node, name, "a list (`[a, b]`)"));
            None
        }
    }
}

/// Returns the text of a scalar, or adds a problem.
pub(crate) fn scalar<'a>(
    node: &'a Node,
    name: &str,
    expected: &str,
    problems: &mut Problems,
) -> Option<&'a str> {
    match &node.value {
        Value::Scalar(text) => Some(text),
        _ => {
            problems.add(wrong_kind(node, name, expected));
            None
        }
    }
}

/// Reads a scalar with a quantity parser.
pub(crate) fn parsed<T>(
    node: &Node,
    name: &str,
    expected: &str,
    problems: &mut Problems,
    parse: impl FnOnce(&str) -> Result<T, Malformed>,
) -> Option<T> {
    let text = scalar(node, name, expected, problems)?;
    match parse(text) {
        Ok(value) => Some(value),
        Err(error) => {
            let message = format!("`{name}` is not {expected}");
            problems.add(Problem::new(message).at(node.place, error.label).hint(error.hint));
            None
        }
    }
}

/// Returns the problem for a value of the wrong kind.
pub(crate) fn wrong_kind(node: &Node, name: &str, expected: &str) -> Problem {
    let found = match &node.value {
        Value::Null => {
            return Problem::new(format!("`{name}` has no value"))
                .at(node.place, format!("expected {expected}"))
                .hint("to leave a field at its default, remove the line".to_owned());
        }
        Value::Scalar(text) => show(text),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
    };
    let name = if name == ROOT { "the document".to_owned() } else { format!("`{name}`") };
    Problem::new(format!("{name} is not {expected}")).at(node.place, format!("this is {found}"))
}

/// Returns the problem for an unknown field, with the nearest and all known ones.
pub(crate) fn unknown<D: Document>(entry: &YamlEntry) -> Problem {
    let plain = entry.key.to_lowercase().replace('_', "-");
    let meant = D::FOREIGN.iter().find(|(foreign, _)| *foreign == plain).map(|(_, ours)| *ours);
    let meant = meant.or_else(|| nearest(&entry.key, D::KEYS.iter().copied()));
    let label = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "not a field of this mapping".to_owned(),
    };
    Problem::new(format!("there is no field {}", show(&entry.key)))
        .at(entry.key_place, label)
        .hint(format!("the fields are {}", D::KEYS.join(", ")))
}

/// Returns the problem for a missing required field.
pub(crate) fn missing(place: Place, name: &str, required: &str) -> Problem {
    let name = if name == ROOT { "the document".to_owned() } else { format!("`{name}`") };
    Problem::new(format!("`{required}` is missing")).at(place, format!("{name} needs it"))
}

/// Returns the JSON Schema of a mapping with known fields.
pub(crate) fn object_schema<'a>(
    description: &str,
    fields: impl IntoIterator<Item = (&'a str, impl AsRef<str>, Schema)>,
    required: &[&str],
) -> Schema {
    let mut properties = Map::new();
    for (key, description, mut schema) in fields {
        schema.insert("description".to_owned(), json!(description.as_ref().trim()));
        properties.insert(key.to_owned(), schema.to_value());
    }
    schemars::json_schema!({
        "type": "object",
        "description": description.trim(),
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Implements [`JsonSchema`] for a small type by its schema, written inline wherever it is used.
macro_rules! inline_schema {
    ($name:ty, $schema:tt) => {
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
pub(crate) use inline_schema;

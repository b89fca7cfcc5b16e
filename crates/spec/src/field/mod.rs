//! From the tree to typed fields: every field type knows how it is read and what its JSON Schema
//! is, and `document!` makes a mapping of fields from one list, so that reader, schema and
//! documentation cannot disagree. Only the shape of single fields is judged here; what fields mean
//! together is not.

mod types;

use schemars::{JsonSchema, Schema};
use serde_json::{Map, json};

use crate::diagnostic::{Problem, Problems, show};
use crate::quantity::Malformed;
use crate::source::Place;
use crate::suggest::nearest;
use crate::yaml::{Entry, Node, Value};

/// A type that a field can have.
pub(crate) trait Field: Sized + JsonSchema {
    /// Reads a value. `name` is the field's, for messages. `None` means that a complaint was added.
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self>;
}

/// A value that was written, with the place of its key and its own.
#[derive(Clone, Debug)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) key: Place,
    pub(crate) place: Place,
}

impl<T: Field> Located<T> {
    /// The value of an entry.
    pub(crate) fn read(entry: &Entry, problems: &mut Problems) -> Option<Self> {
        let value = T::read(&entry.node, &entry.key, problems)?;
        Some(Self { value, key: entry.key_place, place: entry.node.place })
    }
}

/// The name of a document as a whole, which is no field.
pub(crate) const ROOT: &str = "";

/// What a mapping of fields is made of; implemented by `document!`.
pub(crate) trait Document {
    /// Allowed field names, in the order of documentation.
    const KEYS: &'static [&'static str];
    /// Names that people coming from other systems try, and the field that they mean.
    const FOREIGN: &'static [(&'static str, &'static str)];
    /// Names that a later version will know, and why this one does not.
    const LATER: &'static [(&'static str, &'static str)] = &[];
}

/// Declares a mapping with fields: a struct of optional located values, its reader and its schema.
/// Every field must have a documentation comment; it becomes the schema's description.
macro_rules! document {
    ($(#[doc = $doc:literal])+ $name:ident ($title:literal) requires [$($required:literal),*] foreign $foreign:expr $(, later $later:expr)? => {
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
            $(const LATER: &'static [(&'static str, &'static str)] = $later;)?
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
                    // Beside another complaint this one would mostly be its echo: a misspelt field
                    // is missing too.
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

/// The entries of a mapping, or a complaint.
pub(crate) fn entries<'a>(
    node: &'a Node,
    name: &str,
    problems: &mut Problems,
) -> Option<&'a [Entry]> {
    match &node.value {
        Value::Map(entries) => Some(entries),
        _ => {
            problems.add(wrong_kind(node, name, "a mapping (`field: value`)"));
            None
        }
    }
}

/// The items of a list, or a complaint.
pub(crate) fn items<'a>(node: &'a Node, name: &str, problems: &mut Problems) -> Option<&'a [Node]> {
    match &node.value {
        Value::List(items) => Some(items),
        _ => {
            problems.add(wrong_kind(node, name, "a list (`[a, b]`)"));
            None
        }
    }
}

/// The text of a scalar, or a complaint.
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

/// Complains that a value is of another kind than its field takes.
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

/// Complains about a field that does not exist: which one is nearest, and which there are.
pub(crate) fn unknown<D: Document>(entry: &Entry) -> Problem {
    let plain = entry.key.to_lowercase().replace('_', "-");
    if let Some((name, reason)) = D::LATER.iter().find(|(name, _)| *name == plain) {
        return Problem::new(format!("`{name}` is not supported yet")).at(entry.key_place, *reason);
    }
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

/// Complains about a required field that is not there.
pub(crate) fn missing(place: Place, name: &str, required: &str) -> Problem {
    let name = if name == ROOT { "the document".to_owned() } else { format!("`{name}`") };
    Problem::new(format!("`{required}` is missing")).at(place, format!("{name} needs it"))
}

/// Schema of a mapping with known fields.
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

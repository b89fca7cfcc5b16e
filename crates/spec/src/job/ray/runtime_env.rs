//! Runtime environments of Ray in job files: a mapping in Ray's own terms, of which only the names of its
//! fields are checked.

use muster_model::payload::RUNTIME_ENV_FIELDS;
use serde_json::{Map, Value as Json, json};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Field, Named, Text, entries, inline_schema};
use crate::suggest::nearest;
use crate::yaml::{Node, Value};

/// A runtime environment, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeEnv(Map<String, Json>);

inline_schema!(RuntimeEnv, { "type": "object" });

impl RuntimeEnv {
    /// Returns the mapping in JSON.
    pub(crate) fn json(&self) -> String {
        Json::Object(self.0.clone()).to_string()
    }
}

impl Field for RuntimeEnv {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        let before = problems.len();
        let mut fields = Map::new();
        for entry in entries(node, name, problems)? {
            if !RUNTIME_ENV_FIELDS.contains(&entry.key.as_str()) {
                let near = nearest(&entry.key, RUNTIME_ENV_FIELDS);
                problems.add(
                    Problem::new(format!(
                        "{} is no field of Ray's runtime environment",
                        show(&entry.key)
                    ))
                    .at(entry.key_place, "Ray would ignore it")
                    .hint(near.map(|near| format!("did you mean `{near}`?"))),
                );
            }
            let value = match entry.key.as_str() {
                // Ray refuses variables that are numbers.
                "env_vars" => Named::<Text>::read(&entry.node, &entry.key, problems).map(texts),
                _ => Some(json(&entry.node)),
            };
            fields.extend(value.map(|value| (entry.key.clone(), value)));
        }
        (problems.len() == before).then_some(Self(fields))
    }
}

fn texts(variables: Named<Text>) -> Json {
    variables.0.into_iter().map(|one| (one.name, one.value.0)).collect()
}

/// Converts a value to JSON; plain scalars by the core schema of YAML 1.2.
fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Scalar(text) if node.quoted => json!(text),
        Value::Scalar(text) => plain(text),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|one| (one.key.clone(), json(&one.node))).collect())
        }
    }
}

fn plain(text: &str) -> Json {
    match text {
        "true" | "True" | "TRUE" => json!(true),
        "false" | "False" | "FALSE" => json!(false),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => json!(whole),
            (Err(_), Ok(real)) if real.is_finite() => json!(real),
            _ => json!(text),
        },
    }
}

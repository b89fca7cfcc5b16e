//! Queue objects: the queue tree of a cluster as objects of the API `muster.run/v1alpha1`. A `Queue`
//! named `research.vision` is the queue `research/vision`; the `SchedulerPolicy` named `default` has
//! what concerns all queues. Together they are a queue file, and are read as one.

mod definition;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::object::Metadata;

pub use definition::definitions;

/// API group of the objects.
pub const GROUP: &str = "muster.run";
/// Version of the objects.
pub const VERSION: &str = "v1alpha1";
/// Resource name of queues in addresses.
pub const QUEUES: &str = "queues";
/// Resource name of policies in addresses.
pub const POLICIES: &str = "schedulerpolicies";
/// Name of the only policy that is read.
pub const POLICY: &str = "default";

/// Key of a `Queue` with the namespaces whose pods may use it; a queue file has users there, and on
/// Kubernetes the user of a job is its namespace.
const NAMESPACES: &str = "namespaces";

/// Queue or policy as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct QueueText {
    /// Metadata of the object.
    pub metadata: Metadata,
    /// Settings, as in a queue file but with keys in camel case.
    pub spec: Map<String, Value>,
}

/// Settings of all queues by the names of their objects.
pub type QueueSpecs = BTreeMap<Arc<str>, Map<String, Value>>;

/// Queue with those below it.
#[derive(Default)]
struct Branch<'a> {
    /// Settings; `None` for a parent without an object.
    spec: Option<&'a Map<String, Value>>,
    children: BTreeMap<&'a str, Branch<'a>>,
}

/// Returns the queue file that queues and policy are, as JSON. A parent without an object has the
/// default settings; without any queue there is the queue `default`.
#[must_use]
pub fn queue_file(queues: &QueueSpecs, policy: Option<&Map<String, Value>>) -> Value {
    let mut root = Branch::default();
    for (name, spec) in queues {
        let mut branch = &mut root;
        for part in name.split('.') {
            branch = branch.children.entry(part).or_default();
        }
        branch.spec = Some(spec);
    }
    if root.children.is_empty() {
        root.children.insert("default", Branch::default());
    }
    let mut file = policy.map_or_else(Map::new, kebab_keys);
    if let Some(Value::String(name)) = file.get_mut("default-queue") {
        *name = path(name);
    }
    file.insert("queues".to_owned(), children(&root));
    Value::Object(file)
}

fn children(branch: &Branch<'_>) -> Value {
    let queue = |(name, branch): (&&str, &Branch<'_>)| {
        let mut queue = branch.spec.map_or_else(Map::new, kebab_keys);
        queue.insert("name".to_owned(), json!(name));
        if let Some(namespaces) = queue.remove(NAMESPACES) {
            queue.insert("users".to_owned(), namespaces);
        }
        if !branch.children.is_empty() {
            queue.insert("queues".to_owned(), children(branch));
        }
        Value::Object(queue)
    };
    branch.children.iter().map(queue).collect()
}

/// Returns the path of a queue whose object, or label, has this name.
#[must_use]
pub fn path(name: &str) -> String {
    name.replace('.', "/")
}

/// Returns the name of the object of a queue.
#[must_use]
pub fn object_name(path: &str) -> String {
    path.replace('/', ".")
}

/// Returns settings with the keys of a queue file: `default-time` for `defaultTime`. Keys of
/// `quota` are GPU models, which stay as they are.
fn kebab_keys(spec: &Map<String, Value>) -> Map<String, Value> {
    let convert = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::Object(nested) if key != "quota" => Value::Object(kebab_keys(nested)),
            other => other.clone(),
        };
        (kebab(key), value)
    };
    spec.iter().map(convert).collect()
}

fn kebab(camel: &str) -> String {
    let mut kebab = String::new();
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

fn camel(kebab: &str) -> String {
    let mut words = kebab.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        camel + &head.to_ascii_uppercase() + tail
    })
}

/// Returns a message about a queue file with its keys as objects have them: `` `defaultTime` `` for
/// `` `default-time` ``.
#[must_use]
pub fn message_on_objects(message: &str) -> String {
    let is_key = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let parts = message.split('`').enumerate().map(|(at, part)| {
        // Between two backticks.
        if at % 2 == 1 && is_key(part) { camel(part) } else { part.to_owned() }
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(queues: &[(&str, Value)]) -> QueueSpecs {
        let spec = |value: &Value| value.as_object().cloned().unwrap_or_default();
        queues.iter().map(|(name, value)| ((*name).into(), spec(value))).collect()
    }

    #[test]
    fn objects_are_a_queue_file() {
        let queues = specs(&[
            ("ops", json!({"weight": 2, "namespaces": ["batch"]})),
            ("research.vision", json!({"quota": {"H100-SXM": 8}, "defaultTime": "1h"})),
            ("research.speech", json!({"limits": {"gpusPerUser": 4}})),
        ]);
        let policy = json!({"halfLife": "1d", "defaultQueue": "research.vision"});
        let file = queue_file(&queues, policy.as_object());
        assert_eq!(
            file,
            json!({
                "half-life": "1d",
                "default-queue": "research/vision",
                "queues": [
                    {"name": "ops", "weight": 2, "users": ["batch"]},
                    {"name": "research", "queues": [
                        {"name": "speech", "limits": {"gpus-per-user": 4}},
                        {"name": "vision", "quota": {"H100-SXM": 8}, "default-time": "1h"},
                    ]},
                ],
            })
        );
    }

    #[test]
    fn without_objects_there_is_one_queue() {
        assert_eq!(queue_file(&specs(&[]), None), json!({"queues": [{"name": "default"}]}));
    }

    #[test]
    fn messages_name_the_keys_of_objects() {
        let message = "`default-time` is not a length of time, such as `1-12:00:00`";
        assert_eq!(
            message_on_objects(message),
            "`defaultTime` is not a length of time, such as `1-12:00:00`"
        );
    }

    #[test]
    fn keys_are_those_of_kubernetes() {
        for (kebab_key, camel_key) in [
            ("default-time", "defaultTime"),
            ("gpu-hours-per-user", "gpuHoursPerUser"),
            ("weight", "weight"),
        ] {
            assert_eq!(camel(kebab_key), camel_key);
            assert_eq!(kebab(camel_key), kebab_key);
        }
    }
}

//! The definitions of the queue objects, made of the JSON Schema of the queue file, so that both
//! accept the same settings.

use serde_json::{Map, Value, json};

use super::{NAMESPACES, POLICIES, QUEUES, camel};
use crate::custom_resource::custom_resource;

/// Settings of a queue file that objects express otherwise: by their names, by `namespaces`, or, as
/// every pod's namespace is its user, and the scheduler neither reads loads of GPUs nor sends
/// notices, not at all.
const LEFT_OUT: [&str; 7] = ["name", "queues", "users", "groups", "max-protect", "idle", "notify"];

/// Keys of a JSON Schema that a definition may have too. It has no `examples`, and unknown fields
/// are refused by kubectl without `additionalProperties`.
const KEPT: [&str; 9] = [
    "type",
    "description",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
];

/// Returns the definitions of `Queue` and `SchedulerPolicy`. `schema` is the JSON Schema of the
/// queue file.
#[must_use]
pub fn definitions(schema: &Value) -> Vec<Value> {
    let kinds = &schema["$defs"];
    let mut queue = structural(&kinds["queue"], kinds);
    queue["properties"][NAMESPACES] = json!({
        "description": "Namespaces whose pods may use it. By default as in the parent queue, or all.",
        "type": "array",
        "items": {"type": "string"},
    });
    let policy = structural(schema, kinds);
    let number =
        |name: &str, path: &str| json!({"name": name, "type": "integer", "jsonPath": path});
    let columns = vec![
        json!({"name": "Quota", "type": "string", "jsonPath": ".spec.quota"}),
        number("Used", ".status.usedGpus"),
        number("Borrowed", ".status.borrowedGpus"),
        number("Running", ".status.running"),
        number("Waiting", ".status.waiting"),
    ];
    vec![
        custom_resource(
            ("Queue", QUEUES),
            "A queue of Muster's scheduler; the queue research/vision is named research.vision.",
            &queue,
            status(),
            columns,
        ),
        custom_resource(
            ("SchedulerPolicy", POLICIES),
            "Settings of Muster's scheduler for all queues; the one named default is read.",
            &policy,
            json!({}),
            Vec::new(),
        ),
    ]
}

/// Returns the properties of the status of a queue.
fn status() -> Value {
    let number = |description: &str| json!({"type": "integer", "description": description});
    let properties = [
        ("usedGpus", number("GPUs that its subtree holds, of all models, rounded up.")),
        ("borrowedGpus", number("GPUs that it holds beyond its quota, rounded up.")),
        ("running", number("Gangs and single pods that hold resources in its subtree.")),
        ("waiting", number("Gangs and single pods that wait in its subtree.")),
        ("usageGpuSeconds", number("Decayed GPU-seconds of its subtree.")),
        (
            "sharePpm",
            number("Fair-share value in millionths: the sibling with the lowest is next."),
        ),
    ];
    properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// Returns a schema as definitions allow it: without references, unions and closed objects, keys in
/// camel case.
fn structural(schema: &Value, kinds: &Value) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        let kind = reference.rsplit('/').next().unwrap_or_default();
        let mut target = structural(&kinds[kind], kinds);
        if schema["description"].is_string() {
            target["description"] = schema["description"].clone();
        }
        return target;
    }
    let kept = KEPT.iter().filter_map(|key| Some(((*key).to_owned(), schema.get(key)?.clone())));
    let mut result: Map<String, Value> = kept.collect();
    if !schema["type"].is_string() {
        result.remove("type");
        result.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
    }
    if let Some(properties) = schema["properties"].as_object() {
        let own = properties.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
        let own = own.map(|(key, schema)| (camel(key), structural(schema, kinds)));
        result.insert("properties".to_owned(), Value::Object(own.collect()));
        let required = schema["required"].as_array().into_iter().flatten();
        let required: Vec<String> = required
            .filter_map(Value::as_str)
            .filter(|key| !LEFT_OUT.contains(key))
            .map(camel)
            .collect();
        if !required.is_empty() {
            result.insert("required".to_owned(), json!(required));
        }
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            result.insert(key.to_owned(), structural(&schema[key], kinds));
        }
    }
    Value::Object(result)
}

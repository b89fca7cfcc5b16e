//! Definitions of kinds of objects, as the API server takes them: what all kinds of Muster have in common.

use serde_json::{Value, json};

use crate::queue::{GROUP, VERSION};

/// Returns the definition of a kind of object, which is known by its name in the singular and in addresses.
/// `status` has the properties of its status beside the conditions; `columns` are those of `kubectl get`
/// before the last one, which says whether the object is in force.
pub(crate) fn custom_resource(
    (kind, plural): (&str, &str),
    description: &str,
    spec: &Value,
    mut status: Value,
    mut columns: Vec<Value>,
) -> Value {
    status["conditions"] = conditions();
    let ready = ".status.conditions[?(@.type==\"Ready\")].status";
    columns.push(json!({"name": "Ready", "type": "string", "jsonPath": ready}));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_ascii_lowercase()},
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {
                    "description": description,
                    "type": "object",
                    "properties": {"spec": spec, "status": {"type": "object", "properties": status}},
                }},
            }],
        },
    })
}

/// Returns the schema of the conditions of an object.
fn conditions() -> Value {
    let text = json!({"type": "string"});
    json!({
        "description": "Ready: whether the settings are in force, and if not, why.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": text, "status": text, "reason": text, "message": text,
                "lastTransitionTime": {"type": "string", "format": "date-time"},
            },
        },
    })
}

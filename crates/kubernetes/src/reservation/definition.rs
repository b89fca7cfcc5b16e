//! The definition of advance reservations.

use serde_json::{Value, json};

use super::RESERVATIONS;
use crate::custom_resource::custom_resource;

/// Returns the definition of `AdvanceReservation`.
#[must_use]
pub fn definition() -> Value {
    let column =
        |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let columns = vec![
        column("Phase", "string", ".status.phase"),
        column("Begins", "string", ".status.begins"),
        column("Ends", "string", ".status.ends"),
        column("Running", "integer", ".status.running"),
        column("Waiting", "integer", ".status.waiting"),
    ];
    custom_resource(
        ("AdvanceReservation", RESERVATIONS),
        "Nodes or GPUs that Muster's scheduler sets aside for some namespaces and queues at given \
         times. Pods name it by the label or annotation muster.run/reservation.",
        &spec(),
        status(),
        columns,
    )
}

fn spec() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let texts = |description: &str| json!({"type": "array", "description": description, "items": {"type": "string"}});
    let number = |description: &str| {
        json!({"type": "integer", "minimum": 1, "maximum": u32::MAX, "format": "int64",
            "description": description})
    };
    json!({
        "type": "object",
        "required": ["duration"],
        "properties": {
            "nodes": texts("Nodes that are set aside whole: names, and lists like node[01-04]."),
            "nodeSelector": json!({"type": "object", "additionalProperties": {"type": "string"}, "description":
                "Labels, with their values, that a node must have: all nodes with them are set aside whole, or with gpus, GPUs of them. They count when a place is chosen."}),
            "gpus": number("Number of GPUs that are set aside, in place of nodes; the scheduler chooses them."),
            "gpuModel": text("Model of the GPUs, as quotas name it. By default any."),
            "start": text("Instant of the first start, in RFC 3339. By default at once."),
            "duration": text("Length of each occurrence: seconds, or a number with s, m, h or d."),
            "every": text("Time from one start to the next, such as 1d. By default it does not repeat."),
            "times": number("Number of occurrences, with every. By default without end."),
            "until": text("Instant from which on no occurrence starts; with every, in place of times."),
            "namespaces": texts("Namespaces whose pods may use it."),
            "queues": texts("Queues whose pods may use it, and those of the queues below them."),
            "stop": json!({"type": "boolean", "description":
                "Whether the scheduler deletes its other pods that still run there at a start. By default false."}),
            "reason": text("Purpose, for users."),
        },
    })
}

fn status() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let number = |description: &str| json!({"type": "integer", "description": description});
    json!({
        "observedGeneration": number("Generation of the settings that this status is about."),
        "phase": text("Upcoming, Active, Over, or Refused."),
        "begins": text("Start of the present occurrence, or of the next one."),
        "ends": text("End of that occurrence."),
        "gpusMissing": number("GPUs that could not be set aside."),
        "running": number("Gangs and single pods that use it and hold resources."),
        "waiting": number("Gangs and single pods that name it and wait."),
        "places": {
            "description": "What is set aside.",
            "type": "array",
            "items": {
                "type": "object",
                "required": ["node"],
                "properties": {
                    "node": text("Name of the node."),
                    "gpus": number("Number of its GPUs; not set where the whole node is set aside."),
                },
            },
        },
    })
}

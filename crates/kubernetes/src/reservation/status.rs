//! The status of an advance reservation.

use muster_model::Time;
use muster_model::view::AdvanceReservationView;
use serde_json::{Value, json};

use crate::instant;

/// Returns the status of a reservation that is in force, without its conditions.
#[must_use]
pub fn in_force(view: &AdvanceReservationView) -> Value {
    let text = |at: Option<Time>| at.map(instant::text);
    let places = view.places.iter().map(|place| {
        let gpus = view.gpus.map(|_| place.devices.len());
        match gpus {
            Some(gpus) => json!({"node": place.node, "gpus": gpus}),
            None => json!({"node": place.node}),
        }
    });
    json!({
        "phase": if view.is_active { "Active" } else { "Upcoming" },
        "begins": text(view.begins),
        "ends": text(view.ends),
        "gpusMissing": view.gpus_missing,
        "running": view.running,
        "waiting": view.waiting,
        "places": places.collect::<Value>(),
    })
}

/// Returns the status of a reservation that sets nothing aside, without its conditions. A patch with it
/// removes what the status said before.
#[must_use]
pub fn not_in_force(phase: &str) -> Value {
    json!({
        "phase": phase,
        "begins": null,
        "ends": null,
        "gpusMissing": null,
        "running": null,
        "waiting": null,
        "places": null,
    })
}

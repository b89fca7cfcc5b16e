//! Advance reservations as they are written for the API server: the inverse of reading them.

use std::collections::BTreeMap;

use muster_model::{AdvanceReservation, NodeName, ReservedResources, UserName, hostlist};
use serde_json::{Value, json};

use crate::names;
use crate::queue::{self, GROUP, VERSION};
use crate::{instant, span};

/// Returns the object that asks for a reservation. Nodes may be chosen by labels, with their values. A
/// reservation that starts `at_once` starts with the creation of the object. The user who writes it is in
/// an annotation.
#[must_use]
pub fn object(
    asked: &AdvanceReservation,
    node_selector: &BTreeMap<String, String>,
    at_once: bool,
) -> Value {
    let AdvanceReservation { name, users, queues, resources, times, stop, by, reason } = asked;
    let mut spec = json!({"duration": span::text(times.length)});
    match resources {
        ReservedResources::Nodes(nodes) if nodes.is_empty() => {}
        ReservedResources::Nodes(nodes) => {
            spec["nodes"] = json!(hostlist::fold(nodes.iter().map(NodeName::as_str)));
        }
        ReservedResources::Gpus { count, model, labels: _ } => {
            spec["gpus"] = json!(count);
            if let Some(model) = model {
                spec["gpuModel"] = json!(model.as_str());
            }
        }
    }
    if !node_selector.is_empty() {
        spec["nodeSelector"] = json!(node_selector);
    }
    if !at_once {
        spec["start"] = json!(instant::text(times.start));
    }
    if let Some(every) = times.every {
        spec["every"] = json!(span::text(every));
    }
    if let Some(count) = times.count {
        spec["times"] = json!(count);
    }
    if !users.is_empty() {
        spec["namespaces"] = users.iter().map(UserName::as_str).collect();
    }
    if !queues.is_empty() {
        spec["queues"] = queues.iter().map(|one| queue::object_name(one.as_str())).collect();
    }
    if *stop {
        spec["stop"] = json!(true);
    }
    if !reason.is_empty() {
        spec["reason"] = json!(reason);
    }
    let mut metadata = json!({"name": name});
    if let Some(by) = by {
        metadata["annotations"] = json!({names::USER: by});
    }
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "AdvanceReservation",
        "metadata": metadata,
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use muster_model::{AdvanceReservationTimes, Span, Time};

    use super::*;
    use crate::reservation::ReservationText;

    fn reservation(resources: ReservedResources) -> AdvanceReservation {
        AdvanceReservation {
            name: "exam".into(),
            users: vec!["ada".into()],
            queues: vec!["research/vision".into()],
            resources,
            times: AdvanceReservationTimes {
                start: Time(1_795_176_000_000),
                length: Span::from_secs(5400),
                every: Some(Span::from_secs(86_400)),
                count: Some(3),
            },
            stop: true,
            by: Some("ann".into()),
            reason: "exam".into(),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let nodes = ["n1", "n2", "big"].map(NodeName::from).to_vec();
        let labels = BTreeMap::new();
        let gpus = ReservedResources::Gpus { count: 4, model: Some("h100".into()), labels };
        let selector = BTreeMap::from([("pool".to_owned(), "exam".to_owned())]);
        for (resources, selector) in [
            (ReservedResources::Nodes(nodes), BTreeMap::new()),
            (ReservedResources::Nodes(Vec::new()), selector.clone()),
            (gpus.clone(), BTreeMap::new()),
            (gpus, selector),
        ] {
            let asked = reservation(resources);
            let text: ReservationText =
                serde_json::from_value(object(&asked, &selector, false)).unwrap();
            let facts = text.facts();
            assert_eq!(facts.asked, Ok(asked));
            assert_eq!(facts.node_selector, selector);
        }
    }

    #[test]
    fn settings_that_are_not_given_are_not_written() {
        let nodes = ["n1", "n2"].map(NodeName::from).to_vec();
        let plain = AdvanceReservation {
            queues: Vec::new(),
            times: AdvanceReservationTimes {
                start: Time(0),
                length: Span::from_secs(60),
                every: None,
                count: None,
            },
            stop: false,
            reason: "".into(),
            ..reservation(ReservedResources::Nodes(nodes))
        };
        let object = object(&plain, &BTreeMap::new(), true);
        let expected = json!({"duration": "1m", "nodes": ["n[1-2]"], "namespaces": ["ada"]});
        assert_eq!(object["spec"], expected);
        assert_eq!(object["metadata"]["annotations"][names::USER], "ann");
    }
}

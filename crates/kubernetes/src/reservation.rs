//! Advance reservations as objects of the API `muster.run/v1alpha1`: nodes or GPUs that are set aside for
//! the pods of some namespaces and queues at given times.

mod definition;
mod object;
pub mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{
    AdvanceReservation, AdvanceReservationName, AdvanceReservationTimes, NodeName,
    ReservedResources, Span, Time, hostlist,
};
use serde::Deserialize;
use serde_json::Value;

use crate::object::Metadata;
use crate::{instant, names, queue, span};

pub use definition::definition;
pub use object::object;

/// Resource name of advance reservations in addresses; their group and version are those of queues.
pub const RESERVATIONS: &str = "advancereservations";

/// Most nodes of one advance reservation.
pub const MAX_NODES: usize = 10_000;

/// Advance reservation as the API server prints it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReservationText {
    /// Metadata of the object.
    pub metadata: Metadata,
    spec: Value,
    status: PlacesText,
}

/// Settings of an advance reservation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReservationSpec {
    nodes: Vec<String>,
    node_selector: BTreeMap<String, String>,
    gpus: Option<u32>,
    gpu_model: Option<String>,
    start: Option<String>,
    duration: String,
    every: Option<String>,
    times: Option<u32>,
    until: Option<String>,
    namespaces: Vec<String>,
    queues: Vec<String>,
    stop: bool,
    reason: String,
}

/// Part of the status that a scheduler reads when it starts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PlacesText {
    observed_generation: u64,
    places: Vec<PlaceText>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PlaceText {
    node: Arc<str>,
    gpus: Option<u32>,
}

/// Description of an advance reservation for the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationFacts {
    /// Name of the object.
    pub name: AdvanceReservationName,
    /// Reservation that is asked for, or why the settings make none, for users.
    pub asked: Result<AdvanceReservation, String>,
    /// Labels, with their values, of the nodes that are set aside, or whose GPUs are; empty if nodes are
    /// not chosen by labels. Whole nodes that are chosen by them are not in `asked`.
    pub node_selector: BTreeMap<String, String>,
    /// `metadata.generation` of the object, which the API server increments with each change of the settings.
    pub generation: u64,
    /// Places that its status names, with the number of GPUs of each; `None` for a whole node. Empty
    /// if it has never been in force.
    pub places: Vec<(NodeName, Option<u32>)>,
    /// True if the status is about these settings: its `observedGeneration` is their `generation`.
    pub is_status_current: bool,
}

impl ReservationText {
    /// Returns what the scheduler needs to know.
    #[must_use]
    pub fn facts(self) -> ReservationFacts {
        let name = AdvanceReservationName::from(&*self.metadata.name);
        let created = self.metadata.creation_timestamp.as_deref().and_then(instant::parse);
        let spec =
            serde_json::from_value::<ReservationSpec>(self.spec).map_err(|error| error.to_string());
        let node_selector =
            spec.as_ref().map(|spec| spec.node_selector.clone()).unwrap_or_default();
        let by = self.metadata.annotations.get(names::USER).map(|by| by.as_str().into());
        let asked = spec.and_then(|spec| spec.read(name.clone(), created));
        let asked = asked.map(|asked| AdvanceReservation { by, ..asked });
        let generation = self.metadata.generation;
        let is_status_current = self.status.observed_generation == generation;
        let places = self.status.places.into_iter();
        let places = places.map(|place| (NodeName(place.node), place.gpus)).collect();
        ReservationFacts { name, asked, node_selector, generation, places, is_status_current }
    }
}

impl ReservationSpec {
    fn read(
        self,
        name: AdvanceReservationName,
        created: Option<Time>,
    ) -> Result<AdvanceReservation, String> {
        let times = self.read_times(created)?;
        let resources = self.read_resources()?;
        if self.namespaces.is_empty() && self.queues.is_empty() {
            return Err("nobody may use it: set `namespaces`, `queues`, or both".to_owned());
        }
        Ok(AdvanceReservation {
            name,
            users: self.namespaces.iter().map(|name| name.as_str().into()).collect(),
            queues: self.queues.iter().map(|name| queue::path(name).as_str().into()).collect(),
            resources,
            times,
            stop: self.stop,
            by: None,
            reason: self.reason.trim().into(),
        })
    }

    fn read_resources(&self) -> Result<ReservedResources, String> {
        let model = self.gpu_model.as_deref().map(|model| model.to_lowercase().as_str().into());
        match (&self.nodes[..], self.gpus) {
            ([], Some(count)) => {
                Ok(ReservedResources::Gpus { count, model, labels: BTreeMap::new() })
            }
            ([], None) if self.node_selector.is_empty() => {
                Err("it sets nothing aside: set `nodes`, `nodeSelector` or `gpus`".to_owned())
            }
            ([_, ..], _) if !self.node_selector.is_empty() => {
                Err("`nodes` and `nodeSelector` exclude each other: set one of them".to_owned())
            }
            (_, Some(_)) => {
                Err("`nodes` and `gpus` exclude each other: set one of them".to_owned())
            }
            (_, None) if model.is_some() => {
                Err("`gpuModel` goes with `gpus`: nodes are set aside whole".to_owned())
            }
            (lists, None) => {
                let mut names = Vec::new();
                for list in lists {
                    let error = |error| format!("`nodes`: {list:?} is no list of nodes: {error}");
                    names.extend(hostlist::expand(list).map_err(error)?);
                    if names.len() > MAX_NODES {
                        return Err(format!("`nodes` names more than {MAX_NODES} nodes"));
                    }
                }
                Ok(ReservedResources::Nodes(names.into_iter().map(NodeName::from).collect()))
            }
        }
    }

    /// Returns the times; without a start they begin with the object.
    fn read_times(&self, created: Option<Time>) -> Result<AdvanceReservationTimes, String> {
        let start = match &self.start {
            Some(text) => read_instant("start", text)?,
            None => created.unwrap_or_default(),
        };
        let length = read_span("duration", &self.duration)?;
        let every = self.every.as_deref().map(|text| read_span("every", text)).transpose()?;
        let until = self.until.as_deref().map(|text| read_instant("until", text)).transpose()?;
        let count = match (every, self.times, until) {
            (None, None, None) => None,
            (None, ..) => return Err("`times` and `until` need `every`".to_owned()),
            (Some(_), Some(_), Some(_)) => {
                return Err("`times` and `until` exclude each other: set one of them".to_owned());
            }
            (Some(_), Some(0), None) => return Err("`times` must be at least 1".to_owned()),
            (Some(_), times, None) => times,
            (Some(_), None, Some(until)) if until <= start => {
                return Err("`until` is before the first start".to_owned());
            }
            (Some(every), None, Some(until)) => {
                Some(AdvanceReservationTimes::count_until(start, every, until))
            }
        };
        Ok(AdvanceReservationTimes { start, length, every, count })
    }
}

fn read_instant(key: &str, text: &str) -> Result<Time, String> {
    instant::of_user(text)
        .ok_or_else(|| format!("`{key}` is {text:?}; write an instant: 2026-12-01T18:00:00Z"))
}

fn read_span(key: &str, text: &str) -> Result<Span, String> {
    span::parse(text)
        .ok_or_else(|| format!("`{key}` is {text:?}; write seconds, or a number with s, m, h or d"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts(spec: Value) -> ReservationFacts {
        let object = json!({
            "metadata": {"name": "exam", "creationTimestamp": "2026-11-28T10:00:00Z"},
            "spec": spec,
            "status": {"places": [{"node": "n1", "gpus": 4}, {"node": "n2"}]},
        });
        let text: ReservationText = serde_json::from_value(object).expect("the object is JSON");
        text.facts()
    }

    fn defect(spec: Value) -> String {
        facts(spec).asked.expect_err("the settings are wrong")
    }

    #[test]
    fn settings_make_a_reservation() {
        let facts = facts(json!({
            "nodes": ["gpu-[1-2]", "big"], "start": "2026-12-01T18:00:00+01:00", "duration": "8h",
            "every": "1d", "until": "2026-12-03T17:00:00Z", "namespaces": ["ada"],
            "queues": ["research.vision"], "stop": true, "reason": " exam ",
        }));
        assert_eq!(facts.places, [("n1".into(), Some(4)), ("n2".into(), None)]);
        let asked = facts.asked.expect("the settings are right");
        let nodes = ["gpu-1", "gpu-2", "big"].map(NodeName::from).to_vec();
        assert_eq!(asked.resources, ReservedResources::Nodes(nodes));
        assert_eq!(instant::text(asked.times.start), "2026-12-01T17:00:00Z");
        assert_eq!(asked.times.length, Span::from_secs(8 * 3600));
        assert_eq!(asked.times.count, Some(2), "the third would begin at the end");
        assert_eq!(asked.users, ["ada".into()]);
        assert_eq!(asked.queues, ["research/vision".into()]);
        assert!(asked.stop);
        assert_eq!(&*asked.reason, "exam");
    }

    #[test]
    fn a_number_of_gpus_is_reserved_from_the_creation_on() {
        let spec = json!({
            "gpus": 8, "gpuModel": "H100", "duration": "3600", "namespaces": ["ada"]});
        let asked = facts(spec).asked.expect("the settings are right");
        let model = Some("h100".into());
        let labels = BTreeMap::new();
        assert_eq!(asked.resources, ReservedResources::Gpus { count: 8, model, labels });
        assert_eq!(instant::text(asked.times.start), "2026-11-28T10:00:00Z");
        assert_eq!((asked.times.every, asked.times.count), (None, None));
    }

    #[test]
    fn labels_choose_whole_nodes_or_those_of_gpus() {
        let spec = json!({
            "nodeSelector": {"pool": "exam"}, "duration": "1h", "namespaces": ["ada"]});
        let selector = BTreeMap::from([("pool".to_owned(), "exam".to_owned())]);
        let whole = facts(spec.clone());
        assert_eq!(whole.node_selector, selector);
        assert_eq!(whole.asked.unwrap().resources, ReservedResources::Nodes(Vec::new()));
        let mut of_gpus = spec.clone();
        of_gpus["gpus"] = json!(4);
        let of_gpus = facts(of_gpus);
        assert_eq!(of_gpus.node_selector, selector);
        let gpus = ReservedResources::Gpus { count: 4, model: None, labels: BTreeMap::new() };
        assert_eq!(of_gpus.asked.unwrap().resources, gpus);
        let mut named = spec;
        named["nodes"] = json!(["n1"]);
        assert!(defect(named).contains("`nodes` and `nodeSelector` exclude each other"));
    }

    #[test]
    fn places_are_those_of_the_settings_or_of_earlier_ones() {
        let object = |observed: u64| {
            json!({
                "metadata": {"name": "exam", "generation": 3},
                "status": {"observedGeneration": observed, "places": [{"node": "n1"}]},
            })
        };
        let facts = |observed| {
            let text: ReservationText = serde_json::from_value(object(observed)).unwrap();
            text.facts()
        };
        assert_eq!(facts(3).generation, 3);
        assert!(facts(3).is_status_current);
        assert!(!facts(2).is_status_current);
    }

    #[test]
    fn each_wrong_setting_is_named() {
        let with = |key: &str, value: Value| {
            let mut spec = json!({"gpus": 8, "duration": "1h", "namespaces": ["ada"]});
            spec[key] = value;
            defect(spec)
        };
        for (key, value, text) in [
            ("duration", json!("soon"), "`duration` is \"soon\""),
            ("duration", json!(""), "`duration` is \"\""),
            ("start", json!("18:00"), "`start` is \"18:00\""),
            ("nodes", json!(["n1"]), "exclude each other"),
            ("gpus", json!(null), "sets nothing aside"),
            ("namespaces", json!([]), "nobody may use it"),
            ("times", json!(3), "need `every`"),
            ("gpus", json!("eight"), "invalid type"),
        ] {
            assert!(with(key, value).contains(text), "{key}: {text}");
        }
        let nodes =
            |nodes: Value| defect(json!({"nodes": nodes, "duration": "1h", "namespaces": ["ada"]}));
        assert!(nodes(json!(["n[1-"])).contains("\"n[1-\" is no list of nodes"));
        let repeated = |more: Value| {
            let mut spec = json!({
                "gpus": 8, "duration": "1h", "namespaces": ["ada"], "every": "1d",
                "start": "2026-12-01T18:00:00Z",
            });
            for (key, value) in more.as_object().expect("an object") {
                spec[key] = value.clone();
            }
            defect(spec)
        };
        assert!(repeated(json!({"times": 0})).contains("at least 1"));
        assert!(repeated(json!({"until": "2026-12-01T18:00:00Z"})).contains("before the first"));
        let both = json!({"times": 2, "until": "2026-12-09T18:00:00Z"});
        assert!(repeated(both).contains("exclude each other"));
    }
}

//! Sites and shortcuts for tests of documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::node::Device;
use muster_model::unit::{Bytes, CpuMilli};
use muster_model::{NodeSpec, QueueTree};
use muster_spec::{CheckedJob, Colour, Diagnostics, SubmissionSite};
use serde_json::{Map, Value};

/// A node with devices of the given models.
pub fn node(name: &str, devices: &[(&str, usize)]) -> NodeSpec {
    let device = |model: &str| Device::declared(model, Bytes(80 << 30));
    NodeSpec {
        devices: devices.iter().flat_map(|(model, count)| vec![device(model); *count]).collect(),
        extras: BTreeMap::from([(Arc::from("licence"), 4)]),
        labels: BTreeMap::from([(Arc::from("pool"), Arc::from("train"))]),
        ..NodeSpec::plain(name, CpuMilli(64_000), Bytes(512 << 30))
    }
}

/// Queues `research/vision`, `research/language` and `default`.
pub fn queues() -> QueueTree {
    let text = "default-queue: default\nqueues:\n- {name: default}\n- name: research\n  queues: [{name: vision}, {name: language}]\n";
    muster_spec::parse_queues(text, None).unwrap()
}

/// 16 h100 on two nodes and 8 a100 on a third.
pub fn nodes() -> Vec<NodeSpec> {
    vec![node("n1", &[("h100", 8)]), node("n2", &[("h100", 8)]), node("n3", &[("a100", 8)])]
}

/// Parses and checks against [`nodes`] and [`queues`].
pub fn check(source: &str) -> Result<Vec<CheckedJob>, Diagnostics> {
    check_on(source, &nodes(), &Value::Null)
}

/// Parses with overrides and checks against the given nodes.
pub fn check_on(
    source: &str,
    nodes: &[NodeSpec],
    overrides: &Value,
) -> Result<Vec<CheckedJob>, Diagnostics> {
    let overrides = overrides.as_object().cloned().unwrap_or_else(Map::new);
    let documents = muster_spec::parse(source, Some("train.yaml"), &overrides)?;
    let queues = queues();
    muster_spec::check_all(&documents, &SubmissionSite::new("ada".into(), nodes, &queues))
}

/// Returns the diagnostics of a rejected job file.
pub fn complaint(source: &str) -> String {
    complaint_on(source, &nodes(), &Value::Null)
}

/// The same with overrides, against the given nodes.
pub fn complaint_on(source: &str, nodes: &[NodeSpec], overrides: &Value) -> String {
    check_on(source, nodes, overrides).unwrap_err().render(Colour::Never)
}

/// Returns the diagnostics of a rejected queue file.
pub fn queues_complaint(source: &str) -> String {
    muster_spec::parse_queues(source, Some("queues.yaml")).unwrap_err().render(Colour::Never)
}

/// Returns the diagnostics of a rejected cluster file.
pub fn cluster_complaint(source: &str) -> String {
    muster_spec::parse_cluster(source, Some("cluster.yaml")).unwrap_err().render(Colour::Never)
}

/// Complaints as `line:column message | label | hint`, one per line. Hints that list every name are
/// `(list)`.
pub fn summary(complaints: &Diagnostics) -> String {
    let one = |complaint: &muster_spec::Diagnostic| {
        let hint = match complaint.hint.as_deref() {
            None => String::new(),
            Some(hint)
                if ["the facts are", "the fields are", "the thresholds are"]
                    .iter()
                    .any(|start| hint.starts_with(start)) =>
            {
                " | (list)".to_owned()
            }
            Some(hint) => format!(" | {hint}"),
        };
        format!(
            "{}:{} {} | {}{hint}",
            complaint.line, complaint.column, complaint.message, complaint.label
        )
    };
    complaints.iter().map(one).collect::<Vec<_>>().join("\n")
}

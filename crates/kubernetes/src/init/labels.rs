//! Labels of the nodes by which the objects know models of GPUs and topology domains, and the script that
//! sets them. They are Muster's own: labels of others may be missing, or name a model in many ways.

use std::fmt::Write as _;

use muster_model::NodeSpec;
use serde_json::{Value, json};

use super::QueueFilesInput;
use super::flavor::NodeFlavor;
use crate::names::HOSTNAME;

/// Returns the label with the domain of a node at a topology level.
pub(super) fn of_level(level: &str) -> String {
    format!("muster.run/{level}")
}

/// Returns the specification of a Topology, which Kueue and KAI have alike: the levels, and the node as the last one.
pub(super) fn topology(input: &QueueFilesInput<'_>) -> Value {
    let levels = input.levels.iter().map(|level| of_level(level));
    let levels = levels.chain([HOSTNAME.to_owned()]).map(|label| json!({"nodeLabel": label}));
    json!({"levels": levels.collect::<Vec<_>>()})
}

/// Returns the script that labels the nodes with their flavors, as far as some are given, and with their topology
/// domains; `None` if they need none.
pub(super) fn script(input: &QueueFilesInput<'_>, flavors: &[NodeFlavor]) -> Option<String> {
    let mut text = String::from(
        "\
#!/bin/sh
# Labels the nodes, so that the other files find them. Read this, then run: sh node-labels.sh
set -eu

",
    );
    let mut needs_labels = false;
    for node in input.nodes {
        let labels = labels(input, flavors, node);
        if !labels.is_empty() {
            let _ = writeln!(text, "kubectl label node {} {labels} --overwrite", node.name);
            needs_labels = true;
        }
    }
    needs_labels.then_some(text)
}

fn labels(input: &QueueFilesInput<'_>, flavors: &[NodeFlavor], node: &NodeSpec) -> String {
    let flavor = flavors.iter().find(|flavor| flavor.has(node));
    let flavor = flavor.filter(|flavor| flavor.has_own_label());
    let flavor = flavor.map(|flavor| format!("{}={}", flavor.label.0, flavor.label.1));
    let levels = input.levels.iter().zip(&node.domains);
    let levels = levels.map(|(level, domain)| format!("{}={domain}", of_level(level)));
    flavor.into_iter().chain(levels).collect::<Vec<_>>().join(" ")
}

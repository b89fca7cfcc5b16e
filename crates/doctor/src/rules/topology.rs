//! Rules on where jobs land: switches, and whether Slurm knows of them.

use std::collections::BTreeSet;

use muster_model::check::Severity::{High, Medium};

use crate::conf::Line;
use crate::evidence::{Evidence, Untested, gpus, untested};
use crate::hosts::expand;
use crate::rule::{Judged, Page, Rule, Trip, none_of};

/// More nodes than hang on one leaf of a fabric with 64 ports and no oversubscription.
const ONE_LEAF: usize = 32;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "no-topology",
        severity: Medium,
        title: "gangs are placed without regard to switches",
        meaning: "a job that fits below one leaf is spread over many, and its collectives cross the spine",
        cure: "TopologyPlugin=topology/tree (or topology/block) with every switch in topology.conf",
        page: Page::Guide("topology"),
        check: no_topology,
    },
    Rule {
        id: "topology-without-nodes",
        severity: High,
        title: "nodes hang on no switch",
        meaning: "such a node is not reached from any other as far as Slurm knows, and gangs leave it out",
        cure: "every node below a switch in topology.conf",
        page: Page::Guide("topology"),
        check: without_switch,
    },
    Rule {
        id: "topology-in-pieces",
        severity: Medium,
        title: "switches without a common root",
        meaning: "no job can have nodes of two parts that no switch joins",
        cure: "a switch above all, if there is one; TopologyParam=TopoOptional if parts must be joined all the same",
        page: Page::Guide("topology"),
        check: in_pieces,
    },
];

/// Whether Slurm places by switches. Plugins for a flat network count as none.
fn placed_by_switches(
    evidence: &Evidence,
) -> Result<(bool, String, Option<muster_model::check::CheckPlace>), Untested> {
    let plugin = evidence.said("TopologyPlugin", Some("topology/flat"))?;
    let is_flat = ["", "topology/none", "topology/flat", "topology/default"]
        .iter()
        .any(|word| plugin.is(word));
    Ok((!is_flat, plugin.text(), plugin.place))
}

fn switches(evidence: &Evidence) -> Result<Vec<&Line>, Untested> {
    match &evidence.switches {
        Some(lines) => Ok(lines.iter().filter(|line| line.get("SwitchName").is_some()).collect()),
        None => untested("topology.conf"),
    }
}

fn no_topology(evidence: &Evidence) -> Judged {
    let (by_switches, says, place) = placed_by_switches(evidence)?;
    if by_switches {
        return none_of(Vec::new(), says);
    }
    let leaves = match switches(evidence) {
        Ok(lines) => Some(lines.iter().filter(|line| line.get("Nodes").is_some()).count()),
        Err(_) => None,
    };
    let gpu_nodes =
        evidence.nodes().map(|nodes| nodes.iter().filter(|node| gpus(node) > 0).count());
    let trip = |what: String| Trip {
        key: "topologyplugin".to_owned(),
        says: format!("{says}, and {what}"),
        place,
    };
    let gpu_nodes = match (leaves, gpu_nodes) {
        // Without nodes nothing says that there is one leaf, either.
        (None, gpu_nodes) => gpu_nodes?,
        (Some(_), gpu_nodes) => gpu_nodes.unwrap_or_default(),
    };
    match leaves {
        Some(leaves) if leaves > 1 => {
            none_of(vec![trip(format!("topology.conf has {leaves} leaf switches"))], "")
        }
        Some(_) => none_of(Vec::new(), "one leaf switch"),
        None if gpu_nodes > ONE_LEAF => none_of(
            vec![trip(format!("{gpu_nodes} nodes with GPUs hardly hang on one switch"))],
            "",
        ),
        None if gpu_nodes <= 1 => none_of(Vec::new(), "no gang has two nodes with GPUs"),
        None => untested(format!(
            "topology.conf, or to know whether {gpu_nodes} nodes hang on one switch"
        )),
    }
}

/// Nodes that stand below a switch.
fn below(lines: &[&Line]) -> BTreeSet<String> {
    lines.iter().filter_map(|line| expand(line.get("Nodes")?)).flatten().collect()
}

fn without_switch(evidence: &Evidence) -> Judged {
    let lines = switches(evidence)?;
    let nodes = evidence.nodes()?;
    let known = below(&lines);
    if known.iter().any(|name| name.eq_ignore_ascii_case("all")) {
        return none_of(Vec::new(), "a switch has all nodes");
    }
    let lost: Vec<&str> =
        nodes.iter().map(|node| node.name.as_str()).filter(|name| !known.contains(*name)).collect();
    let trip = lost.first().map(|first| Trip {
        key: "nodes".to_owned(),
        says: format!(
            "{} of {} nodes are below no switch, such as {first}",
            lost.len(),
            nodes.len()
        ),
        place: lines.first().map(|line| line.place.clone()),
    });
    none_of(trip.into_iter().collect(), format!("{} nodes are below a switch", nodes.len()))
}

fn in_pieces(evidence: &Evidence) -> Judged {
    let lines = switches(evidence)?;
    let parameters = evidence.said("TopologyParam", Some(""))?;
    let children: BTreeSet<String> =
        lines.iter().filter_map(|line| expand(line.get("Switches")?)).flatten().collect();
    let roots: Vec<&&Line> = lines
        .iter()
        .filter(|line| line.get("SwitchName").is_some_and(|name| !children.contains(name)))
        .collect();
    let names: Vec<&str> = roots.iter().filter_map(|line| line.get("SwitchName")).collect();
    let is_broken = roots.len() > 1 && !parameters.lists("TopoOptional");
    let trip = is_broken.then(|| Trip {
        key: "roots".to_owned(),
        says: format!("{} switches are below no other: {}", names.len(), names.join(", ")),
        place: roots.last().map(|line| line.place.clone()),
    });
    none_of(trip.into_iter().collect(), format!("{} at the top", names.join(", ")))
}

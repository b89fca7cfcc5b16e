//! Rules on placement by switches.

use std::collections::BTreeSet;

use muster_model::check::Severity::{High, Medium};
use muster_model::hostlist::expand;

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, fail_if_any};
use muster_slurm::conf::ConfLine;
use muster_slurm::conf::evidence::{Evidence, MissingInput, gpus, needs_input};

/// Maximum number of nodes below one leaf switch; a fabric with 64 ports and no oversubscription
/// has 32.
const ONE_LEAF: usize = 32;

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "no-topology",
        severity: Medium,
        title: "gangs are placed without regard to the topology",
        meaning: "a job that fits below one leaf switch is spread over many, and its collectives cross the spine",
        cure: "TopologyPlugin=topology/tree (or topology/block) with every switch in topology.conf",
        page: DocPage::Guide("topology"),
        check: no_topology,
    },
    CheckRule {
        id: "topology-without-nodes",
        severity: High,
        title: "nodes are not connected to a switch",
        meaning: "for Slurm such a node is not connected to any other, and gangs do not use it",
        cure: "every node below a switch in topology.conf",
        page: DocPage::Guide("topology"),
        check: without_switch,
    },
    CheckRule {
        id: "topology-in-pieces",
        severity: Medium,
        title: "switches without a common root",
        meaning: "no job can use nodes of two parts that no switch connects",
        cure: "a root switch above all, if there is one; TopologyParam=TopoOptional if jobs may span the parts anyway",
        page: DocPage::Guide("topology"),
        check: in_pieces,
    },
];

/// Returns whether Slurm places by switches. Plugins for a flat network do not.
fn placed_by_switches(
    evidence: &Evidence,
) -> Result<(bool, String, Option<muster_model::check::CheckPlace>), MissingInput> {
    let plugin = evidence.conf_setting("TopologyPlugin", Some("topology/flat"))?;
    let is_flat = ["", "topology/none", "topology/flat", "topology/default"]
        .iter()
        .any(|word| plugin.is(word));
    Ok((!is_flat, plugin.text(), plugin.place))
}

fn switches(evidence: &Evidence) -> Result<Vec<&ConfLine>, MissingInput> {
    match &evidence.switches {
        Some(lines) => Ok(lines.iter().filter(|line| line.get("SwitchName").is_some()).collect()),
        None => needs_input("topology.conf"),
    }
}

fn no_topology(evidence: &Evidence) -> RuleResult {
    let (by_switches, says, place) = placed_by_switches(evidence)?;
    if by_switches {
        return fail_if_any(Vec::new(), says);
    }
    let leaves = match switches(evidence) {
        Ok(lines) => Some(lines.iter().filter(|line| line.get("Nodes").is_some()).count()),
        Err(_) => None,
    };
    let gpu_nodes =
        evidence.nodes().map(|nodes| nodes.iter().filter(|node| gpus(node) > 0).count());
    let finding = |what: String| RuleFinding {
        key: "topologyplugin".to_owned(),
        says: format!("{says}, and {what}"),
        place,
    };
    let gpu_nodes = match (leaves, gpu_nodes) {
        // Without nodes it is unknown whether there is only one leaf.
        (None, gpu_nodes) => gpu_nodes?,
        (Some(_), gpu_nodes) => gpu_nodes.unwrap_or_default(),
    };
    match leaves {
        Some(leaves) if leaves > 1 => {
            fail_if_any(vec![finding(format!("topology.conf has {leaves} leaf switches"))], "")
        }
        Some(_) => fail_if_any(Vec::new(), "one leaf switch"),
        None if gpu_nodes > ONE_LEAF => fail_if_any(
            vec![finding(format!("{gpu_nodes} nodes with GPUs are too many for one switch"))],
            "",
        ),
        None if gpu_nodes <= 1 => fail_if_any(Vec::new(), "fewer than two nodes have GPUs"),
        None => {
            needs_input(format!("topology.conf, or whether {gpu_nodes} nodes are on one switch"))
        }
    }
}

/// Returns the nodes below a switch.
fn below(lines: &[&ConfLine]) -> BTreeSet<String> {
    lines.iter().filter_map(|line| expand(line.get("Nodes")?).ok()).flatten().collect()
}

fn without_switch(evidence: &Evidence) -> RuleResult {
    let lines = switches(evidence)?;
    let nodes = evidence.nodes()?;
    let known = below(&lines);
    if known.iter().any(|name| name.eq_ignore_ascii_case("all")) {
        return fail_if_any(Vec::new(), "a switch has all nodes");
    }
    let lost: Vec<&str> =
        nodes.iter().map(|node| node.name.as_str()).filter(|name| !known.contains(*name)).collect();
    let finding = lost.first().map(|first| RuleFinding {
        key: "nodes".to_owned(),
        says: format!(
            "{} of {} nodes are not below a switch, such as {first}",
            lost.len(),
            nodes.len()
        ),
        place: lines.first().map(|line| line.place.clone()),
    });
    fail_if_any(finding.into_iter().collect(), format!("{} nodes are below a switch", nodes.len()))
}

fn in_pieces(evidence: &Evidence) -> RuleResult {
    let lines = switches(evidence)?;
    let parameters = evidence.conf_setting("TopologyParam", Some(""))?;
    let children: BTreeSet<String> =
        lines.iter().filter_map(|line| expand(line.get("Switches")?).ok()).flatten().collect();
    let roots: Vec<&&ConfLine> = lines
        .iter()
        .filter(|line| line.get("SwitchName").is_some_and(|name| !children.contains(name)))
        .collect();
    let names: Vec<&str> = roots.iter().filter_map(|line| line.get("SwitchName")).collect();
    let is_broken = roots.len() > 1 && !parameters.lists("TopoOptional");
    let finding = is_broken.then(|| RuleFinding {
        key: "roots".to_owned(),
        says: format!("{} switches have no parent: {}", names.len(), names.join(", ")),
        place: roots.last().map(|line| line.place.clone()),
    });
    fail_if_any(finding.into_iter().collect(), format!("the root is {}", names.join(", ")))
}

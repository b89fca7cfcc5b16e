//! Check of the number of leaf switches that a job spans, against the fewest possible.

use muster_model::hostlist::expand;

use super::JobEvidence;
use super::check::JobCheckOutcome::{self, NotTested};
use super::check::count;

pub(super) fn fewest(evidence: &JobEvidence) -> JobCheckOutcome {
    // 1. Collect the nodes and the topology.
    let nodes = evidence.nodes();
    let Some(leaves) = evidence.leaves.as_ref().filter(|leaves| !leaves.is_empty()) else {
        return NotTested("a topology with switches".to_owned());
    };
    if nodes.len() < 2 {
        return NotTested("several nodes".to_owned());
    }
    // 2. Count the leaves of the job, each node at one leaf.
    let is_on = |leaf: &&Vec<String>| leaf.iter().any(|node| nodes.contains(node));
    let spanned = leaves.iter().filter(is_on).count();
    let lost = nodes.iter().filter(|node| !leaves.iter().any(|leaf| leaf.contains(node))).count();
    if lost > 0 {
        return NotTested(format!("a topology with all nodes: {lost} of the job have no switch"));
    }
    // 3. Compute the fewest leaves that hold as many nodes, from the largest on.
    let mut sizes: Vec<usize> = leaves.iter().map(Vec::len).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut capacity = 0;
    let enough = sizes.iter().position(|size| {
        capacity += size;
        capacity >= nodes.len()
    });
    let fewest = enough.map_or(sizes.len(), |at| at + 1);
    if spanned <= fewest {
        JobCheckOutcome::Passed(format!(
            "{} below {}",
            count(nodes.len(), "node"),
            switches(spanned)
        ))
    } else {
        JobCheckOutcome::Failed(format!(
            "{} nodes below {}; an empty cluster would hold them below {fewest}",
            nodes.len(),
            switches(spanned)
        ))
    }
}

fn switches(count: usize) -> String {
    format!("{count} leaf {}", if count == 1 { "switch" } else { "switches" })
}

/// Parses the output of `scontrol show topology` into the nodes of each leaf switch; empty where it
/// names no switch.
#[must_use]
pub fn leaves(text: &str) -> Vec<Vec<String>> {
    let nodes = |line: &str| {
        let value = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key));
        match (value("Level=")?, value("Nodes=")) {
            ("0", Some(nodes)) => expand(nodes).ok(),
            _ => None,
        }
    };
    text.lines().filter_map(nodes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ExpectedRank;

    /// Output of Slurm 22.05.
    const TREE: &str = "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=node[1-4]\n\
        SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=node[5-8]\n\
        SwitchName=spine Level=1 LinkSpeed=1 Nodes=node[1-8] Switches=leaf[1-2]\n";

    fn on(nodes: &[&str]) -> JobCheckOutcome {
        let expected = |(rank, node): (usize, &&str)| ExpectedRank {
            rank: rank as u32,
            node: Some((*node).to_owned()),
            gpus: None,
        };
        let expected = nodes.iter().enumerate().map(expected).collect();
        fewest(&JobEvidence { expected, leaves: Some(leaves(TREE)), ..JobEvidence::default() })
    }

    #[test]
    fn more_leaves_than_needed_are_named() {
        assert_eq!(
            on(&["node1", "node4"]),
            JobCheckOutcome::Passed("2 nodes below 1 leaf switch".to_owned())
        );
        assert_eq!(
            on(&["node4", "node5"]),
            JobCheckOutcome::Failed(
                "2 nodes below 2 leaf switches; an empty cluster would hold them below 1"
                    .to_owned()
            )
        );
        // Five nodes do not fit below one leaf.
        let five = ["node1", "node2", "node3", "node4", "node5"];
        assert_eq!(on(&five), JobCheckOutcome::Passed("5 nodes below 2 leaf switches".to_owned()));
        assert!(matches!(on(&["node1"]), NotTested(_)));
        assert!(matches!(on(&["node1", "other"]), NotTested(_)));
        assert!(leaves("").is_empty());
    }
}

//! Node selection among those with room for a job's tasks. Without topology: the tightest run of
//! consecutive nodes, in it the tightest node that is enough, else nodes in their order
//! (src/plugins/topology/common/eval_nodes.c, best fit over consecutive nodes). With topology/tree:
//! the lowest switch with room for all below it, and of its leaves as few as possible, the tightest
//! last (doc/html/topology.shtml). Room is counted in tasks.

use std::collections::BTreeMap;

use muster_model::NodeId;

use crate::fleet::{Domains, FleetSite};

/// Nodes, and the number of the job's tasks on each.
pub(super) type NodeTasks = Vec<(NodeId, u32)>;

/// Switches of a site: one per domain of each level, and one above all.
#[derive(Clone, Debug)]
pub(super) struct SwitchTree(Domains);

impl SwitchTree {
    pub(super) fn new(site: &FleetSite) -> Self {
        Self(Domains::new(site))
    }

    /// Returns places for all tasks; `None` if there is too little room. Nodes are in order.
    pub(super) fn choose(&self, capacities: &[(NodeId, u32)], tasks: u32) -> Option<NodeTasks> {
        let there: u64 = capacities.iter().map(|(_, capacity)| u64::from(*capacity)).sum();
        if there < u64::from(tasks) {
            return None;
        }
        Some(match self.0.depth() {
            0 => consecutive(capacities, tasks),
            levels => self.below_switches(capacities, tasks, levels),
        })
    }

    fn below_switches(&self, capacities: &[(NodeId, u32)], tasks: u32, levels: usize) -> NodeTasks {
        // 1. The lowest switch with room for all, and of those of its level the tightest.
        let enough = (0..levels).rev().find_map(|level| {
            let groups = self.groups(capacities, level);
            let fitting = groups.into_iter().filter(|group| capacity_of(group) >= u64::from(tasks));
            fitting.min_by_key(|group| capacity_of(group))
        });
        let capacities = enough.as_deref().unwrap_or(capacities);
        // 2. Its leaves: the tightest that is enough for the rest, else the largest.
        let mut leaves = self.groups(capacities, levels - 1);
        let mut left = tasks;
        let mut places = Vec::new();
        while left > 0 && !leaves.is_empty() {
            let best =
                (0..leaves.len()).min_by_key(|at| tightness(&leaves[*at], left)).unwrap_or(0);
            left = in_order(&leaves.remove(best), left, &mut places);
        }
        places
    }

    /// Groups rooms by the switch of a level above them, in order of its first node.
    fn groups(&self, capacities: &[(NodeId, u32)], level: usize) -> Vec<Vec<(NodeId, u32)>> {
        let mut groups: Vec<Vec<(NodeId, u32)>> = Vec::new();
        let mut group_of: BTreeMap<u32, usize> = BTreeMap::new();
        for capacity in capacities {
            let switch = self.0.of(capacity.0, level);
            let group = *group_of.entry(switch).or_insert(groups.len());
            match groups.get_mut(group) {
                Some(group) => group.push(*capacity),
                None => groups.push(vec![*capacity]),
            }
        }
        groups
    }
}

fn capacity_of(capacities: &[(NodeId, u32)]) -> u64 {
    capacities.iter().map(|(_, capacity)| u64::from(*capacity)).sum()
}

/// Sort key, lower is better: sufficient ones first, tightest first, then insufficient ones,
/// largest first.
fn tightness(capacities: &[(NodeId, u32)], left: u32) -> (bool, u64) {
    let capacity = capacity_of(capacities);
    if capacity >= u64::from(left) { (false, capacity) } else { (true, u64::MAX - capacity) }
}

/// Best fit over runs of consecutive nodes: the tightest run that is enough for the rest, else the
/// largest.
fn consecutive(capacities: &[(NodeId, u32)], tasks: u32) -> NodeTasks {
    let mut runs: Vec<&[(NodeId, u32)]> =
        capacities.chunk_by(|one, next| one.0.0 + 1 == next.0.0).collect();
    let mut left = tasks;
    let mut places = Vec::new();
    while left > 0 && !runs.is_empty() {
        let best = (0..runs.len()).min_by_key(|at| tightness(runs[*at], left)).unwrap_or(0);
        let run = runs.remove(best);
        let one = run
            .iter()
            .filter(|(_, capacity)| *capacity >= left)
            .min_by_key(|(_, capacity)| *capacity);
        left = match one {
            Some(one) => in_order(&[*one], left, &mut places),
            None => in_order(run, left, &mut places),
        };
    }
    places
}

/// Fills nodes one after the other; returns how many tasks are left.
fn in_order(capacities: &[(NodeId, u32)], mut left: u32, places: &mut NodeTasks) -> u32 {
    for (node, capacity) in capacities {
        let tasks = left.min(*capacity);
        if tasks > 0 {
            places.push((*node, tasks));
            left -= tasks;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use muster_model::{Bytes, CpuMilli, NodeSpec, QueueTree};

    use super::*;

    /// Checks the places of tasks, with room by node and the leaf switch of each node.
    fn check(capacity: &[u32], leaves: &[usize], tasks: u32, expected: &[(u32, u32)]) {
        let node = |leaf: &usize| NodeSpec {
            domains: vec![format!("leaf-{leaf}").into()],
            ..NodeSpec::plain("n", CpuMilli(0), Bytes(0))
        };
        let levels = if leaves.is_empty() { Vec::new() } else { vec!["leaf".into()] };
        let nodes = leaves.iter().map(node).collect();
        let switches = SwitchTree::new(&FleetSite { nodes, levels, tree: QueueTree::single() });
        let capacities: Vec<(NodeId, u32)> = (0..)
            .map(NodeId)
            .zip(capacity.iter().copied())
            .filter(|(_, capacity)| *capacity > 0)
            .collect();
        let places = switches.choose(&capacities, tasks);
        let expected: Option<NodeTasks> = (!expected.is_empty())
            .then(|| expected.iter().map(|(node, tasks)| (NodeId(*node), *tasks)).collect());
        assert_eq!(places, expected, "{tasks} tasks");
    }

    #[test]
    fn without_topology_the_tightest_run_of_nodes_is_taken() {
        // Runs of 6, 3 and 8.
        let capacity = [2, 4, 0, 3, 0, 8];
        check(&capacity, &[], 3, &[(3, 3)]);
        check(&capacity, &[], 4, &[(1, 4)]);
        check(&capacity, &[], 5, &[(0, 2), (1, 3)]);
        check(&capacity, &[], 7, &[(5, 7)]);
        // No run is enough: the largest first, then the tightest.
        check(&capacity, &[], 11, &[(5, 8), (3, 3)]);
        check(&capacity, &[], 18, &[]);
    }

    #[test]
    fn with_topology_the_fewest_leaves_are_taken_and_the_last_is_the_tightest() {
        // Leaves of 4, 6 and 3.
        let capacity = [2, 3, 1, 2, 3, 2];
        let leaves = [0, 1, 2, 0, 1, 2];
        check(&capacity, &leaves, 3, &[(2, 1), (5, 2)]);
        check(&capacity, &leaves, 4, &[(0, 2), (3, 2)]);
        check(&capacity, &leaves, 6, &[(1, 3), (4, 3)]);
        check(&capacity, &leaves, 9, &[(1, 3), (4, 3), (2, 1), (5, 2)]);
        check(&capacity, &leaves, 14, &[]);
    }
}

//! Choice of a node for a pod: the highest score among those with room, and any of equals.

use muster_model::NodeId;
use muster_model::job::Resources;

use crate::fleet::{Pool, PoolNode};
use crate::rng::Rng;

/// Default CPU and memory requests in scores (pkg/scheduler/util/pod_resources.go,
/// DefaultMilliCPURequest and DefaultMemoryRequest).
const DEFAULT_CPU_MILLI: u64 = 100;
const DEFAULT_MEMORY_BYTES: u64 = 200 << 20;
/// Number of nodes below which all are examined (pkg/scheduler/schedule_one.go,
/// minFeasibleNodesToFind).
const LOOK_AT_LEAST: usize = 100;
/// Percentage examined of more nodes, less one per 125 nodes, at least 5 % (same file,
/// numFeasibleNodesToFind).
const LOOK_AT_PERCENT: usize = 50;
const NODES_PER_PERCENT: usize = 125;
const LEAST_PERCENT: usize = 5;

/// Chooser of nodes: examines enough nodes with room and continues from there the next time.
#[derive(Clone, Debug)]
pub(super) struct NodePicker {
    next: usize,
    rng: Rng,
}

impl NodePicker {
    pub(super) fn new(seed: u64) -> Self {
        Self { next: 0, rng: Rng::new(seed) }
    }

    /// Returns a node for a pod; `None` if it fits nowhere.
    pub(super) fn choose(&mut self, pool: &Pool, pod: &Resources) -> Option<NodeId> {
        let count = pool.nodes().len();
        let enough = sufficient_nodes(count);
        let mut seen = 0;
        let mut feasible = 0;
        let mut best: Option<(u64, NodeId)> = None;
        let mut equals = 0;
        while seen < count && feasible < enough {
            let id = NodeId(((self.next + seen) % count) as u32);
            seen += 1;
            let node = pool.node(id);
            if node.choose(pod).is_none() {
                continue;
            }
            feasible += 1;
            let score = score(node, pod);
            match best {
                Some((highest, _)) if score < highest => {}
                Some((highest, _)) if score == highest => {
                    // Each equal node has the same chance (same file, selectHost).
                    equals += 1;
                    if self.rng.roll(equals) == 0 {
                        best = Some((score, id));
                    }
                }
                _ => (best, equals) = (Some((score, id)), 1),
            }
        }
        self.next = (self.next + seen) % count.max(1);
        best.map(|(_, node)| node)
    }
}

/// Returns how many nodes with room are enough to choose from.
fn sufficient_nodes(count: usize) -> usize {
    if count < LOOK_AT_LEAST {
        return count;
    }
    let percent = LOOK_AT_PERCENT.saturating_sub(count / NODES_PER_PERCENT).max(LEAST_PERCENT);
    (count * percent / 100).max(LOOK_AT_LEAST)
}

/// Returns the score by CPUs and memory: how much would be left, and how evenly both would be used
/// (plugins/noderesources, LeastAllocated and BalancedAllocation, weight 1 each, 0 to 100). GPUs
/// have no weight by default.
fn score(node: &PoolNode, pod: &Resources) -> u64 {
    let of = |there: u64, free: u64, asked: u64, default: u64| {
        let asked = if asked == 0 { default } else { asked };
        (there, (there - free + asked).min(there))
    };
    let cpus = of(
        u64::from(node.spec.cpus.0),
        u64::from(node.cpus),
        u64::from(pod.cpus.0),
        DEFAULT_CPU_MILLI,
    );
    let memory = of(node.spec.memory.0, node.memory_bytes, pod.memory.0, DEFAULT_MEMORY_BYTES);
    let parts = [cpus, memory].into_iter().filter(|(there, _)| *there > 0);
    let count = parts.clone().count() as u64;
    if count == 0 {
        return 0;
    }
    let left: u64 = parts.clone().map(|(there, used)| share(there - used, there)).sum();
    let used: Vec<u64> = parts.map(|(there, used)| share(used, there)).collect();
    // With two fractions the standard deviation is half their difference.
    let uneven =
        used.iter().max().zip(used.iter().min()).map_or(0, |(most, least)| (most - least) / 2);
    left / count + (100 - uneven)
}

/// Returns a part in percent.
fn share(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_feasible_nodes_end_the_search() {
        assert_eq!(
            [8, 99, 100, 1_000, 5_000, 10_000].map(sufficient_nodes),
            [8, 99, 100, 420, 500, 500]
        );
    }
}

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

/// Weights of CPUs, memory and GPUs with [`Scoring::MostAllocated`] (example of the page on resource
/// bin packing, which gives extended resources three times the weight).
const PACKING_WEIGHTS: [u64; 3] = [1, 1, 3];

/// Strategy by which nodes are scored (plugin NodeResourcesFit, scoringStrategy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// Nodes with most free CPUs and memory first, as by default.
    LeastAllocated,
    /// Nodes with fewest free GPUs, CPUs and memory first: bin packing.
    MostAllocated,
}

/// Chooser of nodes: examines enough nodes with room and continues from there the next time.
#[derive(Clone, Debug)]
pub(super) struct NodePicker {
    next: usize,
    rng: Rng,
    pub(super) scoring: Scoring,
}

impl NodePicker {
    pub(super) fn new(seed: u64) -> Self {
        Self { next: 0, rng: Rng::new(seed), scoring: Scoring::LeastAllocated }
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
            let score = score(node, pod, self.scoring);
            match best {
                Some((highest, _)) if score < highest => {}
                Some((highest, _)) if score == highest => {
                    // Each equal node has the same chance (same file, prioritizeNodes).
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

/// Capacity of a resource on a node, and use with the pod, at most the capacity.
type ResourceUse = (u64, u64);

/// Returns the score of a node: by what would be left or used (plugins/noderesources,
/// LeastAllocated or MostAllocated), 0 to 100, and by whether CPUs and memory would be used more evenly
/// than before (BalancedAllocation); weight 1 each.
fn score(node: &PoolNode, pod: &Resources, scoring: Scoring) -> u64 {
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
    let amount = match scoring {
        Scoring::LeastAllocated => {
            mean([cpus, memory].map(|(there, used)| ((there, there - used), 1)))
        }
        Scoring::MostAllocated => {
            let [of_cpus, of_memory, of_gpus] = PACKING_WEIGHTS;
            mean([(cpus, of_cpus), (memory, of_memory), (gpu_use(node, pod), of_gpus)])
        }
    };
    amount + balance(node, pod)
}

/// Returns the use of GPUs with the pod; a resource that the pod does not request has no capacity.
fn gpu_use(node: &PoolNode, pod: &Resources) -> ResourceUse {
    let asked = u64::from(pod.gpu.devices);
    let there = (node.spec.devices.len() - node.broken.len() as usize) as u64;
    if asked == 0 {
        (0, 0)
    } else {
        (there, (there - u64::from(node.whole.len()) + asked).min(there))
    }
}

/// Returns the weighted mean in percent over resources that the node has.
fn mean<const N: usize>(parts: [(ResourceUse, u64); N]) -> u64 {
    let there = || parts.iter().filter(|((there, _), _)| *there > 0);
    let weights: u64 = there().map(|(_, weight)| weight).sum();
    let sum: u64 = there().map(|((there, part), weight)| share(*part, *there) * weight).sum();
    sum.checked_div(weights).unwrap_or(0)
}

/// Returns 75 if the pod leaves the use of CPUs and memory as even as it is, up to 100 if it makes it more
/// even, down to 50 if less (balanced_allocation.go, since 1.36). Requests count as they are, without
/// defaults; a pod that has none gets nothing.
fn balance(node: &PoolNode, pod: &Resources) -> u64 {
    let asked = [u64::from(pod.cpus.0), pod.memory.0];
    if asked == [0, 0] {
        return 0;
    }
    let there = [u64::from(node.spec.cpus.0), node.spec.memory.0];
    let free = [u64::from(node.cpus), node.memory_bytes];
    let with = |more: [u64; 2]| {
        evenness([0, 1].map(|at| (there[at], (there[at] - free[at] + more[at]).min(there[at]))))
    };
    50 + (50 + with(asked) - with([0, 0])) / 2
}

/// Returns 100 less the standard deviation of the used parts in percent: of two, half their difference.
fn evenness([(cpus, cpus_used), (memory, memory_used)]: [ResourceUse; 2]) -> u64 {
    let [cpus, cpus_used, memory, memory_used] =
        [cpus, cpus_used, memory, memory_used].map(u128::from);
    let whole = 2 * cpus * memory;
    let apart = (cpus_used * memory).abs_diff(memory_used * cpus);
    ((whole - apart) * 100).checked_div(whole).unwrap_or(100) as u64
}

/// Returns a part in percent.
fn share(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100 / u128::from(whole)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of 8 GPUs, 10 CPUs and 100 GiB, of which two GPUs, 4 CPUs and 20 GiB are taken, and a
    /// pod of two GPUs, 1 CPU and 10 GiB: half of everything, but for 30 % of memory.
    #[test]
    fn scores_are_those_of_the_plugins() {
        use muster_model::job::GpuRequest;
        use muster_model::{Bytes, CpuMilli, Device, NodeSpec};

        let node = NodeSpec {
            devices: vec![Device::declared("a100", Bytes(0)); 8],
            ..NodeSpec::plain("n", CpuMilli(10_000), Bytes(100 << 30))
        };
        let mut pool = Pool::new(&[node]);
        let pod = |gpus, cpus, gib: u64| Resources {
            gpu: GpuRequest::whole(gpus),
            cpus: CpuMilli(cpus),
            memory: Bytes(gib << 30),
            ..Resources::default()
        };
        let there = pod(2, 4_000, 20);
        let devices = pool.node(NodeId(0)).choose(&there).expect("the node is idle");
        assert!(pool.take(NodeId(0), &there, devices));
        let score = |pod: &Resources, scoring| score(pool.node(NodeId(0)), pod, scoring);
        let asked = pod(2, 1_000, 10);
        // (50 + 70) / 2. CPUs and memory, 40 % and 20 % used, become 50 % and 30 %: as even as before.
        assert_eq!(score(&asked, Scoring::LeastAllocated), 60 + 75);
        // (50 + 30 + 3 × 50) / 5. Without GPUs, those of the node do not count.
        assert_eq!(score(&asked, Scoring::MostAllocated), 46 + 75);
        assert_eq!(score(&pod(0, 1_000, 10), Scoring::MostAllocated), 40 + 75);
        // 80 % and 30 %: half their difference is 25 and was 10, so 50 + (50 + 75 - 90) / 2.
        assert_eq!(score(&pod(2, 4_000, 10), Scoring::LeastAllocated), 45 + 67);
        // Without requests, the defaults count in the first score only.
        assert_eq!(score(&pod(2, 0, 0), Scoring::LeastAllocated), 69);
    }

    #[test]
    fn enough_feasible_nodes_end_the_search() {
        assert_eq!(
            [8, 99, 100, 1_000, 5_000, 10_000].map(sufficient_nodes),
            [8, 99, 100, 420, 500, 500]
        );
    }
}

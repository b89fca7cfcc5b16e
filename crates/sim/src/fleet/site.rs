//! Initial state of a fleet, the same for every scheduler.

use muster_model::{NodeSpec, QueueTree};

/// Nodes and queues. A model of another scheduler uses those parts of the queue tree that have a
/// counterpart in it; see docs/models.md.
#[derive(Clone, Debug)]
pub struct FleetSite {
    /// Nodes in order of their numbers.
    pub nodes: Vec<NodeSpec>,
    /// Topology levels, widest first, without the node.
    pub levels: Vec<std::sync::Arc<str>>,
    /// Queues, quotas and policies.
    pub tree: QueueTree,
}

impl FleetSite {
    /// Returns the size of the cluster in thousandths of GPUs, or of CPUs where no node has a GPU:
    /// the cluster's unit.
    #[must_use]
    pub fn size_milli(&self) -> u64 {
        if self.has_gpus() {
            self.nodes.iter().map(|node| node.devices.len() as u64 * 1000).sum()
        } else {
            self.nodes.iter().map(|node| u64::from(node.cpus.0)).sum()
        }
    }

    /// Returns whether some node has a GPU.
    #[must_use]
    pub fn has_gpus(&self) -> bool {
        self.nodes.iter().any(|node| !node.devices.is_empty())
    }
}

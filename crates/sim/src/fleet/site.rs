//! What there is before the first job arrives: the same for whoever decides.

use muster_model::{NodeSpec, QueueTree};

/// Nodes, and the queues that their owners agreed on. Models of other control planes read of the
/// tree what they have a word for; their pages say what that is.
#[derive(Clone, Debug)]
pub struct Site {
    /// Nodes, in order of their numbers.
    pub nodes: Vec<NodeSpec>,
    /// Topology levels, widest first, without the node.
    pub levels: Vec<std::sync::Arc<str>>,
    /// Queues, quotas and policies.
    pub tree: QueueTree,
}

impl Site {
    /// What the cluster is measured in: thousandths of GPUs, or of CPUs where no node has a GPU.
    #[must_use]
    pub fn size_milli(&self) -> u64 {
        match self.has_gpus() {
            true => self.nodes.iter().map(|node| node.devices.len() as u64 * 1000).sum(),
            false => self.nodes.iter().map(|node| u64::from(node.cpus.0)).sum(),
        }
    }

    /// Some node has a GPU.
    #[must_use]
    pub fn has_gpus(&self) -> bool {
        self.nodes.iter().any(|node| !node.devices.is_empty())
    }
}

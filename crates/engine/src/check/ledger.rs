//! Plain sums of what is held of nodes: the opposite of an index.

use muster_model::job::Resources;
use muster_model::{NodeId, TaskPlacement};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Violation;
use crate::state::node::Node;
use crate::state::pool::Pool;

/// What is held of one node on top of something.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) devices: BTreeMap<usize, u64>,
    pub(super) cpus: u64,
    pub(super) memory: u64,
    pub(super) extras: BTreeMap<Arc<str>, u64>,
}

impl Sum {
    pub(super) fn add(&mut self, task: &TaskPlacement, needs: &Resources) {
        for device in task.devices.iter() {
            *self.devices.entry(device).or_default() += u64::from(task.share.0);
        }
        self.cpus += u64::from(needs.cpus.0);
        self.memory = self.memory.saturating_add(needs.memory.0);
        for (name, count) in &needs.extras {
            *self.extras.entry(Arc::clone(name)).or_default() += count;
        }
    }

    /// What of it a node does not have. `is_new` when the sum contains what a plan adds: only then must devices be
    /// in service and unused by others, as these may change under what is held.
    pub(super) fn excess(&self, id: NodeId, pool: &Pool, is_new: bool) -> Vec<Violation> {
        let node = pool.node(id);
        let mut found = Vec::new();
        for (device, milli) in &self.devices {
            let in_service = !is_new || node.usable.contains(*device);
            if *milli > 1000 || !in_service {
                found.push(Violation::Device { node: id, device: *device, milli: *milli });
            }
        }
        let (cpus, memory) = offered(node);
        if self.cpus > cpus {
            found.push(Violation::Quantity { node: id, what: "cpus" });
        }
        if self.memory > memory {
            found.push(Violation::Quantity { node: id, what: "memory" });
        }
        if self.extras.iter().any(|(name, count)| *count > node.spec.extras.get(name).copied().unwrap_or(0)) {
            found.push(Violation::Quantity { node: id, what: "extras" });
        }
        found
    }
}

/// CPUs and memory of a node that others do not use.
fn offered(node: &Node) -> (u64, u64) {
    let cpus = u64::from(node.spec.cpus.0).saturating_sub(u64::from(node.foreign.cpus.0));
    (cpus, node.spec.memory.0.saturating_sub(node.foreign.memory.0))
}

/// Sums by node.
pub(super) type Sums = FxHashMap<NodeId, Sum>;

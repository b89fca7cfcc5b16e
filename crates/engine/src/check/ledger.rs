//! Sums of what is held on nodes, by plain addition instead of indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{NodeId, TaskPlacement};
use smallvec::SmallVec;

use super::Violation;
use crate::pool::Pool;
use crate::pool::node::Node;

/// Thousandths held by device. Most nodes have at most 8 devices.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceSums(SmallVec<[(usize, u64); 8]>);

impl DeviceSums {
    /// Returns the sum of a device, initialised with `known`.
    pub(super) fn entry(&mut self, device: usize, known: impl FnOnce() -> u64) -> &mut u64 {
        // Devices mostly come in ascending order.
        if self.0.last().is_none_or(|(last, _)| *last < device) {
            self.0.push((device, known()));
            return &mut self.0.last_mut().expect("pushed above").1;
        }
        let at = self.0.binary_search_by_key(&device, |(other, _)| *other);
        let at = at.unwrap_or_else(|at| {
            self.0.insert(at, (device, known()));
            at
        });
        &mut self.0[at].1
    }

    pub(super) fn of(&self, device: usize) -> u64 {
        self.0.iter().find(|(other, _)| *other == device).map_or(0, |(_, milli)| *milli)
    }
}

/// Sum of tasks on one node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeSum {
    pub(super) devices: DeviceSums,
    pub(super) cpus: u64,
    pub(super) memory: u64,
    pub(super) extras: BTreeMap<Arc<str>, u64>,
}

impl NodeSum {
    pub(super) fn add(&mut self, task: &TaskPlacement, needs: &Resources) {
        for device in task.devices.iter() {
            *self.devices.entry(device, || 0) += u64::from(task.share.0);
        }
        self.cpus += u64::from(needs.cpus.0);
        self.memory = self.memory.saturating_add(needs.memory.0);
        for (name, count) in &needs.extras {
            *self.extras.entry(Arc::clone(name)).or_default() += count;
        }
    }

    /// Returns the resources that exceed the node, of those that `asked` uses: existing holdings
    /// may exceed a node that shrank or is used outside Muster, as long as nothing is added. With
    /// `in_service`, devices must also exist and not be used outside Muster; drains and advance
    /// reservations are checked separately.
    pub(super) fn excess(
        &self,
        asked: &NodeSum,
        id: NodeId,
        pool: &Pool,
        in_service: bool,
    ) -> Vec<Violation> {
        let node = pool.node(id);
        let others = node.foreign.devices.or(node.foreign.drained);
        let is_there = |device: usize| device < node.spec.devices.len() && !others.contains(device);
        let mut found = Vec::new();
        for (device, _) in &asked.devices.0 {
            let milli = self.devices.of(*device);
            if milli > 1000 || in_service && !is_there(*device) {
                found.push(Violation::Device { node: id, device: *device, milli });
            }
        }
        let (cpus, memory) = offered(node);
        if asked.cpus > 0 && self.cpus > cpus {
            found.push(Violation::Quantity { node: id, what: "cpus" });
        }
        if asked.memory > 0 && self.memory > memory {
            found.push(Violation::Quantity { node: id, what: "memory" });
        }
        let of = |sum: &NodeSum, name| sum.extras.get(name).copied().unwrap_or(0);
        let units = |extras: &BTreeMap<Arc<str>, u64>, name| extras.get(name).copied().unwrap_or(0);
        let has =
            |name| units(&node.spec.extras, name).saturating_sub(units(&node.foreign.extras, name));
        if asked.extras.keys().any(|name| of(self, name) > has(name)) {
            found.push(Violation::Quantity { node: id, what: "extras" });
        }
        found
    }
}

/// Returns CPUs and memory of a node that are not used outside Muster.
pub(super) fn offered(node: &Node) -> (u64, u64) {
    let cpus = u64::from(node.spec.cpus.0).saturating_sub(u64::from(node.foreign.cpus.0));
    (cpus, node.spec.memory.0.saturating_sub(node.foreign.memory.0))
}

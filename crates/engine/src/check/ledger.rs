//! Plain sums of what is held of nodes: the opposite of an index.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::Resources;
use muster_model::{NodeId, TaskPlacement};
use smallvec::SmallVec;

use super::Violation;
use crate::state::node::Node;
use crate::state::pool::Pool;

/// Thousandths by device. Most nodes have no more than these.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices(SmallVec<[(usize, u64); 8]>);

impl Devices {
    /// What is held of a device, which is `known` where nothing was said yet.
    pub(super) fn entry(&mut self, device: usize, known: impl FnOnce() -> u64) -> &mut u64 {
        // They mostly come in order.
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

/// What is held of one node on top of something.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) devices: Devices,
    pub(super) cpus: u64,
    pub(super) memory: u64,
    pub(super) extras: BTreeMap<Arc<str>, u64>,
}

impl Sum {
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

    /// What of it a node does not have, looking only at what `asked` has some of: what is held may
    /// exceed a node that shrank or that others use, as long as nothing is added to it.
    /// `in_service`: devices must be there and not in use by others, too; drains and windows are
    /// judged by themselves.
    pub(super) fn excess(
        &self,
        asked: &Sum,
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
        let of = |sum: &Sum, name| sum.extras.get(name).copied().unwrap_or(0);
        let has = |name| node.spec.extras.get(name).copied().unwrap_or(0);
        if asked.extras.keys().any(|name| of(self, name) > has(name)) {
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

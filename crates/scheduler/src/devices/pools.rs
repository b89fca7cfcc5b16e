//! Pools of devices that drivers advertise, as they are now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_kubernetes::device::slice::SliceFacts;
use muster_kubernetes::device::{DeviceFacts, DeviceId};
use muster_model::NodeName;

/// Driver and name of a pool.
type PoolKey = (Arc<str>, Arc<str>);

/// Pools of the cluster.
#[derive(Debug, Default)]
pub(super) struct Pools {
    slices: BTreeMap<Arc<str>, SliceFacts>,
    /// Slices of each pool, of all generations.
    pools: BTreeMap<PoolKey, BTreeSet<Arc<str>>>,
    /// Pools with a slice of the node.
    of_nodes: BTreeMap<NodeName, BTreeSet<PoolKey>>,
}

impl Pools {
    /// Records a slice; returns the nodes whose devices may have changed, none for a repeated report.
    pub(super) fn insert(&mut self, slice: SliceFacts) -> BTreeSet<NodeName> {
        if self.slices.get(&slice.name) == Some(&slice) {
            return BTreeSet::new();
        }
        let mut nodes = self.remove(&slice.name.clone());
        let pool = (Arc::clone(&slice.driver), Arc::clone(&slice.pool));
        if let Some(node) = &slice.node {
            self.of_nodes.entry(node.clone()).or_default().insert(pool.clone());
        }
        self.pools.entry(pool.clone()).or_default().insert(Arc::clone(&slice.name));
        self.slices.insert(Arc::clone(&slice.name), slice);
        nodes.extend(self.nodes_of(&pool));
        nodes
    }

    /// Forgets a slice; returns the nodes whose devices may have changed.
    pub(super) fn remove(&mut self, name: &Arc<str>) -> BTreeSet<NodeName> {
        let Some(slice) = self.slices.get(name) else { return BTreeSet::new() };
        let pool = (Arc::clone(&slice.driver), Arc::clone(&slice.pool));
        let nodes: BTreeSet<NodeName> = self.nodes_of(&pool).collect();
        self.slices.remove(name);
        if let Some(slices) = self.pools.get_mut(&pool) {
            slices.remove(name);
        }
        let left: BTreeSet<NodeName> = self.nodes_of(&pool).collect();
        for node in nodes.difference(&left) {
            if let Some(pools) = self.of_nodes.get_mut(node) {
                pools.remove(&pool);
                if pools.is_empty() {
                    self.of_nodes.remove(node);
                }
            }
        }
        nodes
    }

    /// Returns the nodes that have devices.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.of_nodes.keys()
    }

    /// Returns the devices of a node. A pool that is being changed, of which not all slices are there,
    /// has none (API documentation of ResourcePool).
    pub(super) fn devices(&self, node: &NodeName) -> impl Iterator<Item = &DeviceFacts> {
        let pools = self.of_nodes.get(node).into_iter().flatten();
        let slices = pools.flat_map(|pool| self.current(pool));
        slices.filter(|slice| slice.node.as_ref() == Some(node)).flat_map(|slice| &slice.devices)
    }

    /// Returns a device by its names.
    pub(super) fn find(&self, id: &DeviceId) -> Option<&DeviceFacts> {
        let pool = (Arc::clone(&id.driver), Arc::clone(&id.pool));
        let mut devices = self.slices_of(&pool).flat_map(|slice| &slice.devices);
        devices.find(|device| device.id == *id)
    }

    fn slices_of(&self, pool: &PoolKey) -> impl Iterator<Item = &SliceFacts> {
        let names = self.pools.get(pool).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name))
    }

    fn nodes_of(&self, pool: &PoolKey) -> impl Iterator<Item = NodeName> {
        self.slices_of(pool).filter_map(|slice| slice.node.clone())
    }

    /// Returns the slices of the newest generation of a pool, if all are there.
    fn current(&self, pool: &PoolKey) -> Vec<&SliceFacts> {
        let newest = self.slices_of(pool).map(|slice| slice.generation).max();
        let slices: Vec<&SliceFacts> =
            self.slices_of(pool).filter(|slice| Some(slice.generation) == newest).collect();
        let is_whole = slices.iter().all(|slice| slice.slices == slices.len() as i64);
        if is_whole { slices } else { Vec::new() }
    }
}

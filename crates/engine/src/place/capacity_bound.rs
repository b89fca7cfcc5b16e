//! Upper bound on the tasks that could be placed, kept up to date as nodes change on scratch, so
//! that attempts that cannot succeed are not made. It places nothing.

use muster_model::NodeId;
use smallvec::SmallVec;

use crate::pool::Pool;
use crate::pool::node::Node;
use crate::pool::shape::{Eligible, GroupNeed, Shape};

/// Needs of a gang, and the nodes that it may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeFilter<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) eligible: &'a Eligible,
    pub(crate) avoid: &'a [NodeId],
}

impl NodeFilter<'_> {
    /// Returns true if the gang may use the node now.
    pub(crate) fn admits(&self, pool: &Pool, id: NodeId) -> bool {
        pool.node(id).accepts_work()
            && self.eligible.as_ref().is_none_or(|eligible| eligible[id.0 as usize])
            && !self.avoid.contains(&id)
    }
}

/// Upper bound on the tasks that could be placed, by group.
#[derive(Clone, Debug)]
pub(crate) struct CapacityBound<'a> {
    shape: &'a Shape,
    sums: SmallVec<[u64; 2]>,
}

impl<'a> CapacityBound<'a> {
    pub(crate) fn new(pool: &mut Pool, node_filter: NodeFilter<'a>) -> Self {
        let sum = |group: &GroupNeed| {
            // Cheap test first: the number of free GPUs, from the sizes of the index buckets. Only
            // if these suffice, every node is counted, since CPUs, labels or bookings may not.
            let cheap = bucket_bound(pool, group);
            if cheap < u64::from(group.tasks) {
                return cheap;
            }
            let ids = (0..pool.nodes().len() as u32)
                .map(NodeId)
                .filter(|id| node_filter.admits(pool, *id));
            ids.map(|id| u64::from(node_bound(pool.node(id), group))).sum()
        };
        Self { shape: node_filter.shape, sums: node_filter.shape.groups.iter().map(sum).collect() }
    }

    /// Removes a node's share of the bound, before it changes.
    pub(crate) fn remove_node(&mut self, node: &Node) {
        for (sum, group) in self.sums.iter_mut().zip(&self.shape.groups) {
            *sum = sum.saturating_sub(u64::from(node_bound(node, group)));
        }
    }

    /// Adds a node's share of the bound, after it has changed.
    pub(crate) fn add_node(&mut self, node: &Node) {
        for (sum, group) in self.sums.iter_mut().zip(&self.shape.groups) {
            *sum += u64::from(node_bound(node, group));
        }
    }

    /// Returns the bound summed over all groups: it grows when one more task fits.
    pub(crate) fn total(&self) -> u64 {
        self.sums.iter().fold(0, |total, sum| total.saturating_add(*sum))
    }

    pub(crate) fn suffices(&self) -> bool {
        self.sums.iter().zip(&self.shape.groups).all(|(sum, group)| *sum >= u64::from(group.tasks))
    }
}

/// Returns an upper bound on the tasks of a group over all nodes, from the bucket sizes alone; at
/// least the sum over nodes of [`node_bound`]. Unlimited for groups without whole devices.
fn bucket_bound(pool: &mut Pool, group: &GroupNeed) -> u64 {
    if group.devices == 0 {
        return u64::MAX;
    }
    let models: SmallVec<[_; 4]> = pool.models().filter(|model| group.accepts(*model)).collect();
    let index = pool.index();
    let indexes = models.iter().filter_map(|model| index.model(*model));
    let sizes = indexes.flat_map(|index| index.clear.sizes().chain(index.booked.sizes()));
    sizes.map(|(free, nodes)| free / u64::from(group.devices) * nodes).sum()
}

/// Returns an upper bound on the tasks of a group that a node hosts as it is on scratch, ignoring
/// bookings.
fn node_bound(node: &Node, group: &GroupNeed) -> u32 {
    let accepted = node.models.iter().filter(|(model, _)| group.accepts(*model));
    let by_gpu = match (group.devices, group.share) {
        (0, 0) => u64::MAX,
        (0, share) => {
            let devices = accepted.flat_map(|(_, devices)| devices.and(node.usable).iter());
            devices
                .map(|device| u64::from(1000u16.saturating_sub(node.held_of(device)) / share))
                .sum()
        }
        (per_task, _) => {
            accepted.map(|(_, devices)| u64::from(devices.and(node.free()).len() / per_task)).sum()
        }
    };
    let tasks = by_gpu.min(node.limit.fits(&node.used, &group.scalars)).min(u64::from(group.tasks));
    match group.per_node {
        Some(block) if tasks >= u64::from(block) => block,
        Some(_) => 0,
        None => tasks as u32,
    }
}

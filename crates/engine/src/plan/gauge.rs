//! How much could be placed at most, kept up to date as nodes change on scratch: what this refuses
//! is not tried. It places nothing.

use muster_model::NodeId;
use smallvec::SmallVec;

use crate::state::node::Node;
use crate::state::pool::Pool;
use crate::state::shape::{Eligible, GroupNeed, Shape};

/// What a gang needs, and which nodes it may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) eligible: &'a Eligible,
    pub(crate) avoid: &'a [NodeId],
}

impl Reach<'_> {
    /// True when the gang may use the node now.
    pub(super) fn admits(&self, pool: &Pool, id: NodeId) -> bool {
        pool.node(id).hosts()
            && self.eligible.as_ref().is_none_or(|eligible| eligible[id.0 as usize])
            && !self.avoid.contains(&id)
    }
}

/// An upper bound on what could be placed, by group, kept up to date as nodes change: attempts that
/// cannot succeed are not made.
#[derive(Clone, Debug)]
pub(super) struct Gauge<'a> {
    shape: &'a Shape,
    sums: SmallVec<[u64; 2]>,
}

impl<'a> Gauge<'a> {
    pub(super) fn new(pool: &mut Pool, reach: Reach<'a>) -> Self {
        let sum = |group: &GroupNeed| {
            // What the sizes of the buckets say costs nothing. Only where they say "enough" must
            // something else be short (CPUs, labels, bookings), and every node is looked at.
            let cheap = bound_of_buckets(pool, group);
            if cheap < u64::from(group.tasks) {
                return cheap;
            }
            let ids =
                (0..pool.nodes().len() as u32).map(NodeId).filter(|id| reach.admits(pool, *id));
            ids.map(|id| u64::from(bound(pool.node(id), group))).sum()
        };
        Self { shape: reach.shape, sums: reach.shape.groups.iter().map(sum).collect() }
    }

    /// A node is about to change.
    pub(super) fn leave(&mut self, node: &Node) {
        for (sum, group) in self.sums.iter_mut().zip(&self.shape.groups) {
            *sum = sum.saturating_sub(u64::from(bound(node, group)));
        }
    }

    /// A node has changed.
    pub(super) fn enter(&mut self, node: &Node) {
        for (sum, group) in self.sums.iter_mut().zip(&self.shape.groups) {
            *sum += u64::from(bound(node, group));
        }
    }

    /// How much fits at most, over all groups: it grows when something more does.
    pub(super) fn total(&self) -> u64 {
        self.sums.iter().fold(0, |total, sum| total.saturating_add(*sum))
    }

    pub(super) fn is_enough(&self) -> bool {
        self.sums.iter().zip(&self.shape.groups).all(|(sum, group)| *sum >= u64::from(group.tasks))
    }
}

/// At most how many tasks of a group all nodes host, from the sizes of the buckets; no less than
/// the sum over nodes of [`bound`]. Nothing is known of groups without whole devices.
fn bound_of_buckets(pool: &mut Pool, group: &GroupNeed) -> u64 {
    if group.devices == 0 {
        return u64::MAX;
    }
    let models: SmallVec<[_; 4]> = pool.models().filter(|model| group.accepts(*model)).collect();
    let index = pool.index();
    let indexes = models.iter().filter_map(|model| index.model(*model));
    let sizes = indexes.flat_map(|index| index.clear.sizes().chain(index.booked.sizes()));
    sizes.map(|(free, nodes)| free / u64::from(group.devices) * nodes).sum()
}

/// At most how many tasks of a group a node hosts as it is on scratch, bookings aside.
fn bound(node: &Node, group: &GroupNeed) -> u32 {
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

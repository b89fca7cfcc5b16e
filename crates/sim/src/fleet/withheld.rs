//! Nodes withheld by their owner: the free part counts as held and stays idle. Only models of
//! people use it, no scheduler does; they decide what is withheld and for how long.

use std::collections::BTreeMap;

use muster_model::{DeviceSet, NodeId, Time};

use super::load::JobNo;
use super::pool::Pool;

/// A node that is partly withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WithheldNode {
    /// Job whose owner withholds the node.
    pub(super) job: JobNo,
    /// Start of the current period.
    pub(super) since: Time,
    /// Devices that have been idle since then.
    pub(super) rest: DeviceSet,
}

#[derive(Clone, Debug, Default)]
pub(super) struct WithheldNodes {
    nodes: BTreeMap<NodeId, WithheldNode>,
}

impl WithheldNodes {
    /// Withholds the free part of a node; an earlier owner keeps it.
    pub(super) fn withhold(&mut self, pool: &mut Pool, node: NodeId, job: JobNo, now: Time) {
        self.nodes.entry(node).or_insert(WithheldNode {
            job,
            since: now,
            rest: pool.node(node).whole,
        });
        pool.set_withheld(node, true);
    }

    /// Starts a new period because more of the node is idle. Returns the previous state; `None` if
    /// it is not withheld.
    pub(super) fn renew(&mut self, pool: &Pool, node: NodeId, now: Time) -> Option<WithheldNode> {
        let withheld = self.nodes.get_mut(&node)?;
        let until_now = *withheld;
        (withheld.since, withheld.rest) = (now, pool.node(node).whole);
        Some(until_now)
    }

    /// Releases a node; `None` if it was not withheld.
    pub(super) fn release(&mut self, pool: &mut Pool, node: NodeId) -> Option<WithheldNode> {
        let withheld = self.nodes.remove(&node)?;
        pool.set_withheld(node, false);
        Some(withheld)
    }

    /// Returns what is withheld and idle, in the cluster's unit.
    pub(super) fn idle_milli(&self, pool: &Pool, has_gpus: bool) -> u64 {
        self.nodes.keys().map(|node| pool.node(*node).idle_milli(has_gpus)).sum()
    }
}

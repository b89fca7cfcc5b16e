//! Nodes that somebody keeps for themselves: what is free of them is held and does nothing. Only
//! for models of people: no scheduler does this. Who may keep what, and for how long, is not
//! decided here.

use std::collections::BTreeMap;

use muster_model::{DeviceSet, NodeId, Time};

use super::load::JobNo;
use super::pool::Pool;

/// For whom and since when a part of a node is kept idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// For which job.
    pub(super) job: JobNo,
    /// Since when.
    pub(super) since: Time,
    /// Devices that have been idle since then.
    pub(super) rest: DeviceSet,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptNodes {
    nodes: BTreeMap<NodeId, Kept>,
}

impl KeptNodes {
    /// Keeps what is free of a node; who keeps it already goes on doing so.
    pub(super) fn keep(&mut self, pool: &mut Pool, node: NodeId, job: JobNo, now: Time) {
        self.nodes.entry(node).or_insert(Kept { job, since: now, rest: pool.node(node).whole });
        pool.set_kept(node, true);
    }

    /// Something on it has ended: from now on more of it is idle. What was until now; `None` where
    /// nobody keeps it.
    pub(super) fn renew(&mut self, pool: &Pool, node: NodeId, now: Time) -> Option<Kept> {
        let kept = self.nodes.get_mut(&node)?;
        let until_now = *kept;
        (kept.since, kept.rest) = (now, pool.node(node).whole);
        Some(until_now)
    }

    /// Gives it back; `None` where nobody kept it.
    pub(super) fn let_go(&mut self, pool: &mut Pool, node: NodeId) -> Option<Kept> {
        let kept = self.nodes.remove(&node)?;
        pool.set_kept(node, false);
        Some(kept)
    }

    /// What is kept and idle, in what the cluster is measured in.
    pub(super) fn idle_milli(&self, pool: &Pool, has_gpus: bool) -> u64 {
        self.nodes.keys().map(|node| pool.node(*node).idle_milli(has_gpus)).sum()
    }
}

//! Preemption node by node. A queue returns no more than is reclaimable from it: the first victims
//! in order may have used that up although the candidate still does not start, while victims
//! elsewhere would help more. So all victims are restored, and nodes are cleared one after the
//! other, the cheapest first. Whether the candidate then starts is decided by the usual placement.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_model::NodeId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::preempt::PreemptionSearch;

/// Most node visits of evicted victims before the search stops: tens of milliseconds.
const MAX_NODE_VISITS: usize = 200_000;

/// Possible victims by node, and nodes by the cost of clearing them.
#[derive(Default)]
struct ClearableNodes {
    holders: FxHashMap<NodeId, SmallVec<[usize; 4]>>,
    /// Cost of evicting all holders of a node, then its rank by name. Entries may be out of date.
    order: BinaryHeap<Reverse<(u64, u32, NodeId)>>,
    visits: usize,
}

impl PreemptionSearch<'_, '_> {
    /// Clears nodes until the candidate starts.
    pub(super) fn evict_by_node(&mut self) -> bool {
        if self.tried.iter().all(|(_, is_evicted)| *is_evicted) {
            return false;
        }
        let mut nodes = self.restore_and_index();
        let mut until_attempt = 1;
        let mut stride = 1;
        let mut is_changed = false;
        while let Some(Reverse((cost, _, id))) = nodes.order.pop() {
            if nodes.visits > MAX_NODE_VISITS
                || cost != self.eviction_cost(&nodes, id)
                || !self.evict_on_node(&mut nodes, id)
            {
                continue;
            }
            is_changed = true;
            until_attempt -= 1;
            if until_attempt == 0 && self.might_start() {
                if self.try_start() {
                    return true;
                }
                (until_attempt, stride, is_changed) = (stride, stride * 2, false);
            }
            until_attempt = until_attempt.max(1);
        }
        is_changed && self.might_start() && self.try_start()
    }

    /// Restores all victims and indexes them by node.
    fn restore_and_index(&mut self) -> ClearableNodes {
        let mut nodes = ClearableNodes::default();
        self.order.clear();
        for at in (0..self.tried.len()).rev() {
            if self.tried[at].1 {
                self.restore(at);
            }
        }
        for at in 0..self.tried.len() {
            for id in self.nodes_of(at) {
                nodes.holders.entry(id).or_default().push(at);
            }
        }
        let ids: Vec<NodeId> = nodes.holders.keys().copied().collect();
        ids.into_iter().for_each(|id| self.push_node(&mut nodes, id));
        nodes
    }

    fn push_node(&self, nodes: &mut ClearableNodes, id: NodeId) {
        let cost = self.eviction_cost(nodes, id);
        if cost > 0 {
            nodes.order.push(Reverse((cost, self.pass.state.pool.node(id).rank, id)));
        }
    }

    /// Returns the cost of evicting all remaining victims of a node, from this node and others.
    fn eviction_cost(&self, nodes: &ClearableNodes, id: NodeId) -> u64 {
        let here = nodes.holders[&id].iter().map(|at| &self.tried[*at]);
        here.filter(|(_, is_evicted)| !is_evicted)
            .fold(0, |sum, (victim, _)| victim.cost.saturating_add(sum))
    }

    /// Evicts victims of a node until more fits; restores them if nothing more does.
    fn evict_on_node(&mut self, nodes: &mut ClearableNodes, id: NodeId) -> bool {
        let before = self.bound.total();
        let mut newly_evicted: SmallVec<[usize; 8]> = SmallVec::new();
        for at in nodes.holders[&id].clone() {
            if self.tried[at].1 || !self.is_reclaimable(at) {
                continue;
            }
            self.evict_first(at);
            newly_evicted.push(at);
            nodes.visits += self.nodes_of(at).len();
            if self.bound.total() > before {
                newly_evicted
                    .iter()
                    .flat_map(|at| self.nodes_of(*at))
                    .for_each(|id| self.push_node(nodes, id));
                return true;
            }
        }
        self.order.truncate(self.order.len() - newly_evicted.len());
        for at in newly_evicted.into_iter().rev() {
            self.restore(at);
        }
        false
    }
}

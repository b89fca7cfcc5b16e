//! Room node by node. A queue gives back no more than it owes: where those who go first in order
//! have used that up and the claimant still does not start, what is owed may do more elsewhere. So
//! everybody comes back, and nodes are cleared one after the other, the one first of which the
//! least has to go. Whether the claimant then starts is tried as ever.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_model::NodeId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::preempt::Room;

/// Nodes that somebody leaves in all before it is given up: tens of milliseconds.
const EFFORT: usize = 200_000;

/// Who may be made to go, by node, and the nodes by how much that is.
#[derive(Default)]
struct Nodes {
    holders: FxHashMap<NodeId, SmallVec<[usize; 4]>>,
    /// What it costs when the holders of a node go, then its name's rank. Entries may be out of
    /// date.
    order: BinaryHeap<Reverse<(u64, u32, NodeId)>>,
    effort: usize,
}

impl Room<'_, '_> {
    /// Clears nodes until the candidate starts.
    pub(super) fn clear(&mut self) -> bool {
        if self.tried.iter().all(|(_, is_gone)| *is_gone) {
            return false;
        }
        let mut nodes = self.nodes();
        let (mut more, mut stride, mut is_news) = (1, 1, false);
        while let Some(Reverse((cost, _, id))) = nodes.order.pop() {
            if nodes.effort > EFFORT
                || cost != self.cost(&nodes, id)
                || !self.clear_one(&mut nodes, id)
            {
                continue;
            }
            is_news = true;
            more -= 1;
            if more == 0 && self.might_start() {
                if self.looks() {
                    return true;
                }
                (more, stride, is_news) = (stride, stride * 2, false);
            }
            more = more.max(1);
        }
        is_news && self.might_start() && self.looks()
    }

    /// Lets everybody come back, and says who is where.
    fn nodes(&mut self) -> Nodes {
        let mut nodes = Nodes::default();
        for at in (0..self.tried.len()).rev() {
            if self.tried[at].1 {
                self.stays(at);
            }
        }
        for at in 0..self.tried.len() {
            for id in self.nodes_of(at) {
                nodes.holders.entry(id).or_default().push(at);
            }
        }
        let ids: Vec<NodeId> = nodes.holders.keys().copied().collect();
        ids.into_iter().for_each(|id| self.enter(&mut nodes, id));
        nodes
    }

    fn enter(&self, nodes: &mut Nodes, id: NodeId) {
        let cost = self.cost(nodes, id);
        if cost > 0 {
            nodes.order.push(Reverse((cost, self.planner.state.pool.node(id).rank, id)));
        }
    }

    /// What it costs when those on a node go who are not gone, from this node and others.
    fn cost(&self, nodes: &Nodes, id: NodeId) -> u64 {
        let here = nodes.holders[&id].iter().map(|at| &self.tried[*at]);
        here.filter(|(_, is_gone)| !is_gone)
            .fold(0, |sum, (victim, _)| victim.cost.saturating_add(sum))
    }

    /// Makes go who is on a node until something more fits; nobody if nothing does.
    fn clear_one(&mut self, nodes: &mut Nodes, id: NodeId) -> bool {
        let before = self.gauge.total();
        let mut went: SmallVec<[usize; 8]> = SmallVec::new();
        for at in nodes.holders[&id].clone() {
            if self.tried[at].1 || !self.owes(at) {
                continue;
            }
            self.goes(at);
            went.push(at);
            nodes.effort += self.nodes_of(at).len();
            if self.gauge.total() > before {
                went.iter().flat_map(|at| self.nodes_of(*at)).for_each(|id| self.enter(nodes, id));
                return true;
            }
        }
        for at in went.into_iter().rev() {
            self.stays(at);
        }
        false
    }
}

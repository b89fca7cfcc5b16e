//! A set of nodes with one bit each.

use muster_model::NodeId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeSet(Box<[u64]>);

impl NodeSet {
    /// Returns a set of the first `nodes` nodes.
    pub(super) fn first(nodes: usize) -> Self {
        let mut set = Self(vec![0; nodes.div_ceil(64)].into());
        for (at, word) in set.0.iter_mut().enumerate() {
            let left = nodes - at * 64;
            *word = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
        }
        set
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.0[node.0 as usize / 64] >> (node.0 % 64) & 1 == 1
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.0[node.0 as usize / 64] &= !(1 << (node.0 % 64));
    }

    /// Keeps the nodes that are also in the other set.
    pub(super) fn keep(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    /// Returns whether all nodes are in the other set.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(word, other)| word & !other == 0)
    }
}

//! Queues of the tree with their counters, and the way from a leaf to the root. It must not know
//! names of users and models, or the time; [`crate::Policy`] adds them.
//!
//! Pending entries are in `pending.rs`, borrowing is in `reclaim.rs`; charges are in
//! `../budget_charge.rs`.

mod pending;
mod reclaim;

use muster_model::{Protection, QueueName, QueueTree};
use rustc_hash::FxHashMap;

use crate::intern::{LeafId, Models, ROOT};
use crate::leaf::LeafState;
use crate::tree::{self, QueueNode, TreeError};

/// Queue tree as an arena, with the counters of everything that is pending and runs.
#[derive(Clone, Debug)]
pub struct Queues {
    /// Queues, parents before children.
    pub(crate) nodes: Vec<QueueNode>,
    /// Leaf queues by [`LeafId`].
    pub(crate) leaves: Vec<LeafState>,
    /// Ids of leaf queues; never iterated.
    leaf_ids: FxHashMap<QueueName, LeafId>,
    default_leaf: LeafId,
}

impl Queues {
    /// Returns the idle queues of a tree that continue the ids of `leaves`, all without a node.
    pub(crate) fn build(
        tree: &QueueTree,
        models: &mut Models,
        mut leaves: Vec<LeafState>,
    ) -> Result<Self, TreeError> {
        let mut nodes = tree::build(tree, models)?;
        let mut leaf_ids: FxHashMap<QueueName, LeafId> = leaves
            .iter()
            .enumerate()
            .map(|(index, state)| (state.name.clone(), LeafId(index as u32)))
            .collect();
        let mut default_leaf = LeafId(0);
        for (index, node) in nodes.iter_mut().enumerate().filter(|(_, node)| node.is_leaf()) {
            let leaf = *leaf_ids.entry(node.name.clone()).or_insert_with(|| {
                leaves.push(LeafState::new(node.name.clone()));
                LeafId((leaves.len() - 1) as u32)
            });
            leaves[leaf.0 as usize].node = Some(index);
            node.leaf = Some(leaf);
            if node.name == tree.default_queue {
                default_leaf = leaf;
            }
        }
        Ok(Self { nodes, leaves, leaf_ids, default_leaf })
    }

    /// Extends all counters to `count` models.
    pub(crate) fn widen(&mut self, count: usize) {
        self.nodes.iter_mut().for_each(|node| node.widen(count));
        for row in self.leaves.iter_mut().flat_map(|leaf| leaf.users.values_mut()) {
            row.widen(count);
        }
    }

    /// Returns the leaf queue of this path; `None` for a parent or an unknown queue.
    #[must_use]
    pub fn leaf(&self, name: &QueueName) -> Option<LeafId> {
        self.leaf_ids.get(name).copied().filter(|leaf| self.leaves[leaf.0 as usize].node.is_some())
    }

    /// Returns the leaf queue of jobs that name none.
    #[must_use]
    pub fn default_leaf(&self) -> LeafId {
        self.default_leaf
    }

    /// Returns the path of a leaf, even if it was removed.
    #[must_use]
    pub fn leaf_name(&self, leaf: LeafId) -> &QueueName {
        &self.leaves[leaf.0 as usize].name
    }

    /// Returns the leaf that has the jobs of `old`: itself, or the default queue once it was
    /// removed. Every call that takes a leaf follows this. But if a leaf of the old name is added
    /// again, the old id means that one, while the moved jobs stay where they are: update stored
    /// ids after each [`crate::Policy::replace_tree`].
    #[must_use]
    pub fn current_leaf(&self, old: LeafId) -> LeafId {
        if self.leaves[old.0 as usize].node.is_some() { old } else { self.default_leaf }
    }

    pub(crate) fn leaf_state(&self, leaf: LeafId) -> &LeafState {
        &self.leaves[self.current_leaf(leaf).0 as usize]
    }

    pub(crate) fn leaf_state_mut(&mut self, leaf: LeafId) -> &mut LeafState {
        let leaf = self.current_leaf(leaf);
        &mut self.leaves[leaf.0 as usize]
    }

    pub(crate) fn node_of(&self, leaf: LeafId) -> usize {
        self.leaf_state(leaf)
            .node
            .expect("a leaf is in the tree, or was replaced by the default queue, which is")
    }

    pub(crate) fn root(&self) -> &QueueNode {
        &self.nodes[ROOT]
    }

    /// Returns the queues from a leaf upwards, without the root.
    pub(crate) fn path(&self, leaf: LeafId) -> impl Iterator<Item = &QueueNode> {
        let mut next = Some(self.node_of(leaf));
        std::iter::from_fn(move || {
            let node = &self.nodes[next?];
            next = node.parent;
            next.is_some().then_some(node)
        })
    }

    /// Returns how long attempts in a leaf are protected from preemption: the setting of the
    /// nearest queue that has one.
    #[must_use]
    pub fn protection(&self, leaf: LeafId) -> Protection {
        self.path(leaf).find_map(|node| node.protect).unwrap_or_default()
    }

    /// Returns true if [`crate::Policy::check_start`] in a leaf depends on the duration.
    #[must_use]
    pub fn limits_duration(&self, leaf: LeafId) -> bool {
        self.path(leaf).any(|node| node.limits.borrowed_time.is_some())
    }

    /// Changes every queue from a leaf up to and including the root.
    pub(crate) fn change_path(&mut self, leaf: LeafId, mut change: impl FnMut(&mut QueueNode)) {
        let mut next = Some(self.node_of(leaf));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            change(node);
            next = node.parent;
        }
    }
}

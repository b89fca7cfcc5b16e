//! Queue policy: quota with borrowing and lending, limits, budgets, and the order by decayed fair
//! share.
//!
//! One value, [`Policy`], holds the queue tree with its counters. The engine reports what is
//! pending ([`Policy::enqueue`]) and what runs ([`Policy::hold`]), and asks for verdicts
//! ([`Policy::judge_start`]) and for the order ([`Policy::begin_pass`]). It must not place
//! anything, know nodes, or choose victims.
//!
//! Pure: no clock (every call that depends on time takes `now`), no I/O, no floating point, no
//! iteration over unordered maps. The same calls give the same numbers, bit by bit. Reads never
//! change anything.
//!
//! * quota: definition and a worked example in `quota.rs`
//! * budgets: definition in `budget.rs`
//! * order: `share.rs` (definition of a share), `pass.rs` (the merge)
//! * decay: arithmetic and its error in `decay.rs`

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at an unexpected value"))]

mod audit;
mod budget;
mod budget_charge;
mod decay;
mod durable;
mod intern;
mod leaf;
mod ledger;
mod pass;
mod quota;
mod replace;
mod share;
#[cfg(test)]
mod tests;
mod tree;
mod usage;
mod verdict;
mod view;

use muster_model::{GpuModel, QueueName, QueueTree, Time, UserName};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::durable::Durable;
use crate::intern::{ROOT, Users};
use crate::leaf::LeafState;
use crate::tree::QueueNode;

pub use crate::audit::Inconsistency;
pub use crate::budget::BudgetCharge;
pub use crate::budget_charge::BudgetUse;
pub use crate::intern::{EntrySlot, LeafId, ModelId, Models, UserId};
pub use crate::pass::Pass;
pub use crate::tree::{MAX_DEPTH, TreeError};

/// Units of GPU time (thousandths of a GPU × milliseconds) in a GPU-second.
pub const PER_GPU_SEC: u64 = 1_000_000;
/// Units of GPU time in a GPU-hour.
pub const PER_GPU_HOUR: u64 = 3600 * PER_GPU_SEC;

/// Queue tree with the counters of everything that is pending, runs and was used.
///
/// Serialises to its durable part: tree, names, usage, and use of budgets. After a restore, running
/// elements are reported again through [`Policy::restore_hold`] and [`Policy::restore_charge`], and
/// pending ones through [`Policy::enqueue`].
///
/// Ids come from this very policy; one from elsewhere makes a call panic.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Durable")]
pub struct Policy {
    tree: QueueTree,
    /// Queues, parents before children.
    nodes: Vec<QueueNode>,
    /// Leaf queues by [`LeafId`].
    leaves: Vec<LeafState>,
    /// Ids of leaf queues; never iterated.
    leaf_ids: FxHashMap<QueueName, LeafId>,
    default_leaf: LeafId,
    models: Models,
    users: Users,
    /// Capacity of the cluster, in thousandths of GPUs by model.
    capacity: Vec<u64>,
}

impl Policy {
    /// Returns an idle policy for a tree.
    ///
    /// # Errors
    /// The first defect of the tree.
    pub fn new(tree: QueueTree) -> Result<Self, TreeError> {
        Self::assemble(tree, Models::default(), Users::default(), Vec::new())
    }

    /// Returns an idle policy that continues the ids of another; `leaves` are all without a node.
    fn assemble(
        tree: QueueTree,
        mut models: Models,
        users: Users,
        mut leaves: Vec<LeafState>,
    ) -> Result<Self, TreeError> {
        let mut nodes = tree::build(&tree, &mut models)?;
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
        let capacity = vec![0; models.len()];
        Ok(Self { tree, nodes, leaves, leaf_ids, default_leaf, models, users, capacity })
    }

    /// Returns the tree as configured.
    #[must_use]
    pub fn tree(&self) -> &QueueTree {
        &self.tree
    }

    /// Returns the GPU models seen so far.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Returns the id of a GPU model, assigned on first use.
    pub fn intern_model(&mut self, name: &GpuModel) -> ModelId {
        let model = self.models.intern(name);
        let count = self.models.len();
        if self.capacity.len() < count {
            self.capacity.resize(count, 0);
            self.nodes.iter_mut().for_each(|node| node.widen(count));
            for row in self.leaves.iter_mut().flat_map(|leaf| leaf.users.values_mut()) {
                row.widen(count);
            }
        }
        model
    }

    /// Sets the capacity of the cluster by [`ModelId`], in thousandths of GPUs; models beyond the
    /// slice have none. Shares relate to it from now on, including past usage.
    pub fn set_capacity(&mut self, _now: Time, milli_by_model: &[u64]) {
        for (index, capacity) in self.capacity.iter_mut().enumerate() {
            *capacity = milli_by_model.get(index).copied().unwrap_or(0);
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

    /// Returns the id of a user, assigned on first use.
    pub fn intern_user(&mut self, name: &UserName) -> UserId {
        self.users.intern(name)
    }

    /// Renames users; each new name must be unique. Ids and usage stay.
    pub fn rename_users(&mut self, name: impl FnMut(&UserName) -> UserName) {
        self.users.rename(name);
    }

    /// Returns the name of a user.
    #[must_use]
    pub fn user_name(&self, user: UserId) -> &UserName {
        self.users.name(user)
    }

    fn half_life_ms(&self) -> u64 {
        self.tree.half_life.0
    }

    fn leaf_state(&self, leaf: LeafId) -> &LeafState {
        &self.leaves[self.current_leaf(leaf).0 as usize]
    }

    fn leaf_state_mut(&mut self, leaf: LeafId) -> &mut LeafState {
        let leaf = self.current_leaf(leaf);
        &mut self.leaves[leaf.0 as usize]
    }

    fn node_of(&self, leaf: LeafId) -> usize {
        self.leaf_state(leaf)
            .node
            .expect("a leaf is in the tree, or was replaced by the default queue, which is")
    }

    fn root(&self) -> &QueueNode {
        &self.nodes[ROOT]
    }

    /// Returns the queues from a leaf upwards, without the root.
    fn path(&self, leaf: LeafId) -> impl Iterator<Item = &QueueNode> {
        let mut next = Some(self.node_of(leaf));
        std::iter::from_fn(move || {
            let node = &self.nodes[next?];
            next = node.parent;
            next.is_some().then_some(node)
        })
    }
}

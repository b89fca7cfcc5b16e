//! Who may run, in what order, and why not: quota with borrowing and lending, limits, decayed fair
//! share.
//!
//! One value, [`Policy`], holds the tree of queues with its live numbers. The engine tells it what
//! waits ([`Policy::enqueue`]) and what runs ([`Policy::hold`]), asks for verdicts
//! ([`Policy::judge_start`]) and for the order ([`Policy::begin_pass`]). It must not place
//! anything, know nodes, or decide which job is to be preempted.
//!
//! Pure: no clock (every call that depends on time takes `now`), no I/O, no floating point, no list
//! of what has no order. The same calls give the same numbers, bit by bit. Reads never change
//! anything.
//!
//! * quota: definition and a worked example in `quota.rs`
//! * budgets: definition in `budget.rs`
//! * order: `share.rs` (what a share is), `pass.rs` (the merge)
//! * decay: arithmetic and its error in `decay.rs`

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")
)]

mod audit;
mod budget;
mod decay;
mod durable;
mod intern;
mod leaf;
mod ledger;
mod pass;
mod promise;
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
use crate::intern::Users;
use crate::leaf::LeafState;
use crate::tree::{Node, ROOT};

pub use crate::audit::Inconsistency;
pub use crate::budget::Promise;
pub use crate::intern::{LeafId, ModelId, Models, Slot, UserId};
pub use crate::pass::Pass;
pub use crate::promise::Taken;
pub use crate::tree::{MAX_DEPTH, TreeError};

/// Thousandths of a GPU times milliseconds, in which time on GPUs is counted, in a GPU-second.
pub const PER_GPU_SEC: u64 = 1_000_000;
/// The same in a GPU-hour.
pub const PER_GPU_HOUR: u64 = 3600 * PER_GPU_SEC;

/// The tree of queues with everything that waits, runs and was used in it.
///
/// Serialises to its durable part: tree, names, usage, and what was used of budgets. After a
/// restore, what was running comes back through [`Policy::restore_hold`] and
/// [`Policy::restore_promise`], and what was waiting through [`Policy::enqueue`].
///
/// Ids come from this very policy; one from elsewhere makes a call panic.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Durable")]
pub struct Policy {
    tree: QueueTree,
    /// Parents before children.
    nodes: Vec<Node>,
    /// By [`LeafId`].
    leaves: Vec<LeafState>,
    /// Looked up for every job that comes; never listed.
    leaf_ids: FxHashMap<QueueName, LeafId>,
    default_leaf: LeafId,
    models: Models,
    users: Users,
    /// Thousandths of GPUs by model.
    capacity: Vec<u64>,
}

impl Policy {
    /// An idle policy for a tree.
    ///
    /// # Errors
    /// What is wrong with the tree.
    pub fn new(tree: QueueTree) -> Result<Self, TreeError> {
        Self::assemble(tree, Models::default(), Users::default(), Vec::new())
    }

    /// An idle policy that goes on with the ids of another; `leaves` are all without a node.
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

    /// The tree as configured.
    #[must_use]
    pub fn tree(&self) -> &QueueTree {
        &self.tree
    }

    /// GPU models seen so far.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// The id of a GPU model, given at first sight.
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

    /// What the cluster has by [`ModelId`], in thousandths of GPUs; models beyond the slice have
    /// none. Shares relate to it from now on, past usage included.
    pub fn set_capacity(&mut self, _now: Time, milli_by_model: &[u64]) {
        for (index, capacity) in self.capacity.iter_mut().enumerate() {
            *capacity = milli_by_model.get(index).copied().unwrap_or(0);
        }
    }

    /// The leaf queue of this path; `None` for a parent or an unknown one.
    #[must_use]
    pub fn leaf(&self, name: &QueueName) -> Option<LeafId> {
        self.leaf_ids.get(name).copied().filter(|leaf| self.leaves[leaf.0 as usize].node.is_some())
    }

    /// The leaf taken when a job names none.
    #[must_use]
    pub fn default_leaf(&self) -> LeafId {
        self.default_leaf
    }

    /// Path of a leaf; also of one that is gone.
    #[must_use]
    pub fn leaf_name(&self, leaf: LeafId) -> &QueueName {
        &self.leaves[leaf.0 as usize].name
    }

    /// The id of a user, given at first sight.
    pub fn intern_user(&mut self, name: &UserName) -> UserId {
        self.users.intern(name)
    }

    /// Calls users by other names, each by one of its own; who they are and what they used stays.
    pub fn rename_users(&mut self, name: impl FnMut(&UserName) -> UserName) {
        self.users.rename(name);
    }

    /// A user's name.
    #[must_use]
    pub fn user_name(&self, user: UserId) -> &UserName {
        self.users.name(user)
    }

    fn half_life_ms(&self) -> u64 {
        self.tree.half_life.0
    }

    fn leaf_state(&self, leaf: LeafId) -> &LeafState {
        &self.leaves[self.leaf_moved(leaf).0 as usize]
    }

    fn leaf_state_mut(&mut self, leaf: LeafId) -> &mut LeafState {
        let leaf = self.leaf_moved(leaf);
        &mut self.leaves[leaf.0 as usize]
    }

    fn node_of(&self, leaf: LeafId) -> usize {
        self.leaf_state(leaf)
            .node
            .expect("a leaf is in the tree, or moved to the default queue, which is")
    }

    fn root(&self) -> &Node {
        &self.nodes[ROOT]
    }

    /// Queues from a leaf upwards, without the root.
    fn path(&self, leaf: LeafId) -> impl Iterator<Item = &Node> {
        let mut next = Some(self.node_of(leaf));
        std::iter::from_fn(move || {
            let node = &self.nodes[next?];
            next = node.parent;
            next.is_some().then_some(node)
        })
    }
}

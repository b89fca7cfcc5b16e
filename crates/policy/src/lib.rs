//! Queue policy: quota with borrowing and lending, limits, budgets, and the order by decayed fair
//! share.
//!
//! One value, [`Policy`], holds the queue tree with its counters. The engine reports what is
//! pending ([`Queues::enqueue`]) and what runs ([`Policy::hold`]), and asks for verdicts
//! ([`Policy::check_start`]) and for the order ([`Policy::begin_pass`]). It must not place
//! anything, know nodes, or choose victims.
//!
//! [`Queues`] is the arena of the tree: counters, and what follows from them alone. `Policy` adds
//! names, time and the cluster's capacity: verdicts, usage and shares.
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
mod order;
mod pass;
mod queues;
mod quota;
mod replace;
mod share;
#[cfg(test)]
mod tests;
mod tree;
mod usage;
mod verdict;
mod view;

use muster_model::{GpuModel, QueueTree, Time, UserName};
use serde::Deserialize;

use crate::durable::Durable;
use crate::intern::Users;
use crate::leaf::LeafState;

pub use crate::audit::Inconsistency;
pub use crate::budget::BudgetCharge;
pub use crate::budget_charge::BudgetUse;
pub use crate::durable::UsageRecord;
pub use crate::intern::{EntrySlot, LeafId, ModelId, Models, UserId};
pub use crate::order::EntryAge;
pub use crate::pass::Pass;
pub use crate::queues::Queues;
pub use crate::tree::{MAX_DEPTH, TreeError};

/// Units of GPU time (thousandths of a GPU × milliseconds) in a GPU-second.
pub const PER_GPU_SEC: u64 = 1_000_000;
/// Units of GPU time in a GPU-hour.
pub const PER_GPU_HOUR: u64 = 3600 * PER_GPU_SEC;

/// Queue tree with the counters of everything that is pending, runs and was used.
///
/// Serialises to its durable part: tree, names, usage, and use of budgets. After a restore, running
/// elements are reported again through [`Policy::restore_hold`] and [`Queues::restore_charge`], and
/// pending ones through [`Queues::enqueue`].
///
/// Ids come from this very policy; one from elsewhere makes a call panic.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Durable")]
pub struct Policy {
    tree: QueueTree,
    queues: Queues,
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
        leaves: Vec<LeafState>,
    ) -> Result<Self, TreeError> {
        let queues = Queues::build(&tree, &mut models, leaves)?;
        let capacity = vec![0; models.len()];
        Ok(Self { tree, queues, models, users, capacity })
    }

    /// Returns the queue tree with its counters, for what depends on no name and no time.
    #[must_use]
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Returns the queues, to change what is pending in them and charged to their budgets.
    #[must_use]
    pub fn queues_mut(&mut self) -> &mut Queues {
        &mut self.queues
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
            self.queues.widen(count);
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
}

//! Replaces the queue tree while jobs are pending and running. Usage is kept by name; running jobs
//! are not touched, even if they now exceed a quota or a limit.

use std::collections::BTreeMap;

use muster_model::{QueueName, QueueTree, Time};

use crate::Policy;
use crate::intern::{LeafId, ModelId, ROOT, UserId};
use crate::leaf::{LeafState, UserRow};
use crate::tree::{QueueNode, TreeError};
use crate::usage::DecayedUsage;

impl Policy {
    /// Replaces the tree at `now`. A queue keeps its usage, and a leaf its [`LeafId`], as long as
    /// there is one of the same path. Pending and running jobs of a removed leaf move to the
    /// default queue ([`crate::Queues::current_leaf`]), without the usage of the old one. A budget keeps
    /// what was used of its period, if its periods stay the same; running elements must be reported
    /// again with [`crate::Queues::restore_charge`]. Must not be called between `try_hold` and
    /// `undo_hold`.
    ///
    /// # Errors
    /// The first defect of the new tree; then nothing has changed.
    pub fn replace_tree(&mut self, now: Time, tree: QueueTree) -> Result<(), TreeError> {
        let leaves =
            self.queues.leaves.iter().map(|state| LeafState::new(state.name.clone())).collect();
        let mut next = Policy::assemble(tree, self.models.clone(), self.users.clone(), leaves)?;
        // 1. Capacity, and usage by name, brought up to date under the old half-life.
        next.capacity[..self.capacity.len()].copy_from_slice(&self.capacity);
        let half_life_ms = self.half_life_ms();
        let count = next.models.len();
        let accrued = |usage: &[DecayedUsage]| {
            let mut usage: Vec<DecayedUsage> = usage.to_vec();
            usage.iter_mut().for_each(|one| one.accrue_until(now, half_life_ms));
            usage.resize(count, DecayedUsage::default());
            usage.into_iter().map(DecayedUsage::stopped).collect::<Vec<_>>()
        };
        let old: BTreeMap<&QueueName, &QueueNode> =
            self.queues.nodes.iter().map(|node| (&node.name, node)).collect();
        for node in &mut next.queues.nodes {
            if let Some(old) = old.get(&node.name) {
                node.usage = accrued(&old.usage);
            }
            if let Some(account) = &mut node.account {
                account.adopt(now, old.get(&node.name).and_then(|old| old.account.as_ref()));
            }
        }
        for (old, new) in self.queues.leaves.iter().zip(&mut next.queues.leaves) {
            if new.node.is_some() {
                let rows = old.users.iter().map(|(user, row)| {
                    (*user, UserRow { usage: accrued(&row.usage), ..UserRow::new(count) })
                });
                new.users = rows.filter(|(_, row)| !row.is_blank()).collect();
            }
        }
        // 2. Running and pending elements, into the present leaves.
        for (index, old) in self.queues.leaves.iter().enumerate() {
            let leaf = LeafId(index as u32);
            for (user, row) in &old.users {
                next.adopt_row(now, leaf, *user, row);
            }
            for (user, jobs) in &old.pending_jobs {
                next.queues.add_pending_jobs(leaf, *user, *jobs);
            }
            for (priority, level) in &old.levels {
                for (user, entries) in &level.users {
                    for (age, slot) in entries {
                        next.queues.enqueue(leaf, *user, priority.0, *age, *slot);
                    }
                }
            }
        }
        *self = next;
        Ok(())
    }

    /// Counts all that a user runs in a leaf at once.
    fn adopt_row(&mut self, now: Time, leaf: LeafId, user: UserId, row: &UserRow) {
        if row.running == 0 {
            return;
        }
        let gpus: Vec<(ModelId, u64)> = row
            .held
            .iter()
            .enumerate()
            .filter(|(_, milli)| **milli > 0)
            .map(|(model, milli)| (ModelId(model as u16), *milli))
            .collect();
        self.hold(now, leaf, user, &gpus);
        // `hold` counted one element.
        let more = row.running - 1;
        self.queues.change_path(leaf, |node| node.running += more);
        if let Some(moved) = self.queues.leaf_state_mut(leaf).users.get_mut(&user) {
            moved.running += more;
        }
        debug_assert!(self.queues.nodes[ROOT].running >= row.running);
    }
}

//! Counters of what runs, for verdicts and shares, and the usage that accrues. `hold` and `release`
//! are for committed changes; `try_hold` and `undo_hold` are for planning and leave no trace in
//! stored usage.
//!
//! Every call costs one step per level of the tree and model.

use muster_model::Time;

use crate::intern::{LeafId, ModelId, UserId};
use crate::queues::Queues;
use crate::usage::DecayedUsage;
use crate::{Policy, leaf::UserRow};

impl Policy {
    /// Counts an element of `user` that starts to hold `gpus` (thousandths by model) in `leaf`.
    /// Usage accrues from `now` on.
    pub fn hold(&mut self, now: Time, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        let half_life_ms = self.half_life_ms();
        self.count_in(leaf, user, gpus, |usage, milli| {
            usage.increase_rate(now, milli, half_life_ms)
        });
    }

    /// Uncounts an element that [`Policy::hold`] counted. Usage up to `now` stays and decays.
    pub fn release(&mut self, now: Time, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        let half_life_ms = self.half_life_ms();
        self.count_out(leaf, user, gpus, |usage, milli| {
            usage.decrease_rate(now, milli, half_life_ms)
        });
    }

    /// Counts an element that held `gpus` when the snapshot was taken, after a restore. Usage
    /// continues from the instant that the snapshot stored, so that nothing is counted twice.
    pub fn restore_hold(&mut self, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        self.count_in(leaf, user, gpus, DecayedUsage::restore_rate);
    }

    /// Counts `gpus` as held, for planning: verdicts and shares include it, usage does not.
    pub fn try_hold(&mut self, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        self.count_in(leaf, user, gpus, |_, _| {});
    }

    /// Undoes [`Policy::try_hold`] with the same arguments.
    pub fn undo_hold(&mut self, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        self.count_out(leaf, user, gpus, |_, _| {});
    }

    /// Adds `gpus` to the counters, and changes the usage of every queue of the path and of the
    /// user.
    fn count_in(
        &mut self,
        leaf: LeafId,
        user: UserId,
        gpus: &[(ModelId, u64)],
        change: impl Fn(&mut DecayedUsage, u64),
    ) {
        let total = total_milli(gpus);
        // 1. Up the tree: running elements, GPUs held, GPUs by user.
        self.queues.change_path(leaf, |node| {
            node.running += 1;
            for (model, milli) in gpus {
                node.held[usize::from(model.0)] += milli;
                change(&mut node.usage[usize::from(model.0)], *milli);
            }
            if node.limits.gpus_per_user.is_some() && total > 0 {
                *node.held_by_user.entry(user).or_default() += total;
            }
        });
        // 2. Quota, as far up as it changes.
        for (model, milli) in gpus {
            self.queues.take_quota(leaf, *model, *milli);
        }
        // 3. The counters of the user.
        let count = self.models.len();
        let row = self
            .queues
            .leaf_state_mut(leaf)
            .users
            .entry(user)
            .or_insert_with(|| UserRow::new(count));
        row.running += 1;
        for (model, milli) in gpus {
            row.held[usize::from(model.0)] += milli;
            change(&mut row.usage[usize::from(model.0)], *milli);
        }
    }

    /// Undoes [`Policy::count_in`] with the same arguments.
    fn count_out(
        &mut self,
        leaf: LeafId,
        user: UserId,
        gpus: &[(ModelId, u64)],
        change: impl Fn(&mut DecayedUsage, u64),
    ) {
        let total = total_milli(gpus);
        self.queues.change_path(leaf, |node| {
            debug_assert!(node.running > 0, "released more elements than were held");
            node.running = node.running.saturating_sub(1);
            for (model, milli) in gpus {
                take_off(&mut node.held[usize::from(model.0)], *milli);
                change(&mut node.usage[usize::from(model.0)], *milli);
            }
            if node.limits.gpus_per_user.is_some() && total > 0 {
                let held = node.held_by_user.entry(user).or_default();
                take_off(held, total);
                if *held == 0 {
                    node.held_by_user.remove(&user);
                }
            }
        });
        for (model, milli) in gpus {
            self.queues.give_back_quota(leaf, *model, *milli);
        }
        let users = &mut self.queues.leaf_state_mut(leaf).users;
        if let Some(row) = users.get_mut(&user) {
            row.running = row.running.saturating_sub(1);
            for (model, milli) in gpus {
                take_off(&mut row.held[usize::from(model.0)], *milli);
                change(&mut row.usage[usize::from(model.0)], *milli);
            }
            if row.is_blank() {
                users.remove(&user);
            }
        }
    }
}

impl Queues {
    fn take_quota(&mut self, leaf: LeafId, model: ModelId, milli: u64) {
        let at = usize::from(model.0);
        let mut next = self.bounded(leaf, model);
        let mut growth = milli;
        while let Some(index) = next
            && growth > 0
        {
            let quota = &mut self.nodes[index].quota[at];
            let before = quota.charge_to_parent();
            quota.taken += growth;
            growth = quota.charge_to_parent() - before;
            next = self.nodes[index].parent;
        }
    }

    fn give_back_quota(&mut self, leaf: LeafId, model: ModelId, milli: u64) {
        let at = usize::from(model.0);
        let mut next = self.bounded(leaf, model);
        let mut shrinkage = milli;
        while let Some(index) = next
            && shrinkage > 0
        {
            let quota = &mut self.nodes[index].quota[at];
            let before = quota.charge_to_parent();
            take_off(&mut quota.taken, shrinkage);
            shrinkage = before - quota.charge_to_parent();
            next = self.nodes[index].parent;
        }
    }

    /// Returns the leaf's node, if quota applies there for this model.
    fn bounded(&self, leaf: LeafId, model: ModelId) -> Option<usize> {
        let node = self.node_of(leaf);
        self.nodes[node].quota[usize::from(model.0)].is_bounded.then_some(node)
    }
}

/// Subtracts what was added before; saturates, so that a caller's mistake cannot wrap a counter
/// around.
fn take_off(counter: &mut u64, milli: u64) {
    debug_assert!(*counter >= milli, "released more GPUs than were held");
    *counter = counter.saturating_sub(milli);
}

/// Returns the thousandths of GPUs over all models.
pub(crate) fn total_milli(gpus: &[(ModelId, u64)]) -> u64 {
    gpus.iter().map(|(_, milli)| milli).sum()
}

//! What runs: the counters behind verdicts and shares, and the usage that accrues. `hold` and
//! `release` are for committed changes; `try_hold` and `undo_hold` are for planning and leave no
//! trace in stored usage.
//!
//! Every call costs one step per level of the tree and model.

use muster_model::Time;

use crate::intern::{LeafId, ModelId, UserId};
use crate::usage::Usage;
use crate::{Policy, leaf::UserRow};

impl Policy {
    /// An element of `user` starts to hold `gpus` (thousandths by model) in `leaf`. Usage accrues
    /// from `now` on.
    pub fn hold(&mut self, now: Time, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        let half_life_ms = self.half_life_ms();
        self.count_in(leaf, user, gpus, |usage, milli| usage.speed_up(now, milli, half_life_ms));
    }

    /// An element held since [`Policy::hold`] gives its GPUs back. Usage up to `now` stays and
    /// decays.
    pub fn release(&mut self, now: Time, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        let half_life_ms = self.half_life_ms();
        self.count_out(leaf, user, gpus, |usage, milli| usage.slow_down(now, milli, half_life_ms));
    }

    /// After a restore: an element was holding `gpus` when the snapshot was taken. Rebuilds the
    /// counters; usage goes on from the instant that the snapshot stored, so that nothing is
    /// counted twice.
    pub fn restore_hold(&mut self, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        self.count_in(leaf, user, gpus, Usage::resume);
    }

    /// Counts `gpus` as held, for planning: verdicts and shares see it, usage does not.
    pub fn try_hold(&mut self, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        self.count_in(leaf, user, gpus, |_, _| {});
    }

    /// The exact inverse of [`Policy::try_hold`] with the same arguments.
    pub fn undo_hold(&mut self, leaf: LeafId, user: UserId, gpus: &[(ModelId, u64)]) {
        self.count_out(leaf, user, gpus, |_, _| {});
    }

    /// Counts `gpus` in, and changes the usage of every queue of the path and of the user.
    fn count_in(
        &mut self,
        leaf: LeafId,
        user: UserId,
        gpus: &[(ModelId, u64)],
        change: impl Fn(&mut Usage, u64),
    ) {
        let total = total_milli(gpus);
        // 1. Up the tree: how many run, who holds what.
        let mut next = Some(self.node_of(leaf));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            node.running += 1;
            for (model, milli) in gpus {
                node.held[usize::from(model.0)] += milli;
                change(&mut node.usage[usize::from(model.0)], *milli);
            }
            if node.limits.gpus_per_user.is_some() && total > 0 {
                *node.held_by_user.entry(user).or_default() += total;
            }
            next = node.parent;
        }
        // 2. Quota, as far up as it is noticed.
        for (model, milli) in gpus {
            self.take_quota(leaf, *model, *milli);
        }
        // 3. The user's own numbers.
        let count = self.models.len();
        let row =
            self.leaf_state_mut(leaf).users.entry(user).or_insert_with(|| UserRow::new(count));
        row.running += 1;
        for (model, milli) in gpus {
            row.held[usize::from(model.0)] += milli;
            change(&mut row.usage[usize::from(model.0)], *milli);
        }
    }

    /// The inverse of [`Policy::count_in`].
    fn count_out(
        &mut self,
        leaf: LeafId,
        user: UserId,
        gpus: &[(ModelId, u64)],
        change: impl Fn(&mut Usage, u64),
    ) {
        let total = total_milli(gpus);
        let mut next = Some(self.node_of(leaf));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
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
            next = node.parent;
        }
        for (model, milli) in gpus {
            self.give_back_quota(leaf, *model, *milli);
        }
        let users = &mut self.leaf_state_mut(leaf).users;
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

    fn take_quota(&mut self, leaf: LeafId, model: ModelId, milli: u64) {
        let at = usize::from(model.0);
        let (mut next, mut growth) = (self.bounded(leaf, model), milli);
        while let Some(index) = next
            && growth > 0
        {
            let quota = &mut self.nodes[index].quota[at];
            let before = quota.claim();
            quota.taken += growth;
            growth = quota.claim() - before;
            next = self.nodes[index].parent;
        }
    }

    fn give_back_quota(&mut self, leaf: LeafId, model: ModelId, milli: u64) {
        let at = usize::from(model.0);
        let (mut next, mut shrinkage) = (self.bounded(leaf, model), milli);
        while let Some(index) = next
            && shrinkage > 0
        {
            let quota = &mut self.nodes[index].quota[at];
            let before = quota.claim();
            take_off(&mut quota.taken, shrinkage);
            shrinkage = before - quota.claim();
            next = self.nodes[index].parent;
        }
    }

    /// The leaf's node, if quota counts there for this model.
    fn bounded(&self, leaf: LeafId, model: ModelId) -> Option<usize> {
        let node = self.node_of(leaf);
        self.nodes[node].quota[usize::from(model.0)].is_bounded.then_some(node)
    }
}

/// Subtracts what was added before; a caller that never added it must not wrap a counter around.
fn take_off(counter: &mut u64, milli: u64) {
    debug_assert!(*counter >= milli, "released more GPUs than were held");
    *counter = counter.saturating_sub(milli);
}

/// Thousandths of GPUs over all models.
pub(crate) fn total_milli(gpus: &[(ModelId, u64)]) -> u64 {
    gpus.iter().map(|(_, milli)| milli).sum()
}

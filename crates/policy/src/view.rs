//! Views of queues and usage. Reads only.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_model::view::{QueueView, QuotaView};
use muster_model::{QueueName, Time, UserName};

use crate::PER_GPU_SEC;
use crate::Policy;
use crate::intern::{LeafId, ROOT, UserId};
use crate::order::EntryAge;
use crate::share::to_ppm;
use crate::tree::QueueNode;
use crate::verdict::gpu_milli;

impl Policy {
    /// Returns one row per queue, parents before children, siblings in the order of the file. Only
    /// enqueued entries count as waiting; see [`Policy::queue_views_with_extra`] for those that the
    /// engine keeps out of the queue.
    #[must_use]
    pub fn queue_views(&self, now: Time) -> Vec<QueueView> {
        self.queue_views_with_extra(now, &BTreeMap::new())
    }

    /// As [`Policy::queue_views`], with additional waiting elements by leaf (on hold, dependent,
    /// not before a time): they are added to the leaf and to every queue above it.
    #[must_use]
    pub fn queue_views_with_extra(
        &self,
        now: Time,
        waiting_too: &BTreeMap<LeafId, u32>,
    ) -> Vec<QueueView> {
        let mut waiting: Vec<u32> = self.queues.nodes.iter().map(|node| node.pending).collect();
        for (leaf, count) in waiting_too {
            let mut next = Some(self.queues.node_of(*leaf));
            while let Some(index) = next {
                waiting[index] += count;
                next = self.queues.nodes[index].parent;
            }
        }
        let queues = self.queues.nodes.iter().zip(waiting).skip(ROOT + 1);
        queues.map(|(node, waiting)| self.queue_view(now, node, waiting)).collect()
    }

    fn queue_view(&self, now: Time, node: &QueueNode, waiting: u32) -> QueueView {
        let usage: u64 = node
            .usage
            .iter()
            .fold(0, |sum, usage| sum.saturating_add(usage.at(now, self.half_life_ms())));
        let gpus = self.models.ids().filter_map(|model| {
            let at = usize::from(model.0);
            let quota = &node.quota[at];
            let held = node.held[at];
            let is_used = held > 0 || !node.usage[at].is_blank();
            (quota.is_set || is_used).then(|| QuotaView {
                model: self.models.name(model).clone(),
                nominal: quota.is_set.then(|| gpu_milli(quota.nominal)),
                used: gpu_milli(held),
                borrowed: gpu_milli(if quota.is_set {
                    held.saturating_sub(quota.nominal)
                } else {
                    0
                }),
            })
        });
        QueueView {
            name: node.name.clone(),
            is_leaf: node.is_leaf(),
            weight: node.weight,
            gpus: gpus.collect(),
            waiting,
            running: node.running,
            usage_gpu_secs: usage / PER_GPU_SEC,
            share_ppm: to_ppm(self.queue_share(now, node)),
            budget: node.account.as_ref().map(|account| self.budget_view(now, account)),
            default_time: None,
            idle: None,
            access: None,
        }
    }

    /// Returns the usage that counts for a user's share in a leaf: decayed GPU-seconds over all
    /// models.
    #[must_use]
    pub fn decayed_usage(&self, now: Time, leaf: LeafId, user: UserId) -> u64 {
        let Some(row) = self.queues.leaf_state(leaf).users.get(&user) else { return 0 };
        row.usage
            .iter()
            .fold(0u64, |sum, usage| sum.saturating_add(usage.at(now, self.half_life_ms())))
            / PER_GPU_SEC
    }

    /// Returns the decayed GPU-seconds per user and leaf, by user, then queue; users whose usage
    /// has decayed to 0 are left out once they hold nothing.
    #[must_use]
    pub fn usage_rows(&self, now: Time) -> Vec<(UserName, QueueName, u64)> {
        let mut rows: Vec<_> = Vec::new();
        for (index, state) in self.queues.leaves.iter().enumerate() {
            let leaf = LeafId(index as u32);
            for (user, row) in &state.users {
                let gpu_secs = self.decayed_usage(now, leaf, *user);
                if gpu_secs > 0 || row.held.iter().any(|held| *held > 0) {
                    rows.push((self.user_name(*user).clone(), state.name.clone(), gpu_secs));
                }
            }
        }
        rows.sort();
        rows
    }

    /// Returns true if one entry of a leaf precedes another while nothing starts. Each is given by
    /// its user and priority.
    #[must_use]
    pub fn precedes(
        &self,
        now: Time,
        leaf: LeafId,
        one: (UserId, i32, EntryAge),
        other: (UserId, i32, EntryAge),
    ) -> bool {
        let key = |(user, priority, age): (UserId, i32, EntryAge)| {
            let share = self.user_share(now, leaf, user);
            (Reverse(priority), self.entry_order(now, share, age))
        };
        key(one) < key(other)
    }

    /// Returns the position of a pending entry in its leaf, from 1, and the number of entries
    /// there, if nothing started from now on. An entry that is not enqueued gets the position where
    /// it would be.
    #[must_use]
    pub fn position(
        &self,
        now: Time,
        leaf: LeafId,
        user: UserId,
        priority: i32,
        age: EntryAge,
    ) -> (u32, u32) {
        let levels = &self.queues.leaf_state(leaf).levels;
        let total: u32 = levels.values().map(|level| level.count).sum();
        let mut before: u32 = levels.range(..Reverse(priority)).map(|(_, level)| level.count).sum();
        if let Some(level) = levels.get(&Reverse(priority)) {
            let own = self.entry_order(now, self.user_share(now, leaf, user), age);
            for (other, entries) in &level.users {
                let share = self.user_share(now, leaf, *other);
                let is_before = |(age, _): &(EntryAge, _)| self.entry_order(now, share, *age) < own;
                before += entries.partition_point(is_before) as u32;
            }
        }
        (before + 1, total)
    }
}

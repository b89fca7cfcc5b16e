//! Pending jobs and entries of the queues: counted for limits, and kept in order of priority and age.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::Queues;
use crate::intern::{EntrySlot, LeafId, UserId};
use crate::order::EntryAge;

impl Queues {
    /// Counts a job of `user` with pending elements in `leaf`, on hold or not, for the limit on
    /// such jobs. The order uses entries instead.
    pub fn add_pending_job(&mut self, leaf: LeafId, user: UserId) {
        self.add_pending_jobs(leaf, user, 1);
    }

    /// Uncounts a job that [`Queues::add_pending_job`] counted, once none of its elements is
    /// pending.
    pub fn remove_pending_job(&mut self, leaf: LeafId, user: UserId) {
        let change = |count: &mut u32| {
            debug_assert!(*count > 0, "removed more pending jobs than were added");
            *count = count.saturating_sub(1);
        };
        self.change_pending_jobs(leaf, user, change);
    }

    /// Counts more jobs of a user with pending elements.
    pub(crate) fn add_pending_jobs(&mut self, leaf: LeafId, user: UserId, jobs: u32) {
        self.change_pending_jobs(leaf, user, |count| *count += jobs);
    }

    fn change_pending_jobs(&mut self, leaf: LeafId, user: UserId, change: impl Fn(&mut u32)) {
        let apply = |counts: &mut BTreeMap<UserId, u32>| {
            let mut count = match counts.entry(user) {
                Entry::Occupied(count) => count,
                Entry::Vacant(none) => none.insert_entry(0),
            };
            change(count.get_mut());
            if *count.get() == 0 {
                count.remove();
            }
        };
        apply(&mut self.leaf_state_mut(leaf).pending_jobs);
        self.change_path(leaf, |node| {
            if node.limits.pending_jobs.is_some() {
                apply(&mut node.pending_jobs);
            }
        });
    }

    /// Adds an entry whose elements may be considered for a start.
    pub fn enqueue(
        &mut self,
        leaf: LeafId,
        user: UserId,
        priority: i32,
        age: EntryAge,
        slot: EntrySlot,
    ) {
        let level = self.leaf_state_mut(leaf).levels.entry(Reverse(priority)).or_default();
        let entries = level.users.entry(user).or_default();
        match entries.back() {
            Some((last, _)) if last.seq >= age.seq => {
                let Err(at) = place(entries, age.seq) else {
                    debug_assert!(false, "an entry was enqueued twice");
                    return;
                };
                entries.insert(at, (age, slot));
            }
            _ => entries.push_back((age, slot)),
        }
        level.count += 1;
        let mut below = None;
        let mut next = Some(self.node_of(leaf));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            node.pending += 1;
            node.pending_children.extend(below);
            (below, next) = (Some(index), node.parent);
        }
    }

    /// Removes an entry that [`Queues::enqueue`] added. An unknown entry is ignored.
    pub fn dequeue(&mut self, leaf: LeafId, user: UserId, priority: i32, seq: u64) {
        let levels = &mut self.leaf_state_mut(leaf).levels;
        let Some(level) = levels.get_mut(&Reverse(priority)) else { return };
        let Some(entries) = level.users.get_mut(&user) else { return };
        let Ok(at) = place(entries, seq) else { return };
        entries.remove(at);
        if entries.is_empty() {
            level.users.remove(&user);
        }
        level.count -= 1;
        if level.count == 0 {
            levels.remove(&Reverse(priority));
        }
        let mut emptied = None;
        let mut next = Some(self.node_of(leaf));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            node.pending -= 1;
            if let Some(below) = emptied {
                node.pending_children.remove(&below);
            }
            (emptied, next) = ((node.pending == 0).then_some(index), node.parent);
        }
    }
}

/// Returns the position of an entry, or where it would be inserted.
fn place(entries: &VecDeque<(EntryAge, EntrySlot)>, seq: u64) -> Result<usize, usize> {
    entries.binary_search_by_key(&seq, |(other, _)| other.seq)
}

//! State of a leaf queue beyond its place in the tree: the counters of its users, and pending
//! entries by priority and age. It must not know shares; `pass` adds them.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use muster_model::QueueName;

use crate::Policy;
use crate::intern::{EntrySlot, LeafId, UserId};
use crate::usage::DecayedUsage;

/// Leaf queue that exists or has existed.
#[derive(Clone, Debug)]
pub(crate) struct LeafState {
    pub(crate) name: QueueName,
    /// Index in the tree; `None` once it was removed.
    pub(crate) node: Option<usize>,
    pub(crate) users: BTreeMap<UserId, UserRow>,
    /// Number of jobs with pending elements, by user.
    pub(crate) pending_jobs: BTreeMap<UserId, u32>,
    /// Pending entries, highest priority first.
    pub(crate) levels: BTreeMap<Reverse<i32>, PriorityLevel>,
}

impl LeafState {
    pub(crate) fn new(name: QueueName) -> Self {
        Self {
            name,
            node: None,
            users: BTreeMap::new(),
            pending_jobs: BTreeMap::new(),
            levels: BTreeMap::new(),
        }
    }
}

/// Counters of a user in a leaf. Vectors are by [`crate::ModelId`].
#[derive(Clone, Debug)]
pub(crate) struct UserRow {
    /// Number of elements that hold resources.
    pub(crate) running: u32,
    /// Thousandths of GPUs held.
    pub(crate) held: Vec<u64>,
    pub(crate) usage: Vec<DecayedUsage>,
}

impl UserRow {
    pub(crate) fn new(models: usize) -> Self {
        Self { running: 0, held: vec![0; models], usage: vec![DecayedUsage::default(); models] }
    }

    /// Extends the vectors to `count` models.
    pub(crate) fn widen(&mut self, count: usize) {
        self.held.resize(count, 0);
        self.usage.resize(count, DecayedUsage::default());
    }

    /// Returns true if the row is empty and may be dropped.
    pub(crate) fn is_blank(&self) -> bool {
        self.running == 0 && self.usage.iter().all(DecayedUsage::is_blank)
    }
}

/// Entries of one priority, per user by `seq`, the oldest first. They mostly arrive at the end and
/// leave at the front.
#[derive(Clone, Debug, Default)]
pub(crate) struct PriorityLevel {
    pub(crate) users: BTreeMap<UserId, VecDeque<(u64, EntrySlot)>>,
    pub(crate) count: u32,
}

impl Policy {
    /// Counts a job of `user` with pending elements in `leaf`, on hold or not, for the limit on
    /// such jobs. The order uses entries instead.
    pub fn add_pending_job(&mut self, leaf: LeafId, user: UserId) {
        self.add_pending_jobs(leaf, user, 1);
    }

    /// Uncounts a job that [`Policy::add_pending_job`] counted, once none of its elements is
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
        let mut next = Some(self.node_of(leaf));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            if node.limits.pending_jobs.is_some() {
                apply(&mut node.pending_jobs);
            }
            next = node.parent;
        }
    }

    /// Adds an entry whose elements may be considered for a start. `seq` orders by age and is
    /// unique among pending entries.
    pub fn enqueue(
        &mut self,
        leaf: LeafId,
        user: UserId,
        priority: i32,
        seq: u64,
        slot: EntrySlot,
    ) {
        let level = self.leaf_state_mut(leaf).levels.entry(Reverse(priority)).or_default();
        let entries = level.users.entry(user).or_default();
        match entries.back() {
            Some((last, _)) if *last >= seq => {
                let Err(at) = place(entries, seq) else {
                    debug_assert!(false, "an entry was enqueued twice");
                    return;
                };
                entries.insert(at, (seq, slot));
            }
            _ => entries.push_back((seq, slot)),
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

    /// Removes an entry that [`Policy::enqueue`] added. An unknown entry is ignored.
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
fn place(entries: &VecDeque<(u64, EntrySlot)>, seq: u64) -> Result<usize, usize> {
    entries.binary_search_by_key(&seq, |(other, _)| *other)
}

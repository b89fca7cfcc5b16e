//! What a leaf queue knows beyond its place in the tree: its users' numbers and who waits, in the
//! order of priority and age. It must not know shares; `pass` brings them in.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use muster_model::QueueName;

use crate::Policy;
use crate::intern::{LeafId, Slot, UserId};
use crate::usage::Usage;

/// A leaf that exists or has existed.
#[derive(Clone, Debug)]
pub(crate) struct LeafState {
    pub(crate) name: QueueName,
    /// Its place in the tree; `None` once it is gone.
    pub(crate) node: Option<usize>,
    pub(crate) users: BTreeMap<UserId, UserRow>,
    /// Jobs of which something waits, by user.
    pub(crate) waiting_jobs: BTreeMap<UserId, u32>,
    /// Highest priority first.
    pub(crate) levels: BTreeMap<Reverse<i32>, Level>,
}

impl LeafState {
    pub(crate) fn new(name: QueueName) -> Self {
        Self {
            name,
            node: None,
            users: BTreeMap::new(),
            waiting_jobs: BTreeMap::new(),
            levels: BTreeMap::new(),
        }
    }
}

/// A user in a leaf. Vectors are by [`crate::ModelId`].
#[derive(Clone, Debug)]
pub(crate) struct UserRow {
    /// Elements holding resources.
    pub(crate) running: u32,
    /// Thousandths of GPUs held.
    pub(crate) held: Vec<u64>,
    pub(crate) usage: Vec<Usage>,
}

impl UserRow {
    pub(crate) fn new(models: usize) -> Self {
        Self { running: 0, held: vec![0; models], usage: vec![Usage::default(); models] }
    }

    /// Room for every model up to `count`.
    pub(crate) fn widen(&mut self, count: usize) {
        self.held.resize(count, 0);
        self.usage.resize(count, Usage::default());
    }

    /// Nothing to remember: the row is dropped.
    pub(crate) fn is_blank(&self) -> bool {
        self.running == 0 && self.usage.iter().all(Usage::is_blank)
    }
}

/// Entries of one priority: per user, by `seq`, which is oldest first. They mostly come at the end
/// and leave at the front.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    pub(crate) users: BTreeMap<UserId, VecDeque<(u64, Slot)>>,
    pub(crate) count: u32,
}

impl Policy {
    /// A job of `user` waits in `leaf`, if only with one of its elements, on hold or not. For the
    /// limit on such jobs; the order knows entries.
    pub fn job_waits(&mut self, leaf: LeafId, user: UserId) {
        self.count_waiting(leaf, user, 1);
    }

    /// Nothing of a job counted by [`Policy::job_waits`] waits any more.
    pub fn job_waits_no_more(&mut self, leaf: LeafId, user: UserId) {
        let change = |count: &mut u32| {
            debug_assert!(*count > 0, "more jobs wait no more than did");
            *count = count.saturating_sub(1);
        };
        self.change_waiting(leaf, user, change);
    }

    /// So many more jobs of a user wait.
    pub(crate) fn count_waiting(&mut self, leaf: LeafId, user: UserId, jobs: u32) {
        self.change_waiting(leaf, user, |count| *count += jobs);
    }

    fn change_waiting(&mut self, leaf: LeafId, user: UserId, change: impl Fn(&mut u32)) {
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
        apply(&mut self.leaf_state_mut(leaf).waiting_jobs);
        let mut next = Some(self.node_of(leaf));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            if node.limits.pending_jobs.is_some() {
                apply(&mut node.waiting_jobs);
            }
            next = node.parent;
        }
    }

    /// An element may be considered for a start. `seq` orders by age and is unique among pending
    /// entries.
    pub fn enqueue(&mut self, leaf: LeafId, user: UserId, priority: i32, seq: u64, slot: Slot) {
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
        let (mut below, mut next) = (None, Some(self.node_of(leaf)));
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            node.pending += 1;
            node.pending_children.extend(below);
            (below, next) = (Some(index), node.parent);
        }
    }

    /// The inverse of [`Policy::enqueue`]. An entry that is not there is ignored.
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
        let (mut emptied, mut next) = (None, Some(self.node_of(leaf)));
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

/// Where an entry is, or would be.
fn place(entries: &VecDeque<(u64, Slot)>, seq: u64) -> Result<usize, usize> {
    entries.binary_search_by_key(&seq, |(other, _)| *other)
}

//! State of a leaf queue beyond its place in the tree: the counters of its users, and pending
//! entries by priority and age. It must not know shares; `order` adds them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use muster_model::QueueName;

use crate::intern::{EntrySlot, UserId};
use crate::order::EntryAge;
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
    pub(crate) users: BTreeMap<UserId, VecDeque<(EntryAge, EntrySlot)>>,
    pub(crate) count: u32,
}

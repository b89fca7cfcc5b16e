//! One pass over everything that waits, in order: level by level the queue with the lowest share, in a leaf the highest
//! priority, then the user with the lowest share, then age. What waits in [`Tier::Last`] comes after everything else of
//! all queues, in an order of the same kind.
//!
//! The order is merged lazily and follows what starts: after [`Pass::started`] only the ranks on that path are taken
//! anew. A pass holds no borrow of the [`Policy`], so that the caller can hold and undo between two entries; entries must
//! not be enqueued or dequeued during a pass. What is fixed at the beginning is the instant at which shares are read.
//!
//! Cost: opening a queue ranks its children that have entries, opening a priority ranks its users; then a few steps in
//! small ordered sets per entry, and one descent of the tree whenever the leaf changes.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};

use muster_model::{Tier, Time};

use crate::Policy;
use crate::intern::{LeafId, Slot, UserId};
use crate::share::QueueRank;
use crate::tree::ROOT;

/// Entries copied from a user's queue at a time: amortises the look-up, bounds what is copied in vain.
const CHUNK: usize = 32;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Pass {
    now: Time,
    /// What is given at present.
    tier: Tier,
    /// Inner queues visited so far.
    rankings: BTreeMap<usize, Ranking>,
    /// The leaf that the next entry comes from, unless its rank changes.
    current: Option<(usize, LeafCursor)>,
    /// Leaves begun and left.
    parked: BTreeMap<usize, LeafCursor>,
    skipped: BTreeSet<LeafId>,
    /// Users of whom nothing more is given, by leaf.
    gone: BTreeMap<usize, BTreeSet<UserId>>,
}

/// The highest priority of the last tier; those after it are of it, too.
const LAST: Reverse<i32> = Reverse(Tier::LAST_ORDER);

/// Children of an inner queue that may have entries left.
#[derive(Clone, Debug)]
struct Ranking {
    order: BTreeSet<(QueueRank, usize)>,
    ranks: BTreeMap<usize, QueueRank>,
}

impl Policy {
    /// Does anything wait in the last tier?
    fn has_last(&self) -> bool {
        self.leaves.iter().any(|leaf| leaf.levels.last_key_value().is_some_and(|(lowest, _)| *lowest >= LAST))
    }

    /// Begins a pass; shares are read at `now`, with the running counters as they are at each step.
    #[must_use]
    pub fn begin_pass(&self, now: Time) -> Pass {
        Pass {
            now,
            tier: Tier::Usual,
            rankings: BTreeMap::new(),
            current: None,
            parked: BTreeMap::new(),
            skipped: BTreeSet::new(),
            gone: BTreeMap::new(),
        }
    }
}

impl Pass {
    /// The next entry; each is given once. `policy` is the one that the pass was begun on.
    pub fn next(&mut self, policy: &Policy) -> Option<Slot> {
        loop {
            if self.current.is_none() {
                let Some(node) = self.descend(policy) else {
                    if self.tier == Tier::Usual && policy.has_last() {
                        self.begin_last();
                        continue;
                    }
                    return None;
                };
                let begun = self.parked.remove(&node);
                let cursor = begun.unwrap_or_else(|| self.open(policy, node));
                self.current = Some((node, cursor));
            }
            let Some((node, cursor)) = &mut self.current else { return None };
            let is_skipped = !self.skipped.is_empty() && self.skipped.contains(&cursor.leaf);
            if !is_skipped && let Some(slot) = cursor.next(policy, self.now) {
                return Some(slot);
            }
            let done = *node;
            self.current = None;
            self.close(policy, done);
        }
    }

    /// What `user` holds in `leaf` has changed (held or undone): their ranks and those of the path are taken anew.
    pub fn started(&mut self, policy: &Policy, leaf: LeafId, user: UserId) {
        // 1. The leaf that was current may no longer be first.
        if let Some((node, cursor)) = self.current.take() {
            self.parked.insert(node, cursor);
        }
        // 2. The user within the leaf.
        let mut below = policy.node_of(leaf);
        if let Some(cursor) = self.parked.get_mut(&below) {
            cursor.rank_again(policy, self.now, user);
        }
        // 3. The queues of the path among their siblings.
        while let Some(parent) = policy.nodes[below].parent {
            if let Some(ranking) = self.rankings.get_mut(&parent)
                && let Some(rank) = ranking.ranks.get_mut(&below)
            {
                ranking.order.remove(&(*rank, below));
                *rank = policy.queue_rank(self.now, below);
                ranking.order.insert((*rank, below));
            }
            below = parent;
        }
    }

    /// No more entries of this leaf in this pass.
    pub fn skip_leaf(&mut self, leaf: LeafId) {
        self.skipped.insert(leaf);
    }

    /// No more entries of this user in this leaf in this pass, whatever their priority.
    pub fn skip_user(&mut self, policy: &Policy, leaf: LeafId, user: UserId) {
        let node = policy.node_of(leaf);
        self.gone.entry(node).or_default().insert(user);
        let begun = match &mut self.current {
            Some((current, cursor)) if *current == node => Some(cursor),
            _ => self.parked.get_mut(&node),
        };
        if let Some(cursor) = begun {
            cursor.skipped.insert(user);
            cursor.users.remove(&user);
        }
    }

    fn open(&self, policy: &Policy, node: usize) -> LeafCursor {
        LeafCursor::new(policy, node, self.tier, self.gone.get(&node).cloned().unwrap_or_default())
    }

    /// Everything else was given: from the top again, through what comes last.
    fn begin_last(&mut self) {
        self.tier = Tier::Last;
        self.rankings.clear();
        self.parked.clear();
    }

    /// The leaf that is first now.
    fn descend(&mut self, policy: &Policy) -> Option<usize> {
        let mut index = ROOT;
        while !policy.nodes[index].is_leaf() {
            let now = self.now;
            let ranking = self.rankings.entry(index).or_insert_with(|| Ranking::new(policy, now, index));
            // Only the root runs empty: `close` removes any other queue with its last child.
            index = ranking.order.first()?.1;
        }
        Some(index)
    }

    /// Takes a leaf out, and every queue above that has nothing left.
    fn close(&mut self, policy: &Policy, leaf: usize) {
        let mut below = leaf;
        while let Some(parent) = policy.nodes[below].parent {
            let Some(ranking) = self.rankings.get_mut(&parent) else { return };
            if let Some(rank) = ranking.ranks.remove(&below) {
                ranking.order.remove(&(rank, below));
            }
            if !ranking.order.is_empty() {
                return;
            }
            below = parent;
        }
    }
}

impl Ranking {
    fn new(policy: &Policy, now: Time, index: usize) -> Self {
        let children = &policy.nodes[index].pending_children;
        let ranks: BTreeMap<usize, QueueRank> =
            children.iter().map(|child| (*child, policy.queue_rank(now, *child))).collect();
        Self { order: ranks.iter().map(|(child, rank)| (*rank, *child)).collect(), ranks }
    }
}

/// How far a leaf has been read: priority by priority, and in one the users by share, then age.
#[derive(Clone, Debug)]
struct LeafCursor {
    leaf: LeafId,
    /// Only priorities of this tier are read.
    tier: Tier,
    /// The priority being read.
    priority: Option<Reverse<i32>>,
    /// Lowest share first, then the lowest `seq` of the next entry. May hold keys that its user has left behind.
    order: BinaryHeap<Reverse<UserKey>>,
    /// Users with entries left in this priority.
    users: BTreeMap<UserId, UserCursor>,
    /// Users of whom nothing more is given.
    skipped: BTreeSet<UserId>,
}

/// What orders a user's next entry: share, `seq`, and whose it is.
type UserKey = (u64, u64, UserId);

/// How far one user's entries of one priority have been read.
#[derive(Clone, Debug)]
struct UserCursor {
    share: u64,
    /// The entry to be given next.
    head: (u64, Slot),
    /// Those after it as far as copied, youngest first.
    chunk: Vec<(u64, Slot)>,
}

impl LeafCursor {
    fn new(policy: &Policy, node: usize, tier: Tier, skipped: BTreeSet<UserId>) -> Self {
        let leaf = policy.nodes[node].leaf.expect("a node without children is a leaf with an id");
        Self { leaf, tier, priority: None, order: BinaryHeap::new(), users: BTreeMap::new(), skipped }
    }

    fn next(&mut self, policy: &Policy, now: Time) -> Option<Slot> {
        loop {
            while self.users.is_empty() {
                self.open_next_priority(policy, now)?;
            }
            let mut top = self.order.peek_mut()?;
            let (share, seq, user) = top.0;
            let cursor =
                self.users.get_mut(&user).filter(|cursor| (cursor.share, cursor.head.0) == (share, seq));
            let Some(cursor) = cursor else {
                PeekMut::pop(top);
                continue;
            };
            let slot = cursor.head.1;
            if cursor.chunk.is_empty() {
                copy_after(policy, self.leaf, self.priority?, user, seq, &mut cursor.chunk);
            }
            if let Some(head) = cursor.chunk.pop() {
                cursor.head = head;
                top.0.1 = head.0;
            } else {
                PeekMut::pop(top);
                self.users.remove(&user);
            }
            return Some(slot);
        }
    }

    fn open_next_priority(&mut self, policy: &Policy, now: Time) -> Option<()> {
        let levels = &policy.leaf_state(self.leaf).levels;
        let (priority, level) = match (self.priority, self.tier) {
            (None, Tier::Usual) => levels.first_key_value()?,
            (None, Tier::Last) => levels.range(LAST..).next()?,
            (Some(read), _) => levels.range((Excluded(read), Unbounded)).next()?,
        };
        if Tier::of_order(priority.0) != self.tier {
            return None;
        }
        self.priority = Some(*priority);
        self.users = level
            .users
            .iter()
            .filter(|(user, _)| !self.skipped.contains(user))
            .filter_map(|(user, entries)| {
                let (seq, slot) = entries.first_key_value()?;
                let share = policy.user_share(now, self.leaf, *user);
                Some((*user, UserCursor { share, head: (*seq, *slot), chunk: Vec::new() }))
            })
            .collect();
        self.order = self.users.iter().map(|(user, cursor)| Reverse(cursor.key(*user))).collect();
        Some(())
    }

    fn rank_again(&mut self, policy: &Policy, now: Time, user: UserId) {
        if let Some(cursor) = self.users.get_mut(&user) {
            let share = policy.user_share(now, self.leaf, user);
            if share != cursor.share {
                cursor.share = share;
                self.order.push(Reverse(cursor.key(user)));
            }
        }
    }
}

impl UserCursor {
    fn key(&self, user: UserId) -> UserKey {
        (self.share, self.head.0, user)
    }
}

/// Copies the user's next entries of a priority after `seq`, youngest first.
fn copy_after(
    policy: &Policy,
    leaf: LeafId,
    priority: Reverse<i32>,
    user: UserId,
    seq: u64,
    chunk: &mut Vec<(u64, Slot)>,
) {
    let level = policy.leaf_state(leaf).levels.get(&priority);
    if let Some(entries) = level.and_then(|level| level.users.get(&user)) {
        let after = entries.range((Excluded(seq), Unbounded));
        chunk.extend(after.take(CHUNK).map(|(seq, slot)| (*seq, *slot)));
        chunk.reverse();
    }
}

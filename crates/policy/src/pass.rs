//! Order of pending entries in one scheduling pass: level by level the queue with the lowest share,
//! in a leaf the highest priority, then what [`crate::order`] says. Opportunistic
//! entries ([`Tier::Opportunistic`]) come after all others of all queues, in an order of the same
//! kind.
//!
//! The order is merged lazily and follows starts: after [`Pass::note_start`] only the ranks on that
//! path are computed again. A pass holds no borrow of the [`Policy`], so that the caller can hold
//! and undo between two entries; entries must not be enqueued or dequeued during a pass. The
//! instant at which shares are read is fixed at the beginning.
//!
//! Cost: opening a queue ranks its children with entries, opening a priority ranks its users; then
//! a heap step per entry and queue of the path, and one descent of the tree whenever the leaf
//! changes. A stale item stays in its heap until it comes up: a user or queue with a start is
//! mostly at the top, and gets its new rank at once. A single child or user has no heap. A finished
//! pass can be restarted in its memory.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use muster_model::{Tier, Time};
use smallvec::SmallVec;

use crate::Policy;
use crate::intern::{EntrySlot, LeafId, ROOT, UserId};
use crate::order::{EntryAge, EntryOrder};
use crate::queues::Queues;
use crate::share::QueueRank;

/// Iterator over pending entries, in order; see the module's description.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    now: Time,
    /// Tier that is being read.
    tier: Tier,
    /// Rankings of inner queues, by node.
    rankings: Vec<ChildRanking>,
    /// Cursors of leaves, by node.
    leaves: Vec<LeafCursor>,
    /// Leaf that the next entry comes from, unless its rank changes.
    current: Option<usize>,
}

/// Highest priority of opportunistic entries; all lower ones are opportunistic, too.
const OPPORTUNISTIC: Reverse<i32> = Reverse(Tier::MAX_OPPORTUNISTIC_ORDER);

/// Children of an inner queue that may have entries left.
#[derive(Clone, Debug, Default)]
struct ChildRanking {
    /// True once it was visited in this tier.
    is_open: bool,
    /// Children by rank, the first first. May hold stale ranks. Empty if there is one child.
    order: BinaryHeap<Reverse<(QueueRank, usize)>>,
    /// Rank by node, ascending; `None` once a child has nothing left.
    ranks: SmallVec<[(usize, Option<QueueRank>); 1]>,
    /// Number of children with entries left.
    left: usize,
}

impl Queues {
    /// Returns true if any opportunistic entry is pending.
    fn has_opportunistic(&self) -> bool {
        self.leaves.iter().any(|leaf| {
            leaf.levels.last_key_value().is_some_and(|(lowest, _)| *lowest >= OPPORTUNISTIC)
        })
    }
}

impl Policy {
    /// Begins a pass; shares are read at `now`, with the counters as they are at each step.
    #[must_use]
    pub fn begin_pass(&self, now: Time) -> Pass {
        let mut pass = Pass::default();
        pass.restart(self, now);
        pass
    }
}

impl Pass {
    /// As [`Policy::begin_pass`], reusing the memory of any earlier pass.
    pub fn restart(&mut self, policy: &Policy, now: Time) {
        (self.now, self.tier, self.current) = (now, Tier::Normal, None);
        self.rankings.resize_with(policy.queues.nodes.len(), ChildRanking::default);
        self.leaves.resize_with(policy.queues.nodes.len(), LeafCursor::default);
        self.close_all();
        for leaf in &mut self.leaves {
            leaf.is_skipped = false;
            leaf.skipped.clear();
        }
    }

    /// Returns the next entry; each is returned once. `policy` is the one that the pass was begun
    /// on.
    pub fn next(&mut self, policy: &Policy) -> Option<EntrySlot> {
        loop {
            let Some(node) = self.current.or_else(|| self.descend(policy)) else {
                if self.tier == Tier::Normal && policy.queues.has_opportunistic() {
                    self.begin_opportunistic();
                    continue;
                }
                return None;
            };
            self.current = Some(node);
            let cursor = &mut self.leaves[node];
            if !cursor.is_skipped {
                if !cursor.is_open {
                    cursor.open(policy, node, self.tier);
                }
                if let Some(slot) = cursor.next(policy, self.now) {
                    return Some(slot);
                }
            }
            cursor.is_open = false;
            self.current = None;
            self.close(policy, node);
        }
    }

    /// Updates the ranks of the user and of the queues of the path, after what `user` holds in
    /// `leaf` has changed.
    pub fn note_start(&mut self, policy: &Policy, leaf: LeafId, user: UserId) {
        // 1. The leaf that was current may no longer be first.
        self.current = None;
        // 2. The user within the leaf.
        let mut below = policy.queues.node_of(leaf);
        if self.leaves[below].is_open {
            self.leaves[below].update_rank(policy, self.now, user);
        }
        // 3. The queues of the path among their siblings.
        while let Some(parent) = policy.queues.nodes[below].parent {
            if self.rankings[parent].is_open {
                self.rankings[parent].update_rank(policy, self.now, below);
            }
            below = parent;
        }
    }

    /// Skips all further entries of this leaf in this pass.
    pub fn skip_leaf(&mut self, policy: &Policy, leaf: LeafId) {
        self.leaves[policy.queues.node_of(leaf)].is_skipped = true;
    }

    /// Skips all further entries of this user in this leaf in this pass, whatever their priority.
    pub fn skip_user(&mut self, policy: &Policy, leaf: LeafId, user: UserId) {
        self.leaves[policy.queues.node_of(leaf)].skip(user);
    }

    /// Continues with the opportunistic entries, from the top.
    fn begin_opportunistic(&mut self) {
        self.tier = Tier::Opportunistic;
        self.close_all();
    }

    fn close_all(&mut self) {
        self.rankings.iter_mut().for_each(|ranking| ranking.is_open = false);
        self.leaves.iter_mut().for_each(|leaf| leaf.is_open = false);
    }

    /// Returns the leaf that is first now.
    fn descend(&mut self, policy: &Policy) -> Option<usize> {
        let mut index = ROOT;
        while !policy.queues.nodes[index].is_leaf() {
            let ranking = &mut self.rankings[index];
            if !ranking.is_open {
                ranking.open(policy, self.now, index);
            }
            // Only the root runs empty: `close` removes any other queue with its last child.
            index = ranking.first()?;
        }
        Some(index)
    }

    /// Removes a leaf, and every queue above it that has nothing left.
    fn close(&mut self, policy: &Policy, leaf: usize) {
        let mut below = leaf;
        while let Some(parent) = policy.queues.nodes[below].parent {
            let ranking = &mut self.rankings[parent];
            if !ranking.is_open {
                return;
            }
            if ranking.rank_of(below).and_then(Option::take).is_some() {
                ranking.left -= 1;
            }
            if ranking.left > 0 {
                return;
            }
            below = parent;
        }
    }
}

impl ChildRanking {
    fn open(&mut self, policy: &Policy, now: Time, index: usize) {
        let children = &policy.queues.nodes[index].pending_children;
        (self.is_open, self.left) = (true, children.len());
        self.ranks.clear();
        self.order.clear();
        // A single child is first whatever its share.
        if children.len() == 1 {
            self.ranks.extend(children.iter().map(|child| (*child, Some(QueueRank::default()))));
            return;
        }
        self.ranks
            .extend(children.iter().map(|child| (*child, Some(policy.queue_rank(now, *child)))));
        let order = self.ranks.iter();
        self.order.extend(order.filter_map(|(child, rank)| Some(Reverse(((*rank)?, *child)))));
    }

    /// Returns the rank of a child with entries, or that had some.
    fn rank_of(&mut self, child: usize) -> Option<&mut Option<QueueRank>> {
        let at = self.ranks.binary_search_by_key(&child, |(other, _)| *other).ok()?;
        Some(&mut self.ranks[at].1)
    }

    /// Returns the child that comes first.
    fn first(&mut self) -> Option<usize> {
        if let [(child, rank)] = self.ranks[..] {
            return rank.map(|_| child);
        }
        loop {
            let Reverse((rank, child)) = *self.order.peek()?;
            if self.rank_of(child).is_some_and(|known| *known == Some(rank)) {
                return Some(child);
            }
            self.order.pop();
        }
    }

    fn update_rank(&mut self, policy: &Policy, now: Time, child: usize) {
        if self.ranks.len() == 1 {
            return;
        }
        let Some(Some(known)) = self.rank_of(child) else { return };
        let rank = policy.queue_rank(now, child);
        if std::mem::replace(known, rank) == rank {
            return;
        }
        if let Some(mut top) = self.order.peek_mut()
            && top.0.1 == child
        {
            top.0.0 = rank;
            return;
        }
        self.order.push(Reverse((rank, child)));
    }
}

/// Position in a leaf: priority by priority, and in one the users by the order of their next entries.
#[derive(Clone, Debug, Default)]
struct LeafCursor {
    /// True if it was begun in this tier, and is not at its end.
    is_open: bool,
    /// True if the rest of it is skipped.
    is_skipped: bool,
    leaf: LeafId,
    /// Tier that is read.
    tier: Tier,
    /// Priority that is being read.
    priority: Option<Reverse<i32>>,
    /// Users by the order of their next entries. May hold stale keys. Empty if there is one user.
    order: BinaryHeap<Reverse<UserKey>>,
    /// Users with entries in this priority, by id.
    users: SmallVec<[UserCursor; 1]>,
    /// Number of them with entries left.
    left: usize,
    /// Users that are skipped.
    skipped: BTreeSet<UserId>,
}

/// Order of a user's next entry; then the user's index in the leaf.
type UserKey = (EntryOrder, usize);

/// Position in one user's entries of one priority.
#[derive(Clone, Debug)]
struct UserCursor {
    user: UserId,
    share: u64,
    /// True if nothing is left, or the rest is skipped.
    is_done: bool,
    /// Next entry of the user.
    head: (EntryAge, EntrySlot),
    /// Entries after it that were read, the last first; `read` counts all that were.
    buffered: Vec<(EntryAge, EntrySlot)>,
    read: usize,
}

/// Number of entries of a user that are read at once.
const BATCH: usize = 16;

impl LeafCursor {
    fn open(&mut self, policy: &Policy, node: usize, tier: Tier) {
        self.leaf = policy.queues.nodes[node].leaf.expect("a queue without children has a leaf id");
        (self.is_open, self.tier, self.priority, self.left) = (true, tier, None, 0);
    }

    fn next(&mut self, policy: &Policy, now: Time) -> Option<EntrySlot> {
        loop {
            while self.left == 0 {
                self.open_next_priority(policy, now)?;
            }
            let priority = self.priority?;
            // A single user needs no order.
            if let [cursor] = &mut self.users[..] {
                let slot = cursor.head.1;
                if !cursor.advance(policy, self.leaf, priority) {
                    self.left -= 1;
                }
                return Some(slot);
            }
            let mut top = self.order.peek_mut()?;
            let at = top.0.1;
            let cursor = &mut self.users[at];
            if cursor.is_done || cursor.key(policy, now, at) != top.0 {
                PeekMut::pop(top);
                continue;
            }
            let slot = cursor.head.1;
            if cursor.advance(policy, self.leaf, priority) {
                top.0 = cursor.key(policy, now, at);
            } else {
                PeekMut::pop(top);
                self.left -= 1;
            }
            return Some(slot);
        }
    }

    fn open_next_priority(&mut self, policy: &Policy, now: Time) -> Option<()> {
        let levels = &policy.queues.leaf_state(self.leaf).levels;
        let (priority, level) = match (self.priority, self.tier) {
            (None, Tier::Normal) => levels.first_key_value()?,
            (None, Tier::Opportunistic) => levels.range(OPPORTUNISTIC..).next()?,
            (Some(read), _) => levels.range((Excluded(read), Unbounded)).next()?,
        };
        if Tier::of_order(priority.0) != self.tier {
            return None;
        }
        self.priority = Some(*priority);
        let is_alone = level.users.len() == 1;
        let mut known = 0;
        for (user, entries) in &level.users {
            let Some(head) = entries.front().filter(|_| !self.skipped.contains(user)) else {
                continue;
            };
            let share = if is_alone { 0 } else { policy.user_share(now, self.leaf, *user) };
            match self.users.get_mut(known) {
                Some(cursor) => cursor.restart(*user, share, *head),
                None => self.users.push(UserCursor::new(*user, share, *head)),
            }
            known += 1;
        }
        self.users.truncate(known);
        self.left = known;
        self.order.clear();
        if known > 1 {
            let ordered = self.users.iter().enumerate();
            self.order.extend(ordered.map(|(at, cursor)| Reverse(cursor.key(policy, now, at))));
        }
        Some(())
    }

    fn find(&self, user: UserId) -> Option<usize> {
        let at = self.users.binary_search_by_key(&user, |cursor| cursor.user).ok()?;
        (!self.users[at].is_done).then_some(at)
    }

    /// Skips the rest of a user.
    fn skip(&mut self, user: UserId) {
        self.skipped.insert(user);
        if self.is_open
            && let Some(at) = self.find(user)
        {
            self.users[at].is_done = true;
            self.left -= 1;
        }
    }

    fn update_rank(&mut self, policy: &Policy, now: Time, user: UserId) {
        let Some(at) = self.find(user).filter(|_| self.users.len() > 1) else { return };
        let share = policy.user_share(now, self.leaf, user);
        if share != self.users[at].share {
            self.users[at].share = share;
            self.order.push(Reverse(self.users[at].key(policy, now, at)));
        }
    }
}

impl UserCursor {
    fn new(user: UserId, share: u64, head: (EntryAge, EntrySlot)) -> Self {
        Self { user, share, is_done: false, head, buffered: Vec::new(), read: 1 }
    }

    /// Restarts the cursor in its memory.
    fn restart(&mut self, user: UserId, share: u64, head: (EntryAge, EntrySlot)) {
        let mut ahead = std::mem::take(&mut self.buffered);
        ahead.clear();
        *self = Self { buffered: ahead, ..Self::new(user, share, head) };
    }

    /// Advances to the user's next entry; returns false if there is none.
    fn advance(&mut self, policy: &Policy, leaf: LeafId, priority: Reverse<i32>) -> bool {
        if self.buffered.is_empty() {
            let level = policy.queues.leaf_state(leaf).levels.get(&priority);
            let entries = level.and_then(|level| level.users.get(&self.user));
            entries.into_iter().for_each(|entries| self.read_batch(entries));
        }
        match self.buffered.pop() {
            Some(head) => self.head = head,
            None => self.is_done = true,
        }
        !self.is_done
    }

    /// Reads the next batch of the user's entries.
    fn read_batch(&mut self, entries: &VecDeque<(EntryAge, EntrySlot)>) {
        let until = entries.len().min(self.read + BATCH);
        self.buffered.extend(entries.range(self.read..until).rev().copied());
        self.read = until;
    }

    /// Returns the order key; `at` is the user's index in the leaf.
    fn key(&self, policy: &Policy, now: Time, at: usize) -> UserKey {
        (policy.entry_order(now, self.share, self.head.0), at)
    }
}

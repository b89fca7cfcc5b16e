//! One pass over everything that waits, in order: level by level the queue with the lowest share,
//! in a leaf the highest priority, then the user with the lowest share, then age. What waits in
//! [`Tier::Last`] comes after everything else of all queues, in an order of the same kind.
//!
//! The order is merged lazily and follows what starts: after [`Pass::started`] only the ranks on
//! that path are taken anew. A pass holds no borrow of the [`Policy`], so that the caller can hold
//! and undo between two entries; entries must not be enqueued or dequeued during a pass. What is
//! fixed at the beginning is the instant at which shares are read.
//!
//! Cost: opening a queue ranks its children that have entries, opening a priority ranks its users;
//! then a step in a heap per entry and queue of the path, and one descent of the tree whenever the
//! leaf changes. What has left its place in a heap stays there until it comes up: who starts is
//! mostly first, and takes its new place at once. Who is alone has no heap. A pass that is over can
//! be begun again, in the memory that it has.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use muster_model::{Tier, Time};
use smallvec::SmallVec;

use crate::Policy;
use crate::intern::{LeafId, Slot, UserId};
use crate::share::QueueRank;
use crate::tree::ROOT;

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    now: Time,
    /// What is given at present.
    tier: Tier,
    /// Of inner queues, by node.
    rankings: Vec<Ranking>,
    /// Of leaves, by node.
    leaves: Vec<LeafCursor>,
    /// The leaf that the next entry comes from, unless its rank changes.
    current: Option<usize>,
}

/// The highest priority of the last tier; those after it are of it, too.
const LAST: Reverse<i32> = Reverse(Tier::LAST_ORDER);

/// Children of an inner queue that may have entries left.
#[derive(Clone, Debug, Default)]
struct Ranking {
    /// It was visited in this tier.
    is_open: bool,
    /// The first first. May hold ranks that a child has left behind. Empty where there is one
    /// child.
    order: BinaryHeap<Reverse<(QueueRank, usize)>>,
    /// By node, rising; `None` once a child has nothing left.
    ranks: SmallVec<[(usize, Option<QueueRank>); 1]>,
    /// How many have something left.
    left: usize,
}

impl Policy {
    /// Does anything wait in the last tier?
    fn has_last(&self) -> bool {
        self.leaves
            .iter()
            .any(|leaf| leaf.levels.last_key_value().is_some_and(|(lowest, _)| *lowest >= LAST))
    }

    /// Begins a pass; shares are read at `now`, with the running counters as they are at each step.
    #[must_use]
    pub fn begin_pass(&self, now: Time) -> Pass {
        let mut pass = Pass::default();
        pass.begin_again(self, now);
        pass
    }
}

impl Pass {
    /// As [`Policy::begin_pass`], whatever became of the pass that this was, and of which policy it
    /// was one.
    pub fn begin_again(&mut self, policy: &Policy, now: Time) {
        (self.now, self.tier, self.current) = (now, Tier::Usual, None);
        self.rankings.resize_with(policy.nodes.len(), Ranking::default);
        self.leaves.resize_with(policy.nodes.len(), LeafCursor::default);
        self.close_all();
        for leaf in &mut self.leaves {
            leaf.is_skipped = false;
            leaf.skipped.clear();
        }
    }

    /// The next entry; each is given once. `policy` is the one that the pass was begun on.
    pub fn next(&mut self, policy: &Policy) -> Option<Slot> {
        loop {
            let Some(node) = self.current.or_else(|| self.descend(policy)) else {
                if self.tier == Tier::Usual && policy.has_last() {
                    self.begin_last();
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

    /// What `user` holds in `leaf` has changed (held or undone): their ranks and those of the path
    /// are taken anew.
    pub fn started(&mut self, policy: &Policy, leaf: LeafId, user: UserId) {
        // 1. The leaf that was current may no longer be first.
        self.current = None;
        // 2. The user within the leaf.
        let mut below = policy.node_of(leaf);
        if self.leaves[below].is_open {
            self.leaves[below].rank_again(policy, self.now, user);
        }
        // 3. The queues of the path among their siblings.
        while let Some(parent) = policy.nodes[below].parent {
            if self.rankings[parent].is_open {
                self.rankings[parent].rank_again(policy, self.now, below);
            }
            below = parent;
        }
    }

    /// No more entries of this leaf in this pass.
    pub fn skip_leaf(&mut self, policy: &Policy, leaf: LeafId) {
        self.leaves[policy.node_of(leaf)].is_skipped = true;
    }

    /// No more entries of this user in this leaf in this pass, whatever their priority.
    pub fn skip_user(&mut self, policy: &Policy, leaf: LeafId, user: UserId) {
        self.leaves[policy.node_of(leaf)].skip(user);
    }

    /// Everything else was given: from the top again, through what comes last.
    fn begin_last(&mut self) {
        self.tier = Tier::Last;
        self.close_all();
    }

    fn close_all(&mut self) {
        self.rankings.iter_mut().for_each(|ranking| ranking.is_open = false);
        self.leaves.iter_mut().for_each(|leaf| leaf.is_open = false);
    }

    /// The leaf that is first now.
    fn descend(&mut self, policy: &Policy) -> Option<usize> {
        let mut index = ROOT;
        while !policy.nodes[index].is_leaf() {
            let ranking = &mut self.rankings[index];
            if !ranking.is_open {
                ranking.open(policy, self.now, index);
            }
            // Only the root runs empty: `close` removes any other queue with its last child.
            index = ranking.first()?;
        }
        Some(index)
    }

    /// Takes a leaf out, and every queue above that has nothing left.
    fn close(&mut self, policy: &Policy, leaf: usize) {
        let mut below = leaf;
        while let Some(parent) = policy.nodes[below].parent {
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

impl Ranking {
    fn open(&mut self, policy: &Policy, now: Time, index: usize) {
        let children = &policy.nodes[index].pending_children;
        (self.is_open, self.left) = (true, children.len());
        self.ranks.clear();
        self.order.clear();
        // Who has no sibling is first whatever his share.
        if children.len() == 1 {
            self.ranks.extend(children.iter().map(|child| (*child, Some(QueueRank::default()))));
            return;
        }
        self.ranks
            .extend(children.iter().map(|child| (*child, Some(policy.queue_rank(now, *child)))));
        let order = self.ranks.iter();
        self.order.extend(order.filter_map(|(child, rank)| Some(Reverse(((*rank)?, *child)))));
    }

    /// The rank of a child that is among those with entries, or was.
    fn rank_of(&mut self, child: usize) -> Option<&mut Option<QueueRank>> {
        let at = self.ranks.binary_search_by_key(&child, |(other, _)| *other).ok()?;
        Some(&mut self.ranks[at].1)
    }

    /// The child that comes first.
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

    fn rank_again(&mut self, policy: &Policy, now: Time, child: usize) {
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

/// How far a leaf has been read: priority by priority, and in one the users by share, then age.
#[derive(Clone, Debug, Default)]
struct LeafCursor {
    /// It was begun in this tier, and is not at its end.
    is_open: bool,
    /// Nothing more is given of it.
    is_skipped: bool,
    leaf: LeafId,
    /// Only priorities of this tier are read.
    tier: Tier,
    /// The priority being read.
    priority: Option<Reverse<i32>>,
    /// Lowest share first, then the lowest `seq` of the next entry. May hold keys that its user has
    /// left behind. Empty where there is one user.
    order: BinaryHeap<Reverse<UserKey>>,
    /// Users with entries in this priority, by id.
    users: SmallVec<[UserCursor; 1]>,
    /// How many of them have entries left.
    left: usize,
    /// Users of whom nothing more is given.
    skipped: BTreeSet<UserId>,
}

/// What orders a user's next entry: share and `seq`; and where its user is among those of the leaf.
type UserKey = (u64, u64, usize);

/// How far one user's entries of one priority have been read.
#[derive(Clone, Debug)]
struct UserCursor {
    user: UserId,
    share: u64,
    /// Nothing is left, or nothing more is given.
    is_done: bool,
    /// The entry to be given next.
    head: (u64, Slot),
    /// Those after it that were read, the last first; and how many of the user's were.
    ahead: Vec<(u64, Slot)>,
    read: usize,
}

/// How many entries of a user are read at once.
const AT_ONCE: usize = 16;

impl LeafCursor {
    fn open(&mut self, policy: &Policy, node: usize, tier: Tier) {
        self.leaf = policy.nodes[node].leaf.expect("a node without children is a leaf with an id");
        (self.is_open, self.tier, self.priority, self.left) = (true, tier, None, 0);
    }

    fn next(&mut self, policy: &Policy, now: Time) -> Option<Slot> {
        loop {
            while self.left == 0 {
                self.open_next_priority(policy, now)?;
            }
            let priority = self.priority?;
            // Who is alone has no order to keep.
            if let [cursor] = &mut self.users[..] {
                let slot = cursor.head.1;
                if !cursor.go_on(policy, self.leaf, priority) {
                    self.left -= 1;
                }
                return Some(slot);
            }
            let mut top = self.order.peek_mut()?;
            let cursor = &mut self.users[top.0.2];
            if cursor.is_done || (cursor.share, cursor.head.0) != (top.0.0, top.0.1) {
                PeekMut::pop(top);
                continue;
            }
            let slot = cursor.head.1;
            if cursor.go_on(policy, self.leaf, priority) {
                top.0.1 = cursor.head.0;
            } else {
                PeekMut::pop(top);
                self.left -= 1;
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
        let is_alone = level.users.len() == 1;
        let mut known = 0;
        for (user, entries) in &level.users {
            let Some(head) = entries.front().filter(|_| !self.skipped.contains(user)) else {
                continue;
            };
            let share = if is_alone { 0 } else { policy.user_share(now, self.leaf, *user) };
            match self.users.get_mut(known) {
                Some(cursor) => cursor.begin_again(*user, share, *head),
                None => self.users.push(UserCursor::new(*user, share, *head)),
            }
            known += 1;
        }
        self.users.truncate(known);
        self.left = known;
        self.order.clear();
        if known > 1 {
            let ordered = self.users.iter().enumerate();
            self.order.extend(ordered.map(|(at, cursor)| Reverse(cursor.key(at))));
        }
        Some(())
    }

    fn find(&self, user: UserId) -> Option<usize> {
        let at = self.users.binary_search_by_key(&user, |cursor| cursor.user).ok()?;
        (!self.users[at].is_done).then_some(at)
    }

    /// Gives nothing more of a user.
    fn skip(&mut self, user: UserId) {
        self.skipped.insert(user);
        if self.is_open
            && let Some(at) = self.find(user)
        {
            self.users[at].is_done = true;
            self.left -= 1;
        }
    }

    fn rank_again(&mut self, policy: &Policy, now: Time, user: UserId) {
        let Some(at) = self.find(user).filter(|_| self.users.len() > 1) else { return };
        let share = policy.user_share(now, self.leaf, user);
        if share != self.users[at].share {
            self.users[at].share = share;
            self.order.push(Reverse(self.users[at].key(at)));
        }
    }
}

impl UserCursor {
    fn new(user: UserId, share: u64, head: (u64, Slot)) -> Self {
        Self { user, share, is_done: false, head, ahead: Vec::new(), read: 1 }
    }

    /// As a new one, in the memory that it has.
    fn begin_again(&mut self, user: UserId, share: u64, head: (u64, Slot)) {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.clear();
        *self = Self { ahead, ..Self::new(user, share, head) };
    }

    /// Comes to the user's next entry; false where there is none.
    fn go_on(&mut self, policy: &Policy, leaf: LeafId, priority: Reverse<i32>) -> bool {
        if self.ahead.is_empty() {
            let level = policy.leaf_state(leaf).levels.get(&priority);
            let entries = level.and_then(|level| level.users.get(&self.user));
            entries.into_iter().for_each(|entries| self.read_on(entries));
        }
        match self.ahead.pop() {
            Some(head) => self.head = head,
            None => self.is_done = true,
        }
        !self.is_done
    }

    /// Reads on among the user's entries.
    fn read_on(&mut self, entries: &VecDeque<(u64, Slot)>) {
        let until = entries.len().min(self.read + AT_ONCE);
        self.ahead.extend(entries.range(self.read..until).rev().copied());
        self.read = until;
    }

    /// `at` is its place among the users of its leaf.
    fn key(&self, at: usize) -> UserKey {
        (self.share, self.head.0, at)
    }
}

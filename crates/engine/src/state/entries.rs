//! What waits, as the policy orders it. An entry stands for the fresh elements of a job, or for one
//! element with a record. Entries that may not start yet (a begin time, a back-off) sleep here
//! until their time.
//!
//! The fresh elements of an array are enqueued as a few tickets on one slot: the policy interleaves
//! tickets of different users by their shares, and a pass that uses up all tickets of an array
//! begins another round.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use muster_model::{JobId, Span, Time};
use muster_policy::{LeafId, Policy, Slot, UserId};
use rustc_hash::FxHashMap;

use super::shape::ClassId;

/// At most this many tickets of one array stand in its leaf's order at once. Enough that shares
/// decide between users at a fine grain, few enough that a large array is submitted in
/// microseconds.
pub(crate) const MAX_TICKETS: u32 = 64;

/// Age order: jobs by number, within a job its tickets, then its individual elements by ordinal.
const SEQ_PER_JOB_BITS: u32 = 32;

/// Whom an entry stands for: a job's fresh elements, or one element by ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    pub(crate) job: JobId,
    pub(crate) ordinal: Option<u32>,
}

/// How an owner wants to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not at all.
    Out,
    /// Not before an instant.
    Sleeping(Time),
    /// In the order, so many times.
    Queued(u32),
}

/// Where it is ordered, and what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) leaf: LeafId,
    pub(crate) user: UserId,
    pub(crate) priority: i32,
    pub(crate) class: ClassId,
    /// Limit and grace; [`ENDLESS`] without a limit.
    pub(crate) duration: Span,
}

/// Longer than every real duration.
pub(crate) const ENDLESS: Span = Span(u64::MAX);

/// What stands in an order: how many entries of each class and duration, by class, the shortest
/// first.
#[derive(Clone, Debug, Default)]
struct Census(BTreeMap<(ClassId, Span), u32>);

impl Census {
    /// Counts one in or out.
    fn count(&mut self, class: ClassId, duration: Span, joins: bool) {
        match self.0.entry((class, duration)) {
            Entry::Vacant(entry) => {
                debug_assert!(joins, "only what was counted in is counted out");
                entry.insert(1);
            }
            Entry::Occupied(mut entry) if joins || *entry.get() > 1 => {
                *entry.get_mut() = if joins { *entry.get() + 1 } else { *entry.get() - 1 };
            }
            Entry::Occupied(entry) => {
                entry.remove();
            }
        }
    }

    /// Every class with its shortest duration, by class.
    fn shortest(&self) -> impl Iterator<Item = (ClassId, Span)> {
        let first = self.0.first_key_value().map(|(key, _)| *key);
        std::iter::successors(first, |(class, _)| {
            let after = self.0.range((Excluded((*class, ENDLESS)), Unbounded)).next();
            after.map(|(key, _)| *key)
        })
    }

    /// The shortest duration of a class.
    fn shortest_of(&self, class: ClassId) -> Option<Span> {
        let first = self.0.range((class, Span(0))..=(class, ENDLESS)).next();
        first.map(|((_, duration), _)| *duration)
    }
}

#[derive(Clone, Debug)]
struct Row {
    owner: Owner,
    rank: Rank,
    standing: Standing,
}

/// All entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    entries: Vec<Option<Row>>,
    vacant: Vec<Slot>,
    by_owner: FxHashMap<Owner, Slot>,
    sleepers: BTreeSet<(Time, Owner)>,
    census: FxHashMap<LeafId, Census>,
    by_user: FxHashMap<(LeafId, UserId), Census>,
    queued: u32,
}

impl Entries {
    /// Whom a slot of the present pass stands for.
    pub(crate) fn owner(&self, slot: Slot) -> Owner {
        self.entries[slot.0 as usize].as_ref().expect("the policy holds only live slots").owner
    }

    /// Where a slot of the present pass stands.
    pub(crate) fn rank(&self, slot: Slot) -> &Rank {
        &self.entries[slot.0 as usize].as_ref().expect("the policy holds only live slots").rank
    }

    pub(crate) fn slot(&self, owner: Owner) -> Option<Slot> {
        self.by_owner.get(&owner).copied()
    }

    /// How an owner stands.
    pub(crate) fn standing(&self, owner: Owner) -> Standing {
        self.slot(owner)
            .and_then(|slot| self.entries[slot.0 as usize].as_ref())
            .map_or(Standing::Out, |entry| entry.standing)
    }

    /// When the first sleeper wakes; some never do.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.sleepers.first().map(|(time, _)| *time).filter(|time| *time < Time::NEVER)
    }

    /// A sleeper whose time has come.
    pub(crate) fn due(&self, now: Time) -> Option<Owner> {
        self.sleepers.first().filter(|(time, _)| *time <= now).map(|(_, owner)| *owner)
    }

    /// True when nothing may be considered for a start.
    pub(crate) fn is_idle(&self) -> bool {
        self.queued == 0
    }

    /// Puts an owner where it belongs.
    pub(crate) fn set(
        &mut self,
        policy: &mut Policy,
        owner: Owner,
        rank: Rank,
        standing: Standing,
    ) {
        let slot = match self.slot(owner) {
            Some(slot) => slot,
            None if standing == Standing::Out => return,
            None => self.create(owner, rank),
        };
        let entry = self.entries[slot.0 as usize].as_mut().expect("by_owner names live slots");
        let (old, old_rank) = (entry.standing, entry.rank);
        if old == standing && old_rank == rank {
            return;
        }
        (entry.standing, entry.rank) = (standing, rank);
        let keep = old_rank == rank;
        let (had, wants) = (tickets(old), tickets(standing));
        for ticket in if keep { wants.min(had) } else { 0 }..had {
            policy.dequeue(old_rank.leaf, old_rank.user, old_rank.priority, seq(owner, ticket));
        }
        for ticket in if keep { had.min(wants) } else { 0 }..wants {
            policy.enqueue(rank.leaf, rank.user, rank.priority, seq(owner, ticket), slot);
        }
        self.queued = self.queued + wants - had;
        if had > 0 && (wants == 0 || !keep) {
            self.count(old_rank, false);
        }
        if wants > 0 && (had == 0 || !keep) {
            self.count(rank, true);
        }
        if let Standing::Sleeping(time) = old {
            self.sleepers.remove(&(time, owner));
        }
        if let Standing::Sleeping(time) = standing {
            self.sleepers.insert((time, owner));
        }
        if standing == Standing::Out {
            self.entries[slot.0 as usize] = None;
            self.by_owner.remove(&owner);
            self.vacant.push(slot);
        }
    }

    /// Classes that stand in the order of a leaf, each with its shortest duration.
    pub(crate) fn shortest_in_leaf(&self, leaf: LeafId) -> impl Iterator<Item = (ClassId, Span)> {
        self.census.get(&leaf).into_iter().flat_map(Census::shortest)
    }

    /// The shortest duration of a class in the order of a leaf.
    pub(crate) fn shortest(&self, leaf: LeafId, class: ClassId) -> Span {
        self.census.get(&leaf).and_then(|census| census.shortest_of(class)).unwrap_or(ENDLESS)
    }

    /// Classes that stand there for a user, each with his shortest duration.
    pub(crate) fn shortest_of_user(
        &self,
        leaf: LeafId,
        user: UserId,
    ) -> impl Iterator<Item = (ClassId, Span)> {
        self.by_user.get(&(leaf, user)).into_iter().flat_map(Census::shortest)
    }

    /// Counts an entry in or out of both censuses.
    fn count(&mut self, rank: Rank, joins: bool) {
        self.census.entry(rank.leaf).or_default().count(rank.class, rank.duration, joins);
        // Who waits for nothing now will again; there are as many as users of queues.
        let own = self.by_user.entry((rank.leaf, rank.user)).or_default();
        own.count(rank.class, rank.duration, joins);
    }

    /// The policy has a new tree and has moved its own entries; keeps the ids here in step.
    pub(crate) fn follow_tree(&mut self, policy: &Policy) {
        self.census.clear();
        self.by_user.clear();
        let mut ranks = Vec::new();
        for entry in self.entries.iter_mut().flatten() {
            entry.rank.leaf = policy.leaf_moved(entry.rank.leaf);
            ranks.extend((tickets(entry.standing) > 0).then_some(entry.rank));
        }
        for rank in ranks {
            self.count(rank, true);
        }
    }

    fn create(&mut self, owner: Owner, rank: Rank) -> Slot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            Slot(self.entries.len() as u32 - 1)
        });
        self.entries[slot.0 as usize] = Some(Row { owner, rank, standing: Standing::Out });
        self.by_owner.insert(owner, slot);
        slot
    }
}

fn tickets(standing: Standing) -> u32 {
    match standing {
        Standing::Queued(tickets) => tickets,
        Standing::Out | Standing::Sleeping(_) => 0,
    }
}

/// The age of an owner's ticket.
pub(crate) fn seq(owner: Owner, ticket: u32) -> u64 {
    let within = match owner.ordinal {
        None => u64::from(ticket),
        Some(ordinal) => u64::from(MAX_TICKETS) + u64::from(ordinal),
    };
    (owner.job.0 << SEQ_PER_JOB_BITS) + within
}

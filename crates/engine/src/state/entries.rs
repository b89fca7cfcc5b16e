//! Queue entries: what waits, as the policy orders it. An entry stands for the elements of a job
//! without a record, or for one element with a record. Entries that may not start yet (a begin
//! time, a back-off) sleep here until their time.
//!
//! The elements of an array without a record are enqueued as a few tickets on one slot: the policy
//! interleaves tickets of different users by their shares, and a pass that uses up all tickets of
//! an array begins another round.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use muster_model::{JobId, Span, Time};
use muster_policy::{EntryAge, EntrySlot, LeafId, Policy, UserId};
use rustc_hash::FxHashMap;

use crate::place::classes::ClassId;

/// Maximum number of tickets of one array in its leaf's order at once: enough that shares decide
/// between users at a fine grain, few enough that a large array is submitted in microseconds.
pub(crate) const MAX_TICKETS: u32 = 64;

/// Age order: jobs by number; within a job its tickets, then its individual elements by ordinal.
const SEQ_PER_JOB_BITS: u32 = 32;

/// Elements that an entry stands for: those of a job without a record, or one element by ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryOwner {
    pub(crate) job: JobId,
    pub(crate) ordinal: Option<u32>,
}

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryStanding {
    /// Not in the queue.
    Out,
    /// Enters the order at this instant.
    Sleeping(Time),
    /// In the order, with this many tickets.
    Queued(u32),
}

/// Place of an entry in the queue order, and what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryRank {
    pub(crate) leaf: LeafId,
    pub(crate) user: UserId,
    pub(crate) priority: i32,
    /// Instant at which the job was submitted.
    pub(crate) submitted: Time,
    pub(crate) class: ClassId,
    /// Time limit plus grace; [`UNLIMITED`] without a limit.
    pub(crate) duration: Span,
}

/// Duration longer than every real one.
pub(crate) const UNLIMITED: Span = Span(u64::MAX);

/// Number of entries of each class and duration in an order, by class, shortest first.
#[derive(Clone, Debug, Default)]
struct ClassCounts(BTreeMap<(ClassId, Span), u32>);

impl ClassCounts {
    /// Adds or removes one entry.
    fn count(&mut self, class: ClassId, duration: Span, joins: bool) {
        match self.0.entry((class, duration)) {
            Entry::Vacant(entry) => {
                debug_assert!(joins, "removed an entry that was not counted");
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

    /// Returns every class with its shortest duration, by class.
    fn shortest(&self) -> impl Iterator<Item = (ClassId, Span)> {
        let first = self.0.first_key_value().map(|(key, _)| *key);
        std::iter::successors(first, |(class, _)| {
            let after = self.0.range((Excluded((*class, UNLIMITED)), Unbounded)).next();
            after.map(|(key, _)| *key)
        })
    }

    /// Returns the shortest duration of a class.
    fn shortest_of(&self, class: ClassId) -> Option<Span> {
        let first = self.0.range((class, Span(0))..=(class, UNLIMITED)).next();
        first.map(|((_, duration), _)| *duration)
    }
}

#[derive(Clone, Debug)]
struct EntryRow {
    owner: EntryOwner,
    rank: EntryRank,
    standing: EntryStanding,
}

/// Queue entries of all jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    entries: Vec<Option<EntryRow>>,
    vacant: Vec<EntrySlot>,
    by_owner: FxHashMap<EntryOwner, EntrySlot>,
    sleepers: BTreeSet<(Time, EntryOwner)>,
    census: FxHashMap<LeafId, ClassCounts>,
    by_user: FxHashMap<(LeafId, UserId), ClassCounts>,
    queued: u32,
}

impl Entries {
    /// Returns the owner of a slot of the present pass.
    pub(crate) fn owner(&self, slot: EntrySlot) -> EntryOwner {
        self.entries[slot.0 as usize]
            .as_ref()
            .expect("the policy has only slots that are in use")
            .owner
    }

    /// Returns the place in the order of a slot of the present pass.
    pub(crate) fn rank(&self, slot: EntrySlot) -> &EntryRank {
        &self.entries[slot.0 as usize]
            .as_ref()
            .expect("the policy has only slots that are in use")
            .rank
    }

    pub(crate) fn slot(&self, owner: EntryOwner) -> Option<EntrySlot> {
        self.by_owner.get(&owner).copied()
    }

    /// Returns the state of an owner's entry.
    pub(crate) fn standing(&self, owner: EntryOwner) -> EntryStanding {
        self.slot(owner)
            .and_then(|slot| self.entries[slot.0 as usize].as_ref())
            .map_or(EntryStanding::Out, |entry| entry.standing)
    }

    /// Returns the instant at which the first sleeping entry wakes, if it ever does.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.sleepers.first().map(|(time, _)| *time).filter(|time| *time < Time::NEVER)
    }

    /// Returns a sleeping entry whose time has come.
    pub(crate) fn due(&self, now: Time) -> Option<EntryOwner> {
        self.sleepers.first().filter(|(time, _)| *time <= now).map(|(_, owner)| *owner)
    }

    /// True when no entry may be considered for a start.
    pub(crate) fn is_idle(&self) -> bool {
        self.queued == 0
    }

    /// Sets the state and place of an owner's entry.
    pub(crate) fn set(
        &mut self,
        policy: &mut Policy,
        owner: EntryOwner,
        rank: EntryRank,
        standing: EntryStanding,
    ) {
        let slot = match self.slot(owner) {
            Some(slot) => slot,
            None if standing == EntryStanding::Out => return,
            None => self.create(owner, rank),
        };
        let entry = self.entries[slot.0 as usize]
            .as_mut()
            .expect("by_owner has only slots that are in use");
        let old = entry.standing;
        let old_rank = entry.rank;
        if old == standing && old_rank == rank {
            return;
        }
        (entry.standing, entry.rank) = (standing, rank);
        let keep = old_rank == rank;
        let had = tickets(old);
        let wants = tickets(standing);
        for ticket in if keep { wants.min(had) } else { 0 }..had {
            policy.queues_mut().dequeue(
                old_rank.leaf,
                old_rank.user,
                old_rank.priority,
                seq(owner, ticket),
            );
        }
        for ticket in if keep { had.min(wants) } else { 0 }..wants {
            policy.queues_mut().enqueue(
                rank.leaf,
                rank.user,
                rank.priority,
                EntryAge { seq: seq(owner, ticket), submitted: rank.submitted },
                slot,
            );
        }
        self.queued = self.queued + wants - had;
        if had > 0 && (wants == 0 || !keep) {
            self.count(old_rank, false);
        }
        if wants > 0 && (had == 0 || !keep) {
            self.count(rank, true);
        }
        if let EntryStanding::Sleeping(time) = old {
            self.sleepers.remove(&(time, owner));
        }
        if let EntryStanding::Sleeping(time) = standing {
            self.sleepers.insert((time, owner));
        }
        if standing == EntryStanding::Out {
            self.entries[slot.0 as usize] = None;
            self.by_owner.remove(&owner);
            self.vacant.push(slot);
        }
    }

    /// Returns the classes in the order of a leaf, each with its shortest duration.
    pub(crate) fn shortest_in_leaf(&self, leaf: LeafId) -> impl Iterator<Item = (ClassId, Span)> {
        self.census.get(&leaf).into_iter().flat_map(ClassCounts::shortest)
    }

    /// Returns the shortest duration of a class in the order of a leaf.
    pub(crate) fn shortest(&self, leaf: LeafId, class: ClassId) -> Span {
        self.census.get(&leaf).and_then(|census| census.shortest_of(class)).unwrap_or(UNLIMITED)
    }

    /// Returns the classes of a user in the order of a leaf, each with the user's shortest
    /// duration.
    pub(crate) fn shortest_of_user(
        &self,
        leaf: LeafId,
        user: UserId,
    ) -> impl Iterator<Item = (ClassId, Span)> {
        self.by_user.get(&(leaf, user)).into_iter().flat_map(ClassCounts::shortest)
    }

    /// Adds an entry to both counts, or removes it from both.
    fn count(&mut self, rank: EntryRank, joins: bool) {
        self.census.entry(rank.leaf).or_default().count(rank.class, rank.duration, joins);
        // Empty counts stay: the user will submit again, and there are at most as many as users of
        // queues.
        let own = self.by_user.entry((rank.leaf, rank.user)).or_default();
        own.count(rank.class, rank.duration, joins);
    }

    /// Updates the leaf ids after the policy has taken over a new tree and moved its own entries.
    pub(crate) fn follow_tree(&mut self, policy: &Policy) {
        self.census.clear();
        self.by_user.clear();
        let mut ranks = Vec::new();
        for entry in self.entries.iter_mut().flatten() {
            entry.rank.leaf = policy.queues().current_leaf(entry.rank.leaf);
            ranks.extend((tickets(entry.standing) > 0).then_some(entry.rank));
        }
        for rank in ranks {
            self.count(rank, true);
        }
    }

    fn create(&mut self, owner: EntryOwner, rank: EntryRank) -> EntrySlot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            EntrySlot(self.entries.len() as u32 - 1)
        });
        self.entries[slot.0 as usize] =
            Some(EntryRow { owner, rank, standing: EntryStanding::Out });
        self.by_owner.insert(owner, slot);
        slot
    }
}

fn tickets(standing: EntryStanding) -> u32 {
    match standing {
        EntryStanding::Queued(tickets) => tickets,
        EntryStanding::Out | EntryStanding::Sleeping(_) => 0,
    }
}

/// Returns the order by age of an owner's ticket.
pub(crate) fn seq(owner: EntryOwner, ticket: u32) -> u64 {
    let within = match owner.ordinal {
        None => u64::from(ticket),
        Some(ordinal) => u64::from(MAX_TICKETS) + u64::from(ordinal),
    };
    (owner.job.0 << SEQ_PER_JOB_BITS) + within
}

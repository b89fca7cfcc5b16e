//! Orders in which nodes are looked at. A walk holds a place in an index, not a borrow, so that the pool may change
//! between two steps; a node that moves to an earlier place is not met again.

use muster_model::NodeId;
use muster_policy::ModelId;

use crate::state::index::{Buckets, ModelIndex};
use crate::state::pool::Pool;

/// Which of a model's two indexes a walk follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Nodes with devices that are free but booked for later, by all their free devices.
    Booked,
    /// All nodes, by devices that are free and not booked.
    Clear,
}

impl List {
    fn of(self, index: &ModelIndex) -> &Buckets {
        match self {
            List::Booked => &index.booked,
            List::Clear => &index.clear,
        }
    }
}

/// A walk over the nodes with one model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    model: ModelId,
    list: List,
    descending: bool,
    /// Where to go on: count and rank.
    next: Option<(u16, u32)>,
}

impl Walk {
    /// From `count` free devices upwards: the tightest fit first.
    pub(crate) fn ascending(model: ModelId, list: List, count: u16) -> Self {
        Self { model, list, descending: false, next: Some((count, 0)) }
    }

    /// From the most free devices down to one.
    pub(crate) fn descending(model: ModelId, list: List) -> Self {
        Self { model, list, descending: true, next: Some((u16::MAX, 0)) }
    }

    /// The next node.
    pub(crate) fn next(&mut self, pool: &Pool) -> Option<NodeId> {
        let (count, rank) = self.next?;
        let buckets = self.list.of(pool.index.model(self.model)?);
        let found = match self.descending {
            true => buckets.descending(count, rank),
            false => buckets.ascending(count, rank),
        };
        self.next = found.map(|(count, rank)| (count, rank + 1));
        found.map(|(_, rank)| pool.at_rank(rank))
    }
}

/// A walk over nodes for tasks without a GPU: those with the fewest free devices first, so that devices are not
/// stranded behind busy CPUs; among equals the tightest fit in CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainWalk {
    cpus: u64,
    next: (u16, u64, u32),
}

impl PlainWalk {
    /// Nodes with at least so many free CPUs.
    pub(crate) fn new(cpus: u64) -> Self {
        Self { cpus, next: (0, cpus, 0) }
    }

    /// The next node.
    pub(crate) fn next(&mut self, pool: &Pool) -> Option<NodeId> {
        loop {
            let (devices, cpus, rank) = *pool.index.plain.range(self.next..).next()?;
            if cpus < self.cpus {
                // Within this count of devices the rest may have enough; begin there.
                self.next = (devices, self.cpus, 0);
                continue;
            }
            self.next = (devices, cpus, rank + 1);
            return Some(pool.at_rank(rank));
        }
    }
}

/// A walk over partially held devices of one model, the least that is enough first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareWalk {
    model: ModelId,
    next: (u16, u32, u16),
}

impl ShareWalk {
    /// Devices with at least so many thousandths free.
    pub(crate) fn new(model: ModelId, milli: u16) -> Self {
        Self { model, next: (milli, 0, 0) }
    }

    /// The next device.
    pub(crate) fn next(&mut self, pool: &Pool) -> Option<(NodeId, usize)> {
        let (free, rank, device) = *pool.index.model(self.model)?.shared.range(self.next..).next()?;
        self.next = (free, rank, device + 1);
        Some((pool.at_rank(rank), usize::from(device)))
    }
}

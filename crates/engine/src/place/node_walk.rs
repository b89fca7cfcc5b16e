//! Orders in which nodes are visited. A walk keeps a position in an index, not a borrow, so that
//! the pool may change between two steps; a node that moves to an earlier position is not visited
//! again.

use muster_model::NodeId;
use muster_policy::ModelId;

use crate::pool::Pool;
use crate::pool::index::{Buckets, ModelIndex};
use crate::pool::node::Node;
use crate::pool::scope::Scope;

/// Index of a model that a walk follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketList {
    /// Nodes with devices that are free but booked for later, by the number of all their free
    /// devices.
    Booked,
    /// All nodes, by the number of devices that are free and not booked.
    Clear,
}

impl BucketList {
    fn of(self, index: &ModelIndex) -> &Buckets {
        match self {
            BucketList::Booked => &index.booked,
            BucketList::Clear => &index.clear,
        }
    }

    /// Returns the count under which a node is listed; 0 if it is not.
    fn count(self, node: &Node, model: ModelId) -> u16 {
        let at = node.models.iter().position(|(known, _)| *known == model);
        match at.and_then(|at| node.published.buckets.get(at)) {
            None => 0,
            Some((clear, booked)) => match self {
                BucketList::Booked => booked.unwrap_or(0),
                BucketList::Clear => *clear,
            },
        }
    }
}

/// Walk over the nodes with one model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeWalk {
    scope: Scope,
    model: ModelId,
    list: BucketList,
    descending: bool,
    /// Next position: count and rank.
    next: Option<(u16, u32)>,
}

impl NodeWalk {
    /// Walks from `count` free devices upwards: the tightest fit first.
    pub(crate) fn ascending(scope: Scope, model: ModelId, list: BucketList, count: u16) -> Self {
        Self { scope, model, list, descending: false, next: Some((count, 0)) }
    }

    /// Walks from the most free devices down to one.
    pub(crate) fn descending(scope: Scope, model: ModelId, list: BucketList) -> Self {
        Self { scope, model, list, descending: true, next: Some((u16::MAX, 0)) }
    }

    /// Returns the next node.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Option<NodeId> {
        let (count, rank) = self.next?;
        if let Scope::Node(id) = self.scope {
            self.next = None;
            pool.refresh();
            let least = if self.descending { 1 } else { count };
            return (self.list.count(pool.node(id), self.model) >= least).then_some(id);
        }
        let buckets = self.list.of(pool.index_of(self.scope)?.model(self.model)?);
        let found = if self.descending {
            buckets.descending(count, rank)
        } else {
            buckets.ascending(count, rank)
        };
        self.next = found.map(|(count, rank)| (count, rank + 1));
        found.map(|(_, rank)| pool.at_rank_of(self.scope, rank))
    }
}

/// Walk over nodes for tasks without a GPU: those with the fewest free devices first, so that
/// devices are not stranded behind busy CPUs; among equals the tightest fit in CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuWalk {
    scope: Scope,
    cpus: u64,
    next: Option<(u16, u64, u32)>,
}

impl CpuWalk {
    /// Walks over nodes with at least this many free CPUs.
    pub(crate) fn new(scope: Scope, cpus: u64) -> Self {
        Self { scope, cpus, next: Some((0, cpus, 0)) }
    }

    /// Returns the next node.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Option<NodeId> {
        let mut next = self.next?;
        let Some(index) = pool.cpu_only_index_of(self.scope) else {
            self.next = None;
            return Some(pool.at_rank_of(self.scope, 0));
        };
        loop {
            let (devices, cpus, rank) = *index.range(next..).next()?;
            if cpus < self.cpus {
                // Nodes with this count of devices and enough CPUs may follow; continue there.
                next = (devices, self.cpus, 0);
                continue;
            }
            self.next = Some((devices, cpus, rank + 1));
            return Some(pool.at_rank_of(self.scope, rank));
        }
    }
}

/// Walk over partially held devices of one model, the smallest sufficient free share first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareWalk {
    scope: Scope,
    model: ModelId,
    next: (u16, u32, u16),
}

impl ShareWalk {
    /// Walks over devices with at least this many thousandths free.
    pub(crate) fn new(scope: Scope, model: ModelId, milli: u16) -> Self {
        Self { scope, model, next: (milli, 0, 0) }
    }

    /// Returns the next device.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Option<(NodeId, usize)> {
        if let Scope::Node(id) = self.scope {
            pool.refresh();
            return self.next_on(id, pool.node(id));
        }
        let index = pool.index_of(self.scope)?.model(self.model)?;
        let (free, rank, device) = *index.shared.range(self.next..).next()?;
        self.next = (free, rank, device + 1);
        Some((pool.at_rank_of(self.scope, rank), usize::from(device)))
    }

    /// Returns the next device of the only node.
    fn next_on(&mut self, id: NodeId, node: &Node) -> Option<(NodeId, usize)> {
        let of_model = node.published.shared.iter().filter(|(model, _, _)| *model == self.model);
        let ahead =
            of_model.map(|(_, free, device)| (*free, 0, *device)).filter(|one| *one >= self.next);
        let (free, rank, device) = ahead.min()?;
        self.next = (free, rank, device + 1);
        Some((id, usize::from(device)))
    }
}

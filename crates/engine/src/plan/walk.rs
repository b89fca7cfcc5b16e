//! Orders in which nodes are looked at. A walk holds a place in an index, not a borrow, so that the
//! pool may change between two steps; a node that moves to an earlier place is not met again.

use muster_model::NodeId;
use muster_policy::ModelId;

use crate::state::index::{Buckets, ModelIndex};
use crate::state::node::Node;
use crate::state::pool::Pool;
use crate::state::topology::Scope;

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

    /// What a node stands for in the list; 0 when it is not in it.
    fn count(self, node: &Node, model: ModelId) -> u16 {
        let at = node.models.iter().position(|(known, _)| *known == model);
        match at.and_then(|at| node.published.buckets.get(at)) {
            None => 0,
            Some((clear, booked)) => match self {
                List::Booked => booked.unwrap_or(0),
                List::Clear => *clear,
            },
        }
    }
}

/// A walk over the nodes with one model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    scope: Scope,
    model: ModelId,
    list: List,
    descending: bool,
    /// Where to go on: count and rank.
    next: Option<(u16, u32)>,
}

impl Walk {
    /// From `count` free devices upwards: the tightest fit first.
    pub(crate) fn ascending(scope: Scope, model: ModelId, list: List, count: u16) -> Self {
        Self { scope, model, list, descending: false, next: Some((count, 0)) }
    }

    /// From the most free devices down to one.
    pub(crate) fn descending(scope: Scope, model: ModelId, list: List) -> Self {
        Self { scope, model, list, descending: true, next: Some((u16::MAX, 0)) }
    }

    /// The next node.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Option<NodeId> {
        let (count, rank) = self.next?;
        if let Scope::Node(id) = self.scope {
            self.next = None;
            pool.refresh();
            let least = if self.descending { 1 } else { count };
            return (self.list.count(pool.node(id), self.model) >= least).then_some(id);
        }
        let buckets = self.list.of(pool.index_of(self.scope)?.model(self.model)?);
        let found = match self.descending {
            true => buckets.descending(count, rank),
            false => buckets.ascending(count, rank),
        };
        self.next = found.map(|(count, rank)| (count, rank + 1));
        found.map(|(_, rank)| pool.at_rank_of(self.scope, rank))
    }
}

/// A walk over nodes for tasks without a GPU: those with the fewest free devices first, so that
/// devices are not stranded behind busy CPUs; among equals the tightest fit in CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainWalk {
    scope: Scope,
    cpus: u64,
    next: Option<(u16, u64, u32)>,
}

impl PlainWalk {
    /// Nodes with at least so many free CPUs.
    pub(crate) fn new(scope: Scope, cpus: u64) -> Self {
        Self { scope, cpus, next: Some((0, cpus, 0)) }
    }

    /// The next node.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Option<NodeId> {
        let mut next = self.next?;
        let Some(index) = pool.plain_of(self.scope) else {
            self.next = None;
            return Some(pool.at_rank_of(self.scope, 0));
        };
        loop {
            let (devices, cpus, rank) = *index.range(next..).next()?;
            if cpus < self.cpus {
                // Within this count of devices the rest may have enough; begin there.
                next = (devices, self.cpus, 0);
                continue;
            }
            self.next = Some((devices, cpus, rank + 1));
            return Some(pool.at_rank_of(self.scope, rank));
        }
    }
}

/// A walk over partially held devices of one model, the least that is enough first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareWalk {
    scope: Scope,
    model: ModelId,
    next: (u16, u32, u16),
}

impl ShareWalk {
    /// Devices with at least so many thousandths free.
    pub(crate) fn new(scope: Scope, model: ModelId, milli: u16) -> Self {
        Self { scope, model, next: (milli, 0, 0) }
    }

    /// The next device.
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

    /// The next device of the only node.
    fn next_on(&mut self, id: NodeId, node: &Node) -> Option<(NodeId, usize)> {
        let of_model = node.published.shared.iter().filter(|(model, _, _)| *model == self.model);
        let ahead =
            of_model.map(|(_, free, device)| (*free, 0, *device)).filter(|one| *one >= self.next);
        let (free, rank, device) = ahead.min()?;
        self.next = (free, rank, device + 1);
        Some((id, usize::from(device)))
    }
}

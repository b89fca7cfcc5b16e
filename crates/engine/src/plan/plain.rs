//! Tasks without a GPU: on nodes with the fewest free GPUs first.

use muster_model::{DeviceSet, NodeId};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::ask::{Ask, Freed};
use super::gang::Gang;
use super::walk::PlainWalk;
use crate::state::pool::{PlainKey, Pool};
use crate::state::shape::GroupNeed;
use crate::state::topology::Scope;

/// True when no node has the CPUs of what has to be on one.
pub(super) fn has_no_room(pool: &mut Pool, scope: Scope, need: &GroupNeed) -> bool {
    let block = u64::from(need.per_node.unwrap_or(1));
    PlainWalk::new(scope, need.scalars.cpus.saturating_mul(block)).next(pool).is_none()
}

/// Places all tasks of a group.
pub(super) fn place(gang: &mut Gang<'_>, group: u16, need: &GroupNeed) -> bool {
    let block = need.per_node.unwrap_or(1);
    let is_blocked = need.per_node.is_some();
    let mut left = need.tasks;
    // 1. One node for all, the tightest that takes them.
    if !is_blocked && left > 1 {
        let mut walk = Nodes::of(gang, need.scalars.cpus.saturating_mul(u64::from(left)));
        while let Some(node) = walk.next(gang.pool) {
            if room(gang, need, node) >= left {
                grant(gang, group, node, left);
                return true;
            }
        }
    }
    // 2. One after the other.
    let mut walk = Nodes::of(gang, need.scalars.cpus.saturating_mul(u64::from(block)));
    let mut used = FxHashSet::default();
    while left > 0
        && let Some(node) = walk.next(gang.pool)
    {
        let room = room(gang, need, node);
        let tasks = match is_blocked {
            true if room >= block && !used.contains(&node) => block.min(left),
            true => 0,
            false => room.min(left),
        };
        if tasks > 0 {
            grant(gang, group, node, tasks);
            left -= tasks;
            if is_blocked {
                used.insert(node);
            }
        }
    }
    left == 0
}

/// True when all tasks of a group can be placed now. Nothing is changed for it.
pub(super) fn fits(pool: &mut Pool, ask: &Ask<'_>, need: &GroupNeed) -> bool {
    let block = need.per_node.unwrap_or(1);
    let mut walk = PlainWalk::new(ask.scope, need.scalars.cpus.saturating_mul(u64::from(block)));
    let mut missing = need.tasks;
    while missing > 0
        && let Some(id) = walk.next(pool)
    {
        let node = pool.node(id);
        let room =
            if ask.admits(id, node) { node.scalar_fits(&need.scalars, ask.window) } else { 0 };
        let tasks = match need.per_node {
            Some(block) if room >= u64::from(block) => block,
            Some(_) => 0,
            None => u32::try_from(room).unwrap_or(u32::MAX),
        };
        missing = missing.saturating_sub(tasks);
    }
    missing == 0
}

/// Nodes in the order in which they are offered.
enum Nodes {
    /// As the index has them now.
    Now(PlainWalk),
    /// As it will have them once what ends before a future start is gone.
    Ahead(smallvec::IntoIter<[PlainKey; 4]>),
}

impl Nodes {
    /// Those that have at least so many free CPUs.
    fn of(gang: &mut Gang<'_>, cpus: u64) -> Self {
        let mut walk = PlainWalk::new(gang.ask.scope, cpus);
        let Some(Freed::Ahead(_)) = gang.ask.freed else { return Self::Now(walk) };
        let mut changed = gang.freed_nodes();
        changed.sort_unstable();
        let ahead = |pool: &Pool, id| {
            pool.plain_ahead(id, gang.ask.window).filter(|(_, free, ..)| *free >= cpus)
        };
        let mut keys: SmallVec<[PlainKey; 4]> = SmallVec::new();
        let mut add = |pool: &Pool, id| ahead(pool, id).into_iter().for_each(|key| keys.push(key));
        changed.iter().for_each(|id| add(gang.pool, *id));
        while let Some(id) = walk.next(gang.pool) {
            if changed.binary_search(&id).is_err() {
                add(gang.pool, id);
            }
        }
        keys.sort_unstable();
        Self::Ahead(keys.into_iter())
    }

    fn next(&mut self, pool: &mut Pool) -> Option<NodeId> {
        match self {
            Self::Now(walk) => walk.next(pool),
            Self::Ahead(keys) => keys.next().map(|(.., id)| id),
        }
    }
}

/// How many tasks a node takes.
pub(super) fn room(gang: &Gang<'_>, need: &GroupNeed, node: NodeId) -> u32 {
    match gang.admits(node) {
        true => gang.scalar_room(node, need),
        false => 0,
    }
}

/// Gives a node so many tasks.
pub(super) fn grant(gang: &mut Gang<'_>, group: u16, node: NodeId, tasks: u32) {
    for _ in 0..tasks {
        gang.grant(group, node, DeviceSet::EMPTY, 0);
    }
}

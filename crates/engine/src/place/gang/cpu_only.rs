//! Places tasks without a GPU: on nodes with the fewest free GPUs first.

use muster_model::{DeviceSet, NodeId};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::GangPlacer;
use crate::place::node_walk::CpuWalk;
use crate::place::request::{PlacementRequest, ReleasedResources};
use crate::pool::scope::Scope;
use crate::pool::shape::GroupNeed;
use crate::pool::{CpuOnlyKey, Pool};

/// Returns true if no node has the CPUs for a task, or for a block of tasks.
pub(crate) fn lacks_capacity(pool: &mut Pool, scope: Scope, need: &GroupNeed) -> bool {
    let block = u64::from(need.per_node.unwrap_or(1));
    CpuWalk::new(scope, need.scalars.cpus.saturating_mul(block)).next(pool).is_none()
}

/// Places all tasks of a group. Returns false if some are left.
pub(crate) fn place(gang: &mut GangPlacer<'_>, group: u16, need: &GroupNeed) -> bool {
    let block = need.per_node.unwrap_or(1);
    let is_blocked = need.per_node.is_some();
    let mut left = need.tasks;
    // 1. One node for all, the tightest that takes them.
    if !is_blocked && left > 1 {
        let mut walk = CpuNodes::of(gang, need.scalars.cpus.saturating_mul(u64::from(left)));
        while let Some(node) = walk.next(gang.pool) {
            if task_capacity(gang, need, node) >= left {
                grant_tasks(gang, group, node, left);
                return true;
            }
        }
    }
    // 2. One after the other.
    let mut walk = CpuNodes::of(gang, need.scalars.cpus.saturating_mul(u64::from(block)));
    let mut used = FxHashSet::default();
    while left > 0
        && let Some(node) = walk.next(gang.pool)
    {
        let capacity = task_capacity(gang, need, node);
        let tasks = match is_blocked {
            true if capacity >= block && !used.contains(&node) => block.min(left),
            true => 0,
            false => capacity.min(left),
        };
        if tasks > 0 {
            grant_tasks(gang, group, node, tasks);
            left -= tasks;
            if is_blocked {
                used.insert(node);
            }
        }
    }
    left == 0
}

/// Returns true if all tasks of a group fit now. Changes nothing.
pub(crate) fn fits(pool: &mut Pool, request: &PlacementRequest<'_>, need: &GroupNeed) -> bool {
    let block = need.per_node.unwrap_or(1);
    let mut walk = CpuWalk::new(request.scope, need.scalars.cpus.saturating_mul(u64::from(block)));
    let mut missing = need.tasks;
    while missing > 0
        && let Some(id) = walk.next(pool)
    {
        let node = pool.node(id);
        let capacity = if request.admits(id, node) {
            node.scalar_fits(&need.scalars, request.interval)
        } else {
            0
        };
        let tasks = match need.per_node {
            Some(block) if capacity >= u64::from(block) => block,
            Some(_) => 0,
            None => u32::try_from(capacity).unwrap_or(u32::MAX),
        };
        missing = missing.saturating_sub(tasks);
    }
    missing == 0
}

/// Nodes in the order in which they are tried.
enum CpuNodes {
    /// Order of the index now.
    Now(CpuWalk),
    /// Order that the index will have at a future start, when all holdings that end before it are
    /// released.
    Ahead(smallvec::IntoIter<[CpuOnlyKey; 4]>),
}

impl CpuNodes {
    /// Returns the nodes with at least this many free CPUs.
    fn of(gang: &mut GangPlacer<'_>, cpus: u64) -> Self {
        let mut walk = CpuWalk::new(gang.request.scope, cpus);
        let Some(ReleasedResources::Predicted(_)) = gang.request.released else {
            return Self::Now(walk);
        };
        let mut changed = gang.released_nodes();
        changed.sort_unstable();
        let key_at = |pool: &Pool, id| {
            pool.cpu_only_key_at(id, gang.request.interval).filter(|(_, free, ..)| *free >= cpus)
        };
        let mut keys: SmallVec<[CpuOnlyKey; 4]> = SmallVec::new();
        let mut add = |pool: &Pool, id| key_at(pool, id).into_iter().for_each(|key| keys.push(key));
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

/// Returns how many tasks of a group a node takes.
pub(crate) fn task_capacity(gang: &GangPlacer<'_>, need: &GroupNeed, node: NodeId) -> u32 {
    if gang.admits(node) { gang.tasks_within_scalars(node, need) } else { 0 }
}

/// Grants this number of tasks on a node.
pub(crate) fn grant_tasks(gang: &mut GangPlacer<'_>, group: u16, node: NodeId, tasks: u32) {
    for _ in 0..tasks {
        gang.grant(group, node, DeviceSet::EMPTY, 0);
    }
}

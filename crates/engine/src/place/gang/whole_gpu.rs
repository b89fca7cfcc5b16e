//! Places tasks that hold whole devices. Packing keeps whole nodes free: a task goes to the node
//! with the fewest sufficient free devices; a gang of several tasks uses as few nodes as possible.

use muster_model::{DeviceSet, NodeId};
use muster_policy::ModelId;
use rustc_hash::FxHashSet;

use super::GangPlacer;
use crate::place::node_walk::{BucketList, NodeWalk};
use crate::place::request::ReleasedResources;
use crate::pool::Pool;
use crate::pool::node::WHOLE;
use crate::pool::scope::Scope;
use crate::pool::shape::GroupNeed;

/// Places all tasks of a group. Returns false if some are left.
pub(crate) fn place(gang: &mut GangPlacer<'_>, group: u16, need: &GroupNeed) -> bool {
    let models = gang.request.choice.models[usize::from(group)].clone();
    let is_ahead = matches!(gang.request.released, Some(ReleasedResources::Predicted(_)));
    if !is_ahead && !could_fit(gang.pool, gang.request.scope, need, &models) {
        return false;
    }
    let mut left = need.tasks;
    match need.per_node {
        Some(block) => {
            let mut used = FxHashSet::default();
            for node in
                gang.released_nodes().into_iter().chain(gang.request.last_nodes.iter().copied())
            {
                left -= place_block(gang, group, need, &models, node, block.min(left), &mut used);
            }
            for model in &models {
                for list in lists(gang) {
                    let mut walk = NodeWalk::ascending(
                        gang.request.scope,
                        *model,
                        list,
                        count(block * need.devices),
                    );
                    while left > 0
                        && let Some(node) = walk.next(gang.pool)
                    {
                        left -= place_block(
                            gang,
                            group,
                            need,
                            &[*model],
                            node,
                            block.min(left),
                            &mut used,
                        );
                    }
                }
            }
        }
        None => {
            for node in gang.released_nodes() {
                for model in &models {
                    left -= fill(gang, group, need, *model, node, left);
                }
            }
            for model in &models {
                left -= spread(gang, group, need, *model, left);
            }
        }
    }
    left == 0
}

/// Returns false if the bucket sizes alone prove that a group does not fit; takes microseconds.
pub(crate) fn could_fit(
    pool: &mut Pool,
    scope: Scope,
    need: &GroupNeed,
    models: &[ModelId],
) -> bool {
    let Some(index) = pool.index_of(scope) else { return true };
    let block = need.per_node.unwrap_or(1);
    let wanted = u64::from(need.tasks.div_ceil(block));
    let per_block = u64::from(block) * u64::from(need.devices);
    let indexes = models.iter().filter_map(|model| index.model(*model));
    let mut capacity = 0;
    for (free, nodes) in indexes.flat_map(|index| index.clear.sizes().chain(index.booked.sizes())) {
        let blocks =
            if need.per_node.is_some() { (free / per_block).min(1) } else { free / per_block };
        capacity += blocks * nodes;
        if capacity >= wanted {
            return true;
        }
    }
    false
}

/// Returns the indexes to follow. Requests that end before bookings begin may use nodes on which only booked devices
/// are free, but only if no other node takes as many tasks: jobs end long before their time limits, and then the gang of the
/// booking can start if its nodes are idle.
fn lists(gang: &GangPlacer<'_>) -> impl Iterator<Item = BucketList> + use<> {
    let booked = gang.pool.has_bookings_outside(gang.request.interval);
    [BucketList::Clear].into_iter().chain(booked.then_some(BucketList::Booked))
}

/// Places tasks on the tightest node that takes all that are left; while there is none, on the
/// emptiest.
fn spread(
    gang: &mut GangPlacer<'_>,
    group: u16,
    need: &GroupNeed,
    model: ModelId,
    tasks: u32,
) -> u32 {
    let mut left = tasks;
    // Placing all of this many remaining tasks on one node has failed: do not try again.
    let mut failed_tasks = u32::MAX;
    for list in lists(gang) {
        let mut emptiest = NodeWalk::descending(gang.request.scope, model, list);
        while left > 0 {
            if left < failed_tasks {
                if let Some(node) = tightest(gang, need, model, left) {
                    return tasks - (left - fill(gang, group, need, model, node, left));
                }
                failed_tasks = left;
            }
            let Some(node) = emptiest.next(gang.pool) else { break };
            left -= fill(gang, group, need, model, node, left);
        }
    }
    tasks - left
}

/// Returns the node with the fewest free devices that takes all of `tasks`; one where it ran last
/// is preferred.
fn tightest(
    gang: &mut GangPlacer<'_>,
    need: &GroupNeed,
    model: ModelId,
    tasks: u32,
) -> Option<NodeId> {
    let devices = tasks
        .checked_mul(need.devices)
        .filter(|devices| *devices <= DeviceSet::MAX_DEVICES as u32)?;
    let takes_all = |gang: &GangPlacer<'_>, node: NodeId| {
        task_capacity(gang, need, model, node, tasks) == tasks
    };
    if let Some(last) = gang.request.last_nodes.iter().copied().find(|node| takes_all(gang, *node))
    {
        return Some(last);
    }
    for list in lists(gang) {
        let mut walk = NodeWalk::ascending(gang.request.scope, model, list, count(devices));
        while let Some(node) = walk.next(gang.pool) {
            if takes_all(gang, node) {
                return Some(node);
            }
        }
    }
    None
}

/// Returns how many tasks, up to `most`, a node takes on one model.
pub(crate) fn task_capacity(
    gang: &GangPlacer<'_>,
    need: &GroupNeed,
    model: ModelId,
    node: NodeId,
    most: u32,
) -> u32 {
    if !gang.admits(node) {
        return 0;
    }
    let free = free(gang, model, node).len() / need.devices;
    match free.min(most) {
        0 => 0,
        capacity => capacity
            .min(gang.tasks_within_cap(model, need))
            .min(gang.tasks_within_scalars(node, need)),
    }
}

fn free(gang: &GangPlacer<'_>, model: ModelId, node: NodeId) -> DeviceSet {
    let node = gang.pool.node(node);
    node.free_during(gang.request.interval).and(node.of_model(model))
}

/// Grants as many tasks as a node takes, up to `most`.
pub(crate) fn fill(
    gang: &mut GangPlacer<'_>,
    group: u16,
    need: &GroupNeed,
    model: ModelId,
    node: NodeId,
    most: u32,
) -> u32 {
    let tasks = task_capacity(gang, need, model, node, most);
    for _ in 0..tasks {
        let devices = choose(gang, free(gang, model, node), node, need.devices);
        gang.grant_gpu(group, model, node, devices, WHOLE);
    }
    tasks
}

/// Grants one whole block on a node, if it fits and the node has none yet. Returns the number of
/// tasks.
fn place_block(
    gang: &mut GangPlacer<'_>,
    group: u16,
    need: &GroupNeed,
    models: &[ModelId],
    node: NodeId,
    block: u32,
    used: &mut FxHashSet<NodeId>,
) -> u32 {
    if block == 0 || used.contains(&node) {
        return 0;
    }
    for model in models {
        if task_capacity(gang, need, *model, node, block) == block {
            used.insert(node);
            return fill(gang, group, need, *model, node, block);
        }
    }
    0
}

/// Chooses devices among free ones. For a future start those released last; for now those booked
/// for later, as EASY does; then the lowest.
fn choose(gang: &GangPlacer<'_>, free: DeviceSet, node: NodeId, devices: u32) -> DeviceSet {
    if free.len() == devices {
        return free;
    }
    let mut chosen = DeviceSet::EMPTY;
    let mut prefer = |set: DeviceSet| {
        let more = set.and(free).minus(chosen).lowest(devices - chosen.len());
        chosen = chosen.or(more);
    };
    match gang.request.released {
        Some(released) => {
            for set in released.released_on(gang.pool, node, gang.request.interval) {
                prefer(set);
            }
            // Free devices that are booked for another time are of the least use to backfill.
            prefer(gang.pool.node(node).booked);
        }
        None => prefer(gang.pool.node(node).booked),
    }
    prefer(free);
    chosen
}

/// Converts a count of devices to the type of the buckets; saturates above any node's count.
fn count(devices: u32) -> u16 {
    u16::try_from(devices).unwrap_or(u16::MAX)
}

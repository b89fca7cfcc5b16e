//! Tasks that hold whole devices. Packing keeps whole nodes free: a task goes where the fewest
//! sufficient devices are free; a gang of several tasks uses as few nodes as it can.

use muster_model::{DeviceSet, NodeId};
use muster_policy::ModelId;
use rustc_hash::FxHashSet;

use super::ask::Freed;
use super::gang::Gang;
use super::walk::{List, Walk};
use crate::state::node::WHOLE;
use crate::state::pool::Pool;
use crate::state::shape::GroupNeed;
use crate::state::topology::Scope;

/// Places all tasks of a group.
pub(super) fn place(gang: &mut Gang<'_>, group: u16, need: &GroupNeed) -> bool {
    let models = gang.ask.pick.models[usize::from(group)].clone();
    let is_ahead = matches!(gang.ask.freed, Some(Freed::Ahead(_)));
    if !is_ahead && !could_fit(gang.pool, gang.ask.scope, need, &models) {
        return false;
    }
    let mut left = need.tasks;
    match need.per_node {
        Some(block) => {
            let mut used = FxHashSet::default();
            for node in gang.freed_nodes().into_iter().chain(gang.ask.home.iter().copied()) {
                left -= place_block(gang, group, need, &models, node, block.min(left), &mut used);
            }
            for model in &models {
                for list in lists(gang) {
                    let mut walk =
                        Walk::ascending(gang.ask.scope, *model, list, count(block * need.devices));
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
            for node in gang.freed_nodes() {
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

/// A bound from the sizes of the buckets alone: refuses in microseconds what has no chance.
pub(super) fn could_fit(
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
    let mut room = 0;
    for (free, nodes) in indexes.flat_map(|index| index.clear.sizes().chain(index.booked.sizes())) {
        let blocks =
            if need.per_node.is_some() { (free / per_block).min(1) } else { free / per_block };
        room += blocks * nodes;
        if room >= wanted {
            return true;
        }
    }
    false
}

/// Which indexes to follow. Booked devices come first for whoever is gone before their bookings
/// begin.
fn lists(gang: &Gang<'_>) -> impl Iterator<Item = List> + use<> {
    let booked = gang.pool.has_bookings_outside(gang.ask.window);
    booked.then_some(List::Booked).into_iter().chain([List::Clear])
}

/// Tasks go to the tightest node that takes all that are left; while there is none, to the
/// emptiest.
fn spread(gang: &mut Gang<'_>, group: u16, need: &GroupNeed, model: ModelId, tasks: u32) -> u32 {
    let mut left = tasks;
    // What one node may take of the rest has been tried and failed for this many tasks: no use
    // trying again.
    let mut in_vain = u32::MAX;
    for list in lists(gang) {
        let mut emptiest = Walk::descending(gang.ask.scope, model, list);
        while left > 0 {
            if left < in_vain {
                if let Some(node) = tightest(gang, need, model, left) {
                    return tasks - (left - fill(gang, group, need, model, node, left));
                }
                in_vain = left;
            }
            let Some(node) = emptiest.next(gang.pool) else { break };
            left -= fill(gang, group, need, model, node, left);
        }
    }
    tasks - left
}

/// The node with the fewest free devices that takes all of `tasks`; before all others one where it
/// ran last.
fn tightest(gang: &mut Gang<'_>, need: &GroupNeed, model: ModelId, tasks: u32) -> Option<NodeId> {
    let devices = tasks
        .checked_mul(need.devices)
        .filter(|devices| *devices <= DeviceSet::MAX_DEVICES as u32)?;
    let takes_all = |gang: &Gang<'_>, node: NodeId| room(gang, need, model, node, tasks) == tasks;
    if let Some(home) = gang.ask.home.iter().copied().find(|node| takes_all(gang, *node)) {
        return Some(home);
    }
    for list in lists(gang) {
        let mut walk = Walk::ascending(gang.ask.scope, model, list, count(devices));
        while let Some(node) = walk.next(gang.pool) {
            if takes_all(gang, node) {
                return Some(node);
            }
        }
    }
    None
}

/// How many tasks, up to `most`, a node takes with one model.
pub(super) fn room(
    gang: &Gang<'_>,
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
        room => room.min(gang.cap_room(model, need)).min(gang.scalar_room(node, need)),
    }
}

fn free(gang: &Gang<'_>, model: ModelId, node: NodeId) -> DeviceSet {
    let node = gang.pool.node(node);
    node.free_during(gang.ask.window).and(node.of_model(model))
}

/// Gives a node as many tasks as it takes, up to `most`.
pub(super) fn fill(
    gang: &mut Gang<'_>,
    group: u16,
    need: &GroupNeed,
    model: ModelId,
    node: NodeId,
    most: u32,
) -> u32 {
    let tasks = room(gang, need, model, node, most);
    for _ in 0..tasks {
        let devices = choose(gang, free(gang, model, node), node, need.devices);
        gang.grant_gpu(group, model, node, devices, WHOLE);
    }
    tasks
}

/// Gives a node one whole block, if it takes it and has none yet.
fn place_block(
    gang: &mut Gang<'_>,
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
        if room(gang, need, *model, node, block) == block {
            used.insert(node);
            return fill(gang, group, need, *model, node, block);
        }
    }
    0
}

/// Chooses devices among free ones. For a future start those that come free last; for now those
/// that are booked for later; then the lowest.
fn choose(gang: &Gang<'_>, free: DeviceSet, node: NodeId, devices: u32) -> DeviceSet {
    if free.len() == devices {
        return free;
    }
    let mut chosen = DeviceSet::EMPTY;
    let mut prefer = |set: DeviceSet| {
        let more = set.and(free).minus(chosen).lowest(devices - chosen.len());
        chosen = chosen.or(more);
    };
    match gang.ask.freed {
        Some(freed) => {
            for set in freed.on(gang.pool, node, gang.ask.window) {
                prefer(set);
            }
            // What is free already and booked by somebody else at another time is of the least use
            // to backfill.
            prefer(gang.pool.node(node).booked);
        }
        None => prefer(gang.pool.node(node).booked),
    }
    prefer(free);
    chosen
}

/// A count of devices as the buckets know it; more than any node has stays more.
fn count(devices: u32) -> u16 {
    u16::try_from(devices).unwrap_or(u16::MAX)
}

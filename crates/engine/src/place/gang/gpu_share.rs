//! Places tasks that hold a share of one device. A share goes to the partially held device that it
//! fills best; a whole device is split only if no large enough share is left.

use muster_model::{DeviceSet, NodeId};
use muster_policy::ModelId;
use rustc_hash::FxHashSet;

use super::GangPlacer;
use crate::place::node_walk::{BucketList, NodeWalk, ShareWalk};
use crate::pool::node::{Node, WHOLE};
use crate::pool::shape::GroupNeed;

/// Places all tasks of a group. Returns false if some are left.
pub(crate) fn place(gang: &mut GangPlacer<'_>, group: u16, need: &GroupNeed) -> bool {
    let models = gang.request.choice.models[usize::from(group)].clone();
    match need.per_node {
        Some(block) => place_blocks(gang, group, need, &models, block),
        None => {
            (0..need.tasks).all(|_| models.iter().any(|model| place_one(gang, group, need, *model)))
        }
    }
}

/// Places one task anywhere: on the best partially held device, else on a wholly free one.
fn place_one(gang: &mut GangPlacer<'_>, group: u16, need: &GroupNeed, model: ModelId) -> bool {
    if gang.tasks_within_cap(model, need) == 0 {
        return false;
    }
    let mut walk = ShareWalk::new(gang.request.scope, model, need.share);
    while let Some((node, device)) = walk.next(gang.pool) {
        if admits_one(gang, need, node) && fits(gang, need, node, device) {
            gang.grant_gpu(group, model, node, DeviceSet::one(device), need.share);
            return true;
        }
    }
    for list in [BucketList::Clear, BucketList::Booked] {
        let mut walk = NodeWalk::ascending(gang.request.scope, model, list, 1);
        while let Some(node) = walk.next(gang.pool) {
            if admits_one(gang, need, node)
                && let Some(device) = best_device(gang, need, node, model)
            {
                gang.grant_gpu(group, model, node, DeviceSet::one(device), need.share);
                return true;
            }
        }
    }
    false
}

/// Places blocks of tasks on distinct nodes.
fn place_blocks(
    gang: &mut GangPlacer<'_>,
    group: u16,
    need: &GroupNeed,
    models: &[ModelId],
    block: u32,
) -> bool {
    let mut left = need.tasks;
    let mut used = FxHashSet::default();
    for model in models {
        let mut walk = NodeWalk::ascending(gang.request.scope, *model, BucketList::Clear, 0);
        while left > 0
            && let Some(node) = walk.next(gang.pool)
        {
            let capacity =
                gang.tasks_within_scalars(node, need).min(gang.tasks_within_cap(*model, need));
            if used.contains(&node) || !gang.admits(node) || capacity < block {
                continue;
            }
            let mark = gang.mark();
            let placed = (0..block).all(|_| match best_device(gang, need, node, *model) {
                Some(device) => {
                    gang.grant_gpu(group, *model, node, DeviceSet::one(device), need.share);
                    true
                }
                None => false,
            });
            if placed {
                used.insert(node);
                left -= block.min(left);
            } else {
                gang.reset(&mark);
            }
        }
    }
    left == 0
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
    let known = gang.pool.node(node);
    let devices = known.usable.and(known.of_model(model)).iter();
    let free_shares = devices
        .map(|device| u32::from(known.share_during(device, gang.request.interval) / need.share));
    let capacity = free_shares.fold(0, u32::saturating_add).min(most);
    capacity.min(gang.tasks_within_cap(model, need)).min(gang.tasks_within_scalars(node, need))
}

/// Grants this number of tasks on a node, at most [`task_capacity`].
pub(crate) fn fill(
    gang: &mut GangPlacer<'_>,
    group: u16,
    need: &GroupNeed,
    model: ModelId,
    node: NodeId,
    tasks: u32,
) {
    for _ in 0..tasks {
        if let Some(device) = best_device(gang, need, node, model) {
            gang.grant_gpu(group, model, node, DeviceSet::one(device), need.share);
        }
    }
}

/// Returns the thousandths of a device that are not held now.
pub(crate) fn free_share(node: &Node, device: usize) -> u16 {
    WHOLE.saturating_sub(node.held_of(device))
}

fn admits_one(gang: &GangPlacer<'_>, need: &GroupNeed, node: NodeId) -> bool {
    gang.admits(node) && gang.tasks_within_scalars(node, need) > 0
}

fn fits(gang: &GangPlacer<'_>, need: &GroupNeed, node: NodeId, device: usize) -> bool {
    gang.pool.node(node).share_during(device, gang.request.interval) >= need.share
}

/// Returns the device of a node with the least sufficient free share: partially held ones come
/// before wholly free ones.
fn best_device(
    gang: &GangPlacer<'_>,
    need: &GroupNeed,
    node: NodeId,
    model: ModelId,
) -> Option<usize> {
    let node = gang.pool.node(node);
    let devices = node.usable.and(node.of_model(model)).iter();
    let free_shares =
        devices.map(|device| (node.share_during(device, gang.request.interval), device));
    free_shares.filter(|(capacity, _)| *capacity >= need.share).min().map(|(_, device)| device)
}

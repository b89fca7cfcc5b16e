//! Tasks that hold a share of one device. A share goes to the partially held device that it fills
//! best; a whole device is broken only when no share is left that is large enough.

use muster_model::{DeviceSet, NodeId};
use muster_policy::ModelId;
use rustc_hash::FxHashSet;

use super::gang::Gang;
use super::walk::{List, ShareWalk, Walk};
use crate::state::node::{Node, WHOLE};
use crate::state::shape::GroupNeed;

/// Places all tasks of a group.
pub(super) fn place(gang: &mut Gang<'_>, group: u16, need: &GroupNeed) -> bool {
    let models = gang.ask.pick.models[usize::from(group)].clone();
    match need.per_node {
        Some(block) => place_blocks(gang, group, need, &models, block),
        None => {
            (0..need.tasks).all(|_| models.iter().any(|model| place_one(gang, group, need, *model)))
        }
    }
}

/// One task anywhere: the best partially held device, else a fresh one.
fn place_one(gang: &mut Gang<'_>, group: u16, need: &GroupNeed, model: ModelId) -> bool {
    if gang.cap_room(model, need) == 0 {
        return false;
    }
    let mut walk = ShareWalk::new(gang.ask.scope, model, need.share);
    while let Some((node, device)) = walk.next(gang.pool) {
        if admits_one(gang, need, node) && fits(gang, need, node, device) {
            gang.grant_gpu(group, model, node, DeviceSet::one(device), need.share);
            return true;
        }
    }
    for list in [List::Booked, List::Clear] {
        let mut walk = Walk::ascending(gang.ask.scope, model, list, 1);
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

/// Blocks on distinct nodes.
fn place_blocks(
    gang: &mut Gang<'_>,
    group: u16,
    need: &GroupNeed,
    models: &[ModelId],
    block: u32,
) -> bool {
    let mut left = need.tasks;
    let mut used = FxHashSet::default();
    for model in models {
        let mut walk = Walk::ascending(gang.ask.scope, *model, List::Clear, 0);
        while left > 0
            && let Some(node) = walk.next(gang.pool)
        {
            let room = gang.scalar_room(node, need).min(gang.cap_room(*model, need));
            if used.contains(&node) || !gang.admits(node) || room < block {
                continue;
            }
            let checkpoint = gang.mark();
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
                gang.reset(&checkpoint);
            }
        }
    }
    left == 0
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
    let known = gang.pool.node(node);
    let devices = known.usable.and(known.of_model(model)).iter();
    let rooms =
        devices.map(|device| u32::from(known.share_during(device, gang.ask.window) / need.share));
    let room = rooms.fold(0, u32::saturating_add).min(most);
    room.min(gang.cap_room(model, need)).min(gang.scalar_room(node, need))
}

/// Gives a node so many tasks, for which it has [`room`].
pub(super) fn fill(
    gang: &mut Gang<'_>,
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

/// What is not held of a device now.
pub(super) fn room_of(node: &Node, device: usize) -> u16 {
    WHOLE.saturating_sub(node.held_of(device))
}

fn admits_one(gang: &Gang<'_>, need: &GroupNeed, node: NodeId) -> bool {
    gang.admits(node) && gang.scalar_room(node, need) > 0
}

fn fits(gang: &Gang<'_>, need: &GroupNeed, node: NodeId, device: usize) -> bool {
    gang.pool.node(node).share_during(device, gang.ask.window) >= need.share
}

/// The device of a node with the least room that is enough: partially held ones come before fresh
/// ones.
fn best_device(gang: &Gang<'_>, need: &GroupNeed, node: NodeId, model: ModelId) -> Option<usize> {
    let node = gang.pool.node(node);
    let devices = node.usable.and(node.of_model(model)).iter();
    let rooms = devices.map(|device| (node.share_during(device, gang.ask.window), device));
    rooms.filter(|(room, _)| *room >= need.share).min().map(|(_, device)| device)
}

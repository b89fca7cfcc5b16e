//! Places by weight: where the cluster's policy is not to pack, every task goes to the node and
//! device that the policy weighs least, one task after the other. What a place weighs is said in
//! `weigh.rs` and `fragmentation.rs`; this looks for it.
//!
//! What fits at all is not decided here but where everybody asks for it (`whole.rs`, `share.rs`,
//! `plain.rs`), so every policy places what can be placed. Planned starts, and gangs with a
//! topology within their domains, are packed.

mod fragmentation;
#[cfg(test)]
mod tests;
mod weigh;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_model::queue::PlacementPolicy;
use muster_model::{DeviceSet, NodeId};
use muster_policy::ModelId;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::gang::Gang;
use super::{plain, search, share, whole};
use crate::state::kind::{Condition, Demand, Largest, Weight};
use crate::state::mix::Mix;
use crate::state::shape::GroupNeed;
use crate::state::topology::Scope;

/// How places are weighed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scoring<'a> {
    policy: PlacementPolicy,
    mix: &'a Mix,
}

impl<'a> Scoring<'a> {
    /// `None` where they are not: packing follows the indexes.
    pub(crate) fn new(policy: PlacementPolicy, mix: &'a Mix) -> Option<Self> {
        (policy != PlacementPolicy::Pack).then_some(Self { policy, mix })
    }
}

/// Tasks of one group that are being placed on models that are alike to it.
struct Seeker<'a> {
    group: u16,
    need: &'a GroupNeed,
    scoring: Scoring<'a>,
    /// None where no device is needed.
    models: SmallVec<[ModelId; 2]>,
    demand: Demand,
    /// Tasks that go to one node together.
    block: u32,
}

/// Places all tasks of a group; `None` where places are not weighed.
pub(super) fn place(gang: &mut Gang<'_>, group: u16, need: &GroupNeed) -> Option<bool> {
    let scoring = gang.ask.scoring.filter(|_| gang.ask.scope == Scope::Cluster)?;
    let models = gang.ask.pick.models[usize::from(group)].clone();
    if need.wants_gpu() && models.is_empty() {
        return Some(false);
    }
    let alternatives: SmallVec<[SmallVec<[ModelId; 2]>; 2]> = match &need.models {
        // In the order in which they were named; whoever named none has no preference.
        Some(_) => models.iter().map(|model| SmallVec::from_slice(&[*model])).collect(),
        None => SmallVec::from_iter([models]),
    };
    let mark = gang.mark();
    let mut left = need.tasks;
    let mut used = FxHashSet::default();
    for models in alternatives {
        if left > 0 {
            left -= Seeker::new(group, need, scoring, models, left).fill(gang, left, &mut used);
        }
    }
    if left > 0 {
        gang.reset(&mark);
        // Caps on several models make it matter who takes which: then packing may still find a way.
        return gang.ask.caps.is_empty().then_some(false);
    }
    Some(true)
}

impl<'a> Seeker<'a> {
    fn new(
        group: u16,
        need: &'a GroupNeed,
        scoring: Scoring<'a>,
        models: SmallVec<[ModelId; 2]>,
        left: u32,
    ) -> Self {
        let block = need.per_node.unwrap_or(1).min(left);
        let together = u64::from(block);
        let demand = Demand {
            models: models.clone(),
            devices: need.devices.saturating_mul(block),
            share: need.share,
            cpus: need.scalars.cpus.saturating_mul(together),
            memory: need.scalars.memory.saturating_mul(together),
        };
        Self { group, need, scoring, models, demand, block }
    }

    /// Places up to so many tasks; answers how many.
    fn fill(&self, gang: &mut Gang<'_>, tasks: u32, used: &mut FxHashSet<NodeId>) -> u32 {
        let weigh = |condition: &Condition, largest: Largest| {
            weigh::condition(self.scoring, condition, largest, &self.demand)
        };
        // 1. Most often a single task, and the best place is free for it.
        if tasks <= self.block {
            let Some(best) = gang.pool.kinds().best(&self.demand, &weigh) else { return 0 };
            let node = gang.pool.at_rank(best);
            if !used.contains(&node) && self.offer(gang, node) {
                return tasks;
            }
        }
        // 2. All places, the best first; who refused once refuses always, since nothing is given
        //    back.
        let all = gang.pool.kinds().all(&self.demand, &weigh);
        let mut places: BinaryHeap<Reverse<(Weight, u32)>> = all.into_iter().map(Reverse).collect();
        let mut left = tasks;
        while left > 0
            && let Some(Reverse((_, rank))) = places.pop()
        {
            let node = gang.pool.at_rank(rank);
            if used.contains(&node) || !self.offer(gang, node) {
                continue;
            }
            left -= self.block.min(left);
            if self.need.per_node.is_some() {
                used.insert(node);
            } else if let Some(weight) = gang.pool.kinds().weight(&self.demand, node, &weigh) {
                places.push(Reverse((weight, rank)));
            }
        }
        tasks - left
    }

    /// Gives a node a block of tasks, if it takes it.
    fn offer(&self, gang: &mut Gang<'_>, node: NodeId) -> bool {
        let room = |gang: &Gang<'_>, model| search::room(gang, self.need, model, node, self.block);
        if self.models.is_empty() {
            let fits = room(gang, None) >= self.block;
            if fits {
                plain::grant(gang, self.group, node, self.block);
            }
            return fits;
        }
        let condition = Condition::of(gang.pool.node(node));
        let mut models = self.models.clone();
        if models.len() > 1
            && let Some(condition) = &condition
        {
            let weight =
                |model: &ModelId| weigh::on_model(self.scoring, condition, &self.demand, *model);
            models.sort_by_cached_key(|model| weight(model).unwrap_or((i64::MAX, 0)));
        }
        for model in models {
            if room(gang, Some(model)) < self.block {
                continue;
            }
            match self.need.share {
                0 => drop(whole::fill(gang, self.group, self.need, model, node, self.block)),
                _ => (0..self.block).for_each(|_| self.grant_share(gang, model, node)),
            }
            return true;
        }
        false
    }

    /// Gives a node one share, for which it has room, on the device that weighs least; among equals
    /// the one with the least room.
    fn grant_share(&self, gang: &mut Gang<'_>, model: ModelId, node: NodeId) {
        let known = gang.pool.node(node);
        let Some(condition) = Condition::of(known) else { return };
        let fits = |device: &usize| known.share_during(*device, gang.ask.window) >= self.need.share;
        let devices = known.usable.and(known.of_model(model)).iter().filter(fits);
        let weight = |device: &usize| {
            let room = share::room_of(known, *device);
            (weigh::room(self.scoring, &condition, &self.demand, model, room), room, *device)
        };
        if let Some(device) = devices.min_by_key(weight) {
            gang.grant_gpu(self.group, model, node, DeviceSet::one(device), self.need.share);
        }
    }
}

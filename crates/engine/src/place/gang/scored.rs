//! Placement by score: unless the cluster's policy is to pack, every task goes to the node and
//! device with the lowest weight, one task after the other.
//!
//! What fits is decided by the same code as for packing (`whole_gpu.rs`, `gpu_share.rs`,
//! `cpu_only.rs`), so every policy places whatever can be placed. Reservations, and gangs with a
//! topology within their domains, are packed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_model::{DeviceSet, NodeId};
use muster_policy::ModelId;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{GangPlacer, cpu_only, gpu_share, search, whole_gpu};
use crate::place::score::{Scoring, weigh};
use crate::pool::node_kind::{LargestCapacity, NodeCondition, TaskDemand, Weight};
use crate::pool::scope::Scope;
use crate::pool::shape::GroupNeed;

/// Tasks of one group to place on models that are equivalent for it.
struct ScoredPlacement<'a> {
    group: u16,
    need: &'a GroupNeed,
    scoring: Scoring<'a>,
    /// Accepted models; empty if no device is needed.
    models: SmallVec<[ModelId; 2]>,
    demand: TaskDemand,
    /// Number of tasks that go to one node together.
    block: u32,
}

/// Places all tasks of a group. Returns `None` if the policy packs, or packing may succeed where
/// this failed.
pub(crate) fn place(gang: &mut GangPlacer<'_>, group: u16, need: &GroupNeed) -> Option<bool> {
    let scoring = gang.request.scoring.filter(|_| gang.request.scope == Scope::Cluster)?;
    let models = gang.request.choice.models[usize::from(group)].clone();
    if need.wants_gpu() && models.is_empty() {
        return Some(false);
    }
    let alternatives: SmallVec<[SmallVec<[ModelId; 2]>; 2]> = match &need.models {
        // In the order in which they are named; without names, all models are equally preferred.
        Some(_) => models.iter().map(|model| SmallVec::from_slice(&[*model])).collect(),
        None => SmallVec::from_iter([models]),
    };
    let mark = gang.mark();
    let mut left = need.tasks;
    let mut used = FxHashSet::default();
    for models in alternatives {
        if left > 0 {
            left -= ScoredPlacement::new(group, need, scoring, models, left)
                .fill(gang, left, &mut used);
        }
    }
    if left > 0 {
        gang.reset(&mark);
        // With caps on several models it matters which task takes which: packing may still succeed.
        return gang.request.caps.is_empty().then_some(false);
    }
    Some(true)
}

impl<'a> ScoredPlacement<'a> {
    fn new(
        group: u16,
        need: &'a GroupNeed,
        scoring: Scoring<'a>,
        models: SmallVec<[ModelId; 2]>,
        left: u32,
    ) -> Self {
        let block = need.per_node.unwrap_or(1).min(left);
        let together = u64::from(block);
        let demand = TaskDemand {
            models: models.clone(),
            devices: need.devices.saturating_mul(block),
            share: need.share,
            cpus: need.scalars.cpus.saturating_mul(together),
            memory: need.scalars.memory.saturating_mul(together),
        };
        Self { group, need, scoring, models, demand, block }
    }

    /// Places up to this number of tasks; returns how many.
    fn fill(&self, gang: &mut GangPlacer<'_>, tasks: u32, used: &mut FxHashSet<NodeId>) -> u32 {
        let weigh = |condition: &NodeCondition, largest: LargestCapacity| {
            weigh::condition(self.scoring, condition, largest, &self.demand)
        };
        // 1. Most often a single task, for which the best node is free.
        if tasks <= self.block {
            let Some(best) = gang.pool.kinds().best(&self.demand, &weigh) else { return 0 };
            let node = gang.pool.at_rank(best);
            if !used.contains(&node) && self.offer(gang, node) {
                return tasks;
            }
        }
        // 2. All nodes, the best first; a node that does not fit once never fits later, since
        //    nothing is released.
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

    /// Grants a block of tasks on a node. Returns false if it does not fit.
    fn offer(&self, gang: &mut GangPlacer<'_>, node: NodeId) -> bool {
        let capacity = |gang: &GangPlacer<'_>, model| {
            search::task_capacity(gang, self.need, model, node, self.block)
        };
        if self.models.is_empty() {
            let fits = capacity(gang, None) >= self.block;
            if fits {
                cpu_only::grant_tasks(gang, self.group, node, self.block);
            }
            return fits;
        }
        let condition = NodeCondition::of(gang.pool.node(node));
        let mut models = self.models.clone();
        if models.len() > 1
            && let Some(condition) = &condition
        {
            let weight =
                |model: &ModelId| weigh::on_model(self.scoring, condition, &self.demand, *model);
            models.sort_by_cached_key(|model| weight(model).unwrap_or((i64::MAX, 0)));
        }
        for model in models {
            if capacity(gang, Some(model)) < self.block {
                continue;
            }
            match self.need.share {
                0 => drop(whole_gpu::fill(gang, self.group, self.need, model, node, self.block)),
                _ => (0..self.block).for_each(|_| self.grant_share(gang, model, node)),
            }
            return true;
        }
        false
    }

    /// Grants one share on a node that has enough free, on the device with the lowest weight; among
    /// equals the one with the smallest free share.
    fn grant_share(&self, gang: &mut GangPlacer<'_>, model: ModelId, node: NodeId) {
        let known = gang.pool.node(node);
        let Some(condition) = NodeCondition::of(known) else { return };
        let fits =
            |device: &usize| known.share_during(*device, gang.request.interval) >= self.need.share;
        let devices = known.usable.and(known.of_model(model)).iter().filter(fits);
        let weight = |device: &usize| {
            let capacity = gpu_share::free_share(known, *device);
            (
                weigh::on_device(self.scoring, &condition, &self.demand, model, capacity),
                capacity,
                *device,
            )
        };
        if let Some(device) = devices.min_by_key(weight) {
            gang.grant_gpu(self.group, model, node, DeviceSet::one(device), self.need.share);
        }
    }
}

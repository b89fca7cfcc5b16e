//! Incremental indexes over nodes, so that a placement never scans the cluster: per GPU model,
//! nodes by number of free devices, and partially held devices by free share; for tasks without a
//! GPU, nodes by free devices and CPUs. They only order and count. They may lag behind the nodes:
//! the pool updates them before each read.

use std::collections::BTreeSet;

use muster_policy::ModelId;

use super::node::{CpuOnlyCapacity, DeviceCounts, IndexedState, Node, WHOLE};
use super::rank_set::RankSet;

/// Nodes by a small count: for each count a set of name ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    by_count: Vec<RankSet>,
}

impl Buckets {
    fn insert(&mut self, count: u16, rank: u32) {
        if self.by_count.len() <= usize::from(count) {
            self.by_count.resize_with(usize::from(count) + 1, RankSet::default);
        }
        self.by_count[usize::from(count)].insert(rank);
    }

    fn remove(&mut self, count: u16, rank: u32) {
        self.by_count[usize::from(count)].remove(rank);
    }

    /// Returns the first node with `count` and at least this rank, or else with a larger count;
    /// ascending order.
    pub(crate) fn ascending(&self, count: u16, rank: u32) -> Option<(u16, u32)> {
        let mut from = rank;
        for count in count..self.by_count.len() as u16 {
            if let Some(found) = self.by_count[usize::from(count)].next_from(from) {
                return Some((count, found));
            }
            from = 0;
        }
        None
    }

    /// Like [`Buckets::ascending`], but from large counts to small ones, never below 1.
    pub(crate) fn descending(&self, count: u16, rank: u32) -> Option<(u16, u32)> {
        let mut from = rank;
        for count in (1..=count.min(self.largest())).rev() {
            if let Some(found) = self.by_count[usize::from(count)].next_from(from) {
                return Some((count, found));
            }
            from = 0;
        }
        None
    }

    /// Returns the largest count that has a bucket.
    pub(crate) fn largest(&self) -> u16 {
        (self.by_count.len() as u16).saturating_sub(1)
    }

    /// Returns the number of nodes with each count, from 0.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_count
            .iter()
            .enumerate()
            .map(|(count, nodes)| (count as u64, u64::from(nodes.len())))
    }
}

/// Free devices of one GPU model.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelIndex {
    /// Nodes in service with the model, by devices that are free and in no booking.
    pub(crate) clear: Buckets,
    /// Nodes in service with a free device that is booked, by all their free devices.
    pub(crate) booked: Buckets,
    /// Partially held devices: free thousandths, rank of the node, device.
    pub(crate) shared: BTreeSet<(u16, u32, u16)>,
}

impl ModelIndex {
    /// Replaces the counts of a node.
    fn count(&mut self, rank: u32, before: Option<DeviceCounts>, after: Option<DeviceCounts>) {
        let had = before.and_then(|(_, booked)| booked);
        let has = after.and_then(|(_, booked)| booked);
        let was = before.map(|(clear, _)| clear);
        let is = after.map(|(clear, _)| clear);
        for (buckets, old, new) in [(&mut self.clear, was, is), (&mut self.booked, had, has)] {
            if old != new {
                old.into_iter().for_each(|count| buckets.remove(count, rank));
                new.into_iter().for_each(|count| buckets.insert(count, rank));
            }
        }
    }
}

/// Indexes of a set of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    models: Vec<ModelIndex>,
    /// Nodes in service by free devices of any model, then free CPUs, then rank. Its updates are
    /// expensive and most jobs have GPUs, so it is updated separately.
    pub(crate) cpu_only: BTreeSet<(u16, u64, u32)>,
}

impl Index {
    /// Returns the index of one model; an unknown one has no nodes.
    pub(crate) fn model(&self, model: ModelId) -> Option<&ModelIndex> {
        self.models.get(usize::from(model.0))
    }

    /// True when no node was entered yet.
    pub(crate) fn is_blank(&self) -> bool {
        self.models.is_empty() && self.cpu_only.is_empty()
    }

    /// Removes a node, under its rank in this index.
    pub(crate) fn leave(&mut self, node: &Node, rank: u32) {
        if !node.is_indexed() {
            return;
        }
        self.update(node, rank, &node.published, &IndexedState::default());
        self.update_cpu_only(rank, node.cpu_only, None);
    }

    /// Adds a node, under its rank in this index.
    pub(crate) fn enter(&mut self, node: &Node, rank: u32) {
        if !node.is_indexed() {
            return;
        }
        self.update(node, rank, &IndexedState::default(), &node.published);
        self.update_cpu_only(rank, None, node.cpu_only);
    }

    /// Replaces the published state of a node.
    pub(crate) fn update(
        &mut self,
        node: &Node,
        rank: u32,
        old: &IndexedState,
        new: &IndexedState,
    ) {
        for (at, (model, _)) in node.models.iter().enumerate() {
            let before = old.buckets.get(at).copied();
            let after = new.buckets.get(at).copied();
            if before != after {
                self.model_mut(*model).count(rank, before, after);
            }
        }
        if old.shared != new.shared {
            for (model, free, device) in &old.shared {
                self.model_mut(*model).shared.remove(&(*free, rank, *device));
            }
            for (model, free, device) in &new.shared {
                self.model_mut(*model).shared.insert((*free, rank, *device));
            }
        }
    }

    /// Replaces the published state of a node for tasks without a GPU.
    pub(crate) fn update_cpu_only(
        &mut self,
        rank: u32,
        old: Option<CpuOnlyCapacity>,
        new: Option<CpuOnlyCapacity>,
    ) {
        if let Some((devices, cpus)) = old {
            self.cpu_only.remove(&(devices, cpus, rank));
        }
        if let Some((devices, cpus)) = new {
            self.cpu_only.insert((devices, cpus, rank));
        }
    }

    fn model_mut(&mut self, model: ModelId) -> &mut ModelIndex {
        let at = usize::from(model.0);
        if self.models.len() <= at {
            self.models.resize_with(at + 1, ModelIndex::default);
        }
        &mut self.models[at]
    }
}

/// Returns the state of a node that the device indexes should have: empty while it takes no work.
pub(crate) fn indexed_state(node: &Node) -> IndexedState {
    let mut present = IndexedState::default();
    if !node.accepts_work() {
        return present;
    }
    let free = node.free();
    for (_, devices) in &node.models {
        let free = free.and(*devices);
        let booked = !free.and(node.booked).is_empty();
        present
            .buckets
            .push((free.minus(node.booked).len() as u16, booked.then(|| free.len() as u16)));
    }
    for device in node.touched.and(node.usable).iter() {
        let held = node.held_of(device);
        if held < WHOLE
            && let Some(model) = node.model_of(device)
        {
            present.shared.push((model, WHOLE - held, device as u16));
        }
    }
    present
}

/// Returns the state of a node that the index for tasks without a GPU should have.
pub(crate) fn indexed_cpu_only(node: &Node) -> Option<CpuOnlyCapacity> {
    let cpus = node.limit.cpus.saturating_sub(node.used.cpus);
    node.accepts_work().then(|| (node.free().len() as u16, cpus))
}

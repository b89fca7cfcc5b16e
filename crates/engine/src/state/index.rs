//! Incremental indexes over nodes, so that looking for a place never scans the cluster: per GPU
//! model, nodes by how many devices are free, and partially held devices by what is left of them;
//! for tasks without a GPU, nodes by free devices and CPUs. They only order and count; they decide
//! nothing. They may lag behind the nodes: the pool brings them up to date when it is asked for
//! one.

use std::collections::BTreeSet;

use muster_policy::ModelId;

use super::node::{Counts, Node, Plain, Published, WHOLE};
use super::rank_set::RankSet;

/// Nodes by a small count, each count a set of name ranks.
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

    /// The first node with at least `count`, or with exactly `count` and at least this rank:
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

    /// As [`Buckets::ascending`], but from large counts to small ones, never below 1.
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

    /// The largest count that has a bucket.
    pub(crate) fn largest(&self) -> u16 {
        (self.by_count.len() as u16).saturating_sub(1)
    }

    /// How many nodes have each count, from 0.
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
    /// All hosting nodes with the model, by devices that are free and in no booking.
    pub(crate) clear: Buckets,
    /// Hosting nodes with a free device that is booked, by all their free devices.
    pub(crate) booked: Buckets,
    /// Partially held devices: free thousandths, rank of the node, device.
    pub(crate) shared: BTreeSet<(u16, u32, u16)>,
}

impl ModelIndex {
    /// A node counts otherwise than before.
    fn count(&mut self, rank: u32, before: Option<Counts>, after: Option<Counts>) {
        let (had, has) =
            (before.and_then(|(_, booked)| booked), after.and_then(|(_, booked)| booked));
        let (was, is) = (before.map(|(clear, _)| clear), after.map(|(clear, _)| clear));
        for (buckets, old, new) in [(&mut self.clear, was, is), (&mut self.booked, had, has)] {
            if old != new {
                old.into_iter().for_each(|count| buckets.remove(count, rank));
                new.into_iter().for_each(|count| buckets.insert(count, rank));
            }
        }
    }
}

/// All indexes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    models: Vec<ModelIndex>,
    /// Hosting nodes by free devices of any model, then free CPUs, then rank. Its updates are dear,
    /// and most jobs have GPUs: so it is brought up to date by itself.
    pub(crate) plain: BTreeSet<(u16, u64, u32)>,
}

impl Index {
    /// The index of one model; an unknown one has no nodes.
    pub(crate) fn model(&self, model: ModelId) -> Option<&ModelIndex> {
        self.models.get(usize::from(model.0))
    }

    /// Nothing has been said of any node.
    pub(crate) fn is_blank(&self) -> bool {
        self.models.is_empty() && self.plain.is_empty()
    }

    /// Takes out what is said of a node, under its rank in this index.
    pub(crate) fn leave(&mut self, node: &Node, rank: u32) {
        if !node.is_described() {
            return;
        }
        self.update(node, rank, &node.published, &Published::default());
        self.update_plain(rank, node.plain, None);
    }

    /// Enters what is said of a node, under its rank in this index.
    pub(crate) fn enter(&mut self, node: &Node, rank: u32) {
        if !node.is_described() {
            return;
        }
        self.update(node, rank, &Published::default(), &node.published);
        self.update_plain(rank, None, node.plain);
    }

    /// What is published of a node was something else before.
    pub(crate) fn update(&mut self, node: &Node, rank: u32, old: &Published, new: &Published) {
        for (at, (model, _)) in node.models.iter().enumerate() {
            let (before, after) = (old.buckets.get(at).copied(), new.buckets.get(at).copied());
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

    /// What is said of a node to tasks without a GPU was something else before.
    pub(crate) fn update_plain(&mut self, rank: u32, old: Option<Plain>, new: Option<Plain>) {
        if let Some((devices, cpus)) = old {
            self.plain.remove(&(devices, cpus, rank));
        }
        if let Some((devices, cpus)) = new {
            self.plain.insert((devices, cpus, rank));
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

/// What the indexes should say of a node: nothing while it takes no work.
pub(crate) fn describe(node: &Node) -> Published {
    let mut present = Published::default();
    if !node.hosts() {
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

/// What the indexes should say of a node to tasks without a GPU.
pub(crate) fn describe_plain(node: &Node) -> Option<Plain> {
    let cpus = node.limit.cpus.saturating_sub(node.used.cpus);
    node.hosts().then(|| (node.free().len() as u16, cpus))
}

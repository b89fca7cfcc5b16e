//! Queues as plugin `proportion` sees them: weight, guarantee and capability from the site's tree,
//! and from them and from what is asked for what each deserves.

use std::collections::BTreeMap;

use muster_model::{QueueName, QueueSpec};

use super::amounts::Amounts;
use crate::fleet::Site;
use crate::peers::line::Line;

/// A leaf of the site's tree. Volcano's queues are flat unless plugin `capacity` is configured.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) name: QueueName,
    /// Its part of the whole tree, in proportion to those of the others.
    pub(super) weight: u64,
    /// What nobody else gets: quota that is not lent.
    pub(super) guarantee: Amounts,
    /// What it never exceeds: quota and what it may borrow. `None`: anything.
    pub(super) capability_gpu_milli: Option<u64>,
    /// Jobs whose pods are not created yet (phase Pending).
    pub(super) pending: Line,
    /// Jobs whose pods are there (phase Inqueue).
    pub(super) inqueue: Line,
    /// What those pods ask for.
    pub(super) asked: Amounts,
    /// What its jobs hold.
    pub(super) allocated: Amounts,
    /// What it deserves in this session.
    pub(super) deserved: Amounts,
}

impl Queue {
    /// How much of what it deserves it has; queues with less go first.
    pub(super) fn share(&self) -> u64 {
        self.allocated.share_of(self.deserved)
    }

    /// It has what it deserves, of everything.
    pub(super) fn is_overused(&self) -> bool {
        self.deserved.within(self.allocated)
    }

    /// Somebody who asks for this stays within what it deserves.
    pub(super) fn has_share_for(&self, asked: Amounts) -> bool {
        (self.allocated + asked).within_for(self.deserved, asked)
    }

    /// It has a job at all: others play no part.
    pub(super) fn is_there(&self) -> bool {
        let nothing = Amounts::default();
        !self.pending.is_empty() || self.asked != nothing || self.allocated != nothing
    }

    /// What it may hold at most: its capability, and not what others are guaranteed.
    pub(super) fn real_capability(&self, total: Amounts, guaranteed: Amounts) -> Amounts {
        let real = total.less(guaranteed) + self.guarantee;
        Amounts {
            gpu_milli: self.capability_gpu_milli.unwrap_or(u64::MAX).min(real.gpu_milli),
            ..real
        }
    }
}

/// Whole numbers that stand in proportion to parts of 1.
const PARTS: u64 = 1_000_000;

/// The leaves of a site's tree in its order, and where each stands.
pub(super) fn leaves(site: &Site) -> (Vec<Queue>, BTreeMap<QueueName, usize>) {
    let mut queues = Vec::new();
    let is_flat = site.tree.queues.iter().all(|queue| queue.queues.is_empty());
    gather(site, &site.tree.queues, "", PARTS, is_flat, &mut queues);
    let at = queues.iter().enumerate().map(|(at, queue)| (queue.name.clone(), at)).collect();
    (queues, at)
}

/// In a flat tree weights stand as they are; else a leaf has its share of its parent's share,
/// rounded.
fn gather(
    site: &Site,
    specs: &[QueueSpec],
    above: &str,
    share: u64,
    is_flat: bool,
    to: &mut Vec<Queue>,
) {
    let sum: u64 = specs.iter().map(|spec| u64::from(spec.weight)).sum();
    for spec in specs {
        let path =
            if above.is_empty() { spec.name.to_string() } else { format!("{above}/{}", spec.name) };
        let weight = if is_flat {
            u64::from(spec.weight)
        } else {
            share * u64::from(spec.weight) / sum.max(1)
        };
        match spec.queues.is_empty() {
            true => to.push(leaf(site, spec, &path, weight.max(1))),
            false => gather(site, &spec.queues, &path, weight, is_flat, to),
        }
    }
}

fn leaf(site: &Site, spec: &QueueSpec, path: &str, weight: u64) -> Queue {
    let models = || site.nodes.iter().flat_map(|node| &node.devices).map(|device| &device.model);
    let is_of_all =
        models().next().is_some() && models().all(|model| spec.quota.contains_key(model));
    let kept = |lend: u64| spec.quota.values().map(|quota| quota.saturating_sub(lend) * 1000).sum();
    let most = |borrow: u64| spec.quota.values().map(|quota| (quota + borrow) * 1000).sum();
    Queue {
        name: path.into(),
        weight,
        guarantee: Amounts { gpu_milli: spec.lend.map_or(0, kept), ..Amounts::default() },
        capability_gpu_milli: spec.borrow.filter(|_| is_of_all).map(most),
        pending: Line::default(),
        inqueue: Line::default(),
        asked: Amounts::default(),
        allocated: Amounts::default(),
        deserved: Amounts::default(),
    }
}

/// What every queue is guaranteed, together.
pub(super) fn guaranteed(queues: &[Queue]) -> Amounts {
    queues.iter().fold(Amounts::default(), |sum, queue| sum + queue.guarantee)
}

/// Says what each queue deserves: the cluster is poured out by weight, nobody gets more than its
/// pods ask for or than it may hold, nor less than its guarantee, and what is left is poured out
/// again (proportion.go, OnSessionOpen).
pub(super) fn divide(total: Amounts, queues: &mut [Queue]) {
    let guaranteed = guaranteed(queues);
    let mut open: Vec<usize> = (0..queues.len()).filter(|at| queues[*at].is_there()).collect();
    queues.iter_mut().for_each(|queue| queue.deserved = Amounts::default());
    let mut remaining = total;
    while !open.is_empty() && remaining != Amounts::default() {
        let weights: u64 = open.iter().map(|at| queues[*at].weight).sum();
        let (poured, mut given, mut returned) = (remaining, Amounts::default(), Amounts::default());
        open.retain(|at| {
            let queue = &mut queues[*at];
            let before = queue.deserved;
            let part = |amount: u64, _| {
                (u128::from(amount) * u128::from(queue.weight) / u128::from(weights)) as u64
            };
            let asked = queue.asked + queue.allocated;
            let most = queue.real_capability(total, guaranteed).min(asked);
            queue.deserved = (before + poured.each(poured, part)).min(most).max(queue.guarantee);
            given += queue.deserved.less(before);
            returned += before.less(queue.deserved);
            !asked.within(queue.deserved) && queue.deserved != before
        });
        remaining = (remaining + returned).less(given);
    }
}

#[cfg(test)]
mod tests {
    use muster_model::QueueTree;

    use super::*;

    fn gpus(count: u64) -> Amounts {
        Amounts { gpu_milli: count * 1000, ..Amounts::default() }
    }

    /// Deserved GPUs of queues of (weight, asked for, guarantee, capability).
    fn deserved(total: u64, queues: &[(u64, u64, u64, Option<u64>)]) -> Vec<u64> {
        let site = Site { nodes: Vec::new(), levels: Vec::new(), tree: QueueTree::single() };
        let (leaf, _) = leaves(&site);
        let of = |(weight, asked, guarantee, capability): &(u64, u64, u64, Option<u64>)| Queue {
            weight: *weight,
            asked: gpus(*asked),
            guarantee: gpus(*guarantee),
            capability_gpu_milli: capability.map(|gpus| gpus * 1000),
            ..leaf[0].clone()
        };
        let mut queues: Vec<Queue> = queues.iter().map(of).collect();
        divide(gpus(total), &mut queues);
        queues.iter().map(|queue| queue.deserved.gpu_milli).collect()
    }

    #[test]
    fn the_cluster_is_poured_out_by_weight() {
        assert_eq!(deserved(12, &[(1, 100, 0, None), (3, 100, 0, None)]), [3_000, 9_000]);
        // Who asks for less than its share leaves the rest to the others.
        assert_eq!(deserved(12, &[(1, 100, 0, None), (3, 5, 0, None)]), [7_000, 5_000]);
        assert_eq!(
            deserved(12, &[(1, 100, 0, None), (1, 2, 0, None), (2, 100, 0, None)]),
            [3_333, 2_000, 6_666]
        );
        // A capability holds, and a guarantee is kept free even for who does not ask.
        assert_eq!(deserved(12, &[(1, 100, 0, Some(2)), (1, 100, 0, None)]), [2_000, 10_000]);
        assert_eq!(deserved(12, &[(1, 100, 0, None), (1, 1, 4, None)]), [8_000, 4_000]);
    }
}

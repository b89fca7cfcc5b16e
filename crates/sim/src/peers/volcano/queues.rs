//! Queues in plugin `proportion`: weight, guarantee and capability from the site's tree, and what
//! each deserves by these and the requests.

use std::collections::BTreeMap;

use muster_model::{QueueName, QueueSpec};

use super::amounts::ResourceAmounts;
use crate::fleet::FleetSite;
use crate::peers::line::WaitingLine;

/// A leaf of the site's tree. Volcano's queues are flat unless plugin `capacity` is configured.
#[derive(Clone, Debug)]
pub(super) struct VolcanoQueue {
    pub(super) name: QueueName,
    /// Weight in the whole tree, in proportion to the others.
    pub(super) weight: u64,
    /// Amount that no other queue gets: quota that is not lent.
    pub(super) guarantee: ResourceAmounts,
    /// Most it may hold: quota plus borrowing limit; `None` if unlimited.
    pub(super) capability_gpu_milli: Option<u64>,
    /// Jobs whose pods are not created yet (phase Pending).
    pub(super) pending: WaitingLine,
    /// Jobs whose pods are created (phase Inqueue).
    pub(super) inqueue: WaitingLine,
    /// Requests of those pods.
    pub(super) asked: ResourceAmounts,
    /// Amount that its jobs hold.
    pub(super) allocated: ResourceAmounts,
    /// Amount that it deserves in this session.
    pub(super) deserved: ResourceAmounts,
}

impl VolcanoQueue {
    /// Returns the part of its deserved amount that it holds; queues with less go first.
    pub(super) fn share(&self) -> u64 {
        self.allocated.share_of(self.deserved)
    }

    /// Returns whether it holds what it deserves of every resource.
    pub(super) fn is_overused(&self) -> bool {
        self.deserved.within(self.allocated)
    }

    /// Returns whether a request stays within what it deserves.
    pub(super) fn has_share_for(&self, asked: ResourceAmounts) -> bool {
        (self.allocated + asked).within_for(self.deserved, asked)
    }

    /// Returns whether it has a job; other queues are ignored.
    pub(super) fn has_jobs(&self) -> bool {
        let nothing = ResourceAmounts::default();
        !self.pending.is_empty() || self.asked != nothing || self.allocated != nothing
    }

    /// Returns the most it may hold: its capability, without what others are guaranteed.
    pub(super) fn real_capability(
        &self,
        total: ResourceAmounts,
        guaranteed: ResourceAmounts,
    ) -> ResourceAmounts {
        let real = total.less(guaranteed) + self.guarantee;
        ResourceAmounts {
            gpu_milli: self.capability_gpu_milli.unwrap_or(u64::MAX).min(real.gpu_milli),
            ..real
        }
    }
}

/// Parts that stand for 1.
const PARTS: u64 = 1_000_000;

/// Returns the leaves of a site's tree in order, and their indices.
pub(super) fn leaves(site: &FleetSite) -> (Vec<VolcanoQueue>, BTreeMap<QueueName, usize>) {
    let mut queues = Vec::new();
    let is_flat = site.tree.queues.iter().all(|queue| queue.queues.is_empty());
    gather(site, &site.tree.queues, "", PARTS, is_flat, &mut queues);
    let at = queues.iter().enumerate().map(|(at, queue)| (queue.name.clone(), at)).collect();
    (queues, at)
}

/// Collects the leaves. In a flat tree weights stay as they are; else a leaf has its share of its
/// parent's share, rounded.
fn gather(
    site: &FleetSite,
    specs: &[QueueSpec],
    above: &str,
    share: u64,
    is_flat: bool,
    to: &mut Vec<VolcanoQueue>,
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
        if spec.queues.is_empty() {
            to.push(leaf(site, spec, &path, weight.max(1)))
        } else {
            gather(site, &spec.queues, &path, weight, is_flat, to)
        }
    }
}

fn leaf(site: &FleetSite, spec: &QueueSpec, path: &str, weight: u64) -> VolcanoQueue {
    let models = || site.nodes.iter().flat_map(|node| &node.devices).map(|device| &device.model);
    let is_of_all =
        models().next().is_some() && models().all(|model| spec.quota.contains_key(model));
    let kept = |lend: u64| spec.quota.values().map(|quota| quota.saturating_sub(lend) * 1000).sum();
    let most = |borrow: u64| spec.quota.values().map(|quota| (quota + borrow) * 1000).sum();
    VolcanoQueue {
        name: path.into(),
        weight,
        guarantee: ResourceAmounts {
            gpu_milli: spec.lend.map_or(0, kept),
            ..ResourceAmounts::default()
        },
        capability_gpu_milli: spec.borrow.filter(|_| is_of_all).map(most),
        pending: WaitingLine::default(),
        inqueue: WaitingLine::default(),
        asked: ResourceAmounts::default(),
        allocated: ResourceAmounts::default(),
        deserved: ResourceAmounts::default(),
    }
}

/// Returns the sum of all guarantees.
pub(super) fn guaranteed(queues: &[VolcanoQueue]) -> ResourceAmounts {
    queues.iter().fold(ResourceAmounts::default(), |sum, queue| sum + queue.guarantee)
}

/// Computes what each queue deserves: the cluster is divided by weight, no queue gets more than its
/// pods request or than it may hold, nor less than its guarantee, and the rest is divided again
/// (proportion.go, OnSessionOpen).
pub(super) fn divide(total: ResourceAmounts, queues: &mut [VolcanoQueue]) {
    let guaranteed = guaranteed(queues);
    let mut open: Vec<usize> = (0..queues.len()).filter(|at| queues[*at].has_jobs()).collect();
    queues.iter_mut().for_each(|queue| queue.deserved = ResourceAmounts::default());
    let mut remaining = total;
    while !open.is_empty() && remaining != ResourceAmounts::default() {
        let weights: u64 = open.iter().map(|at| queues[*at].weight).sum();
        let poured = remaining;
        let mut given = ResourceAmounts::default();
        let mut returned = ResourceAmounts::default();
        open.retain(|at| {
            let queue = &mut queues[*at];
            let before = queue.deserved;
            let part = |amount: u64, _| {
                (u128::from(amount) * u128::from(queue.weight) / u128::from(weights)) as u64
            };
            let asked = queue.asked + queue.allocated;
            let most = queue.real_capability(total, guaranteed).min(asked);
            queue.deserved = (before + poured.combine(poured, part)).min(most).max(queue.guarantee);
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

    fn gpus(count: u64) -> ResourceAmounts {
        ResourceAmounts { gpu_milli: count * 1000, ..ResourceAmounts::default() }
    }

    /// Deserved GPUs of queues of (weight, asked for, guarantee, capability).
    fn deserved(total: u64, queues: &[(u64, u64, u64, Option<u64>)]) -> Vec<u64> {
        let site = FleetSite { nodes: Vec::new(), levels: Vec::new(), tree: QueueTree::single() };
        let (leaf, _) = leaves(&site);
        let of =
            |(weight, asked, guarantee, capability): &(u64, u64, u64, Option<u64>)| VolcanoQueue {
                weight: *weight,
                asked: gpus(*asked),
                guarantee: gpus(*guarantee),
                capability_gpu_milli: capability.map(|gpus| gpus * 1000),
                ..leaf[0].clone()
            };
        let mut queues: Vec<VolcanoQueue> = queues.iter().map(of).collect();
        divide(gpus(total), &mut queues);
        queues.iter().map(|queue| queue.deserved.gpu_milli).collect()
    }

    #[test]
    fn resources_are_divided_by_weight() {
        assert_eq!(deserved(12, &[(1, 100, 0, None), (3, 100, 0, None)]), [3_000, 9_000]);
        // A queue that asks for less than its share leaves the rest to the others.
        assert_eq!(deserved(12, &[(1, 100, 0, None), (3, 5, 0, None)]), [7_000, 5_000]);
        assert_eq!(
            deserved(12, &[(1, 100, 0, None), (1, 2, 0, None), (2, 100, 0, None)]),
            [3_333, 2_000, 6_666]
        );
        // A capability holds, and a guarantee is kept free even without requests.
        assert_eq!(deserved(12, &[(1, 100, 0, Some(2)), (1, 100, 0, None)]), [2_000, 10_000]);
        assert_eq!(deserved(12, &[(1, 100, 0, None), (1, 1, 4, None)]), [8_000, 4_000]);
    }
}

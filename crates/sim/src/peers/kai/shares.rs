//! Queues in plugin `proportion`: deserved quota, limit and over-quota weight from the site's tree,
//! the division of the cluster between them from top to bottom, and their order.

use std::collections::BTreeMap;

use muster_model::job::Protection;
use muster_model::{QueueName, QueueSpec};

use crate::fleet::FleetSite;
use crate::peers::line::WaitingLine;

/// Unit that fair shares are rounded down to: whole GPUs (resource_division.go,
/// getResourceToGiveInCurrentRound).
const WHOLE_MILLI: u64 = 1000;
/// Factor for the use of a queue without any share (queue_resource_share.go,
/// noFairShareDrfMultiplier).
const NO_SHARE_FACTOR: u128 = 1000;

/// A queue, in thousandths of GPUs, or of CPUs where no node has a GPU.
#[derive(Clone, Debug)]
pub(super) struct KaiQueue {
    pub(super) name: QueueName,
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    pub(super) weight: u64,
    pub(super) deserved: u64,
    /// Most it may hold; `None` if unlimited.
    pub(super) limit: Option<u64>,
    /// Minimum runtime that protects its jobs (preemptMinRuntime and reclaimMinRuntime, which are 0
    /// unless set).
    pub(super) min_runtime: Protection,
    /// Pending jobs of a leaf.
    pub(super) line: WaitingLine,
    /// Thousandths held by its jobs, and by those below.
    pub(super) allocated: u64,
    /// The same with pending jobs.
    pub(super) requested: u64,
    pub(super) fair: u64,
}

impl KaiQueue {
    fn requestable(&self) -> u64 {
        self.limit.map_or(self.requested, |limit| limit.min(self.requested))
    }

    /// Returns what it may hold before others count it as above its share.
    pub(super) fn allocatable(&self) -> u64 {
        let share = self.deserved.max(self.fair);
        self.limit.map_or(share, |limit| limit.min(share))
    }

    fn is_satisfied(&self) -> bool {
        self.requested <= self.fair || self.limit.is_some_and(|limit| limit <= self.fair)
    }

    /// Returns the part of its share that `held` is.
    fn part(&self, held: u64) -> u128 {
        const ALL: u128 = 1_000_000_000;
        match self.allocatable() {
            0 => u128::from(held) * NO_SHARE_FACTOR * ALL,
            share => u128::from(held) * ALL / u128::from(share),
        }
    }
}

/// Sort key of queues (queue_order.go, GetQueueOrderResult): first queues within their quota with
/// the job; then those with a share at all; then the smaller part of the share with the job, and
/// without it; then the smaller share; then the older queue. (Without quotas for CPUs, no queue
/// exceeds its share in CPUs, memory and GPUs at once.)
pub(super) type QueueOrderKey = (bool, bool, u128, u128, u64, usize);

/// All queues, parents before children.
#[derive(Clone, Debug)]
pub(super) struct KaiQueues {
    pub(super) all: Vec<KaiQueue>,
    pub(super) tops: Vec<usize>,
    pub(super) leaves: BTreeMap<QueueName, usize>,
}

impl KaiQueues {
    /// Converts the site's tree.
    pub(super) fn new(site: &FleetSite) -> Self {
        let mut queues = Self { all: Vec::new(), tops: Vec::new(), leaves: BTreeMap::new() };
        queues.tops = queues.gather(site, &site.tree.queues, None);
        queues
    }

    fn gather(
        &mut self,
        site: &FleetSite,
        specs: &[QueueSpec],
        parent: Option<usize>,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        for spec in specs {
            let at = self.all.len();
            let above = parent.map(|parent| &self.all[parent]);
            let path = above.map_or_else(
                || spec.name.to_string(),
                |above| format!("{}/{}", above.name, spec.name),
            );
            let inherited = above.map_or(Protection::None, |above| above.min_runtime);
            self.all.push(queue(site, spec, parent, &path, inherited));
            found.push(at);
            let children = self.gather(site, &spec.queues, Some(at));
            if children.is_empty() {
                self.leaves.insert(path.as_str().into(), at);
            } else if spec.quota.is_empty() {
                // A parent needs at least what its children deserve.
                self.all[at].deserved =
                    children.iter().map(|child| self.all[*child].deserved).sum();
            }
            self.all[at].children = children;
        }
        found
    }

    /// Returns a queue and all above it.
    pub(super) fn ancestors(&self, from: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(from), |at| self.all[*at].parent)
    }

    /// Returns the two queues on the paths to two leaves that first differ (reclaimable.go,
    /// getLeveledQueues).
    pub(super) fn level(&self, one: usize, other: usize) -> (usize, usize) {
        let path = |leaf| {
            let mut path: Vec<usize> = self.ancestors(leaf).collect();
            path.reverse();
            path
        };
        let one_path = path(one);
        let other_path = path(other);
        let mut pairs = one_path.iter().zip(&other_path).map(|(one, other)| (*one, *other));
        pairs.find(|(one, other)| one != other).unwrap_or((one, other))
    }

    /// Divides the cluster between the top queues, and the share of each between its children.
    pub(super) fn divide(&mut self, total: u64) {
        self.all.iter_mut().for_each(|queue| queue.fair = 0);
        self.divide_among(&self.tops.clone(), total);
        // Parents come before their children.
        for at in 0..self.all.len() {
            self.divide_among(&self.all[at].children.clone(), self.all[at].fair);
        }
    }

    /// Gives every queue its quota first, then the rest by weight, as far as it is requested.
    fn divide_among(&mut self, among: &[usize], total: u64) {
        let mut remaining = total;
        for at in among {
            let queue = &mut self.all[*at];
            queue.fair = queue.deserved.min(queue.requestable());
            remaining = remaining.saturating_sub(queue.fair);
        }
        let mut rests: BTreeMap<usize, u64> = BTreeMap::new();
        while remaining > 0 && self.divide_once(among, &mut remaining, &mut rests) {}
        // The rest that rounding leaves: one unit each, largest remainder first.
        let mut rests: Vec<(usize, u64)> = rests.into_iter().collect();
        rests.sort_by_key(|(at, rest)| (std::cmp::Reverse(*rest), *at));
        for (at, _) in rests {
            let more = remaining.min(WHOLE_MILLI);
            self.all[at].fair += more;
            remaining -= more;
        }
    }

    /// Divides the rest once by weight; true if some queue took less than its part, so that more is
    /// left for others.
    fn divide_once(
        &mut self,
        among: &[usize],
        remaining: &mut u64,
        rests: &mut BTreeMap<usize, u64>,
    ) -> bool {
        let open: Vec<usize> =
            among.iter().copied().filter(|at| !self.all[*at].is_satisfied()).collect();
        let weights: u64 = open.iter().map(|at| self.all[*at].weight).sum();
        let poured = *remaining;
        let mut again = false;
        for at in open {
            let queue = &mut self.all[at];
            let part = (u128::from(poured) * u128::from(queue.weight) / u128::from(weights)) as u64;
            let asked = queue.requestable() - queue.fair;
            let given = if asked <= part {
                rests.remove(&at);
                asked
            } else {
                if !part.is_multiple_of(WHOLE_MILLI) {
                    rests.insert(at, part % WHOLE_MILLI);
                }
                part / WHOLE_MILLI * WHOLE_MILLI
            };
            queue.fair += given;
            *remaining -= given;
            again |= asked < part;
        }
        again
    }

    /// Returns the sort key of a queue that holds `held` and would get a job.
    pub(super) fn order(&self, at: usize, held: u64, job: u64) -> QueueOrderKey {
        let queue = &self.all[at];
        let with = held + job;
        let is_starved = with <= queue.deserved;
        let has_none = queue.allocatable() == 0 && with > 0;
        (!is_starved, has_none, queue.part(with), queue.part(held), queue.allocatable(), at)
    }
}

fn queue(
    site: &FleetSite,
    spec: &QueueSpec,
    parent: Option<usize>,
    path: &str,
    inherited: Protection,
) -> KaiQueue {
    let models = || site.nodes.iter().flat_map(|node| &node.devices).map(|device| &device.model);
    let is_of_all =
        models().next().is_some() && models().all(|model| spec.quota.contains_key(model));
    let limit = |borrow: u64| spec.quota.values().map(|quota| (quota + borrow) * 1000).sum();
    KaiQueue {
        name: path.into(),
        parent,
        children: Vec::new(),
        weight: u64::from(spec.weight),
        deserved: spec.quota.values().map(|quota| quota * 1000).sum(),
        limit: spec.borrow.filter(|_| is_of_all).map(limit),
        min_runtime: spec.protect.unwrap_or(inherited),
        line: WaitingLine::default(),
        allocated: 0,
        requested: 0,
        fair: 0,
    }
}

#[cfg(test)]
mod tests {
    use muster_model::QueueTree;

    use super::*;

    /// Fair shares of sibling queues of (deserved, weight, asked for, limit), in GPUs.
    fn fair(total: u64, queues: &[(u64, u64, u64, Option<u64>)]) -> Vec<u64> {
        let site = FleetSite { nodes: Vec::new(), levels: Vec::new(), tree: QueueTree::single() };
        let one = KaiQueues::new(&site).all.remove(0);
        let of = |(deserved, weight, asked, limit): &(u64, u64, u64, Option<u64>)| KaiQueue {
            deserved: deserved * 1000,
            weight: *weight,
            requested: asked * 1000,
            limit: limit.map(|limit| limit * 1000),
            ..one.clone()
        };
        let all: Vec<KaiQueue> = queues.iter().map(of).collect();
        let mut queues = KaiQueues { tops: (0..all.len()).collect(), all, leaves: BTreeMap::new() };
        queues.divide(total * 1000);
        queues.all.iter().map(|queue| queue.fair).collect()
    }

    #[test]
    fn quota_first_and_the_rest_by_weight() {
        assert_eq!(fair(12, &[(2, 1, 100, None), (2, 3, 100, None)]), [4_000, 8_000]);
        // A queue that does not ask for its quota leaves it to others.
        assert_eq!(fair(12, &[(4, 1, 1, None), (2, 1, 100, None)]), [1_000, 11_000]);
        assert_eq!(fair(12, &[(0, 1, 100, Some(3)), (0, 1, 100, None)]), [3_000, 9_000]);
    }

    #[test]
    fn over_quota_shares_are_whole_and_the_largest_remainder_gets_the_rest() {
        // A third and two thirds of 8: 2.67 and 5.33.
        assert_eq!(fair(8, &[(0, 1, 100, None), (0, 2, 100, None)]), [3_000, 5_000]);
        assert_eq!(
            fair(8, &[(0, 1, 100, None), (0, 1, 100, None), (0, 1, 100, None)]),
            [3_000, 3_000, 2_000]
        );
    }
}

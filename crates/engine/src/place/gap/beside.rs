//! Finds the group of a gang that does not fit beside the others although each alone would, by
//! counting group by group in the planner's order. It places nothing; the planner may find a
//! placement that it misses.

use muster_policy::ModelId;

use super::{CountMode, GroupDemand, free_milli};
use crate::pool::node::{Node, WHOLE};
use crate::pool::scalars::Scalars;
use crate::pool::shape::Shape;

/// Group that does not fit beside others.
pub(crate) struct UnplacedGroup {
    pub(crate) group: u16,
    /// Number of its tasks that fit.
    pub(crate) placed: u64,
    /// Groups that were counted before it.
    pub(crate) beside: Vec<u16>,
}

/// Remaining capacity of a node.
struct RemainingNode<'a> {
    node: &'a Node,
    /// Free thousandths by device.
    milli: Vec<u16>,
    used: Scalars,
}

/// Returns the group that does not fit when the hardest goes first; `None` if all fit in that order
/// or in the reverse one.
pub(crate) fn short(
    nodes: &[&Node],
    shape: &Shape,
    count: CountMode,
    caps: &[(ModelId, u64)],
) -> Option<UnplacedGroup> {
    let hardest_first = left_over(nodes, shape, count, caps, shape.order.iter())?;
    left_over(nodes, shape, count, caps, shape.order.iter().rev()).map(|_| hardest_first)
}

fn left_over<'a>(
    nodes: &[&Node],
    shape: &Shape,
    count: CountMode,
    caps: &[(ModelId, u64)],
    order: impl Iterator<Item = &'a u16>,
) -> Option<UnplacedGroup> {
    let mut left: Vec<RemainingNode<'_>> =
        nodes.iter().map(|node| RemainingNode::new(node, count)).collect();
    let mut beside = Vec::new();
    for at in order {
        let need = GroupDemand { group: &shape.groups[usize::from(*at)], caps };
        let all = u64::from(need.group.tasks);
        let mut placed = 0;
        for node in &mut left {
            placed += node.take(&need, all - placed, count);
        }
        if placed < all {
            return Some(UnplacedGroup { group: *at, placed, beside });
        }
        beside.push(*at);
    }
    None
}

impl<'a> RemainingNode<'a> {
    fn new(node: &'a Node, count: CountMode) -> Self {
        let milli =
            (0..node.spec.devices.len()).map(|device| free_milli(node, device, count) as u16);
        let used = match count {
            CountMode::FreeNow => node.used.clone(),
            CountMode::WhenIdle => Scalars::default(),
        };
        Self { node, milli: milli.collect(), used }
    }

    /// Takes up to `most` tasks; exactly one block if the group has a fixed number per node.
    fn take(&mut self, need: &GroupDemand<'_>, most: u64, count: CountMode) -> u64 {
        let group = need.group;
        let limit =
            if count == CountMode::FreeNow { &self.node.limit } else { &self.node.capacity };
        let most = most.min(limit.fits(&self.used, &group.scalars));
        let most = group.per_node.map_or(most, |block| most.min(block.into()));
        let least = group.per_node.map_or(1, u64::from);
        let taken = if group.wants_gpu() {
            self.take_devices(need, least, most)
        } else {
            Some(most).filter(|most| *most >= least).unwrap_or(0)
        };
        self.used.add(&group.scalars, taken);
        taken
    }

    /// Takes devices for at least `least` and at most `most` tasks; the tasks of a block get one
    /// model.
    fn take_devices(&mut self, need: &GroupDemand<'_>, least: u64, most: u64) -> u64 {
        let devices = need.group.devices;
        let share = need.group.share;
        let each = u64::from(devices.max(1));
        let parts = |milli: u16| match devices {
            0 => u64::from(milli / share),
            _ => u64::from(milli == WHOLE),
        };
        let mut taken = 0;
        for (_, all) in self.node.models.iter().filter(|(model, _)| need.accepts(*model)) {
            let free: u64 = all.iter().map(|device| parts(self.milli[device])).sum();
            let tasks = (free / each).min(most - taken);
            if tasks < least {
                continue;
            }
            let mut rest = tasks * each;
            for device in all.iter() {
                let here = parts(self.milli[device]).min(rest);
                self.milli[device] -= here as u16 * if devices > 0 { WHOLE } else { share };
                rest -= here;
            }
            taken += tasks;
        }
        taken
    }
}

//! Which group of a gang does not fit beside the others, where each alone would: plain counting,
//! group by group in the order in which the planner goes. It places nothing, and what it misses the
//! planner may find.

use muster_policy::ModelId;

use super::gap::{Count, Need, free_milli};
use crate::state::node::{Node, WHOLE};
use crate::state::scalars::Scalars;
use crate::state::shape::Shape;

/// A group that does not fit beside others.
pub(super) struct Crowd {
    pub(super) group: u16,
    /// Tasks of it that fit.
    pub(super) placed: u64,
    /// The groups that were placed first.
    pub(super) beside: Vec<u16>,
}

/// What is left of a node.
struct Left<'a> {
    node: &'a Node,
    /// Free thousandths by device.
    milli: Vec<u16>,
    used: Scalars,
}

/// The group that is left over when the hardest goes first; `None` when one way round or the other
/// all fit.
pub(super) fn short(
    nodes: &[&Node],
    shape: &Shape,
    count: Count,
    caps: &[(ModelId, u64)],
) -> Option<Crowd> {
    let hardest_first = left_over(nodes, shape, count, caps, shape.order.iter())?;
    left_over(nodes, shape, count, caps, shape.order.iter().rev()).map(|_| hardest_first)
}

fn left_over<'a>(
    nodes: &[&Node],
    shape: &Shape,
    count: Count,
    caps: &[(ModelId, u64)],
    order: impl Iterator<Item = &'a u16>,
) -> Option<Crowd> {
    let mut left: Vec<Left<'_>> = nodes.iter().map(|node| Left::new(node, count)).collect();
    let mut beside = Vec::new();
    for at in order {
        let need = Need { group: &shape.groups[usize::from(*at)], caps };
        let all = u64::from(need.group.tasks);
        let mut placed = 0;
        for node in &mut left {
            placed += node.take(&need, all - placed, count);
        }
        if placed < all {
            return Some(Crowd { group: *at, placed, beside });
        }
        beside.push(*at);
    }
    None
}

impl<'a> Left<'a> {
    fn new(node: &'a Node, count: Count) -> Self {
        let milli =
            (0..node.spec.devices.len()).map(|device| free_milli(node, device, count) as u16);
        let used = match count {
            Count::FreeNow => node.used.clone(),
            Count::WhenIdle => Scalars::default(),
        };
        Self { node, milli: milli.collect(), used }
    }

    /// Takes up to so many tasks; one whole block where the group has such.
    fn take(&mut self, need: &Need<'_>, most: u64, count: Count) -> u64 {
        let group = need.group;
        let limit = if count == Count::FreeNow { &self.node.limit } else { &self.node.capacity };
        let most = most.min(limit.fits(&self.used, &group.scalars));
        let most = group.per_node.map_or(most, |block| most.min(block.into()));
        let least = group.per_node.map_or(1, u64::from);
        let taken = match group.wants_gpu() {
            true => self.take_devices(need, least, most),
            false => Some(most).filter(|most| *most >= least).unwrap_or(0),
        };
        self.used.add(&group.scalars, taken);
        taken
    }

    /// Takes devices for at least and at most so many tasks, those of a block of one model.
    fn take_devices(&mut self, need: &Need<'_>, least: u64, most: u64) -> u64 {
        let (devices, share) = (need.group.devices, need.group.share);
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

//! Weight of a node or device for a task, by placement policy; less is better. Integers only. Works
//! on node conditions, not nodes, and searches nothing.

use muster_model::queue::PlacementPolicy;
use muster_policy::ModelId;

use super::{Scoring, fragmentation};
use crate::pool::node::WHOLE;
use crate::pool::node_kind::{LargestCapacity, NodeCondition, TaskDemand, Weight};

/// Unit of relative amounts: millionths.
const MILLION: u64 = 1_000_000;

/// Returns the weight of a node in this condition for a task; `None` if the task does not fit.
pub(crate) fn condition(
    scoring: Scoring<'_>,
    condition: &NodeCondition,
    largest: LargestCapacity,
    demand: &TaskDemand,
) -> Option<Weight> {
    if condition.cpus < demand.cpus || condition.memory < demand.memory {
        return None;
    }
    if demand.models.is_empty() {
        return Some(without_devices(scoring, condition, largest, demand));
    }
    let mut models =
        demand.models.iter().filter(|model| fits_model(condition, demand, **model)).peekable();
    match scoring.policy {
        // The same whichever model it is.
        PlacementPolicy::BestFit => {
            models.peek().map(|_| (left_over(condition, largest) as i64, 0))
        }
        PlacementPolicy::Fragmentation => {
            let least =
                models.filter_map(|model| on_model(scoring, condition, demand, *model)).min();
            // Among equals the best fit.
            least.map(|(points, _)| (points, left_over(condition, largest)))
        }
        PlacementPolicy::Pack | PlacementPolicy::Spread => {
            models.filter_map(|model| on_model(scoring, condition, demand, *model)).min()
        }
    }
}

/// Returns the weight of one model of a node for a task; `None` if the task does not fit.
pub(crate) fn on_model(
    scoring: Scoring<'_>,
    condition: &NodeCondition,
    demand: &TaskDemand,
    model: ModelId,
) -> Option<Weight> {
    if !fits_model(condition, demand, model) {
        return None;
    }
    match scoring.policy {
        PlacementPolicy::Pack | PlacementPolicy::BestFit => Some((0, 0)),
        PlacementPolicy::Spread => {
            let free_shares = condition.of_model(model);
            let all = free_shares.len() as u64 * u64::from(WHOLE);
            let free: u64 = free_shares.iter().map(|free_share| u64::from(*free_share)).sum();
            Some((part(all - free + milli(demand), all), 0))
        }
        PlacementPolicy::Fragmentation => {
            let grows = |free_share| {
                fragmentation::growth(scoring.mix, condition, demand, model, free_share)
            };
            let growth = match demand.share {
                0 => grows(WHOLE),
                // Devices with equal free shares are consecutive.
                share => {
                    let devices = condition.of_model(model);
                    let first = |(at, free_share): &(usize, &u16)| {
                        *at == 0 || devices[at - 1] != **free_share
                    };
                    let enough =
                        devices.iter().enumerate().filter(|(_, free_share)| **free_share >= share);
                    enough.filter(first).map(|(_, free_share)| grows(*free_share)).min()?
                }
            };
            Some((fragmentation::points(scoring.mix, growth), 0))
        }
    }
}

/// Returns the weight of a device with this free share, for a task that requests a share.
pub(crate) fn on_device(
    scoring: Scoring<'_>,
    condition: &NodeCondition,
    demand: &TaskDemand,
    model: ModelId,
    free_share: u16,
) -> i64 {
    match scoring.policy {
        PlacementPolicy::Pack | PlacementPolicy::BestFit => i64::from(free_share),
        PlacementPolicy::Spread => -i64::from(free_share),
        PlacementPolicy::Fragmentation => {
            let growth = fragmentation::growth(scoring.mix, condition, demand, model, free_share);
            fragmentation::points(scoring.mix, growth)
        }
    }
}

/// Returns the weight of a node for a task without a device. Devices matter to all policies but
/// spreading, since the task may strand them.
fn without_devices(
    scoring: Scoring<'_>,
    condition: &NodeCondition,
    largest: LargestCapacity,
    demand: &TaskDemand,
) -> Weight {
    match scoring.policy {
        PlacementPolicy::Pack | PlacementPolicy::BestFit => {
            (left_over(condition, largest) as i64, 0)
        }
        PlacementPolicy::Spread => {
            (part(condition.all_cpus - condition.cpus + demand.cpus, condition.all_cpus), 0)
        }
        PlacementPolicy::Fragmentation => {
            let after = NodeCondition {
                cpus: condition.cpus - demand.cpus,
                memory: condition.memory - demand.memory,
                ..condition.clone()
            };
            let growth =
                fragmentation::of(scoring.mix, &after) - fragmentation::of(scoring.mix, condition);
            (fragmentation::points(scoring.mix, growth), left_over(condition, largest))
        }
    }
}

/// Returns the free GPUs and CPUs, each relative to the most that a node has. A task takes the
/// same from each node, so this also orders nodes by the capacity left after it. Memory is ignored:
/// on GPU nodes it is seldom the scarce resource, and saving it would strand GPUs (docs/adr/0017).
fn left_over(condition: &NodeCondition, largest: LargestCapacity) -> u64 {
    part(condition.idle(), largest.devices) as u64 + part(condition.cpus, largest.cpus) as u64
}

/// Returns `some / all` in millionths; 0 of 0 is 0.
fn part(some: u64, all: u64) -> i64 {
    let part = u128::from(some) * u128::from(MILLION) / u128::from(all.max(1));
    i64::try_from(part).unwrap_or(i64::MAX - 1)
}

fn fits_model(condition: &NodeCondition, demand: &TaskDemand, model: ModelId) -> bool {
    let free_shares = condition.of_model(model);
    match demand.share {
        0 => free_shares
            .get(demand.devices.saturating_sub(1) as usize)
            .is_some_and(|free_share| *free_share == WHOLE),
        share => free_shares.first().is_some_and(|free_share| *free_share >= share),
    }
}

fn milli(demand: &TaskDemand) -> u64 {
    u64::from(demand.devices) * u64::from(WHOLE) + u64::from(demand.share)
}

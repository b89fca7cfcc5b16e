//! What a place weighs to a task, by policy; less is better. Whole numbers only. It knows
//! conditions of nodes, not nodes, and looks for nothing.

use muster_model::queue::PlacementPolicy;
use muster_policy::ModelId;

use super::Scoring;
use super::fragmentation;
use crate::state::kind::{Condition, Demand, Largest, Weight};
use crate::state::node::WHOLE;

/// Parts of a whole are counted in millionths.
const MILLION: u64 = 1_000_000;

/// What a node in this condition weighs to a task; `None` without room.
pub(super) fn condition(
    scoring: Scoring<'_>,
    condition: &Condition,
    largest: Largest,
    demand: &Demand,
) -> Option<Weight> {
    if condition.cpus < demand.cpus || condition.memory < demand.memory {
        return None;
    }
    if demand.models.is_empty() {
        return Some(without_devices(scoring, condition, largest, demand));
    }
    let mut models =
        demand.models.iter().filter(|model| has_room(condition, demand, **model)).peekable();
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

/// What a task weighs on one model of a node; `None` without room.
pub(super) fn on_model(
    scoring: Scoring<'_>,
    condition: &Condition,
    demand: &Demand,
    model: ModelId,
) -> Option<Weight> {
    if !has_room(condition, demand, model) {
        return None;
    }
    match scoring.policy {
        PlacementPolicy::Pack | PlacementPolicy::BestFit => Some((0, 0)),
        PlacementPolicy::Spread => {
            let rooms = condition.of_model(model);
            let all = rooms.len() as u64 * u64::from(WHOLE);
            let free: u64 = rooms.iter().map(|room| u64::from(*room)).sum();
            Some((part(all - free + milli(demand), all), 0))
        }
        PlacementPolicy::Fragmentation => {
            let grows = |room| fragmentation::growth(scoring.mix, condition, demand, model, room);
            let growth = match demand.share {
                0 => grows(WHOLE),
                // Devices with the same room follow each other.
                share => {
                    let devices = condition.of_model(model);
                    let first = |(at, room): &(usize, &u16)| *at == 0 || devices[at - 1] != **room;
                    let enough = devices.iter().enumerate().filter(|(_, room)| **room >= share);
                    enough.filter(first).map(|(_, room)| grows(*room)).min()?
                }
            };
            Some((fragmentation::points(scoring.mix, growth), 0))
        }
    }
}

/// What a device with so much room weighs to a share.
pub(super) fn room(
    scoring: Scoring<'_>,
    condition: &Condition,
    demand: &Demand,
    model: ModelId,
    room: u16,
) -> i64 {
    match scoring.policy {
        PlacementPolicy::Pack | PlacementPolicy::BestFit => i64::from(room),
        PlacementPolicy::Spread => -i64::from(room),
        PlacementPolicy::Fragmentation => {
            let growth = fragmentation::growth(scoring.mix, condition, demand, model, room);
            fragmentation::points(scoring.mix, growth)
        }
    }
}

/// What a task without a device weighs. Devices matter to all policies but spreading, since it may
/// strand them.
fn without_devices(
    scoring: Scoring<'_>,
    condition: &Condition,
    largest: Largest,
    demand: &Demand,
) -> Weight {
    match scoring.policy {
        PlacementPolicy::Pack | PlacementPolicy::BestFit => {
            (left_over(condition, largest) as i64, 0)
        }
        PlacementPolicy::Spread => {
            (part(condition.all_cpus - condition.cpus + demand.cpus, condition.all_cpus), 0)
        }
        PlacementPolicy::Fragmentation => {
            let after = Condition {
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

/// What is free of GPUs and CPUs, each as part of the most that a node has. A task takes the same
/// from each node, so what is left after it is in the same order. Memory is not added: it is seldom
/// what runs out where GPUs do, and to spare it strands them (docs/adr/0017).
fn left_over(condition: &Condition, largest: Largest) -> u64 {
    part(condition.idle(), largest.devices) as u64 + part(condition.cpus, largest.cpus) as u64
}

/// In millionths; nothing is no part of nothing.
fn part(some: u64, all: u64) -> i64 {
    let part = u128::from(some) * u128::from(MILLION) / u128::from(all.max(1));
    i64::try_from(part).unwrap_or(i64::MAX - 1)
}

fn has_room(condition: &Condition, demand: &Demand, model: ModelId) -> bool {
    let rooms = condition.of_model(model);
    match demand.share {
        0 => {
            rooms.get(demand.devices.saturating_sub(1) as usize).is_some_and(|room| *room == WHOLE)
        }
        share => rooms.first().is_some_and(|room| *room >= share),
    }
}

fn milli(demand: &Demand) -> u64 {
    u64::from(demand.devices) * u64::from(WHOLE) + u64::from(demand.share)
}

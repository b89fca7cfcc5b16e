//! Fragmentation as in FGD (Weng et al., "Beware of Fragmentation", USENIX ATC 2023): of what is idle on a node, how much
//! can the tasks not use that this cluster usually gets? A task goes where that grows least.
//!
//! For one typical need m and a node n, F_n(m) is the thousandths of idle devices that m cannot use: all of them where it
//! does not fit, else those of devices with less room than it needs, or of another model. F_n(M) is the sum over all
//! typical needs, each times the tasks that were counted of it. The authors divide by all tasks; to compare two places
//! that is not needed, and without it all numbers are whole.

use muster_policy::ModelId;

use crate::state::kind::{Condition, Demand};
use crate::state::mix::{Mix, Typical};
use crate::state::node::WHOLE;

/// F_n(M) of a node in this condition.
pub(super) fn of(mix: &Mix, condition: &Condition) -> i64 {
    let idle = condition.idle();
    if idle == 0 {
        return 0;
    }
    let lost = |one: &Typical| {
        let tasks = one.tasks_within(condition.cpus, condition.memory);
        let useful = if tasks > 0 { useful(one, condition) } else { 0 };
        u128::from(idle) * u128::from(one.tasks) - u128::from(useful) * u128::from(tasks)
    };
    i64::try_from(mix.typical().iter().map(lost).sum::<u128>()).unwrap_or(i64::MAX)
}

/// Thousandths of idle devices that tasks of a need could use, were there CPUs and memory enough.
fn useful(one: &Typical, condition: &Condition) -> u64 {
    let (least, count) = if one.share > 0 { (one.share, 1) } else { (WHOLE, one.devices as usize) };
    let accepts = |model: &ModelId| one.models.as_ref().is_none_or(|models| models.contains(model));
    let mut useful = 0;
    for (_, rooms) in condition.rooms.iter().filter(|(model, _)| accepts(model)) {
        let enough = &rooms[..rooms.partition_point(|room| *room >= least)];
        if enough.len() >= count {
            useful += enough.iter().map(|room| u64::from(*room)).sum::<u64>();
        }
    }
    useful
}

/// By how much it grows when a task comes to devices of a model with this room.
pub(super) fn growth(mix: &Mix, condition: &Condition, demand: &Demand, model: ModelId, room: u16) -> i64 {
    let after = after(condition, demand, model, room);
    of(mix, &after) - of(mix, condition)
}

/// The node with the task on it.
fn after(condition: &Condition, demand: &Demand, model: ModelId, room: u16) -> Condition {
    let mut after = condition.clone();
    after.cpus = after.cpus.saturating_sub(demand.cpus);
    after.memory = after.memory.saturating_sub(demand.memory);
    let Some((_, rooms)) = after.rooms.iter_mut().find(|(known, _)| *known == model) else { return after };
    let (count, taken) = if demand.share > 0 { (1, demand.share) } else { (demand.devices as usize, WHOLE) };
    for left in rooms.iter_mut().filter(|left| **left == room).take(count) {
        *left = left.saturating_sub(taken);
    }
    rooms.sort_unstable_by(|one, other| other.cmp(one));
    after
}

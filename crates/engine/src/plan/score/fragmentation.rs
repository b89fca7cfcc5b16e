//! Fragmentation as in FGD (Weng et al., "Beware of Fragmentation", USENIX ATC 2023): of what is
//! idle on a node, how much can the tasks not use that this cluster usually gets? A task goes where
//! that grows least.
//!
//! For one typical need m and a node n, F_n(m) is the thousandths of idle devices that m cannot
//! use: all of them where it does not fit, else those of devices with less room than it needs, or
//! of another model. F_n(M) is the sum over all typical needs, each times the tasks that were
//! counted of it. The authors divide by all tasks; to compare two places that is not needed, and
//! without it all numbers are whole.

use muster_policy::ModelId;

use crate::state::kind::{Condition, Demand};
use crate::state::mix::{Mix, Typical};
use crate::state::node::WHOLE;

/// From what growth on a place has one point less than half of a hundred, two less, and so on; in
/// millionths of a device. The authors give a place floor(100 / (1 + e^g)) points for a growth of g
/// devices, so that growth below a 25th of a device makes no difference, and the more it is the
/// coarser it is told apart: the k-th step is at ln((50 + k) / (50 - k)).
const STEPS: [i64; 49] = [
    40_005, 80_042, 120_144, 160_342, 200_670, 241_162, 281_851, 322_773, 363_965, 405_465,
    447_312, 489_548, 532_216, 575_364, 619_039, 663_294, 708_185, 753_771, 800_119, 847_297,
    895_384, 944_461, 994_622, 1_045_968, 1_098_612, 1_152_679, 1_208_311, 1_265_666, 1_324_925,
    1_386_294, 1_450_010, 1_516_347, 1_585_627, 1_658_228, 1_734_601, 1_815_289, 1_900_958,
    1_992_430, 2_090_741, 2_197_224, 2_313_634, 2_442_347, 2_586_689, 2_751_535, 2_944_438,
    3_178_053, 3_476_098, 3_891_820, 4_595_119,
];

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
pub(super) fn growth(
    mix: &Mix,
    condition: &Condition,
    demand: &Demand,
    model: ModelId,
    room: u16,
) -> i64 {
    let after = after(condition, demand, model, room);
    of(mix, &after) - of(mix, condition)
}

/// How many of a hundred points a place loses by its growth. Among those with as many another
/// measure decides.
pub(super) fn points(mix: &Mix, growth: i64) -> i64 {
    let tasks: u64 = mix.typical().iter().map(|one| one.tasks).sum();
    // Thousandths of devices times tasks, in millionths of devices: without rounding, since it is
    // compared.
    let micros = i128::from(growth) * 1000;
    let is_within = |step: &i64| i128::from(*step) * i128::from(tasks) < micros.abs();
    let steps = STEPS.partition_point(is_within) as i64;
    // Half is still half where nothing grows, and a step is reached from below.
    if micros > 0 { 50 + steps + 1 } else { 50 - steps }
}

/// The node with the task on it.
fn after(condition: &Condition, demand: &Demand, model: ModelId, room: u16) -> Condition {
    let mut after = condition.clone();
    after.cpus = after.cpus.saturating_sub(demand.cpus);
    after.memory = after.memory.saturating_sub(demand.memory);
    let Some((_, rooms)) = after.rooms.iter_mut().find(|(known, _)| *known == model) else {
        return after;
    };
    let (count, taken) =
        if demand.share > 0 { (1, demand.share) } else { (demand.devices as usize, WHOLE) };
    for left in rooms.iter_mut().filter(|left| **left == room).take(count) {
        *left = left.saturating_sub(taken);
    }
    rooms.sort_unstable_by(|one, other| other.cmp(one));
    after
}

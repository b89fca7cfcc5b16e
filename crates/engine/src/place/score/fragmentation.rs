//! Fragmentation as in FGD (Weng et al., "Beware of Fragmentation", USENIX ATC 2023): how much of
//! the idle capacity of a node can typical tasks of this cluster not use? A task goes where that
//! grows least.
//!
//! For one typical need m and a node n, F_n(m) is the thousandths of idle devices that m cannot
//! use: all of them if m does not fit, else those of devices with less free than it needs, or of
//! another model. F_n(M) is the sum over all typical needs, each times the number of tasks counted
//! of it. The authors divide by all tasks; to compare two nodes that is not needed, and without it
//! all numbers are integers.

use muster_policy::ModelId;

use super::workload_mix::{TypicalNeed, WorkloadMix};
use crate::pool::node::WHOLE;
use crate::pool::node_kind::{NodeCondition, TaskDemand};

/// Growth, in millionths of a device, at which a node loses each further point of a hundred, from
/// half on. The authors give a node floor(100 / (1 + e^g)) points for a growth of g devices, so
/// that growth below a 25th of a device makes no difference, and larger growth is distinguished
/// less finely: the k-th step is at ln((50 + k) / (50 - k)).
const STEPS: [i64; 49] = [
    40_005, 80_042, 120_144, 160_342, 200_670, 241_162, 281_851, 322_773, 363_965, 405_465,
    447_312, 489_548, 532_216, 575_364, 619_039, 663_294, 708_185, 753_771, 800_119, 847_297,
    895_384, 944_461, 994_622, 1_045_968, 1_098_612, 1_152_679, 1_208_311, 1_265_666, 1_324_925,
    1_386_294, 1_450_010, 1_516_347, 1_585_627, 1_658_228, 1_734_601, 1_815_289, 1_900_958,
    1_992_430, 2_090_741, 2_197_224, 2_313_634, 2_442_347, 2_586_689, 2_751_535, 2_944_438,
    3_178_053, 3_476_098, 3_891_820, 4_595_119,
];

/// Returns F_n(M) of a node in this condition.
pub(crate) fn of(mix: &WorkloadMix, condition: &NodeCondition) -> i64 {
    let idle = condition.idle();
    if idle == 0 {
        return 0;
    }
    let lost = |one: &TypicalNeed| {
        let tasks = one.tasks_within(condition.cpus, condition.memory);
        let useful = if tasks > 0 { useful(one, condition) } else { 0 };
        u128::from(idle) * u128::from(one.tasks) - u128::from(useful) * u128::from(tasks)
    };
    i64::try_from(mix.typical().iter().map(lost).sum::<u128>()).unwrap_or(i64::MAX)
}

/// Returns the thousandths of idle devices that tasks of a need could use, with enough CPUs and
/// memory.
fn useful(one: &TypicalNeed, condition: &NodeCondition) -> u64 {
    let (least, count) = if one.share > 0 { (one.share, 1) } else { (WHOLE, one.devices as usize) };
    let accepts = |model: &ModelId| one.models.as_ref().is_none_or(|models| models.contains(model));
    let mut useful = 0;
    for (_, free_shares) in condition.free.iter().filter(|(model, _)| accepts(model)) {
        let enough = &free_shares[..free_shares.partition_point(|free_share| *free_share >= least)];
        if enough.len() >= count {
            useful += enough.iter().map(|free_share| u64::from(*free_share)).sum::<u64>();
        }
    }
    useful
}

/// Returns by how much F_n(M) grows when a task takes devices of a model with this free share.
pub(crate) fn growth(
    mix: &WorkloadMix,
    condition: &NodeCondition,
    demand: &TaskDemand,
    model: ModelId,
    free_share: u16,
) -> i64 {
    let after = after(condition, demand, model, free_share);
    of(mix, &after) - of(mix, condition)
}

/// Returns how many of a hundred points a node loses by its growth. Equal nodes are ordered by
/// another measure.
pub(crate) fn points(mix: &WorkloadMix, growth: i64) -> i64 {
    let tasks: u64 = mix.typical().iter().map(|one| one.tasks).sum();
    // Millionths of a device × tasks. Multiplied out rather than divided, so that the comparison is
    // exact.
    let micros = i128::from(growth) * 1000;
    let is_within = |step: &i64| i128::from(*step) * i128::from(tasks) < micros.abs();
    let steps = STEPS.partition_point(is_within) as i64;
    // Without growth it is exactly half, and a step is reached from below.
    if micros > 0 { 50 + steps + 1 } else { 50 - steps }
}

/// Returns the condition of a node with the task on it.
fn after(
    condition: &NodeCondition,
    demand: &TaskDemand,
    model: ModelId,
    free_share: u16,
) -> NodeCondition {
    let mut after = condition.clone();
    after.cpus = after.cpus.saturating_sub(demand.cpus);
    after.memory = after.memory.saturating_sub(demand.memory);
    let Some((_, free_shares)) = after.free.iter_mut().find(|(known, _)| *known == model) else {
        return after;
    };
    let (count, taken) =
        if demand.share > 0 { (1, demand.share) } else { (demand.devices as usize, WHOLE) };
    for left in free_shares.iter_mut().filter(|left| **left == free_share).take(count) {
        *left = left.saturating_sub(taken);
    }
    free_shares.sort_unstable_by(|one, other| other.cmp(one));
    after
}

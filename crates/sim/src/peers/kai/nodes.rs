//! Score of nodes for a pod: the fullest on which it fits (plugin `nodeplacement`, binpack for GPUs
//! and CPUs). A share of a GPU goes beside other shares if possible (`gpusharingorder`), a pod
//! without GPUs to a node without (`resourcetype`).

use muster_model::job::Resources;

use crate::fleet::PoolNode;

/// Terms with priority over how full a node is: each exceeds the sum of all below it
/// (plugins/scores, GpuSharing over ResourceType over MaxHighDensity).
const SHARES_A_GPU: u64 = 1 << 50;
const OF_ITS_TYPE: u64 = 1 << 49;
const EMPTIEST: u64 = 1 << 48;
/// Thousandths of a device.
const WHOLE_MILLI: u32 = 1000;

/// Returns the score of a node for a pod where `placed` pods of the same gang come before it.
pub(super) fn score(node: &PoolNode, pod: &Resources, placed: u32) -> u64 {
    let each = u64::from(if pod.gpu.is_none() { pod.cpus.0 } else { pod.gpu.milli().0 });
    let free = if pod.gpu.is_none() { u64::from(node.cpus) } else { free_gpu_milli(node) };
    let left = free.saturating_sub(each * u64::from(placed));
    let beside = if shares(node, pod, placed) { SHARES_A_GPU } else { 0 };
    let of_type = if pod.gpu.is_none() && node.spec.devices.is_empty() { OF_ITS_TYPE } else { 0 };
    beside + of_type + EMPTIEST.saturating_sub(left)
}

fn free_gpu_milli(node: &PoolNode) -> u64 {
    let there = (0..node.free.len()).filter(|at| !node.broken.contains(*at));
    there.map(|at| u64::from(node.free[at])).sum()
}

/// Returns whether a share fits on a GPU that is shared already, also by pods of its own gang.
fn shares(node: &PoolNode, pod: &Resources, placed: u32) -> bool {
    let share = pod.gpu.share.0;
    if pod.gpu.devices > 0 || share == 0 {
        return false;
    }
    let has_capacity = |at: usize| {
        let free = u32::from(node.free[at]);
        free < WHOLE_MILLI && free >= share && !node.broken.contains(at)
    };
    (0..node.free.len()).any(has_capacity) || !placed.is_multiple_of(WHOLE_MILLI / share)
}

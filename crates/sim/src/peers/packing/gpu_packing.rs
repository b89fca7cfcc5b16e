//! GPU packing (`gpu_packing_score.go`): shared devices, the fuller the better; else free devices
//! of nodes in use; else free nodes. For a pod without GPU all nodes are equal.

use super::{MAX_SCORE, PackingNode, PackingPod, WHOLE};

/// Returns how full the devices are, in the bands of the three cases.
pub(super) fn score(host: &PackingNode, pod: &PackingPod) -> i64 {
    let (devices, least) = pod.per_device();
    if devices == 0 {
        return 0;
    }
    // 1. A free node: the fewer devices the better.
    let free = host.capacities.iter().filter(|capacity| **capacity == WHOLE).count();
    if free == host.capacities.len() {
        let free = free as i64;
        return (MAX_SCORE / 3 - free).max(free);
    }
    // 2. A node in use, of which free devices are needed: the fewer the better.
    let mut capacities: Vec<u16> =
        host.capacities.iter().copied().filter(|capacity| *capacity >= least).collect();
    capacities.sort_unstable();
    capacities.truncate(devices as usize);
    let whole = capacities.iter().filter(|capacity| **capacity == WHOLE).count() as i64;
    if whole > 0 {
        return (MAX_SCORE / 2 - whole).max(MAX_SCORE / 3);
    }
    // 3. Shared devices: the less is free on them the better.
    let free_percent: i64 =
        capacities.iter().map(|capacity| i64::from(*capacity) * 100 / i64::from(WHOLE)).sum();
    (MAX_SCORE - free_percent / 10).max(MAX_SCORE / 2)
}

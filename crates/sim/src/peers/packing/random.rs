//! Random placement (`random_score.go`; devices: `open_gpu_share.go`, selection `random`): all
//! nodes with room have the same score, and all devices with room for a share the same chance. Only
//! devices are chosen here; the node follows from the tie.

use muster_model::DeviceSet;

use super::{PackingNode, PackingPod};
use crate::rng::Rng;

/// Returns any device with room for a share; whole devices are equivalent.
pub(super) fn devices(host: &PackingNode, pod: &PackingPod, rng: &mut Rng) -> DeviceSet {
    if pod.share_milli == 0 {
        return host.tightest(pod);
    }
    let enough: Vec<usize> = (0..host.capacities.len())
        .filter(|device| host.capacities[*device] >= pod.share_milli)
        .collect();
    if enough.is_empty() { DeviceSet::EMPTY } else { DeviceSet::one(*rng.pick(&enough)) }
}

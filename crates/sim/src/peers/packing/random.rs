//! Random placement (`random_score.go`; devices: `open_gpu_share.go`, selection `random`): all
//! nodes with room are worth the same, and so are all devices with room for a share. It decides
//! devices only; the node falls out of the tie.

use muster_model::DeviceSet;

use super::{Host, Pod};
use crate::dice::Dice;

/// Any device with room for a share; whole devices are alike.
pub(super) fn devices(host: &Host, pod: &Pod, dice: &mut Dice) -> DeviceSet {
    if pod.share_milli == 0 {
        return host.tightest(pod);
    }
    let enough: Vec<usize> =
        (0..host.rooms.len()).filter(|device| host.rooms[*device] >= pod.share_milli).collect();
    if enough.is_empty() { DeviceSet::EMPTY } else { DeviceSet::one(*dice.pick(&enough)) }
}
